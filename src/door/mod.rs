//! The door: a running engine over HTTP, for the machine it runs on.
//!
//! Owns which requests there are. Must hold no rule: what a document may look like and what may happen
//! to a record is decided where it always is.
//!
//! It listens on a loopback address or on a Unix socket and speaks no TLS: to be reached from elsewhere
//! it needs a proxy that does, on the same machine.
//!
//! | request | answer |
//! | --- | --- |
//! | `POST /v1/dispatch`, `POST /v1/delivery` | registers the document; 201, or 200 when it was known |
//! | `GET /v1/{flow}/{id}` | one record's status; of delivery `{operation}/{id}` |
//! | `GET /v1/{flow}/{id}/explain` | why it stands where it stands, as `leasehold explain --json` says it |
//! | `GET /v1/{flow}/{id}/history` | the same in words, its newest 1,000 events, and its status |
//! | `POST /v1/{flow}/{id}/{requeue,dismiss,repin}` | what an operator does, with `by` and `why` |
//! | `POST /v1/pause`, `POST /v1/resume` | pauses a `scope` (`flow/NAME`, `site/ID`, `destination/NAME`), with `by` and `why` |
//! | `GET /v1/records` | a page of records: `flow`, `state`, `site`, `after`, `limit` |
//! | `GET /v1/health`, `GET /v1/overview` | every flow's health; [`crate::overview::Overview`] |
//! | `GET /metrics` | everything that is counted, as Prometheus reads it |
//! | `GET /healthz` | 200 when all is well, 503 when not; for anybody |
//! | `GET /`, `GET /stuck`, `GET /records/{flow}/{id}`, `/login` | pages |
//!
//! | module | owns |
//! | --- | --- |
//! | [`listen`], `socket` | addresses, sockets, connections |
//! | `guard` | who may ask, and how much at once |
//! | [`session`] | tokens and sessions of browsers |
//! | [`desk`] | what is asked of the engine |
//! | `records`, `pauses`, `standing` | the requests about records, about what is paused, about everything |
//! | `why`, `history` | one record's explanation, and what happened to it, as JSON and on its page |
//! | `page`, `table`, `login` | pages, the tables in them, and how a browser gets to see them |
//! | [`answer`] | the form of answers and refusals |

pub mod answer;
pub mod desk;
mod guard;
mod history;
pub mod listen;
mod login;
mod page;
mod pauses;
mod records;
pub mod session;
#[cfg(unix)]
mod socket;
mod standing;
mod table;
mod why;

use crate::clock::Entropy;
use crate::destination::Destination;
use crate::engine::Engine;
use crate::metrics::Prometheus;
use answer::Refused;
use axum::Router;
use axum::extract::DefaultBodyLimit;
use axum::middleware::from_fn_with_state;
use axum::routing::{get, post};
use desk::{Activity, Ceilings, Desk};
use leasehold_actors::contract::MESSAGE_BYTES_MAX;
use leasehold_actors::explain;
use listen::{Listening, Place};
use session::{Sessions, Token};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use tokio::sync::Semaphore;

/// Requests worked on at once; more are turned away.
const REQUESTS_MAX: usize = 64;
/// Largest body of a login, in bytes.
const LOGIN_BYTES_MAX: usize = 16 * 1024;

/// A door that cannot be opened. The message names no path and no address.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DoorInvalid {
    /// An address others can reach.
    #[error("door_not_loopback: only a loopback address; from elsewhere through a proxy with TLS")]
    NotLoopback,
    /// An address without a token.
    #[error("door_token_missing: a door on an address needs a token; one on a socket does not")]
    TokenMissing,
    /// No token.
    #[error("door_token_invalid: a token is 16 to 4096 visible ASCII characters")]
    TokenInvalid,
    /// The address is taken or not ours.
    #[error("door_listen: the address or the socket cannot be listened on")]
    Listen,
    /// There is something else at the socket's place, or somebody listens there.
    #[error("door_socket_taken: something else is there, or another engine listens")]
    SocketTaken,
}

/// Where a door is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Address {
    /// On a loopback address; port 0 picks a free one.
    Tcp(SocketAddr),
    /// At a socket of this file system, for its owner alone (0600); only where there are such sockets.
    Socket(PathBuf),
}

/// How a door is set up.
pub struct DoorOptions {
    /// Where it is.
    pub address: Address,
    /// What a caller has to know; needed on an address.
    pub token: Option<Token>,
    /// The ceilings of what is registered here.
    pub ceilings: Ceilings,
    /// What the workers did, where they tell.
    pub activity: Arc<Activity>,
    /// The other sides, where calls to them are limited.
    pub destinations: Vec<Destination>,
    /// What `/metrics` reads; without it there is no such page.
    pub metrics: Option<Prometheus>,
    /// Where sessions are drawn from.
    pub entropy: Arc<dyn Entropy>,
}

