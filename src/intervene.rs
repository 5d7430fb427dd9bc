//! What an operator may do to a record: requeue, dismiss, repin (D12).
//!
//! Owns the check of who and why. Must not decide anything about a record.

use crate::error::Error;
use crate::handle::Handle;
use leasehold_actors::arguments::{self, Blocked};
use leasehold_actors::flows::Answers;
use leasehold_actors::record::{Command, Identity, Intervention, OperatorName, Reason, Refusal};
use leasehold_actors::shell::Recorded;

/// The answer to an operator.
#[derive(Debug, Clone, PartialEq)]
pub struct Intervened<S> {
    /// The record's status.
    pub status: S,
    /// Whether anything was written; false when it was so already.
    pub changed: bool,
}

impl<F: Answers> Handle<F> {
    /// Has a failed or dismissed record tried again: under its identity and with its payload, from its
    /// first attempt on, due at once. What happened before stays in its history.
    ///
    /// `id` is the record's identity: the event id; of `delivery`, `operation/id`. `by` is 1 to 128
    /// visible ASCII characters, `why` 1 to 500 characters without control characters; both are kept in
    /// the journal.
    ///
    /// # Errors
    /// [`Error::Blocked`] with `operator_invalid`, `reason_invalid`, `time_invalid`, `record_missing`,
    /// `clock_regressed`, `not_failed`; [`Error::Journal`].
    pub async fn requeue(
        &self,
        id: &str,
        by: &str,
        why: &str,
    ) -> Result<Intervened<F::Status>, Error> {
        let intervention = intervention(by, why, Blocked::new::<F>)?;
        self.intervene(id, Command::Requeue { next_at: None, intervention }).await
    }

    /// The same, due at this time, in seconds since 1970, and not before; at once where that is not later
    /// than now. So many records can be requeued without all of them being due together.
    ///
    /// # Errors
    /// As [`Self::requeue`], with `time_invalid` for a time that is none as well.
    pub async fn requeue_at(
        &self,
        id: &str,
        by: &str,
        why: &str,
        due_at: f64,
    ) -> Result<Intervened<F::Status>, Error> {
        let intervention = intervention(by, why, Blocked::new::<F>)?;
        let next_at = Some(arguments::time::<F>(due_at)?);
        self.intervene(id, Command::Requeue { next_at, intervention }).await
    }

    /// Lets a failed record be, or one that is held under another digest (D9): health does not count it
    /// as trouble any more, its history stays, and it is never tried unless it is requeued.
    ///
    /// # Errors
    /// As [`Self::requeue`], with `not_held` for a record that is neither failed nor held.
    pub async fn dismiss(
        &self,
        id: &str,
        by: &str,
        why: &str,
    ) -> Result<Intervened<F::Status>, Error> {
        let intervention = intervention(by, why, Blocked::new::<F>)?;
        let expected = self.terms.expected;
        self.intervene(id, Command::Dismiss { expected, intervention }).await
    }

    /// Moves a record that is held under another digest to the one this engine was given (D9). It keeps the
    /// due time it had.
    ///
    /// # Errors
    /// As [`Self::requeue`], with `not_held` for a record that does not wait, of a flow that pins no
    /// digest, or where none is configured.
    pub async fn repin(
        &self,
        id: &str,
        by: &str,
        why: &str,
    ) -> Result<Intervened<F::Status>, Error> {
        let intervention = intervention(by, why, Blocked::new::<F>)?;
        let digest = self.terms.expected.ok_or_else(|| Blocked::refusal::<F>(Refusal::NotHeld))?;
        self.intervene(id, Command::Repin { digest, intervention }).await
    }

    async fn intervene(
        &self,
        id: &str,
        command: Command<F>,
    ) -> Result<Intervened<F::Status>, Error> {
        let now = self.now()?;
        let identity = Identity::new(id);
        let Recorded { state, changed } = self.command(identity, command, now).await?;
        let status = F::status(&state, now).ok_or(Error::Stopped)?;
        Ok(Intervened { status, changed })
    }
}

/// Checks who and why; `blocked` makes a refusal of its name.
pub(crate) fn intervention(
    by: &str,
    why: &str,
    blocked: fn(&str) -> Blocked,
) -> Result<Intervention, Blocked> {
    let by = OperatorName::new(by).ok_or_else(|| blocked("operator_invalid"))?;
    let why = Reason::new(why).ok_or_else(|| blocked("reason_invalid"))?;
    Ok(Intervention { by, why })
}
