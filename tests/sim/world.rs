//! The simulated world: one engine, its disk, its clock, its workers and the other sides, one step at a
//! time.
//!
//! Owns what is drawn for each step and whose turn it is within one. Opening, crashes and the last
//! phase are in [`super::opening`] and [`super::last`].

use super::desk::Desk;
use super::documents::Documents;
use super::invariant::{Break, Checked, I1, I10, I13, broken, must};
use super::note::Note;
use super::sabotage::Sabotage;
use super::shared::Shared;
use super::{AnyDesk, Options};
use leasehold_actors::flows::delivery::Delivery;
use leasehold_actors::flows::dispatch::Dispatch;
use leasehold_actors::flows::lifecycle::Lifecycle;
use leasehold_actors::flows::notification::Notify;
use leasehold_actors::flows::processing::Processing;
use leasehold_actors::record::FlowTag;
use leasehold_actors::shell::Failure;
use leasehold_journal::Append;
use std::rc::Rc;

/// Turns after which an engine that nobody asks for anything has to rest.
const TURNS_MAX: u32 = 20_000;
/// Steps between two checks of everything.
const STEPS_BETWEEN_CHECKS: u32 = 50;

/// What a step is.
#[derive(Debug, Clone, Copy)]
enum Step {
    Dispatch,
    Deliver,
    Steal,
    Ask,
    AskAndLeave,
    Call,
    Settle,
    SettleAgain,
    GiveBack,
    LoseWorker,
    Read,
    Operate,
    Forward,
    Jump,
    ToNext,
    Back,
    Still,
    FailRead,
    Passivate,
    Crash,
    CutPower,
    Close,
}

/// How often each is drawn.
const STEPS: [(Step, u64); 22] = [
    (Step::Dispatch, 16),
    (Step::Deliver, 18),
    (Step::Steal, 2),
    (Step::Ask, 46),
    (Step::AskAndLeave, 3),
    (Step::Call, 34),
    (Step::Settle, 30),
    (Step::SettleAgain, 6),
    (Step::GiveBack, 3),
    (Step::LoseWorker, 2),
    (Step::Read, 2),
    (Step::Operate, 8),
    (Step::Forward, 14),
    (Step::Jump, 5),
    (Step::ToNext, 6),
    (Step::Back, 4),
    (Step::Still, 1),
    (Step::FailRead, 1),
    (Step::Passivate, 4),
    (Step::Crash, 1),
    (Step::CutPower, 1),
    (Step::Close, 1),
];

/// How a run ends when nothing is wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ended {
    /// Every record is settled.
    Settled,
    /// The disk lied, the power went, and opening the journal noticed what is gone.
    LieNoticed,
}

/// The world.
pub(crate) struct World {
    pub(crate) shared: Shared,
    /// In the order of [`FlowTag::ALL`].
    pub(crate) desks: Vec<Box<dyn AnyDesk>>,
    /// Whether the engine runs.
    pub(crate) is_open: bool,
    /// The digests of the last life: which of the documents' two, for deliveries and processing.
    pub(crate) digests: Option<(usize, usize)>,
}

impl World {
    /// The world of a seed, before its first step.
    pub(crate) fn new(seed: u64, options: Options, documents: &Rc<Documents>) -> Self {
        let desks: Vec<Box<dyn AnyDesk>> = vec![
            Box::new(Desk::<Dispatch>::new()),
            Box::new(Desk::<Lifecycle>::new()),
            Box::new(Desk::<Notify>::new()),
            Box::new(Desk::<Processing>::new()),
            Box::new(Desk::<Delivery>::new()),
        ];
        let shared = Shared::new(seed, options, documents);
        Self { shared, desks, is_open: false, digests: None }
    }

    /// Lives through so many steps, then until everything is settled.
    pub(crate) fn live(&mut self, steps: u32) -> Result<Ended, Break> {
        for step in 1..=steps {
            self.shared.trace.step = step;
            if let Some(ended) = self.step()? {
                return Ok(ended);
            }
            if step.is_multiple_of(STEPS_BETWEEN_CHECKS) {
                self.check_all()?;
            }
        }
        self.shared.trace.step = steps + 1;
        self.settle_everything()
    }

    /// The desk of a flow.
    pub(crate) fn desk(&mut self, tag: FlowTag) -> &mut dyn AnyDesk {
        self.desks[tag as usize - 1].as_mut()
    }

