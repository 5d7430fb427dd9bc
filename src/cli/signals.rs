//! Ctrl-C and SIGTERM.
//!
//! Owns what a signal means: a run drains, and a second signal gives back the leases of its calls at
//! once; a reading command removes the copy it works on and ends.

use crate::audit::copies::remove_copies;
use crate::clock::{Clock as _, SystemClock};
use crate::shutdown::Stopper;
use tokio::sync::watch;

/// Exit code of a command that a signal ended: 128 and the number of SIGINT.
const INTERRUPTED: i32 = 130;

/// Signals as they come. Those that arrive between two waits are not lost.
#[cfg(unix)]
struct Signals {
    interrupt: tokio::signal::unix::Signal,
    terminate: tokio::signal::unix::Signal,
}

#[cfg(unix)]
impl Signals {
    fn listen() -> std::io::Result<Self> {
        use tokio::signal::unix::{SignalKind, signal};
        let interrupt = signal(SignalKind::interrupt())?;
        Ok(Self { interrupt, terminate: signal(SignalKind::terminate())? })
    }

    async fn next(&mut self) -> std::io::Result<()> {
        tokio::select! {
            _ = self.interrupt.recv() => Ok(()),
            _ = self.terminate.recv() => Ok(()),
        }
    }
}

/// Signals as they come.
#[cfg(not(unix))]
struct Signals;

#[cfg(not(unix))]
impl Signals {
    fn listen() -> std::io::Result<Self> {
        Ok(Self)
    }

    async fn next(&mut self) -> std::io::Result<()> {
        tokio::signal::ctrl_c().await
    }
}

/// Waits for a signal.
pub(super) async fn asked_to_stop() -> std::io::Result<()> {
    Signals::listen()?.next().await
}

/// Winds the engine down when a signal comes; answers what turns true then. The first one gives calls
/// under way `drain_seconds` to end, the second one none, and the third one ends the process.
pub(super) fn wind_down(stopper: Stopper, drain_seconds: f64) -> watch::Receiver<bool> {
    let (stop, stopped) = watch::channel(false);
    tokio::spawn(async move {
        if let Ok(mut signals) = Signals::listen() {
            phases(&mut signals, &stopper, drain_seconds, &stop).await;
        }
        // Keeps the channel open for as long as the process works.
        std::future::pending::<()>().await;
    });
    stopped
}

async fn phases(
    signals: &mut Signals,
    stopper: &Stopper,
    drain_seconds: f64,
    stop: &watch::Sender<bool>,
) {
    if signals.next().await.is_err() {
        return;
    }
    stopper.drain();
    stop.send_replace(true);
    eprintln!(
        "leasehold: stopping; calls under way have {drain_seconds} s to end; once more gives them none"
    );
    let asked = tokio::select! {
        asked = signals.next() => asked,
        () = SystemClock.sleep(drain_seconds) => Ok(()),
    };
    stopper.stop_calls();
    if asked.is_ok() && signals.next().await.is_ok() {
        std::process::exit(INTERRUPTED);
    }
}

/// From now on a signal removes the copies of reading commands and ends the process. Where no thread
/// or no signals are to be had the system's default stands.
pub(super) fn remove_copies_when_stopped() {
    let waiting = std::thread::Builder::new().name("leasehold-signals".to_owned()).spawn(|| {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        if runtime.is_ok_and(|runtime| runtime.block_on(asked_to_stop()).is_ok()) {
            remove_copies();
            std::process::exit(INTERRUPTED);
        }
    });
    if waiting.is_err() {
        tracing::warn!(code = "runtime_unavailable", "an interrupted command may leave its copy");
    }
}
