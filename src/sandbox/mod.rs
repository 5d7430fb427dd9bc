//! A local CMS, source runtime and receiver that speak the contract, for trying things out and for
//! tests.
//!
//! Owns the server, its address, its clock and its end. Loopback only unless told otherwise. It keeps
//! what it accepted, answers like the reference's servers (contract 3.2 to 3.5, 4.6), and misbehaves on
//! demand.
//!
//! | module | owns |
//! | --- | --- |
//! | [`book`] | what was received and accepted |
//! | [`ledger`] | the file that survives a restart, and the log of what arrived |
//! | [`faults`] | misbehaviour, drawn from a seed |
//! | [`cms`] | the CMS's operations on a change |
//! | [`cms_removals`] | the CMS's cancellation, tombstone and status |
//! | [`lifecycle`] | how far a change has come |
//! | [`surface`] | checks and refusals the source runtime and the receiver share |
//! | [`source`] | the source runtime's operations |
//! | [`receiver`] | the receiver's operations |
//! | [`inbox`] | what the receiver's worker does about the notifications it took |
//! | [`processing`] | the work on one notification |
//! | [`handler`] | what the receiver's host makes of a notification |
//! | [`reply`] | answers in their canonical form |

pub mod book;
pub mod cms;
pub mod cms_removals;
mod exact;
pub mod faults;
pub mod handler;
pub mod inbox;
pub mod ledger;
pub mod lifecycle;
pub mod processing;
pub mod receiver;
pub mod reply;
pub mod source;
pub mod surface;

pub use surface::Wrong;
pub(crate) use surface::{Surface, admitted, bound, site_event};

use crate::clock::{Clock, SystemClock};
use crate::http::HmacSha256Signer;
use axum::Router;
use axum::body::Body;
use axum::extract::{DefaultBodyLimit, State};
use axum::http::{HeaderValue, Response, StatusCode, header};
use axum::routing::get;
use axum::serve::ListenerExt as _;
use book::{Book, BookInvalid, Summary};
use faults::{Faults, Rates};
use handler::Handling;
use inbox::Rules;
use leasehold_actors::contract::MESSAGE_BYTES_MAX;
use leasehold_actors::contract::capabilities;
use leasehold_actors::contract::change::Change;
use leasehold_actors::contract::payload::Payload;
use leasehold_actors::contract::text::{Sha256, Token};
use leasehold_actors::contract::time::Timestamp;
use ledger::{Arrival, Arrived};
use reply::{count, json, object, raw, text};
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
    /// The file in which it remembers what it accepted, and how far its receiver came.
    pub state: Option<PathBuf>,
    /// Where misbehaviour is drawn from.
    pub seed: u64,
    /// Added to every answer, in milliseconds.
    pub latency_milliseconds: u64,
    /// How often it misbehaves.
    pub rates: Rates,
    /// How its receiver works on what it took.
    pub inbox: Rules,
    /// How often the receiver's handler misbehaves.
    pub handler: Rates<Handling>,
}

impl Default for SandboxOptions {
    fn default() -> Self {
        Self {
            listen: SocketAddr::from(([127, 0, 0, 1], 0)),
            state: None,
            seed: 1,
            latency_milliseconds: 0,
            rates: Rates::default(),
            inbox: Rules::default(),
            handler: Rates::default(),
        }
    }
}

/// A sandbox that cannot be started. The message names no path.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum SandboxInvalid {
    /// The address is taken or not ours.
    #[error("sandbox_listen: the address cannot be listened on")]
    Listen,
    /// The state file cannot be used.
    #[error("{0}")]
    State(#[from] BookInvalid),
    /// The clock gives no time.
    #[error("sandbox_clock: the clock gives no time")]
    Clock,
}

/// What all requests share.
pub(crate) struct World {
    book: Mutex<Book>,
    faults: Mutex<Faults>,
    pub(crate) signer: HmacSha256Signer,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) latency_milliseconds: u64,
    pub(crate) inbox: Rules,
    received: watch::Sender<u64>,
}

impl World {
    /// Notes one change, before anything is answered.
    pub(crate) fn receive(&self, change: &Change) {
        self.book().receive(change);
        self.received.send_modify(|count| *count += 1);
    }

    /// Notes one document of another kind, before anything is answered.
    pub(crate) fn arrive(&self, operation: Arrived, id: &Token, sha256: Sha256) {
        self.book().arrive(operation, id, sha256);
        self.received.send_modify(|count| *count += 1);
    }

    /// The time of a request.
    pub(crate) fn now(&self) -> Result<Timestamp, Wrong> {
        Timestamp::new(self.clock.now_seconds()).ok_or(Wrong::Unavailable)
    }

