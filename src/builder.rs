//! How an engine is set up.
//!
//! Owns the choices of a host and their checks: place, durability, delays, digests, hand-over, clock.
//! Must not decide anything about a record.

use crate::clock::{Clock, Entropy, SharedClock, SystemClock, SystemEntropy};
use crate::engine::Engine;
use crate::error::Error;
use crate::metrics::Timed;
use leasehold_actors::arguments::{self, Blocked};
use leasehold_actors::contract::text::Sha256;
use leasehold_actors::contract::time::{Ceiling, Timestamp};
use leasehold_actors::flows::delivery::Delivery;
use leasehold_actors::flows::dispatch::Dispatch;
use leasehold_actors::flows::lifecycle::Lifecycle;
use leasehold_actors::flows::names::name_of;
use leasehold_actors::flows::notification::Notify;
use leasehold_actors::flows::processing::Processing;
use leasehold_actors::record::policy::Delays;
use leasehold_actors::record::{Flow, Policy};
use leasehold_actors::shell::{FlowOptions, HandOvers, OpenStore, Runtime, RuntimeOptions};
use leasehold_journal::medium::Medium;
use leasehold_journal::memory::MemoryDisk;
use leasehold_journal::opening::Resume;
#[cfg(feature = "postgres")]
use leasehold_journal::postgres::{PostgresMedium, PostgresPlace};
use leasehold_journal::sled::SledMedium;
use leasehold_journal::walk::Visit;
use leasehold_journal::{Durability, JournalError, JournalId, Log, LogOptions, Store};
use std::num::NonZeroU32;
use std::path::PathBuf;
use std::sync::Arc;

/// Where the journal lives.
pub(crate) enum Place {
    Folder(PathBuf),
    Memory(MemoryDisk),
    #[cfg(feature = "postgres")]
    Server(Box<PostgresPlace>),
}

/// The source runtime that flow `delivery` delivers to.
#[derive(Debug, Clone, PartialEq)]
pub struct SourceRuntime {
    /// Its pinned capability digest, 64 lower-case hex digits (contract 2.8).
    pub capabilities_sha256: String,
    /// The longest time one call can take, all its requests together, in seconds, more than 0 and at
    /// most 600: every lease has to be longer.
    pub longest_call_seconds: f64,
}

/// Puts something between the writer and its store.
type Wrap = Box<dyn FnOnce(Box<dyn Store>) -> Box<dyn Store> + Send + Sync>;

/// Which flow takes over from which, and the ceiling of its records, 1 to 20; `None` is switched off.
///
/// What is taken over is derived from the journal: switched on later, it catches up at the next open.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct HandOver {
    /// A succeeded dispatch is watched, with at most so many failures in a row.
    pub lifecycle_max_failures: Option<i64>,
    /// A terminal change is notified, with at most so many attempts.
    pub notification_max_attempts: Option<i64>,
    /// An acknowledged notification is watched, with at most so many failures in a row.
    pub processing_max_failures: Option<i64>,
}

/// Sets an engine up. See [`Engine::builder`].
pub struct EngineBuilder {
    place: Place,
    durability: Durability,
    delays: FlowDelays,
    receiver_digest: Option<String>,
    source: Option<SourceRuntime>,
    hand_over: HandOver,
    clock: Option<Arc<dyn Clock>>,
    entropy: Arc<dyn Entropy>,
    abandon: bool,
    unclean_losses_max: Option<NonZeroU32>,
    anchor_beside: bool,
    wrap: Option<Wrap>,
}

/// Delays of each flow.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct FlowDelays {
    /// Flow `dispatch`.
    pub dispatch: Delays,
    /// Flow `lifecycle`.
    pub lifecycle: Delays,
    /// Flow `notification`.
    pub notification: Delays,
    /// Flow `processing`.
    pub processing: Delays,
    /// Flow `delivery`.
    pub delivery: Delays,
}

impl EngineBuilder {
    pub(crate) fn new(place: Place) -> Self {
        Self {
            place,
            durability: Durability::default(),
            delays: FlowDelays::default(),
            receiver_digest: None,
            source: None,
            hand_over: HandOver::default(),
            clock: None,
            entropy: Arc::new(SystemEntropy),
            abandon: true,
            unclean_losses_max: None,
            anchor_beside: true,
            wrap: None,
        }
    }

