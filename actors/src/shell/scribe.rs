//! The single writer, on its own thread.
//!
//! Owns group commit: what arrives while a commit is on its way to the disk is the next commit. No
//! timer: a lone request waits for nobody. Must not know what is written.
//!
//! A thread and not an actor: one commit takes everything that waits, and a mailbox hands out one
//! message at a time.

use leasehold_journal::{Append, AppendError, JournalError, Placed, Store};
use std::sync::mpsc;
use std::thread::JoinHandle;
use tokio::sync::oneshot;

/// Appends in one commit at most.
const GROUP_MAX: usize = 4096;
/// Bytes of bodies in one commit, about; one more append may start below it.
const GROUP_BYTES: usize = 8 * 1024 * 1024;

/// Why an append is not known to be durable.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ScribeError {
    /// Left out; nothing was written.
    Append(AppendError),
    /// The commit failed: unknown.
    Journal(JournalError),
}

struct Entry {
    append: Append,
    done: oneshot::Sender<Result<Placed, ScribeError>>,
}

/// Hands appends to the writer.
#[derive(Debug, Clone)]
pub(crate) struct Scribe {
    entries: mpsc::Sender<Entry>,
}

impl Scribe {
    /// Starts the writer. It ends when every `Scribe` is gone, and lets go of the store then.
    ///
    /// # Errors
    /// [`JournalError::Storage`] when the system gives no thread.
    pub(crate) fn start(store: Box<dyn Store>) -> Result<(Self, JoinHandle<()>), JournalError> {
        let (entries, inbox) = mpsc::channel();
        let thread = std::thread::Builder::new()
            .name("leasehold-scribe".to_owned())
            .spawn(move || write_until_alone(store, &inbox))?;
        Ok((Self { entries }, thread))
    }

    /// Queues an append. The receiver fails when the writer is gone.
    pub(crate) fn append(&self, append: Append) -> oneshot::Receiver<Result<Placed, ScribeError>> {
        let (done, receiver) = oneshot::channel();
        if self.entries.send(Entry { append, done }).is_err() {
            tracing::warn!(code = "engine_stopped", "the writer is gone");
        }
        receiver
    }
}

fn write_until_alone(mut store: Box<dyn Store>, inbox: &mpsc::Receiver<Entry>) {
    while let Ok(first) = inbox.recv() {
        let (appends, waiting) = gather(first, inbox);
        let answers = match store.commit(&appends) {
            Ok(answers) => {
                answers.into_iter().map(|answer| answer.map_err(ScribeError::Append)).collect()
            }
            Err(error) => {
                tracing::error!(code = error.code(), "a commit failed; its outcome is unknown");
                vec![Err(ScribeError::Journal(error)); waiting.len()]
            }
        };
        for (done, answer) in waiting.into_iter().zip(answers) {
            if done.send(answer).is_err() {
                tracing::trace!("a record went away before its append was durable");
            }
        }
    }
    if let Err(error) = store.settle_anchor() {
        tracing::warn!(code = error.code(), "the anchor could not be brought up to date");
    }
}

type Waiting = Vec<oneshot::Sender<Result<Placed, ScribeError>>>;

fn gather(first: Entry, inbox: &mpsc::Receiver<Entry>) -> (Vec<Append>, Waiting) {
    let mut bytes = size(&first.append);
    let (mut appends, mut waiting) = (vec![first.append], vec![first.done]);
    while appends.len() < GROUP_MAX && bytes < GROUP_BYTES {
        let Ok(next) = inbox.try_recv() else { break };
        bytes += size(&next.append);
        appends.push(next.append);
        waiting.push(next.done);
    }
    (appends, waiting)
}

fn size(append: &Append) -> usize {
    append.bodies.iter().map(Vec::len).sum()
}
