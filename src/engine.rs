//! The engine: one open journal and the actors over it.
//!
//! Owns its handles and its end. Must not decide anything about a record.

use crate::builder::{EngineBuilder, Place};
use crate::clock::{Clock, Entropy};
use crate::error::Error;
use crate::handle::{Handle, Terms};
use crate::shutdown::Stopper;
use leasehold_actors::contract::time::Timestamp;
use leasehold_actors::flows::Answers;
use leasehold_actors::flows::delivery::Delivery;
use leasehold_actors::flows::dispatch::Dispatch;
use leasehold_actors::flows::lifecycle::Lifecycle;
use leasehold_actors::flows::notification::Notify;
use leasehold_actors::flows::processing::Processing;
use leasehold_actors::shell::{Port, Runtime, RuntimeOptions, Steering};
use leasehold_journal::memory::MemoryDisk;
use leasehold_journal::{Head, StoreReader};
use std::num::NonZeroU32;
use std::path::Path;
use std::sync::Arc;
use tokio::sync::watch;

/// A running engine. There is one per journal.
///
/// Its handles are `Send + Sync` and awaited by any executor. Dropping it stops it; [`Self::close`]
/// waits for the requests under way first, [`Self::shutdown`] for calls as well, as long as it is told to.
#[derive(Debug)]
pub struct Engine {
    runtime: Runtime,
    dispatch: Handle<Dispatch>,
    lifecycle: Handle<Lifecycle>,
    notification: Handle<Notify>,
    processing: Handle<Processing>,
    delivery: Handle<Delivery>,
    /// Whether the journal had no record when it was opened.
    first_life: bool,
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

    /// An engine on a journal that several engines share, in a schema of a PostgreSQL database; both have to
    /// be there, or the schema is made where the user may make one. All of them go by the server's clock.
    ///
    /// Leases of an earlier life run out here: nobody knows whether the engine they were given to is gone.
    #[cfg(feature = "postgres")]
    #[must_use]
    pub fn on_server(place: leasehold_journal::postgres::PostgresPlace) -> EngineBuilder {
        EngineBuilder::new(Place::Server(Box::new(place)))
    }

    pub(crate) fn new(
        runtime: Runtime,
        options: RuntimeOptions,
        longest_call_seconds: Option<f64>,
        unclean_losses_max: Option<NonZeroU32>,
        clock: &Arc<dyn Clock>,
        entropy: &Arc<dyn Entropy>,
    ) -> Self {
        fn handle<F: Answers>(
            port: &Port<F>,
            terms: Terms,
            (clock, entropy): (&Arc<dyn Clock>, &Arc<dyn Entropy>),
            stopper: &Stopper,
        ) -> Handle<F> {
            let outside = (Arc::clone(clock), Arc::clone(entropy));
            Handle::new(port.clone(), terms, outside, stopper.clone())
        }
        let (outside, stopper) = ((clock, entropy), Stopper::new());
        let ports = runtime.ports();
        let none = Terms { unclean_losses_max, ..Terms::default() };
        let receiver = Terms { expected: options.processing.expected, ..none };
        let source = Terms { expected: options.delivery.expected, longest_call_seconds, ..none };
        Self {
            first_life: runtime.reader().head().sequence == 0,
            dispatch: handle(&ports.dispatch, none, outside, &stopper),
            lifecycle: handle(&ports.lifecycle, none, outside, &stopper),
            notification: handle(&ports.notification, none, outside, &stopper),
            processing: handle(&ports.processing, receiver, outside, &stopper),
            delivery: handle(&ports.delivery, source, outside, &stopper),
            runtime,
        }
    }

    /// Flow `dispatch`: change events to the CMS.
    #[must_use]
    pub fn dispatch(&self) -> &Handle<Dispatch> {
        &self.dispatch
    }

    /// Flow `lifecycle`: accepted changes, watched until the CMS says how they ended.
    #[must_use]
    pub fn lifecycle(&self) -> &Handle<Lifecycle> {
        &self.lifecycle
    }

