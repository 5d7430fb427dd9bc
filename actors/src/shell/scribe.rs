//! The single writer, on its own thread.
//!
//! Owns group commit: what arrives while a commit is on its way to the disk is the next commit. No
//! timer: a lone request waits for nobody. Must not know what is written.
//!
//! A thread and not an actor: one commit takes everything that waits, and a mailbox hands out one
//! message at a time.
//!
//! A disk that never answers would keep everybody waiting for good, so a second thread looks at the
//! commit under way: one that is still there after [`PATIENCE`] looks is given up. Its outcome is
//! unknown, as after any failed commit, and nothing more is written in this life.

use leasehold_journal::{Append, AppendError, JournalError, Placed, Store};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, mpsc};
use std::thread::JoinHandle;
use std::time::Duration;
use tokio::sync::oneshot;

/// Appends in one commit at most.
const GROUP_MAX: usize = 4096;
/// Bytes of bodies in one commit, about; one more append may start below it.
const GROUP_BYTES: usize = 8 * 1024 * 1024;
/// Time between two looks at the commit under way.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// Looks after which a commit is given up; a disk that takes so long is as good as gone.
const PATIENCE: u32 = 60;

/// Why an append is not known to be durable.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ScribeError {
    /// Left out; nothing was written.
    Append(AppendError),
    /// The commit failed: unknown.
    Journal(JournalError),
}

type Answer = Result<Placed, ScribeError>;
type Waiting = Vec<oneshot::Sender<Answer>>;

struct Entry {
    append: Append,
    done: oneshot::Sender<Answer>,
}

/// The commit under way, seen by the writer and by whoever watches it.
#[derive(Default)]
struct Underway {
    /// Counts commits.
    number: u64,
    /// Who waits for it; `None` between commits.
    waiting: Option<Waiting>,
    /// Whether one was given up.
    given_up: bool,
}

type Desk = Arc<Mutex<Underway>>;
/// Locked by the writer while it waits, and by the watcher once the writer hangs on the disk.
type Inbox = Arc<Mutex<mpsc::Receiver<Entry>>>;

fn look(desk: &Desk) -> MutexGuard<'_, Underway> {
    desk.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Hands appends to the writer.
#[derive(Clone)]
pub(crate) struct Scribe {
    entries: mpsc::Sender<Entry>,
    desk: Desk,
}

/// The writer's thread.
pub(crate) struct Writer {
    thread: JoinHandle<()>,
    desk: Desk,
}

impl Writer {
    /// Waits for the writer to end. One that hangs on the disk is left behind: it holds the journal's
    /// lock until the process ends.
    pub(crate) fn join(self) -> std::thread::Result<()> {
        if look(&self.desk).given_up { Ok(()) } else { self.thread.join() }
    }
}

impl Scribe {
    /// Starts the writer. It ends when every `Scribe` is gone, and lets go of the store then.
    ///
    /// # Errors
    /// [`JournalError::Storage`] when the system gives no thread.
    pub(crate) fn start(store: Box<dyn Store>) -> Result<(Self, Writer), JournalError> {
        let (alive, ended) = mpsc::channel::<()>();
        let looks = std::iter::from_fn(move || match ended.recv_timeout(LOOK_EVERY) {
            Err(mpsc::RecvTimeoutError::Timeout) => Some(()),
            Ok(()) | Err(mpsc::RecvTimeoutError::Disconnected) => None,
        });
        Self::start_watched(store, alive, looks)
    }

    /// The same with looks of the caller's own; `alive` is dropped when the writer ends.
    fn start_watched(
        store: Box<dyn Store>,
        alive: mpsc::Sender<()>,
        looks: impl Iterator<Item = ()> + Send + 'static,
    ) -> Result<(Self, Writer), JournalError> {
        let (entries, inbox) = mpsc::channel();
        let inbox: Inbox = Arc::new(Mutex::new(inbox));
        let behind = Arc::clone(&inbox);
        let desk = Desk::default();
        let (writing, watching) = (Arc::clone(&desk), Arc::clone(&desk));
        std::thread::Builder::new()
            .name("leasehold-watch".to_owned())
            .spawn(move || watch(&watching, &behind, looks))?;
        let thread =
            std::thread::Builder::new().name("leasehold-scribe".to_owned()).spawn(move || {
                write_until_alone(store, &inbox, &writing);
                drop(alive);
            })?;
        Ok((Self { entries, desk: Arc::clone(&desk) }, Writer { thread, desk }))
    }

    /// Queues an append. The receiver fails when the writer is gone.
    pub(crate) fn append(&self, append: Append) -> oneshot::Receiver<Answer> {
        let (done, receiver) = oneshot::channel();
        // Locked while sending, so that what was sent before a commit is given up is found behind it.
        let underway = look(&self.desk);
        if underway.given_up {
            tell(done, Err(ScribeError::Journal(JournalError::Poisoned)));
        } else if self.entries.send(Entry { append, done }).is_err() {
            tracing::warn!(code = "engine_stopped", "the writer is gone");
        }
        receiver
    }
}

fn write_until_alone(mut store: Box<dyn Store>, inbox: &Inbox, desk: &Desk) {
    while let Some((appends, waiting)) = gather(inbox) {
        {
            let mut underway = look(desk);
            underway.number += 1;
            underway.waiting = Some(waiting);
        }
        let committed = store.commit(&appends);
        let Some(waiting) = look(desk).waiting.take() else { return };
        let answers = match committed {
            Ok(answers) => {
                answers.into_iter().map(|answer| answer.map_err(ScribeError::Append)).collect()
            }
            Err(error) => {
                tracing::error!(code = error.code(), "a commit failed; its outcome is unknown");
                vec![Err(ScribeError::Journal(error)); waiting.len()]
            }
        };
        for (done, answer) in waiting.into_iter().zip(answers) {
            tell(done, answer);
        }
    }
    if let Err(error) = store.settle_anchor() {
        tracing::warn!(code = error.code(), "the anchor could not be brought up to date");
    }
}

