//! The writer: group commits of records as frames on a medium.
//!
//! Owns sequence numbers, the chain's head, the order write → sync → anchor → answer, and what a
//! failed write leads to. Must not know sled, nor what a record says.

mod check;

pub use check::AnchorCheck;

use crate::anchor::Anchor;
use crate::chain::{Head, JournalId};
use crate::chunk::{self, INLINE_BYTES_MAX};
use crate::error::JournalError;
use crate::follower::{Follower, NameOf};
use crate::frame::{BODY_BYTES_MAX, FrameBuilder};
use crate::index::Tip;
use crate::medium::{Batch, Medium, Step, Written};
use crate::opening::{Resume, Standing, identify, resumed, verified};
use crate::reader::{LogReader, Shared};
use crate::record::{Stored, StreamId};
use crate::store::{Append, AppendError, Placed, Store};
use crate::walk::Visit;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

/// Bytes of a record's header at most: stream, version, distance, length.
const RECORD_HEADER_BYTES_MAX: usize = 16 + 5 + 10 + 10;

/// How a log is opened.
#[derive(Debug, Clone, Copy)]
pub struct LogOptions {
    /// The id a new journal gets; an existing one keeps its own.
    pub new_id: JournalId,
    /// Whether an empty medium becomes a journal.
    pub create: bool,
}

/// The one writer of a journal (J1 is the folder's lock).
#[derive(Debug)]
pub struct Log<M: Medium> {
    shared: Arc<Shared<M>>,
    id: JournalId,
    poisoned: bool,
    follower: Follower,
}

impl<M: Medium> Log<M> {
    /// Opens a journal: verifies every frame (J2, J3, J4), compares the anchors, and hands the entries of
    /// its base and every record, oldest first, to `visit`. One whose chunks are damaged is handed
    /// over as the error; the journal opens all the same.
    ///
    /// # Errors
    /// [`JournalError::Missing`] without `create`; [`JournalError::BehindAnchor`] at 0 for an empty medium
    /// where a journal was; [`JournalError::Corrupt`],
    /// [`JournalError::BehindAnchor`], [`JournalError::Diverged`], [`JournalError::AnchorMissing`],
    /// [`JournalError::Newer`]; whatever `visit` or the medium answers. Nothing is written then.
    pub fn open(
        medium: M,
        options: LogOptions,
        visit: &mut Visit<'_>,
    ) -> Result<Self, JournalError> {
        Self::begin(medium, options, None, visit)
    }

    /// Opens a journal from what [`Store::leave`] left, where that may be believed
    /// ([`crate::checkpoint::Checkpoint::check`]) and `resume` says so of the note: then nothing is handed
    /// to `visit`. Otherwise the same as [`Self::open`].
    ///
    /// # Errors
    /// As [`Self::open`].
    pub fn open_from(
        medium: M,
        options: LogOptions,
        resume: &mut Resume<'_>,
        visit: &mut Visit<'_>,
    ) -> Result<Self, JournalError> {
        Self::begin(medium, options, Some(resume), visit)
    }

    fn begin(
        medium: M,
        options: LogOptions,
        resume: Option<&mut Resume<'_>>,
        visit: &mut Visit<'_>,
    ) -> Result<Self, JournalError> {
        let anchors = medium.anchors()?;
        let id = identify(&medium, options, &anchors)?;
        // Others may have made it and written to it meanwhile.
        let anchors = if medium.is_shared() { medium.anchors()? } else { anchors };
        let left = resume.and_then(|resume| resumed(&medium, id, &anchors, resume));
        let Standing { archived, index, head } = match left {
            Some(standing) => standing,
            None => verified(&medium, id, &anchors, visit)?,
        };
        // Used or not, and before anything is written: killed from here on, the next life verifies
        // everything. A journal that is refused keeps it, since nothing was written.
        medium.remove_checkpoint()?;
        medium.settle()?;
        medium.set_anchor(Anchor { journal: id, head }, true)?;
        let shared = Arc::new(Shared::new(medium, archived, index, head));
        Ok(Self { shared, id, poisoned: false, follower: Follower::default() })
    }

    /// Which names others begin streams under, for [`crate::store::Alone`]; nobody's where this is not said.
    #[must_use]
    pub fn naming(mut self, name_of: NameOf) -> Self {
        self.follower = Follower::new(name_of);
        self
    }

