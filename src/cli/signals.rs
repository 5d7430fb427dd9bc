//! Ctrl-C and SIGTERM.
//!
//! Owns what a signal means: a run drains and a second signal ends it at once; a reading command
//! removes the copy it works on and ends.

use crate::audit::source::remove_copies;
use tokio::sync::watch;

/// Exit code of a command that a signal ended: 128 and the number of SIGINT.
const INTERRUPTED: i32 = 130;

/// Waits for a signal.
#[cfg(unix)]
pub(super) async fn asked_to_stop() -> std::io::Result<()> {
    use tokio::signal::unix::{SignalKind, signal};
    let mut terminate = signal(SignalKind::terminate())?;
    tokio::select! {
        asked = tokio::signal::ctrl_c() => asked,
        _ = terminate.recv() => Ok(()),
    }
}

/// Waits for a signal.
#[cfg(not(unix))]
pub(super) async fn asked_to_stop() -> std::io::Result<()> {
    tokio::signal::ctrl_c().await
}

/// Turns true at the first signal; the second one ends the process.
pub(super) fn draining() -> watch::Receiver<bool> {
    let (stop, stopped) = watch::channel(false);
    tokio::spawn(async move {
        if asked_to_stop().await.is_ok() {
            eprintln!("leasehold: stopping; calls under way end first; once more ends it at once");
            stop.send_replace(true);
        }
        if asked_to_stop().await.is_ok() {
            std::process::exit(INTERRUPTED);
        }
        // Keeps the channel open for as long as the process works.
        std::future::pending::<()>().await;
    });
    stopped
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