    /// Flow `notification`: how changes ended, told to the receiver.
    #[must_use]
    pub fn notification(&self) -> &Handle<Notify> {
        &self.notification
    }

    /// Flow `processing`: notifications, watched until the receiver has acted on them.
    #[must_use]
    pub fn processing(&self) -> &Handle<Processing> {
        &self.processing
    }

    /// Flow `delivery`: changes and removals to the source runtime.
    #[must_use]
    pub fn delivery(&self) -> &Handle<Delivery> {
        &self.delivery
    }

    /// Pausing and resuming.
    pub(crate) fn steering(&self) -> &Steering {
        &self.runtime.ports().steering
    }

    /// How many settled records are just being registered with the next flow.
    #[must_use]
    pub fn handing_over(&self) -> u64 {
        self.runtime.handing_over()
    }

    /// That number, for those who wait until it is 0.
    #[must_use]
    pub fn hand_overs(&self) -> watch::Receiver<u64> {
        self.runtime.hand_overs()
    }

    /// Whether the engine started from the checkpoint that the last close left, and not from reading and
    /// verifying the whole journal. A checkpoint is used at most once, only under the same settings, and
    /// only while journal and anchors are as they were left; without one an open takes longer and comes
    /// to the same. What it read it verified either way; `leasehold audit` verifies everything.
    #[must_use]
    pub fn resumed(&self) -> bool {
        self.runtime.resumed()
    }

    /// How far the clock is behind the latest time that was in the journal when it was opened, in
    /// seconds; 0 for a clock that did not go back. Meanwhile settlements of records that were touched
    /// at a later time are refused with `clock_regressed` (D3), and what is due later waits.
    #[must_use]
    pub fn clock_behind_seconds(&self) -> f64 {
        let now = self.dispatch.clock().now_seconds();
        let latest = self.runtime.latest().map_or(0.0, Timestamp::seconds);
        if now < latest { latest - now } else { 0.0 }
    }

    /// Whether every hand-over so far was written. One that was not waits for the next open; it is
    /// derived from the journal, so nothing is lost. A successor that is there already, under other terms or
    /// damaged, waits for nothing.
    ///
    /// # Errors
    /// The first failure: [`Error::Journal`]; [`Error::Busy`] or [`Error::Stopped`] when the next flow did
    /// not take it.
    pub fn handed_over(&self) -> Result<(), Error> {
        match self.runtime.not_handed_over() {
            None => Ok(()),
            // Only what concerns no record is kept, so whose prefix a code would have does not matter.
            Some(failure) => Err(Error::of::<Lifecycle>(failure.clone())),
        }
    }

    /// The head of what is durable. Kept elsewhere, it proves later that nothing was taken away.
    #[must_use]
    pub fn head(&self) -> Head {
        self.runtime.reader().head()
    }

    /// Whether no engine had called anybody for this journal before.
    pub(crate) fn is_first_life(&self) -> bool {
        self.first_life
    }

    /// The clock everything is written by: the system's, or the server's where engines share the journal. The
    /// clients' `with_clock` takes it, so that requests are signed by the same.
    #[must_use]
    pub fn clock(&self) -> Arc<dyn Clock> {
        Arc::clone(self.dispatch.clock())
    }

    /// Reads the journal beside the writer.
    pub(crate) fn reader(&self) -> &Arc<dyn StoreReader> {
        self.runtime.reader()
    }

    /// Bytes the journal takes on disk. Blocking: the disk is asked for each of its files.
    ///
    /// # Errors
    /// [`Error::Journal`] when the disk does not answer.
    pub fn disk_bytes(&self) -> Result<u64, Error> {
        Ok(self.runtime.reader().disk_bytes()?)
    }

    /// Waits for the requests under way, brings the anchor up to date, leaves a checkpoint for the next
    /// open, and stops. Requests that come later are answered [`Error::Stopped`].
    pub async fn close(self) {
        self.runtime.close().await;
    }
}