    /// The journal's id.
    #[must_use]
    pub fn id(&self) -> JournalId {
        self.id
    }

    /// A reader; any number of them may exist.
    #[must_use]
    pub fn reader(&self) -> LogReader<M> {
        LogReader::new(Arc::clone(&self.shared))
    }

    pub(crate) fn medium(&self) -> &M {
        &self.shared.medium
    }

    pub(crate) fn is_poisoned(&self) -> bool {
        self.poisoned
    }

    pub(crate) fn into_shared(self) -> Arc<Shared<M>> {
        self.shared
    }

    /// Write, make durable, show, note: in this order, so that a reader sees only what a crash leaves.
    fn write(&self, from: Head, plan: Plan) -> Result<Written, JournalError> {
        let Plan { frames, chunks, tips, head, .. } = plan;
        let step = Step { from, to: head };
        let chunks = chunks.into_iter().collect();
        let written = self.shared.medium.step(step, Batch { frames, chunks })?;
        if written == Written::Here {
            self.shared.advance(tips, head);
            self.shared.medium.set_anchor(Anchor { journal: self.id, head }, false)?;
        }
        Ok(written)
    }

    /// One try to write the group after the head that is known.
    fn attempt(&self, batch: &[Append]) -> Result<Option<Answers>, JournalError> {
        let from = self.shared.head();
        let mut plan = Plan::new(from);
        let mut answers = Vec::with_capacity(batch.len());
        for append in batch {
            let alone = self.follower.is_alone(append);
            answers.push(if alone { plan.add(append, &self.shared)? } else { NOT_ALONE });
        }
        plan.close_frame();
        if plan.frames.is_empty() {
            self.shared.medium.pass();
            return Ok(Some(answers));
        }
        let written = self.write(from, plan)?;
        Ok((written == Written::Here).then_some(answers))
    }

    /// Tries until nobody is faster; whoever lost more than once waits for its turn. Whoever is overtaken in
    /// its turn, by nobody, knows of records that are gone.
    fn attempt_all(&mut self, batch: &[Append]) -> Result<Answers, JournalError> {
        let (mut overtaken, mut moved) = (0_u32, true);
        loop {
            if let Some(answers) = self.attempt(batch)? {
                self.follower.forget(batch);
                return Ok(answers);
            }
            if !moved {
                return Err(JournalError::Diverged { sequence: self.shared.head().sequence });
            }
            let in_turn = overtaken > 0;
            moved = match self.catch_up(in_turn) {
                Err(JournalError::Unreachable) => {
                    self.shared.medium.wait_until_reachable()?;
                    self.catch_up(in_turn)?
                }
                caught_up => caught_up?,
            } || !in_turn;
            overtaken += 1;
        }
    }

    /// Takes over what others wrote meanwhile, and keeps them from writing more, where asked.
    fn catch_up(&mut self, in_turn: bool) -> Result<bool, JournalError> {
        if in_turn {
            self.shared.medium.take_turn()?;
        }
        self.follower.follow(&self.shared)
    }

    /// What cannot be waited out ends the life of this writer. Of a shared medium that is damage alone:
    /// whatever else went wrong, the medium knows what was written.
    fn poison_unless_passing<T>(
        &mut self,
        result: Result<T, JournalError>,
    ) -> Result<T, JournalError> {
        if let Err(error) = &result {
            let shared = self.shared.medium.is_shared();
            let newer = matches!(error, JournalError::Newer { .. });
            let passing = shared && !error.is_damage() && !newer;
            self.poisoned |= !passing && *error != JournalError::Unreachable;
        }
        result
    }
}

type Answers = Vec<Result<Placed, AppendError>>;
const NOT_ALONE: Result<Placed, AppendError> = Err(AppendError::NotAlone);

impl<M: Medium> Store for Log<M> {
    fn commit(
        &mut self,
        batch: &[Append],
    ) -> Result<Vec<Result<Placed, AppendError>>, JournalError> {
        if self.poisoned {
            return Err(JournalError::Poisoned);
        }
        let answers = self.attempt_all(batch);
        self.poison_unless_passing(answers)
    }

    fn follow(&mut self) -> Result<bool, JournalError> {
        if self.poisoned {
            return Err(JournalError::Poisoned);
        }
        if !self.shared.medium.is_shared() {
            return Ok(false);
        }
        let moved = self.follower.follow(&self.shared);
        self.poison_unless_passing(moved)
    }