    fn step(&mut self) -> Result<Option<Ended>, Break> {
        if !self.is_open {
            return self.step_closed();
        }
        let shared = &mut self.shared;
        let cuts = shared.journal.lied() && shared.rng.one_in(4);
        let leaves = shared.journal.poisoned && shared.rng.one_in(6);
        if cuts {
            self.cut_power();
        } else if leaves {
            self.leave()?;
        } else {
            self.draw_step()?;
        }
        self.take_turns()?;
        self.check_rest()?;
        Ok(None)
    }

    /// The engine is closed: it is opened, or time passes, or the power goes too.
    fn step_closed(&mut self) -> Result<Option<Ended>, Break> {
        match self.shared.rng.below(8) {
            0 => self.clock(Step::Forward),
            1 => self.cut_power(),
            2.. => return self.open(),
        }
        Ok(None)
    }

    fn draw_step(&mut self) -> Checked {
        let total: u64 = STEPS.iter().map(|(_, weight)| weight).sum();
        let mut roll = self.shared.rng.below(total);
        for (step, weight) in STEPS {
            if roll < weight {
                return self.make(step);
            }
            roll -= weight;
        }
        Ok(())
    }

    fn make(&mut self, step: Step) -> Checked {
        let Self { shared, .. } = self;
        match step {
            Step::Dispatch | Step::Deliver => {
                let other = shared.rng.one_in(8);
                let deliver = matches!(step, Step::Deliver);
                let tag = if deliver { FlowTag::Delivery } else { FlowTag::Dispatch };
                let Self { shared, desks, .. } = self;
                desks[tag as usize - 1].register(shared, other);
            }
            Step::Steal => {
                let Self { shared, desks, .. } = self;
                desks[FlowTag::Processing as usize - 1].steal(shared);
            }
            Step::Ask => {
                self.some(|desk, shared| desk.ask(shared).is_some());
            }
            Step::AskAndLeave => self.ask_and_leave()?,
            Step::Call => {
                self.call()?;
            }
            Step::Settle => self.some(|desk, shared| desk.settle(shared)),
            Step::SettleAgain => self.some(|desk, shared| desk.settle_again(shared)),
            Step::GiveBack => self.some(|desk, shared| desk.give_back(shared)),
            Step::LoseWorker => self.some(|desk, shared| desk.lose_worker(shared)),
            Step::Read => self.some(|desk, shared| desk.read(shared)),
            Step::Operate => self.some(|desk, shared| desk.operate(shared)),
            Step::Passivate => self.some(|desk, shared| desk.passivate(shared)),
            Step::Forward | Step::Jump | Step::ToNext | Step::Back | Step::Still => {
                self.clock(step);
            }
            Step::FailRead => {
                if !shared.journal.read_fault {
                    shared.note(Note::ReadFaultSet);
                    shared.journal.fail_next_read();
                }
            }
            Step::Crash => self.crash(),
            Step::CutPower => self.cut_power(),
            Step::Close => self.close()?,
        }
        if self.shared.sabotaged(Sabotage::Tamper) && self.shared.rng.one_in(20) {
            self.shared.journal.tamper();
        }
        Ok(())
    }

    /// Tries the flows from a drawn one on, until one has something to do.
    fn some(&mut self, does: impl Fn(&mut dyn AnyDesk, &mut Shared) -> bool) {
        let Self { shared, desks, .. } = self;
        let (first, count) = (shared.rng.index(desks.len()), desks.len());
        for at in 0..count {
            if does(desks[(first + at) % count].as_mut(), shared) {
                return;
            }
        }
    }