    /// What an acknowledgement survives; power cuts by default.
    #[must_use]
    pub fn durability(mut self, durability: Durability) -> Self {
        self.durability = durability;
        self
    }

    /// Delays of the flows.
    #[must_use]
    pub fn delays(mut self, delays: FlowDelays) -> Self {
        self.delays = delays;
        self
    }

    /// The receiver's pinned capability digest, 64 lower-case hex digits; flow `processing` needs it.
    /// Records registered under another one are held (D9).
    #[must_use]
    pub fn receiver_digest(mut self, digest: impl Into<String>) -> Self {
        self.receiver_digest = Some(digest.into());
        self
    }

    /// The source runtime; flow `delivery` needs it.
    #[must_use]
    pub fn source_runtime(mut self, source: SourceRuntime) -> Self {
        self.source = Some(source);
        self
    }

    /// Which flow takes over from which; none by default.
    #[must_use]
    pub fn hand_over(mut self, hand_over: HandOver) -> Self {
        self.hand_over = hand_over;
        self
    }

    /// Another clock than the system's, or, for a journal on a server, than the server's: there it is for
    /// tests alone, since engines that go by different clocks take each other's leases.
    #[must_use]
    pub fn clock(mut self, clock: impl Clock) -> Self {
        self.clock = Some(Arc::new(clock));
        self
    }

    /// Another source of randomness than the system's.
    #[must_use]
    pub fn entropy(mut self, entropy: impl Entropy) -> Self {
        self.entropy = Arc::new(entropy);
        self
    }

    /// Whether leases of an earlier life of this journal are ended at once when it is opened; on by
    /// default. The journal's lock proves that whoever granted them is gone. Turn it off when workers
    /// outlive the engine and settle their claims after a restart. The attempt stays counted.
    #[must_use]
    pub fn end_leases_on_open(mut self, end: bool) -> Self {
        self.abandon = end;
        self
    }

    /// How many leases a record may lose in a row, each to a worker that hung over it or an engine that
    /// died, before it is failed with `lease_lost_repeatedly` and left to an operator: what takes down
    /// one engine after the other must not be tried for ever. A call that ends, however it ends, starts the
    /// count again, and so does a requeue.
    ///
    /// None by default: the reference has no such limit, and a host that restarts often, or whose workers
    /// outlive the engine, loses leases without any record being to blame. The command line has 5.
    #[must_use]
    pub fn unclean_losses_max(mut self, max: Option<NonZeroU32>) -> Self {
        self.unclean_losses_max = max;
        self
    }

    /// Whether the head is also noted beside the journal's folder, in `<folder>.anchor`; on by default.
    /// It is how a folder that was put back to an older state is noticed. Turn it off where the folder
    /// above cannot be written.
    #[must_use]
    pub fn anchor_beside(mut self, beside: bool) -> Self {
        self.anchor_beside = beside;
        self
    }

    /// Puts something between the writer and its store, for whoever measures what a commit takes.
    pub(crate) fn wrapping_store(
        mut self,
        wrap: impl FnOnce(Box<dyn Store>) -> Box<dyn Store> + Send + Sync + 'static,
    ) -> Self {
        self.wrap = Some(Box::new(wrap));
        self
    }

    /// Opens the journal, or makes it, and starts the engine. All of the journal is verified, unless it was
    /// closed by an engine with the same settings and nobody has touched it since: see
    /// [`Engine::resumed`].
    ///
    /// # Errors
    /// [`Error::Blocked`] with the flow's `delay_invalid`, `capabilities_invalid`, `client_invalid` or
    /// ceiling code; [`Error::Journal`] when the journal is locked, damaged, behind its anchor, newer,
    /// read-only or out of space. Nothing is written then.
    pub async fn open(self) -> Result<Engine, Error> {
        let options = self.options()?;
        let (durability, beside) = (self.durability, self.anchor_beside);
        let mut id = [0; 16];
        self.entropy.fill(&mut id);
        let log = LogOptions { new_id: JournalId(id), create: true };
        let open: OpenStore = match self.place {
            Place::Folder(path) => Box::new(move |resume, visit| {
                let medium = SledMedium::open(&path, true, durability)?;
                let medium = if beside { medium } else { medium.without_outer_anchor() };
                opened(medium, log, resume, visit)
            }),
            Place::Memory(disk) => {
                Box::new(move |resume, visit| opened(disk.medium(), log, resume, visit))
            }
            #[cfg(feature = "postgres")]
            Place::Server(place) => Box::new(move |resume, visit| {
                opened(PostgresMedium::open(&place, true)?, log, resume, visit)
            }),
        };
        let open: OpenStore = match self.wrap {
            None => open,
            Some(wrap) => Box::new(|resume, visit| {
                let (store, reader) = open(resume, visit)?;
                Ok((wrap(store), reader))
            }),
        };
        let runtime = Runtime::start(options, open).await?;
        let longest = self.source.as_ref().map(|source| source.longest_call_seconds);
        let losses = self.unclean_losses_max;
        let clock = match self.clock {
            Some(clock) => clock,
            None if runtime.reader().is_shared() => {
                Arc::new(SharedClock::of(Arc::clone(runtime.reader())))
            }
            None => Arc::new(SystemClock),
        };
        let engine = Engine::new(runtime, options, longest, losses, &clock, &self.entropy);
        if engine.clock_behind_seconds() > 0.0 {
            tracing::warn!(
                code = "clock_behind_journal",
                "the clock is behind the journal's last time; records wait until it has caught up"
            );
        }
        Ok(engine)
    }

