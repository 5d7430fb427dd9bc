//! The engine's births and deaths.
//!
//! Owns opening a journal as the engine does (`actors/src/shell/runtime.rs`), what has to be found then
//! (I1, I10, I11), crashes of the process and of the machine, and the check of everything.

use super::desk::Life;
use super::inspected::check_hand_over;
use super::invariant::{Break, Checked, I1, I10, I11, I13, broken, must};
use super::journal::Mishap;
use super::note::Note;
use super::world::{Ended, World};
use leasehold_actors::flows::all::AllFlows;
use leasehold_actors::flows::handover::Terms;
use leasehold_actors::record::FlowTag;
use leasehold_journal::{JournalError, Record};

/// From the last to the first, so that each finds its successor running.
const ORDER: [FlowTag; 5] = [
    FlowTag::Processing,
    FlowTag::Notification,
    FlowTag::Lifecycle,
    FlowTag::Dispatch,
    FlowTag::Delivery,
];
/// Which flow takes over from which.
const LINKS: [(FlowTag, FlowTag); 3] = [
    (FlowTag::Dispatch, FlowTag::Lifecycle),
    (FlowTag::Lifecycle, FlowTag::Notification),
    (FlowTag::Notification, FlowTag::Processing),
];

impl World {
    /// Opens the journal and starts the flows; the engine is closed again if that fails.
    pub(crate) fn open(&mut self) -> Result<Option<Ended>, Break> {
        let shared = &mut self.shared;
        let loss = shared.journal.loss();
        let mishap = shared.opening_mishap();
        let records = match shared.journal.open(mishap) {
            Ok(records) => records,
            Err(JournalError::BehindAnchor { sequence, missing }) => {
                must(loss == Some((sequence, missing)), I11, "another loss than there was")?;
                shared.note(Note::LieNoticed);
                return Ok(Some(Ended::LieNoticed));
            }
            Err(error) => {
                shared.said(&error)?;
                must(mishap == Some(Mishap::SyncFails), I11, "the journal does not open")?;
                shared.note(Note::OpenFails);
                return Ok(None);
            }
        };
        if shared.journal.resumed {
            shared.note(Note::Resumes);
        }
        must(loss.is_none(), I1, "a loss was not noticed")?;
        let failed = mishap.is_some_and(Mishap::is_told);
        must(!failed, I1, "a sync that failed was called good")?;
        let replays = self.found(&records)?;
        self.start(replays)?;
        Ok(None)
    }

    /// Compares what is there with what has to be, and tells the witnesses what was unknown.
    fn found(&mut self, records: &[Record]) -> Result<AllFlows, Break> {
        let Self { shared, desks, .. } = self;
        let known = records.partition_point(|record| record.sequence <= shared.committed);
        must(known as u64 == shared.committed, I1, "what was committed is gone")?;
        let mut replays = AllFlows::default();
        apply(&mut replays, &records[..known])?;
        for desk in desks.iter() {
            desk.check_replay(&mut replays)?;
        }
        let unknown = &records[known..];
        apply(&mut replays, unknown)?;
        for record in unknown {
            let flow = record.stream.0[0];
            let tag = FlowTag::from_number(flow).ok_or(broken(I10, "a stream of no flow"))?;
            desks[tag as usize - 1].durable(record.stream, &record.body, shared)?;
        }
        if !unknown.is_empty() {
            shared.note(Note::UnknownFound);
        } else if shared.unknown {
            shared.note(Note::UnknownAbsent);
        }
        shared.unknown = false;
        shared.committed = records.len() as u64;
        self.check_acked()?;
        Ok(replays)
    }

    fn check_acked(&self) -> Checked {
        let shared = &self.shared;
        let kept = shared
            .acked
            .iter()
            .all(|(stream, version)| shared.journal.version(*stream) >= *version);
        must(kept, I1, "an acknowledged event is gone")
    }

    fn start(&mut self, mut replays: AllFlows) -> Checked {
        let shared = &mut self.shared;
        let abandons = shared.rng.one_in(2);
        shared.note(if abandons { Note::OpensAbandoning } else { Note::Opens });
        shared.hand_over_failed = false;
        let lives = self.draw_lives();
        for (tag, life) in ORDER.into_iter().zip(lives) {
            let Self { shared, desks, .. } = self;
            desks[tag as usize - 1].start(shared, &mut replays, life);
            self.pass_on()?;
            if abandons && !self.abandon(tag)? {
                self.shared.note(Note::OpenFails);
                self.stop();
                return Ok(());
            }
            if !self.shared.calm && self.shared.rng.one_in(40) {
                self.shared.note(Note::CrashesOpening);
                self.stop();
                return Ok(());
            }
        }
        self.is_open = true;
        Ok(())
    }

    /// Ends the leases of one flow; false when the journal failed meanwhile.
    fn abandon(&mut self, tag: FlowTag) -> Result<bool, Break> {
        let Self { shared, desks, .. } = self;
        desks[tag as usize - 1].abandon(shared)?;
        loop {
            if let Some(fault) = self.desk(tag).abandoned() {
                return Ok(fault.is_none());
            }
            if !self.turn()? {
                return Err(broken(I13, "the engine does not open"));
            }
        }
    }

