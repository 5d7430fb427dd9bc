//! A local CMS that speaks the contract, for trying things out and for tests.
//!
//! Owns the server, its address, and its end. Loopback only unless told otherwise. It keeps what it
//! accepted, answers like the reference's server (contract 3.2), and misbehaves on demand.
//!
//! | module | owns |
//! | --- | --- |
//! | [`book`] | what was received and accepted, and the file that survives a restart |
//! | [`faults`] | misbehaviour, drawn from a seed |
//! | [`cms`] | the CMS's operations |
//! | [`lifecycle`] | how far a change has come |
//! | [`reply`] | answers in their canonical form |

pub mod book;
pub mod cms;
pub mod faults;
pub mod lifecycle;
pub mod reply;

use crate::clock::{Clock, SystemClock};
use crate::http::HmacSha256Signer;
use book::{Book, BookInvalid, Summary};
use faults::{Faults, Rates};
use leasehold_actors::contract::change::Change;
use leasehold_actors::contract::text::Token;
use secrecy::SecretSlice;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::net::TcpListener;
use tokio::sync::{oneshot, watch};
use tokio::task::JoinHandle;

/// The key a sandbox signs with where none is given. Not a secret: it protects nothing.
pub const DEMO_KEY: &[u8] = b"leasehold-sandbox-demo-key-not-a-secret";
/// The id of that key.
pub const DEMO_KEY_ID: &str = "sandbox";

/// How a sandbox is set up.
#[derive(Debug, Clone)]
pub struct SandboxOptions {
    /// Where it listens; port 0 picks a free one.
    pub listen: SocketAddr,
    /// The file in which it remembers what it accepted.
    pub state: Option<PathBuf>,
    /// Where misbehaviour is drawn from.
    pub seed: u64,
    /// Added to every answer, in milliseconds.
    pub latency_milliseconds: u64,
    /// How often it misbehaves.
    pub rates: Rates,
}

impl Default for SandboxOptions {
    fn default() -> Self {
        Self {
            listen: SocketAddr::from(([127, 0, 0, 1], 0)),
            state: None,
            seed: 1,
            latency_milliseconds: 0,
            rates: Rates::default(),
        }
    }
}

/// A sandbox that cannot be started. The message names no path.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum SandboxInvalid {
    /// The address is taken or not ours.
    #[error("sandbox_listen: the address cannot be listened on")]
    Listen,
    /// The state file cannot be read or written.
    #[error("{0}")]
    State(#[from] BookInvalid),
}

/// What all requests share.
pub(crate) struct World {
    book: Mutex<Book>,
    faults: Mutex<Faults>,
    pub(crate) signer: HmacSha256Signer,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) latency_milliseconds: u64,
    received: watch::Sender<u64>,
}

impl World {
    /// Notes one change, before anything is answered.
    pub(crate) fn receive(&self, change: &Change) {
        self.book().receive(change);
        self.received.send_modify(|count| *count += 1);
    }

    pub(crate) fn book(&self) -> MutexGuard<'_, Book> {
        self.book.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn faults(&self) -> MutexGuard<'_, Faults> {
        self.faults.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A running sandbox.
pub struct Sandbox {
    address: SocketAddr,
    world: Arc<World>,
    stop: Option<oneshot::Sender<()>>,
    server: JoinHandle<()>,
}

impl std::fmt::Debug for Sandbox {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Sandbox").field("address", &self.address).finish_non_exhaustive()
    }
}

impl Sandbox {
    /// Starts one, with the demo key.
    ///
    /// # Errors
    /// [`SandboxInvalid`].
    pub async fn start(options: SandboxOptions) -> Result<Self, SandboxInvalid> {
        let book = Book::open(options.state)?;
        let listener =
            TcpListener::bind(options.listen).await.map_err(|_| SandboxInvalid::Listen)?;
        let address = listener.local_addr().map_err(|_| SandboxInvalid::Listen)?;
        let key_id = Token::new(DEMO_KEY_ID).expect("a token of ours");
        let key = SecretSlice::from(DEMO_KEY.to_vec());
        let world = Arc::new(World {
            book: Mutex::new(book),
            faults: Mutex::new(Faults::new(options.seed, options.rates)),
            signer: HmacSha256Signer::new(key_id, key).expect("the demo key is not empty"),
            clock: Arc::new(SystemClock),
            latency_milliseconds: options.latency_milliseconds,
            received: watch::Sender::new(0),
        });
        let (stop, stopped) = oneshot::channel::<()>();
        let router = cms::router(Arc::clone(&world));
        let server = tokio::spawn(async move {
            // Both a signal and a dropped sender end it.
            let ended = async { drop(stopped.await) };
            if axum::serve(listener, router).with_graceful_shutdown(ended).await.is_err() {
                tracing::warn!(code = "sandbox_listen", "the sandbox ended early");
            }
        });
        Ok(Self { address, world, stop: Some(stop), server })
    }

    /// Where it listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The origin clients call.
    #[must_use]
    pub fn origin(&self) -> String {
        format!("http://{}", self.address)
    }

    /// What it has seen so far.
    #[must_use]
    pub fn summary(&self) -> Summary {
        self.world.book().summary()
    }

    /// Counts the changes that arrived, as they arrive.
    #[must_use]
    pub fn received(&self) -> watch::Receiver<u64> {
        self.world.received.subscribe()
    }

    /// Ends it; open connections are cut.
    pub async fn stop(mut self) {
        drop(self.stop.take());
        self.server.abort();
        if let Err(error) = (&mut self.server).await
            && error.is_panic()
        {
            tracing::warn!(code = "sandbox_listen", "the sandbox ended with a panic");
        }
    }
}