    fn settle_anchor(&mut self) -> Result<(), JournalError> {
        if self.poisoned {
            return Err(JournalError::Poisoned);
        }
        let head = self.shared.head();
        self.shared.medium.set_anchor(Anchor { journal: self.id, head }, true)
    }

    fn leave(self: Box<Self>, note: &[u8]) -> Result<(), JournalError> {
        if self.poisoned {
            return Err(JournalError::Poisoned);
        }
        self.shared.medium.leave_checkpoint(self.shared.draft(self.id, note))
    }
}

/// What one commit is going to write.
struct Plan {
    frames: Vec<(u64, Vec<u8>)>,
    /// By hash: equal pieces are one.
    chunks: BTreeMap<crate::chain::Digest, Vec<u8>>,
    tips: HashMap<StreamId, Tip>,
    head: Head,
    open: FrameBuilder,
}

impl Plan {
    fn new(head: Head) -> Self {
        let open = FrameBuilder::after(head);
        Self { frames: Vec::new(), chunks: BTreeMap::new(), tips: HashMap::new(), head, open }
    }

    fn close_frame(&mut self) {
        if self.open.is_empty() {
            return;
        }
        let first = self.head.sequence + 1;
        let open = std::mem::replace(&mut self.open, FrameBuilder::after(self.head));
        let (bytes, head) = open.finish();
        self.frames.push((first, bytes));
        self.head = head;
        self.open = FrameBuilder::after(head);
    }

    fn add<M: Medium>(
        &mut self,
        append: &Append,
        shared: &Shared<M>,
    ) -> Result<Result<Placed, AppendError>, JournalError> {
        let tip =
            self.tips.get(&append.stream).copied().unwrap_or_else(|| shared.tip(append.stream));
        if tip.version != append.expected_version {
            return Ok(Err(AppendError::Conflict { actual: tip.version }));
        }
        let oversized = append.bodies.iter().any(|body| body.len() > chunk::BODY_BYTES_MAX);
        if append.bodies.is_empty() || oversized {
            return Ok(Err(AppendError::Size));
        }
        let cuts = append.bodies.iter().map(|body| cut(body)).collect::<Result<Vec<_>, _>>()?;
        let bytes: usize = cuts.iter().map(|c| c.stored().len() + RECORD_HEADER_BYTES_MAX).sum();
        if bytes <= BODY_BYTES_MAX && !self.open.fits(cuts.len(), bytes) {
            self.close_frame(); // an append that fits in one frame is never split
        }
        let mut tip = tip;
        for cut in cuts {
            if !self.open.fits(1, cut.stored().len() + RECORD_HEADER_BYTES_MAX) {
                self.close_frame();
            }
            let sequence = self.open.next_sequence();
            self.open.push(&Stored {
                sequence,
                stream: append.stream,
                version: tip.version + 1,
                previous: tip.sequence,
                stored: cut.stored(),
                chunked: matches!(cut, Piece::Chunked(_)),
            });
            tip = Tip { sequence, version: tip.version + 1 };
            if let Piece::Chunked(cut) = cut {
                for (hash, piece) in cut.chunks {
                    // One that cannot be read is written again; a shared medium looks by itself.
                    let ask = !shared.medium.is_shared();
                    let kept = ask.then(|| shared.medium.chunk(&hash).ok().flatten()).flatten();
                    if kept.as_deref() != Some(piece) {
                        self.chunks.insert(hash, piece.to_vec());
                    }
                }
            }
        }
        self.tips.insert(append.stream, tip);
        Ok(Ok(Placed { sequence: tip.sequence, version: tip.version }))
    }
}

/// A body as a frame or a base keeps it.
pub(crate) enum Piece<'a> {
    Inline(&'a [u8]),
    Chunked(chunk::Cut<'a>),
}

impl Piece<'_> {
    pub(crate) fn stored(&self) -> &[u8] {
        match self {
            Self::Inline(body) => body,
            Self::Chunked(cut) => &cut.manifest,
        }
    }
}

pub(crate) fn cut(body: &[u8]) -> Result<Piece<'_>, JournalError> {
    if body.len() <= INLINE_BYTES_MAX {
        Ok(Piece::Inline(body))
    } else {
        Ok(Piece::Chunked(chunk::cut(body)?))
    }
}