    /// How each flow runs in this life, in [`ORDER`].
    fn draw_lives(&mut self) -> [Life; 5] {
        let shared = &mut self.shared;
        let digest = |drawn: u64| usize::from(drawn == 0);
        let drawn = (digest(shared.rng.below(5)), digest(shared.rng.below(5)));
        if self.digests.is_some_and(|before| before != drawn) {
            shared.note(Note::DigestChanges);
        }
        self.digests = Some(drawn);
        let delivery = shared.documents.digests[drawn.0];
        let processing = shared.documents.digests[drawn.1];
        let (policy, ceiling) = (shared.plan.policy, shared.plan.handed);
        ORDER.map(|tag| {
            let (expected, terms) = match tag {
                FlowTag::Dispatch | FlowTag::Lifecycle => {
                    (None, Some(Terms { ceiling, digest: None }))
                }
                FlowTag::Notification => (None, Some(Terms { ceiling, digest: Some(processing) })),
                FlowTag::Processing => (Some(processing), None),
                FlowTag::Delivery => (Some(delivery), None),
            };
            let off = terms.is_some() && !shared.calm && shared.rng.one_in(10);
            if off {
                shared.note(Note::LinkOff);
            }
            Life { policy, expected, link: terms.filter(|_| !off) }
        })
    }

    /// The engine's part of everything is gone.
    pub(crate) fn stop(&mut self) {
        for desk in &mut self.desks {
            desk.stop();
        }
        self.shared.queue.clear();
        self.shared.handed.clear();
        self.shared.gone.clear();
        self.shared.journal.drop_process();
        self.is_open = false;
    }

    /// The process dies: what it had written stays on disk.
    pub(crate) fn crash(&mut self) {
        self.shared.note(Note::Crashes);
        self.stop();
    }

    /// The power goes: what was synced stays on disk, and some of the rest.
    pub(crate) fn cut_power(&mut self) {
        self.stop();
        let shared = &mut self.shared;
        let kept = shared.rng.index(shared.journal.unsynced() + 1);
        shared.note(if kept > 0 { Note::PowerCutKeepsSome } else { Note::PowerCut });
        shared.journal.cut_power(kept);
    }

    /// The host closes the engine: what is under way ends first.
    pub(crate) fn close(&mut self) -> Checked {
        self.rest()?;
        self.shared.note(Note::Closes);
        let poisoned = self.shared.journal.poisoned;
        let closed = self.shared.journal.close();
        must(closed.is_ok() || poisoned, I11, "the anchor cannot be brought up to date")?;
        self.stop();
        Ok(())
    }

    /// Any of the three.
    pub(crate) fn leave(&mut self) -> Checked {
        match self.shared.rng.below(3) {
            0 => self.crash(),
            1 => self.cut_power(),
            2.. => self.close()?,
        }
        Ok(())
    }

    /// Checks the flows in which nothing is under way.
    pub(crate) fn check_rest(&mut self) -> Checked {
        let Self { shared, desks, .. } = self;
        desks.iter_mut().try_for_each(|desk| desk.check_rest(shared))
    }

    /// Walks over the whole journal and compares everything with it.
    pub(crate) fn check_all(&mut self) -> Checked {
        if self.shared.committed == 0 {
            return Ok(());
        }
        let records = match self.shared.journal.walk() {
            Ok(records) => records,
            // Opening will notice it, and is checked for that.
            Err(JournalError::BehindAnchor { .. }) if self.shared.journal.loss().is_some() => {
                return Ok(());
            }
            Err(_) => return Err(broken(I11, "the chain does not verify")),
        };
        let known = records.partition_point(|record| record.sequence <= self.shared.committed);
        must(known as u64 == self.shared.committed, I1, "what was committed is gone")?;
        let mut replays = AllFlows::default();
        apply(&mut replays, &records[..known])?;
        let Self { shared, desks, .. } = self;
        for desk in desks.iter() {
            desk.check_replay(&mut replays)?;
            desk.check_states(shared)?;
        }
        if self.is_open {
            self.check_acked()?;
        }
        self.check_hand_overs()?;
        self.shared.note(Note::ChecksAll);
        Ok(())
    }

    fn check_hand_overs(&self) -> Checked {
        let shared = &self.shared;
        let at_rest = shared.queue.is_empty() && self.desks.iter().all(|desk| desk.is_at_rest());
        let complete =
            self.is_open && at_rest && !shared.journal.poisoned && !shared.hand_over_failed;
        let terms =
            Terms { ceiling: shared.plan.handed, digest: Some(shared.documents.digests[0]) };
        for (from, to) in LINKS {
            let from = &self.desks[from as usize - 1];
            let registered = self.desks[to as usize - 1].streams();
            let complete = complete && from.hands_over();
            check_hand_over(&from.successors(terms), &registered, complete)?;
        }
        Ok(())
    }
}

/// Replays records, each of which has to be sound.
fn apply(replays: &mut AllFlows, records: &[Record]) -> Checked {
    for record in records {
        let applied = replays.apply(record.stream, Some(&record.body));
        must(applied == Some(Ok(())), I10, "a record on disk does not replay")?;
    }
    Ok(())
}
