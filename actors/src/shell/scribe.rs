//! The single writer, on its own thread.
//!
//! Owns group commit: what arrives while a commit is on its way to the disk is the next commit. No
//! timer: a lone request waits for nobody. Where engines share the journal, it also looks from time to time
//! what the others wrote, and says so. Must not know what is written.
//!
//! A thread and not an actor: one commit takes everything that waits, and a mailbox hands out one
//! message at a time.
//!
//! A disk that never answers would keep everybody waiting for good, so somebody looks at the commit
//! under way once a second: one that is still there a minute later is given up. Its outcome is unknown,
//! as after any failed commit, and nothing more is written in this life.

use leasehold_journal::{Append, AppendError, JournalError, Placed, Store, StoreReader};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, mpsc};
use std::thread::JoinHandle;
use std::time::Duration;
use tokio::sync::{oneshot, watch};

/// Appends in one commit at most.
const GROUP_MAX: usize = 4096;
/// Bytes of bodies in one commit, about; one more append may start below it.
const GROUP_BYTES: usize = 8 * 1024 * 1024;
/// Time between two looks at the commit under way.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// Looks after which a commit is given up; a disk that takes so long is as good as gone.
const PATIENCE: u32 = 60;

/// The shortest and the longest time between two looks at what others wrote, while nothing is written here:
/// engines that were started together do not look together for long.
const POLL: (Duration, Duration) = (Duration::from_millis(120), Duration::from_millis(240));

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
    /// What to leave at the end; gone when anything is written after it.
    note: Option<Vec<u8>>,
}

type Desk = Arc<Mutex<Underway>>;
/// Locked by the writer while it waits, and by the watcher once the writer hangs on the disk.
type Inbox = Arc<Mutex<mpsc::Receiver<Entry>>>;

fn look(desk: &Desk) -> MutexGuard<'_, Underway> {
    desk.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The other engines of a shared journal.
pub(crate) struct Others {
    pub(crate) reader: Arc<dyn StoreReader>,
    /// Counts up whenever there may be something to take over, and now and then.
    pub(crate) told: watch::Sender<u64>,
}

impl Others {
    fn tell(&self) {
        self.told.send_modify(|told| *told += 1);
    }
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
    pub(crate) fn start(
        store: Box<dyn Store>,
        others: Option<Others>,
    ) -> Result<(Self, Writer, Watch), JournalError> {
        let (entries, inbox) = mpsc::channel();
        let (desk, inbox) = (Desk::default(), Arc::new(Mutex::new(inbox)));
        // A server that is away is waited for by its store, which gives up by itself.
        let patience = if others.is_some() { 10 * PATIENCE } else { PATIENCE };
        let (at, entries_of) = (Arc::clone(&desk), Arc::clone(&inbox));
        let watch = Watch { desk: at, inbox: entries_of, seen: 0, times: 0, patience };
        let writing = Arc::clone(&desk);
        let thread = std::thread::Builder::new()
            .name("leasehold-scribe".to_owned())
            .spawn(move || write_until_alone(store, others, &inbox, &writing))?;
        Ok((Self { entries, desk: Arc::clone(&desk) }, Writer { thread, desk }, watch))
    }