    pub(crate) fn book(&self) -> MutexGuard<'_, Book> {
        self.book.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn faults(&self) -> MutexGuard<'_, Faults> {
        self.faults.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn router(world: Arc<World>) -> Router {
    Router::new()
        .route("/sandbox/summary", get(summary))
        .route("/sandbox/received", get(received))
        .merge(cms::routes())
        .merge(cms_removals::routes())
        .merge(source::routes())
        .merge(receiver::routes())
        .layer(DefaultBodyLimit::max(MESSAGE_BYTES_MAX + 1))
        .with_state(world)
}

async fn summary(State(world): State<Arc<World>>) -> Response<Body> {
    let summary = world.book().summary();
    json(
        StatusCode::OK,
        &object(vec![
            ("received", count(summary.received)),
            ("events", count(summary.events)),
            ("accepted", count(summary.accepted)),
            ("differing", count(summary.differing)),
            ("source_requests", count(summary.source_requests)),
            ("removals", count(summary.removals)),
            ("notifications", count(summary.notifications)),
        ]),
    )
}

/// Every body that arrived, one line each, in the order in which it arrived first.
async fn received(State(world): State<Arc<World>>) -> Response<Body> {
    let lines: String = world.book().arrivals().iter().map(arrival_line).collect();
    let mut response = raw(StatusCode::OK, lines);
    let kind = HeaderValue::from_static("application/x-ndjson");
    response.headers_mut().insert(header::CONTENT_TYPE, kind);
    response
}

fn arrival_line(arrival: &Arrival) -> String {
    let value = object(vec![
        ("operation", text(arrival.operation.name())),
        ("id", text(&arrival.id)),
        ("sha256", text(&arrival.sha256.to_string())),
        ("times", count(arrival.times)),
    ]);
    format!("{}\n", Payload::of(&value).as_str())
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

/// Digest of the capability document of the sandbox's receiver, to pin.
#[must_use]
pub fn receiver_digest() -> Option<Sha256> {
    capabilities::digest(&receiver::DOCUMENT)
}

/// Digest of the capability document of the sandbox's source runtime, to pin.
#[must_use]
pub fn source_digest() -> Option<Sha256> {
    capabilities::digest(&source::DOCUMENT)
}

impl Sandbox {
    /// Starts one, with the demo key.
    ///
    /// # Errors
    /// [`SandboxInvalid`].
    pub async fn start(options: SandboxOptions) -> Result<Self, SandboxInvalid> {
        Self::start_at(options, SystemClock).await
    }

    /// The same by another clock than the system's.
    ///
    /// # Errors
    /// [`SandboxInvalid`].
    pub async fn start_at(
        options: SandboxOptions,
        clock: impl Clock,
    ) -> Result<Self, SandboxInvalid> {
        let now = Timestamp::new(clock.now_seconds()).ok_or(SandboxInvalid::Clock)?;
        let book = Book::open(options.state, now)?;
        let listener =
            TcpListener::bind(options.listen).await.map_err(|_| SandboxInvalid::Listen)?;
        let address = listener.local_addr().map_err(|_| SandboxInvalid::Listen)?;
        let key_id = Token::new(DEMO_KEY_ID).expect("a token of ours");
        let key = SecretSlice::from(DEMO_KEY.to_vec());
        let world = Arc::new(World {
            book: Mutex::new(book),
            faults: Mutex::new(Faults::new(options.seed, options.rates, options.handler)),
            signer: HmacSha256Signer::new(key_id, key).expect("the demo key is not empty"),
            clock: Arc::new(clock),
            latency_milliseconds: options.latency_milliseconds,
            inbox: options.inbox,
            received: watch::Sender::new(0),
        });
        let (stop, stopped) = oneshot::channel::<()>();
        let router = router(Arc::clone(&world));
        // An answer of several writes must not wait for the acknowledgement of its first.
        let listener = listener.tap_io(|connection| {
            if connection.set_nodelay(true).is_err() {
                tracing::debug!("a connection sends small pieces late");
            }
        });
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

    /// Every body that arrived, in the order in which it arrived first.
    #[must_use]
    pub fn arrivals(&self) -> Vec<Arrival> {
        self.world.book().arrivals().to_vec()
    }

    /// Counts the documents that arrived, as they arrive: changes, removals, source requests and
    /// notifications.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_line_names_what_arrived() {
        let arrival = Arrival {
            operation: Arrived::SourceTombstone,
            id: "t-1".into(),
            sha256: Sha256::of(b""),
            times: 2,
        };
        assert_eq!(
            arrival_line(&arrival),
            "{\"id\":\"t-1\",\"operation\":\"source_tombstone\",\"sha256\":\
             \"e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855\",\"times\":2}\n"
        );
    }
}
