//! The engine: one open journal and the actors over it.
//!
//! Owns opening and closing, and what both are given: clock, randomness, policies. Must not decide
//! anything about a record.

use crate::clock::{Clock, Entropy, SystemClock, SystemEntropy};
use crate::handle::Handle;
use leasehold_actors::arguments::Blocked;
use leasehold_actors::contract::time::Timestamp;
use leasehold_actors::flows::dispatch::Dispatch;
use leasehold_actors::record::Policy;
use leasehold_actors::record::policy::Delays;
use leasehold_actors::shell::{OpenStore, Runtime, RuntimeOptions};
use leasehold_journal::medium::Medium;
use leasehold_journal::memory::MemoryDisk;
use leasehold_journal::sled::SledMedium;
use leasehold_journal::{
    Durability, Head, JournalError, JournalId, Log, LogOptions, Record, StreamId,
};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::error::Error;

enum Place {
    Folder(PathBuf),
    Memory(MemoryDisk),
}

/// Sets an engine up. See [`Engine::builder`].
pub struct EngineBuilder {
    place: Place,
    durability: Durability,
    dispatch: Delays,
    clock: Arc<dyn Clock>,
    entropy: Arc<dyn Entropy>,
    abandon: bool,
    anchor_beside: bool,
}

impl EngineBuilder {
    fn new(place: Place) -> Self {
        Self {
            place,
            durability: Durability::default(),
            dispatch: Delays::default(),
            clock: Arc::new(SystemClock),
            entropy: Arc::new(SystemEntropy),
            abandon: true,
            anchor_beside: true,
        }
    }

    /// What an acknowledgement survives; power cuts by default.
    #[must_use]
    pub fn durability(mut self, durability: Durability) -> Self {
        self.durability = durability;
        self
    }

    /// Delays of flow `dispatch`.
    #[must_use]
    pub fn dispatch_delays(mut self, delays: Delays) -> Self {
        self.dispatch = delays;
        self
    }

    /// Another clock than the system's.
    #[must_use]
    pub fn clock(mut self, clock: impl Clock) -> Self {
        self.clock = Arc::new(clock);
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

    /// Whether the head is also noted beside the journal's folder, in `<folder>.anchor`; on by default.
    /// It is how a folder that was put back to an older state is noticed. Turn it off where the folder
    /// above cannot be written.
    #[must_use]
    pub fn anchor_beside(mut self, beside: bool) -> Self {
        self.anchor_beside = beside;
        self
    }

    /// Opens the journal, or makes it, verifies all of it, and starts the engine.
    ///
    /// # Errors
    /// [`Error::Blocked`] with `dispatch.delay_invalid`; [`Error::Journal`] when the journal is
    /// locked, damaged, behind its anchor, newer, read-only or out of space. Nothing is written then.
    pub async fn open(self) -> Result<Engine, Error> {
        let dispatch =
            Policy::new(self.dispatch).map_err(|_| Blocked::new::<Dispatch>("delay_invalid"))?;
        // Without a time no lease can be ended; they run out as they would have.
        let abandon_at = if self.abandon { Timestamp::new(self.clock.now_seconds()) } else { None };
        let mut id = [0; 16];
        self.entropy.fill(&mut id);
        let options = LogOptions { new_id: JournalId(id), create: true };
        let (durability, beside) = (self.durability, self.anchor_beside);
        let open: OpenStore = match self.place {
            Place::Folder(path) => Box::new(move |visit| {
                let medium = SledMedium::open(&path, true, durability)?;
                let medium = if beside { medium } else { medium.without_outer_anchor() };
                opened(medium, options, visit)
            }),
            Place::Memory(disk) => Box::new(move |visit| opened(disk.medium(), options, visit)),
        };
        let runtime = Runtime::start(RuntimeOptions { dispatch, abandon_at }, open).await?;
        let dispatch = Handle::new(
            runtime.dispatch().clone(),
            Arc::clone(&self.clock),
            Arc::clone(&self.entropy),
        );
        Ok(Engine { runtime, dispatch })
    }
}

type Opened = leasehold_actors::shell::runtime::Opened;

fn opened<M: Medium + std::fmt::Debug>(
    medium: M,
    options: LogOptions,
    visit: &mut dyn FnMut(u64, StreamId, Result<Record, JournalError>) -> Result<(), JournalError>,
) -> Result<Opened, JournalError> {
    let log = Log::open(medium, options, visit)?;
    let reader = Arc::new(log.reader());
    Ok((Box::new(log), reader))
}

/// A running engine. There is one per journal.
///
/// Its handles are `Send + Sync` and awaited by any executor. Dropping it stops it; [`Self::close`]
/// waits for what is under way first.
#[derive(Debug)]
pub struct Engine {
    runtime: Runtime,
    dispatch: Handle<Dispatch>,
}

impl Engine {
    /// An engine on the journal in this folder, which is made when it is not there.
    ///
    /// ```
    /// # async fn example() -> Result<(), leasehold::Error> {
    /// # let folder = tempfile::tempdir().expect("a temporary folder");
    /// # let path = folder.path().join("journal");
    /// let engine = leasehold::Engine::builder(&path).open().await?;
    /// assert_eq!(engine.dispatch().health().await?.status, "ok");
    /// engine.close().await;
    /// # Ok(())
    /// # }
    /// # tokio::runtime::Runtime::new().expect("a runtime").block_on(example()).expect("it works");
    /// ```
    #[must_use]
    pub fn builder(path: impl AsRef<Path>) -> EngineBuilder {
        EngineBuilder::new(Place::Folder(path.as_ref().to_path_buf()))
    }

    /// An engine on a journal in memory, for tests: nothing outlives the disk it is given.
    #[must_use]
    pub fn in_memory(disk: &MemoryDisk) -> EngineBuilder {
        EngineBuilder::new(Place::Memory(disk.clone()))
    }

    /// Flow `dispatch`: change events to the CMS.
    #[must_use]
    pub fn dispatch(&self) -> &Handle<Dispatch> {
        &self.dispatch
    }

    /// The head of what is durable. Kept elsewhere, it proves later that nothing was taken away.
    #[must_use]
    pub fn head(&self) -> Head {
        self.runtime.reader().head()
    }

    /// Bytes the journal takes on disk.
    ///
    /// # Errors
    /// [`Error::Journal`] when the disk does not answer.
    pub fn disk_bytes(&self) -> Result<u64, Error> {
        Ok(self.runtime.reader().disk_bytes()?)
    }

    /// Waits for the requests under way, brings the anchor up to date, and stops. Requests that come
    /// later are answered [`Error::Stopped`].
    pub async fn close(self) {
        self.runtime.close().await;
    }
}

impl std::fmt::Debug for EngineBuilder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("EngineBuilder")
            .field("durability", &self.durability)
            .finish_non_exhaustive()
    }
}