    /// What to leave for the next life when everybody is gone. Forgotten when something is being written,
    /// or is written later: the note knows nothing of that.
    pub(crate) fn leave(&self, note: Vec<u8>) {
        let mut underway = look(&self.desk);
        if underway.waiting.is_none() {
            underway.note = Some(note);
        }
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

fn write_until_alone(
    mut store: Box<dyn Store>,
    others: Option<Others>,
    inbox: &Inbox,
    desk: &Desk,
) {
    let mut polls = 0;
    loop {
        let (appends, waiting) = match gather(inbox, others.as_ref().map(|_| poll(polls))) {
            Gathered::Group(appends, waiting) => (appends, waiting),
            Gathered::Nothing => {
                polls += 1;
                look_at_others(store.as_mut(), others.as_ref());
                continue;
            }
            Gathered::End => break,
        };
        {
            let mut underway = look(desk);
            underway.number += 1;
            underway.note = None;
            underway.waiting = Some(waiting);
        }
        let committed = store.commit(&appends);
        let Some(waiting) = look(desk).waiting.take() else { return };
        if let Some(others) = others.as_ref().filter(|others| others.reader.has_moved()) {
            others.tell();
        }
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
        return;
    }
    let note = look(desk).note.take();
    if let Some(note) = note
        && let Err(error) = store.leave(&note)
    {
        tracing::warn!(code = error.code(), "no checkpoint is left");
    }
}

/// The time until the next look at what others wrote.
fn poll(polls: u32) -> Duration {
    let (shortest, longest) = POLL;
    // Steps of the golden ratio: no two of them in a row are alike.
    let spread = (longest - shortest).as_millis() as u32;
    shortest + Duration::from_millis(u64::from(polls.wrapping_mul(79) % spread.max(1)))
}

fn look_at_others(store: &mut dyn Store, others: Option<&Others>) {
    if let Err(error) = store.follow() {
        tracing::warn!(code = error.code(), "what others wrote cannot be read");
    }
    if let Some(others) = others {
        others.tell();
    }
}

/// Looks at the commit under way from time to time.
pub(crate) struct Watch {
    desk: Desk,
    inbox: Inbox,
    seen: u64,
    times: u32,
    /// Looks after which a commit is given up.
    patience: u32,
}

impl Watch {
    /// Gives a commit up that is there at too many looks in a row, and everything that waits behind it;
    /// answers whether it did.
    pub(crate) fn look(&mut self) -> bool {
        let mut underway = look(&self.desk);
        let same = underway.waiting.is_some() && underway.number == self.seen;
        self.times = if same { self.times + 1 } else { 0 };
        self.seen = underway.number;
        if self.times < self.patience {
            return false;
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
        let inbox = self.inbox.lock().unwrap_or_else(PoisonError::into_inner);
        while let Ok(Entry { done, .. }) = inbox.try_recv() {
            tell(done, Err(ScribeError::Journal(JournalError::Poisoned)));
        }
        true
    }

    /// Looks once a second for as long as it is awaited.
    pub(crate) async fn keep_looking(mut self) {
        loop {
            // Not a beat: looks that were missed while the thread was at something else are not made up for.
            actix_rt::time::sleep(LOOK_EVERY).await;
            if self.look() {
                return;
            }
        }
    }
}

fn tell(done: oneshot::Sender<Answer>, answer: Answer) {
    if done.send(answer).is_err() {
        tracing::trace!("a record went away before its append was durable");
    }
}

/// What waiting came to.
enum Gathered {
    /// Appends, and who waits for them.
    Group(Vec<Append>, Waiting),
    /// Nothing came in time.
    Nothing,
    /// There will be no more.
    End,
}

/// Waits for an append, no longer than it may, and takes all that arrived with it.
fn gather(inbox: &Inbox, patience: Option<Duration>) -> Gathered {
    let inbox = inbox.lock().unwrap_or_else(PoisonError::into_inner);
    let first = match patience {
        None => inbox.recv().map_err(|_| mpsc::RecvTimeoutError::Disconnected),
        Some(patience) => inbox.recv_timeout(patience),
    };
    let first = match first {
        Ok(first) => first,
        Err(mpsc::RecvTimeoutError::Timeout) => return Gathered::Nothing,
        Err(mpsc::RecvTimeoutError::Disconnected) => return Gathered::End,
    };
    let mut bytes = size(&first.append);
    let (mut appends, mut waiting) = (vec![first.append], vec![first.done]);
    loop {
        let before = appends.len();
        while appends.len() < GROUP_MAX && bytes < GROUP_BYTES {
            let Ok(next) = inbox.try_recv() else { break };
            bytes += size(&next.append);
            appends.push(next.append);
            waiting.push(next.done);
        }
        // Whoever is about to append something may do so first, where a processor is wanted.
        if appends.len() == before {
            return Gathered::Group(appends, waiting);
        }
        std::thread::yield_now();
    }
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

        fn follow(&mut self) -> Result<bool, JournalError> {
            Ok(false)
        }

        fn settle_anchor(&mut self) -> Result<(), JournalError> {
            Ok(())
        }
    }

    fn append() -> Append {
        let stream = StreamId([1; 16]);
        Append { stream, expected_version: 0, bodies: vec![b"body".to_vec()], alone: None }
    }

    type Ends = (mpsc::Receiver<()>, mpsc::Sender<()>);

    fn hanging() -> (Scribe, Writer, Watch, Ends) {
        let (reached, at_the_disk) = mpsc::channel();
        let (let_go, release) = mpsc::channel();
        let store = Box::new(Hanging { reached, release });
        let (scribe, writer, watch) = Scribe::start(store, None).expect("a thread");
        (scribe, writer, watch, (at_the_disk, let_go))
    }

    #[test]
    fn a_commit_that_never_ends_is_given_up_with_all_that_waits_and_comes_after() {
        let (scribe, writer, mut watch, (at_the_disk, let_go)) = hanging();
        let first = scribe.append(append());
        at_the_disk.recv().expect("the first commit is under way");
        let behind = scribe.append(append());
        assert!((0..PATIENCE).all(|_| !watch.look()));
        assert!(watch.look());
        let failed = Err(ScribeError::Journal(JournalError::Storage));
        let poisoned = Err(ScribeError::Journal(JournalError::Poisoned));
        assert_eq!(first.blocking_recv(), Ok(failed));
        assert_eq!(behind.blocking_recv(), Ok(poisoned.clone()));
        assert_eq!(scribe.append(append()).blocking_recv(), Ok(poisoned.clone()));
        // A disk that comes back late changes nothing.
        let_go.send(()).expect("it hangs");
        assert_eq!(scribe.append(append()).blocking_recv(), Ok(poisoned));
        writer.join().expect("it is left behind");
    }

    #[test]
    fn a_slow_disk_that_answers_in_time_is_waited_for() {
        let (scribe, writer, mut watch, (at_the_disk, let_go)) = hanging();
        for _ in 0..3 {
            let one = scribe.append(append());
            at_the_disk.recv().expect("a commit is under way");
            assert!((0..PATIENCE).all(|_| !watch.look()));
            let_go.send(()).expect("it hangs");
            assert_eq!(one.blocking_recv(), Ok(Ok(Placed { sequence: 1, version: 1 })));
        }
        drop(scribe);
        writer.join().expect("it ends");
    }

    /// Tells what note is left with it.
    struct Noting(mpsc::Sender<Vec<u8>>);

    impl Store for Noting {
        fn commit(
            &mut self,
            batch: &[Append],
        ) -> Result<Vec<Result<Placed, AppendError>>, JournalError> {
            Ok(vec![Ok(Placed { sequence: 1, version: 1 }); batch.len()])
        }

        fn follow(&mut self) -> Result<bool, JournalError> {
            Ok(false)
        }

        fn settle_anchor(&mut self) -> Result<(), JournalError> {
            Ok(())
        }

        fn leave(self: Box<Self>, note: &[u8]) -> Result<(), JournalError> {
            self.0.send(note.to_vec()).map_err(|_| JournalError::Storage)
        }
    }

    #[test]
    fn a_note_is_left_at_the_end_unless_something_was_written_after_it() {
        for (written_after, expected) in
            [(false, Ok(b"note".to_vec())), (true, Err(mpsc::RecvError))]
        {
            let (left, notes) = mpsc::channel();
            let (scribe, writer, watch) =
                Scribe::start(Box::new(Noting(left)), None).expect("a thread");
            assert!(scribe.append(append()).blocking_recv().is_ok());
            scribe.leave(b"note".to_vec());
            if written_after {
                assert!(scribe.append(append()).blocking_recv().is_ok());
            }
            drop((scribe, watch));
            writer.join().expect("it ends");
            assert_eq!(notes.recv(), expected);
        }
    }
}