    /// A worker of some flow makes its call; false when none has one to make.
    pub(crate) fn call(&mut self) -> Result<bool, Break> {
        let Self { shared, desks, .. } = self;
        let (first, count) = (shared.rng.index(desks.len()), desks.len());
        for at in 0..count {
            if desks[(first + at) % count].call(shared)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// A worker asks for a claim and goes away before, while or after it is given out.
    fn ask_and_leave(&mut self) -> Checked {
        let Self { shared, desks, .. } = self;
        let at = shared.rng.index(desks.len());
        let Some(number) = desks[at].ask(shared) else { return Ok(()) };
        for _ in 0..shared.rng.below(8) {
            self.turn()?;
        }
        if !self.desks[at].was_answered(number) {
            self.shared.note(Note::ClaimantLeaves);
            self.shared.gone.insert(number);
        }
        Ok(())
    }

    fn clock(&mut self, step: Step) {
        let shared = &mut self.shared;
        let (note, by) = match step {
            Step::Jump => (Note::ClockJumps, shared.rng.seconds(400)),
            Step::ToNext => (Note::ClockToNext, 0.0),
            Step::Back => (Note::ClockBack, -shared.rng.seconds(150)),
            Step::Still => (Note::ClockStill, 0.0),
            Step::Forward
            | Step::Dispatch
            | Step::Deliver
            | Step::Steal
            | Step::Ask
            | Step::AskAndLeave
            | Step::Call
            | Step::Settle
            | Step::SettleAgain
            | Step::GiveBack
            | Step::LoseWorker
            | Step::Read
            | Step::Operate
            | Step::FailRead
            | Step::Passivate
            | Step::Crash
            | Step::CutPower
            | Step::Close => (Note::ClockForward, shared.rng.seconds(20)),
        };
        shared.now = (shared.now + by).max(0.0);
        shared.latest = shared.latest.max(shared.now);
        if matches!(step, Step::ToNext) {
            self.clock_to_next();
        }
        self.shared.note(note);
    }

    /// Moves the clock to the next time that anything has to be done.
    pub(crate) fn clock_to_next(&mut self) {
        let now = self.shared.time();
        let next = self.desks.iter_mut().filter_map(|desk| desk.next_at(now)).min();
        if let Some(next) = next {
            self.shared.now = self.shared.now.max(next.seconds());
            self.shared.latest = self.shared.latest.max(self.shared.now);
        }
    }

    /// Lets the actors and the writer run: mostly until they rest, sometimes not.
    fn take_turns(&mut self) -> Checked {
        if !self.shared.rng.one_in(3) {
            return self.rest();
        }
        for _ in 0..self.shared.rng.below(8) {
            if !self.turn()? {
                break;
            }
        }
        Ok(())
    }

    /// Lets the actors and the writer run until nothing is under way.
    pub(crate) fn rest(&mut self) -> Checked {
        for _ in 0..TURNS_MAX {
            if !self.turn()? {
                return Ok(());
            }
        }
        Err(broken(I13, "the engine does not come to rest"))
    }

    /// Lets one actor, or the writer, do one thing; false when none has anything to do.
    pub(crate) fn turn(&mut self) -> Result<bool, Break> {
        let Self { shared, desks, .. } = self;
        let writer = usize::from(!shared.queue.is_empty());
        let ready: usize = desks.iter().map(|desk| desk.ready()).sum();
        if writer + ready == 0 {
            return Ok(false);
        }
        let mut which = shared.rng.index(writer + ready);
        if which < writer {
            self.commit()?;
        } else {
            which -= writer;
            for desk in desks {
                let ready = desk.ready();
                if which < ready {
                    desk.run(which, shared)?;
                    break;
                }
                which -= ready;
            }
        }
        self.pass_on()?;
        Ok(true)
    }

    /// Takes registrations to the next flow.
    pub(crate) fn pass_on(&mut self) -> Checked {
        while let Some(handed) = self.shared.handed.pop_front() {
            self.desk(handed.to()).receive(handed)?;
        }
        Ok(())
    }

    /// The writer commits a drawn number of what waits.
    fn commit(&mut self) -> Checked {
        let Self { shared, desks, .. } = self;
        let count = 1 + shared.rng.index(shared.queue.len());
        let mishap = shared.mishap();
        let group = shared.queue.drain(..count);
        let (actors, appends): (Vec<(FlowTag, u64)>, Vec<Append>) =
            group.map(|entry| ((entry.flow, entry.entity), entry.append)).unzip();
        match shared.journal.commit(&appends, mishap) {
            Ok(answers) => {
                let told = mishap.is_some_and(|mishap| mishap.is_told());
                must(!told, I1, "a commit that failed was called good")?;
                let sequence = shared.journal.head().map_or(0, |head| head.sequence);
                let note = if count > 1 { Note::GroupCommits } else { Note::Commits };
                shared.trace.write(note, None, sequence);
                for (((flow, entity), append), answer) in actors.iter().zip(&appends).zip(answers) {
                    let placed = answer.map_err(|_| broken(I10, "another writer was faster"))?;
                    let desk = &mut desks[*flow as usize - 1];
                    for body in &append.bodies {
                        desk.durable(append.stream, body, shared)?;
                    }
                    shared.committed = placed.sequence;
                    desk.answered(*entity, Ok(placed));
                }
            }
            Err(error) => {
                shared.note(Note::CommitFails);
                shared.unknown |= mishap.is_some();
                for (flow, entity) in actors {
                    let failure = Failure::Journal(error.clone());
                    desks[flow as usize - 1].answered(entity, Err(failure));
                }
            }
        }
        Ok(())
    }
}