impl std::fmt::Debug for DoorOptions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("DoorOptions").field("address", &self.address).finish_non_exhaustive()
    }
}

/// What all requests share.
pub(crate) struct Inside {
    pub(crate) desk: Desk,
    pub(crate) token: Option<Token>,
    pub(crate) sessions: Mutex<Sessions>,
    pub(crate) entropy: Arc<dyn Entropy>,
    pub(crate) metrics: Option<Prometheus>,
    /// Whether names of hosts are looked at: a browser can be made to ask a loopback address.
    pub(crate) on_address: bool,
    pub(crate) requests: Semaphore,
}

/// A running door.
///
/// ```
/// # #[tokio::main] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let engine = leasehold::Engine::in_memory(&leasehold::MemoryDisk::new()).open().await?;
/// use leasehold::door::desk::{Activity, Ceilings};
/// use leasehold::door::{Address, Door, DoorOptions, session::Token};
///
/// let options = DoorOptions {
///     address: Address::Tcp("127.0.0.1:0".parse()?),
///     token: Some(Token::new("a-host-reads-its-own-from-a-file")?),
///     ceilings: Ceilings {
///         dispatch_max_attempts: 5,
///         delivery_max_attempts: 5,
///         source_max_attempts: 5,
///     },
///     activity: std::sync::Arc::new(Activity::new(&engine)),
///     destinations: Vec::new(),
///     metrics: None,
///     entropy: std::sync::Arc::new(leasehold::SystemEntropy),
/// };
/// let door = Door::open(&engine, options).await?;
/// println!("listening on {:?}", door.address());
/// door.close().await;
/// # Ok(()) }
/// ```
#[derive(Debug)]
pub struct Door {
    listening: Listening,
}

impl Door {
    /// Opens a door to this engine.
    ///
    /// # Errors
    /// [`DoorInvalid`].
    pub async fn open(engine: &Engine, options: DoorOptions) -> Result<Self, DoorInvalid> {
        if matches!(options.address, Address::Tcp(_)) && options.token.is_none() {
            return Err(DoorInvalid::TokenMissing);
        }
        let place = Place::bind(&options.address).await?;
        let desk = Desk::new(
            engine,
            (options.activity, options.destinations),
            options.ceilings,
            typed(&place),
        );
        let inside = Arc::new(Inside {
            desk,
            token: options.token,
            sessions: Mutex::default(),
            entropy: options.entropy,
            metrics: options.metrics,
            on_address: place.address().is_some(),
            requests: Semaphore::new(REQUESTS_MAX),
        });
        let idle = Arc::clone(&inside);
        let listening = Listening::start(place, router(inside), move || idle.desk.let_go());
        Ok(Self { listening })
    }

    /// Where it listens; `None` at a socket.
    #[must_use]
    pub fn address(&self) -> Option<SocketAddr> {
        self.listening.address()
    }

    /// Takes no more requests, waits for those under way (no longer than they may take), and ends.
    pub async fn close(self) {
        self.listening.close().await;
    }
}

/// How its requests are typed on a command line.
fn typed(place: &Place) -> explain::Place {
    match place {
        Place::Tcp { address, .. } => {
            let program = "curl -H \"Authorization: Bearer $LEASEHOLD_TOKEN\"";
            explain::Place::door(program, &format!("http://{address}"))
        }
        #[cfg(unix)]
        Place::Socket { path, .. } => {
            let path = explain::action::quoted(&path.display().to_string());
            let program = format!("curl --unix-socket {path}");
            explain::Place::door(&program, "http://localhost")
        }
    }
}

fn router(inside: Arc<Inside>) -> Router {
    // Anybody may send something here.
    let login = get(login::show).post(login::begin).layer(DefaultBodyLimit::max(LOGIN_BYTES_MAX));
    Router::new()
        .route("/v1/dispatch", post(records::register_change))
        .route("/v1/delivery", post(records::register_document))
        .route("/v1/records", get(records::list))
        .route("/v1/health", get(standing::health))
        .route("/v1/overview", get(standing::overview))
        .route("/v1/pause", post(pauses::pause))
        .route("/v1/resume", post(pauses::resume))
        .route("/v1/{flow}/{*rest}", get(records::read).post(records::intervene))
        .route("/metrics", get(standing::metrics))
        .route("/healthz", get(standing::healthz))
        .route("/", get(page::dashboard))
        .route("/stuck", get(page::stuck))
        .route("/records/{flow}/{*id}", get(page::record))
        .route("/login", login)
        .fallback(async || Refused::Route)
        .method_not_allowed_fallback(async || Refused::Method)
        .layer(DefaultBodyLimit::max(MESSAGE_BYTES_MAX))
        .layer(from_fn_with_state(Arc::clone(&inside), guard::guard))
        .with_state(inside)
}