/// Gives a commit up that is there at too many looks in a row, and everything that waits behind it.
fn watch(desk: &Desk, inbox: &Inbox, looks: impl Iterator<Item = ()>) {
    let (mut seen, mut times) = (0, 0);
    for () in looks {
        let mut underway = look(desk);
        let same = underway.waiting.is_some() && underway.number == seen;
        times = if same { times + 1 } else { 0 };
        seen = underway.number;
        if times < PATIENCE {
            continue;
        }
        underway.given_up = true;
        tracing::error!(
            code = "storage_failed",
            "the disk does not answer; nothing more is written"
        );
        for done in underway.waiting.take().unwrap_or_default() {
            tell(done, Err(ScribeError::Journal(JournalError::Storage)));
        }
        drop(underway);
        let inbox = inbox.lock().unwrap_or_else(PoisonError::into_inner);
        while let Ok(Entry { done, .. }) = inbox.try_recv() {
            tell(done, Err(ScribeError::Journal(JournalError::Poisoned)));
        }
        return;
    }
}

fn tell(done: oneshot::Sender<Answer>, answer: Answer) {
    if done.send(answer).is_err() {
        tracing::trace!("a record went away before its append was durable");
    }
}

/// Waits for an append and takes all that arrived with it; `None` when there will be no more.
fn gather(inbox: &Inbox) -> Option<(Vec<Append>, Waiting)> {
    let inbox = inbox.lock().unwrap_or_else(PoisonError::into_inner);
    let first = inbox.recv().ok()?;
    let mut bytes = size(&first.append);
    let (mut appends, mut waiting) = (vec![first.append], vec![first.done]);
    while appends.len() < GROUP_MAX && bytes < GROUP_BYTES {
        let Ok(next) = inbox.try_recv() else { break };
        bytes += size(&next.append);
        appends.push(next.append);
        waiting.push(next.done);
    }
    Some((appends, waiting))
}

fn size(append: &Append) -> usize {
    append.bodies.iter().map(Vec::len).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use leasehold_journal::StreamId;

    /// A disk that answers nothing until it is let go.
    struct Hanging {
        reached: mpsc::Sender<()>,
        release: mpsc::Receiver<()>,
    }

    impl Store for Hanging {
        fn commit(
            &mut self,
            batch: &[Append],
        ) -> Result<Vec<Result<Placed, AppendError>>, JournalError> {
            self.reached.send(()).expect("the test waits");
            self.release.recv().map_err(|_| JournalError::Storage)?;
            Ok(vec![Ok(Placed { sequence: 1, version: 1 }); batch.len()])
        }

        fn settle_anchor(&mut self) -> Result<(), JournalError> {
            Ok(())
        }
    }

    fn append() -> Append {
        let stream = StreamId([1; 16]);
        Append { stream, expected_version: 0, bodies: vec![b"body".to_vec()] }
    }

    #[test]
    fn a_commit_that_never_ends_is_given_up_with_all_that_waits_and_comes_after() {
        let (reached, at_the_disk) = mpsc::channel();
        let (let_go, release) = mpsc::channel();
        let (look_now, looks) = mpsc::channel();
        let (alive, _ended) = mpsc::channel();
        let store = Box::new(Hanging { reached, release });
        let (scribe, writer) =
            Scribe::start_watched(store, alive, looks.into_iter()).expect("threads");
        let first = scribe.append(append());
        at_the_disk.recv().expect("the first commit is under way");
        let behind = scribe.append(append());
        for _ in 0..=PATIENCE {
            look_now.send(()).expect("it watches");
        }
        let failed = Err(ScribeError::Journal(JournalError::Storage));
        assert_eq!(first.blocking_recv(), Ok(failed));
        assert_eq!(behind.blocking_recv(), Ok(Err(ScribeError::Journal(JournalError::Poisoned))));
        let after = scribe.append(append());
        assert_eq!(after.blocking_recv(), Ok(Err(ScribeError::Journal(JournalError::Poisoned))));
        // A disk that comes back late changes nothing.
        let_go.send(()).expect("it hangs");
        let late = scribe.append(append());
        assert_eq!(late.blocking_recv(), Ok(Err(ScribeError::Journal(JournalError::Poisoned))));
        writer.join().expect("it is left behind");
    }

    #[test]
    fn a_slow_disk_that_answers_in_time_is_waited_for() {
        let (reached, at_the_disk) = mpsc::channel();
        let (let_go, release) = mpsc::channel();
        let (look_now, looks) = mpsc::channel();
        let (alive, ended) = mpsc::channel();
        let store = Box::new(Hanging { reached, release });
        let (scribe, writer) =
            Scribe::start_watched(store, alive, looks.into_iter()).expect("threads");
        for _ in 0..3 {
            let one = scribe.append(append());
            at_the_disk.recv().expect("a commit is under way");
            for _ in 0..PATIENCE - 1 {
                look_now.send(()).expect("it watches");
            }
            let_go.send(()).expect("it hangs");
            assert_eq!(one.blocking_recv(), Ok(Ok(Placed { sequence: 1, version: 1 })));
        }
        drop(scribe);
        writer.join().expect("it ends");
        assert!(ended.recv().is_err());
    }
}
