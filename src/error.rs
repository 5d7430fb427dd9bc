//! What a caller can act on.

use leasehold_actors::arguments::Blocked;
use leasehold_actors::record::Flow;
use leasehold_actors::shell::Failure;
use leasehold_journal::JournalError;

/// Why a call was not carried out. `Display` prints the code and nothing from outside.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Turned down with one of the contract's codes; nothing was written.
    #[error("{0}")]
    Blocked(Blocked),
    /// The journal failed. Whether something was written is known only after opening it again (D7).
    #[error("{0}")]
    Journal(JournalError),
    /// Too much at once; nothing was written, try again.
    #[error("engine_busy")]
    Busy,
    /// The engine is closed.
    #[error("engine_stopped")]
    Stopped,
}

impl Error {
    /// The stable code.
    #[must_use]
    pub fn code(&self) -> &str {
        match self {
            Self::Blocked(blocked) => blocked.code(),
            Self::Journal(error) => error.code(),
            Self::Busy => "engine_busy",
            Self::Stopped => "engine_stopped",
        }
    }

    pub(crate) fn of<F: Flow>(failure: Failure) -> Self {
        match failure {
            Failure::Refused(refusal) => Self::Blocked(Blocked::refusal::<F>(refusal)),
            Failure::Journal(error) => Self::Journal(error),
            Failure::Busy => Self::Busy,
            Failure::Stopped => Self::Stopped,
            // `Failure` may grow; what we do not know, we have not done.
            _ => Self::Stopped,
        }
    }
}

impl From<Blocked> for Error {
    fn from(blocked: Blocked) -> Self {
        Self::Blocked(blocked)
    }
}

impl From<JournalError> for Error {
    fn from(error: JournalError) -> Self {
        Self::Journal(error)
    }
}