    fn options(&self) -> Result<RuntimeOptions, Error> {
        let digest = |text: &str| Sha256::from_hex(text);
        let receiver = match self.receiver_digest.as_deref() {
            None => None,
            Some(text) => Some(
                digest(text).ok_or_else(|| Blocked::new::<Processing>("capabilities_invalid"))?,
            ),
        };
        let source = match &self.source {
            None => None,
            Some(source)
                if !(source.longest_call_seconds > 0.0 && source.longest_call_seconds <= 600.0) =>
            {
                return Err(Blocked::new::<Delivery>("client_invalid").into());
            }
            Some(source) => Some(
                digest(&source.capabilities_sha256)
                    .ok_or_else(|| Blocked::new::<Delivery>("capabilities_invalid"))?,
            ),
        };
        let (on, losses) = (self.hand_over, self.unclean_losses_max);
        // Without a time no lease can be ended; they run out as they would have.
        let now =
            self.clock.as_ref().map_or_else(|| SystemClock.now_seconds(), |it| it.now_seconds());
        let abandon_at = if self.abandon { Timestamp::new(now) } else { None };
        Ok(RuntimeOptions {
            dispatch: flow::<Dispatch>(self.delays.dispatch, losses, None)?,
            lifecycle: flow::<Lifecycle>(self.delays.lifecycle, losses, None)?,
            notification: flow::<Notify>(self.delays.notification, losses, None)?,
            processing: flow::<Processing>(self.delays.processing, losses, receiver)?,
            delivery: flow::<Delivery>(self.delays.delivery, losses, source)?,
            hand_overs: HandOvers {
                lifecycle: ceiling::<Lifecycle>(on.lifecycle_max_failures, "max_failures_invalid")?,
                notification: ceiling::<Notify>(
                    on.notification_max_attempts,
                    "max_attempts_invalid",
                )?,
                processing: ceiling::<Processing>(
                    on.processing_max_failures,
                    "max_failures_invalid",
                )?,
            },
            abandon_at,
        })
    }
}

fn ceiling<F: Flow>(value: Option<i64>, code: &str) -> Result<Option<Ceiling>, Blocked> {
    value.map(|value| arguments::ceiling::<F>(value, code)).transpose()
}

/// The delays of a flow, checked, and its digest.
fn flow<F: Flow>(
    delays: Delays,
    unclean_losses_max: Option<NonZeroU32>,
    expected: Option<Sha256>,
) -> Result<FlowOptions, Blocked> {
    let policy = Policy::new(delays).map_err(|_| Blocked::new::<F>("delay_invalid"))?;
    Ok(FlowOptions { policy: policy.with_unclean_losses_max(unclean_losses_max), expected })
}

type Opened = leasehold_actors::shell::runtime::Opened;

fn opened<M: Medium + std::fmt::Debug>(
    medium: M,
    options: LogOptions,
    resume: &mut Resume<'_>,
    visit: &mut Visit<'_>,
) -> Result<Opened, JournalError> {
    let log = Log::open_from(medium, options, resume, visit)?.naming(name_of);
    let reader = Arc::new(log.reader());
    Ok((Box::new(Timed(log)), reader))
}

impl std::fmt::Debug for EngineBuilder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("EngineBuilder")
            .field("durability", &self.durability)
            .finish_non_exhaustive()
    }
}
