//! A deterministic simulation of the whole engine: one thread, everything drawn from one seed.
//!
//! The pure core is the real one (`decide`, `evolve`, the codec, replay, agenda, tally, hand-over), and so
//! is the log, on a disk in memory. Around it is a shell of its own that does what the engine's actors
//! do, message by message, in an order that is drawn: the writer commits a drawn number of what waits,
//! a record with an append under way looks at nothing else, after a failed commit its record is read
//! again. Workers, hosts, operators, the other sides, the clock and the disk misbehave as drawn; the
//! process and the machine die at any step. After every step the invariants of [`invariant`] are checked
//! against what is durable.
//!
//! Not simulated: threads, actix, sled, HTTP; damage of a single record (the tests of `damage` have it).
//!
//! | module | owns |
//! | --- | --- |
//! | [`rng`], [`documents`], [`answers`] | what is drawn, what goes in, what comes back |
//! | [`note`], [`trace`] | what can happen, and what did |
//! | [`invariant`], [`sabotage`] | what is always true, and how it can be broken on purpose |
//! | [`journal`] | the log, the disk, and what has to become of both |
//! | [`witness`] | what durable events say, told without the engine's rules |
//! | [`flow`] | what the simulation needs to know of each flow |
//! | [`message`], [`entity`], [`desk`], [`picking`], [`replies`], [`acting`] | the shell |
//! | [`outside`], [`remote`], [`working`] | workers, the other sides, steps of both |
//! | [`inspected`] | checks of one flow |
//! | [`shared`], [`world`], [`opening`], [`last`] | the world |

pub(crate) mod acting;
pub(crate) mod answers;
pub(crate) mod desk;
pub(crate) mod disk;
pub(crate) mod documents;
pub(crate) mod entity;
pub(crate) mod flow;
pub(crate) mod inspected;
pub(crate) mod invariant;
pub(crate) mod journal;
pub(crate) mod last;
pub(crate) mod message;
pub(crate) mod note;
pub(crate) mod opening;
pub(crate) mod outside;
pub(crate) mod picking;
pub(crate) mod remote;
pub(crate) mod replies;
pub(crate) mod rng;
pub(crate) mod sabotage;
pub(crate) mod shared;
pub(crate) mod trace;
pub(crate) mod witness;
pub(crate) mod working;
pub(crate) mod world;

use acting::Acting;
use desk::Desk;
use disk::Disk;
use documents::Documents;
use flow::SimFlow;
use inspected::Inspected;
use invariant::Break;
use sabotage::Sabotage;
use std::rc::Rc;
use trace::Trace;
use working::Working;
use world::World;

/// A flow, whichever it is.
pub(crate) trait AnyDesk: Acting + Working + Inspected {}

impl<F: SimFlow> AnyDesk for Desk<F> {}

/// How a seed is run.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Options {
    /// Steps before the last phase.
    pub(crate) steps: u32,
    /// What the shell does wrong.
    pub(crate) sabotage: Option<Sabotage>,
    /// What the journal lies on.
    pub(crate) disk: fn() -> Disk,
}

/// What a run came to.
#[derive(Debug)]
pub(crate) struct Outcome {
    /// The invariant that does not hold, and the step at which that was noticed.
    pub(crate) broken: Option<(Break, u32)>,
    /// What happened.
    pub(crate) trace: Trace,
}

/// Runs one seed.
pub(crate) fn run(seed: u64, options: Options, documents: &Rc<Documents>) -> Outcome {
    let mut world = World::new(seed, options, documents);
    let lived = world.live(options.steps);
    let trace = world.shared.trace;
    let broken = lived.err().map(|broken| (broken, trace.step));
    Outcome { broken, trace }
}
