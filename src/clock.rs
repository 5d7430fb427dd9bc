//! Time and randomness, injected. The only module that reads a clock or draws random bytes.

use leasehold_journal::StoreReader;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant, SystemTime};
use tokio::sync::watch;

/// A wait that ends.
pub type Sleep = Pin<Box<dyn Future<Output = ()> + Send>>;

/// What time it is, and waiting.
pub trait Clock: Send + Sync + 'static {
    /// Seconds since 1970. A clock that cannot tell answers a number that is no time (negative, not
    /// finite); every call that needs the time is then refused with `time_invalid`.
    fn now_seconds(&self) -> f64;
    /// Seconds since some moment in this process's life, by a clock that never jumps. A lease that this
    /// process gave out is over when both clocks say so, so that a time that jumps forward starts no
    /// second attempt beside a running one. A clock without a second source answers its only one.
    fn steady_seconds(&self) -> f64 {
        self.now_seconds()
    }
    /// Waits this many seconds, by the monotonic clock.
    fn sleep(&self, seconds: f64) -> Sleep;
}

impl Clock for Arc<dyn Clock> {
    fn now_seconds(&self) -> f64 {
        self.as_ref().now_seconds()
    }

    fn steady_seconds(&self) -> f64 {
        self.as_ref().steady_seconds()
    }

    fn sleep(&self, seconds: f64) -> Sleep {
        self.as_ref().sleep(seconds)
    }
}

/// Random bytes.
pub trait Entropy: Send + Sync + 'static {
    /// Fills the buffer.
    ///
    /// # Panics
    /// May panic when the system has no randomness: nothing could be leased safely then.
    fn fill(&self, bytes: &mut [u8]);
}

/// What the monotonic clock is counted from.
static STARTED: OnceLock<Instant> = OnceLock::new();

/// The system's clock. Waits need a tokio runtime with time enabled.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    #[allow(clippy::disallowed_methods)] // the one place
    fn now_seconds(&self) -> f64 {
        match SystemTime::now().duration_since(SystemTime::UNIX_EPOCH) {
            Ok(since) => since.as_secs_f64(),
            Err(before) => -before.duration().as_secs_f64(),
        }
    }

    #[allow(clippy::disallowed_methods)] // the one place
    fn steady_seconds(&self) -> f64 {
        STARTED.get_or_init(Instant::now).elapsed().as_secs_f64()
    }

    fn sleep(&self, seconds: f64) -> Sleep {
        let duration = Duration::try_from_secs_f64(seconds.max(0.0)).unwrap_or(Duration::MAX);
        Box::pin(tokio::time::sleep(duration))
    }
}

/// The clock of a server that several engines share, for what is written; waits and leases of this life go by
/// the system's monotonic one.
pub(crate) struct SharedClock {
    reader: Arc<dyn StoreReader>,
    system: SystemClock,
}

impl SharedClock {
    pub(crate) fn of(reader: Arc<dyn StoreReader>) -> Self {
        Self { reader, system: SystemClock }
    }
}

impl Clock for SharedClock {
    fn now_seconds(&self) -> f64 {
        // Before the server was asked nothing can be done anyway.
        self.reader.server_seconds().unwrap_or_else(|| self.system.now_seconds())
    }

    fn steady_seconds(&self) -> f64 {
        self.system.steady_seconds()
    }

    fn sleep(&self, seconds: f64) -> Sleep {
        self.system.sleep(seconds)
    }
}

/// The system's randomness.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemEntropy;

impl Entropy for SystemEntropy {
    #[allow(clippy::disallowed_methods)] // the one place
    fn fill(&self, bytes: &mut [u8]) {
        getrandom::fill(bytes).expect("a system without randomness cannot lease anything safely");
    }
}

/// A clock that stands until it is set: for tests, and for replaying what happened.
#[derive(Debug, Clone)]
pub struct ManualClock {
    seconds: Arc<Mutex<f64>>,
    /// How far the wall clock jumped without time passing.
    jumped: Arc<Mutex<f64>>,
    changes: watch::Sender<()>,
}

impl ManualClock {
    /// A clock that stands at this time.
    #[must_use]
    pub fn at(seconds: f64) -> Self {
        let (seconds, jumped) = (Arc::new(Mutex::new(seconds)), Arc::default());
        Self { seconds, jumped, changes: watch::Sender::new(()) }
    }

    /// Sets the time, forward or back.
    pub fn set(&self, seconds: f64) {
        *self.seconds.lock().unwrap_or_else(PoisonError::into_inner) = seconds;
        self.changes.send_replace(());
    }

    /// Lets the wall clock jump, forward or back, while the monotonic one stands.
    pub fn jump(&self, by_seconds: f64) {
        *self.jumped.lock().unwrap_or_else(PoisonError::into_inner) += by_seconds;
        self.set(self.now_seconds() + by_seconds);
    }
}

impl Clock for ManualClock {
    fn now_seconds(&self) -> f64 {
        *self.seconds.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn steady_seconds(&self) -> f64 {
        self.now_seconds() - *self.jumped.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn sleep(&self, seconds: f64) -> Sleep {
        let until = self.now_seconds() + seconds;
        let clock = self.clone();
        let mut changes = self.changes.subscribe();
        Box::pin(async move {
            while clock.now_seconds() < until {
                if changes.changed().await.is_err() {
                    return;
                }
            }
        })
    }
}

/// A stopwatch for reports and benchmarks; decides nothing.
#[derive(Debug, Clone, Copy)]
pub struct Stopwatch(std::time::Instant);

impl Stopwatch {
    /// Starts.
    #[must_use]
    #[allow(clippy::disallowed_methods)] // the one place
    pub fn start() -> Self {
        Self(std::time::Instant::now())
    }

    /// Seconds since the start.
    #[must_use]
    pub fn seconds(&self) -> f64 {
        self.0.elapsed().as_secs_f64()
    }
}

/// Processor time of this process so far, in seconds: of all its threads, those that ended too. For reports
/// and benchmarks; decides nothing. `None` where the system does not tell.
#[cfg(unix)]
#[allow(clippy::unnecessary_wraps)] // there is none on other systems
pub(crate) fn processor_seconds() -> Option<f64> {
    let used = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    Some(used.tv_sec as f64 + used.tv_nsec as f64 * 1e-9)
}

/// Processor time of this process so far, in seconds: not known here.
#[cfg(not(unix))]
pub(crate) fn processor_seconds() -> Option<f64> {
    None
}
