//! A local CMS, source runtime and receiver that speak the contract, for trying things out and for
//! tests.
//!
//! Owns the server, its address, its end, and the checks the source runtime and the receiver share.
//! Loopback only unless told otherwise. It keeps what it accepted, answers like the reference's
//! servers (contract 3.2 to 3.5), and misbehaves on demand.
//!
//! | module | owns |
//! | --- | --- |
//! | [`book`] | what was received and accepted |
//! | [`ledger`] | the file that survives a restart, and the log of what arrived |
//! | [`faults`] | misbehaviour, drawn from a seed |
//! | [`cms`] | the CMS's operations on a change |
//! | [`cms_removals`] | the CMS's cancellation, tombstone and status |
//! | [`lifecycle`] | how far a change has come |
//! | [`source`] | the source runtime's operations |
//! | [`receiver`] | the receiver's operations |
//! | [`reply`] | answers in their canonical form |

pub mod book;
pub mod cms;
pub mod cms_removals;
pub mod faults;
pub mod ledger;
pub mod lifecycle;
pub mod receiver;
pub mod reply;
pub mod source;

use crate::clock::{Clock, SystemClock};
use crate::http::HmacSha256Signer;
use axum::Router;
use axum::body::Body;
use axum::extract::{DefaultBodyLimit, State};
use axum::http::{HeaderMap, HeaderValue, Response, StatusCode, header};
use axum::routing::get;
use book::{Book, BookInvalid, Summary};
use faults::{Faults, Rates};
use leasehold_actors::contract::MESSAGE_BYTES_MAX;
use leasehold_actors::contract::capabilities::{self, Route};
use leasehold_actors::contract::change::Change;
use leasehold_actors::contract::json::Value;
use leasehold_actors::contract::payload::Payload;
use leasehold_actors::contract::text::{Sha256, Token};
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

    /// Notes one document of another kind, before anything is answered.
    pub(crate) fn arrive(&self, operation: Arrived, id: &Token, sha256: Sha256) {
        self.book().arrive(operation, id, sha256);
        self.received.send_modify(|count| *count += 1);
    }

    pub(crate) fn book(&self) -> MutexGuard<'_, Book> {
        self.book.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn faults(&self) -> MutexGuard<'_, Faults> {
        self.faults.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What is wrong with a request to the source runtime or the receiver. Its text is the last part of
/// the code.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Wrong {
    /// No document of this operation, or headers that do not agree with it.
    #[error("request_invalid")]
    Malformed,
    /// Nobody is named as the caller.
    #[error("authentication_required")]
    Unauthenticated,
    /// About an event that is not known, or that belongs to another site.
    #[error("event_unknown")]
    Unknown,
    /// Another body is known under this identity.
    #[error("idempotency_collision")]
    Collision,
    /// Another content type than the surface takes.
    #[error("content_type_invalid")]
    ContentType,
    /// What would be accepted cannot be written down.
    #[error("unavailable")]
    Unavailable,
}

impl Wrong {
    fn status(self) -> StatusCode {
        match self {
            Self::Malformed => StatusCode::BAD_REQUEST,
            Self::Unauthenticated => StatusCode::UNAUTHORIZED,
            Self::Unknown => StatusCode::NOT_FOUND,
            Self::Collision => StatusCode::CONFLICT,
            Self::ContentType => StatusCode::UNSUPPORTED_MEDIA_TYPE,
            Self::Unavailable => StatusCode::SERVICE_UNAVAILABLE,
        }
    }
}

/// How the source runtime and the receiver differ where they check and refuse alike.
pub(crate) struct Surface {
    pub(crate) error_schema: &'static str,
    pub(crate) code_prefix: &'static str,
    /// In lower case and without spaces.
    pub(crate) content_types: &'static [&'static str],
}

impl Surface {
    pub(crate) fn refuse(&self, wrong: Wrong) -> Response<Body> {
        let code = format!("{}.{wrong}", self.code_prefix);
        let value = object(vec![
            ("schema", text(self.error_schema)),
            ("status", text("BLOCK")),
            ("error_code", text(&code)),
        ]);
        json(wrong.status(), &value)
    }

    /// Answers with the capability document, in the envelope of its route.
    pub(crate) async fn offer(
        &self,
        world: &World,
        headers: &HeaderMap,
        (route, document): (&Route, &Value),
    ) -> Response<Body> {
        let answer = || {
            object(vec![
                ("schema", text(route.response_schema)),
                ("capabilities", document.clone()),
            ])
        };
        self.show(world, headers, answer).await
    }

    /// Answers a read without a body.
    pub(crate) async fn show(
        &self,
        world: &World,
        headers: &HeaderMap,
        answer: impl FnOnce() -> Value,
    ) -> Response<Body> {
        match authenticated(headers) {
            Ok(()) => cms::misbehaving(world, || json(StatusCode::OK, &answer())).await,
            Err(wrong) => self.refuse(wrong),
        }
    }
}

/// Whether a caller is named; who it is does not matter here.
fn authenticated(headers: &HeaderMap) -> Result<(), Wrong> {
    if headers.contains_key(header::AUTHORIZATION) { Ok(()) } else { Err(Wrong::Unauthenticated) }
}

/// What every request with a body has to pass before the body is looked at.
pub(crate) fn admitted(surface: &Surface, headers: &HeaderMap) -> Result<(), Wrong> {
    authenticated(headers)?;
    let given = single(headers, "content-type").map(|kind| kind.replace(' ', ""));
    let known = |kind: &String| surface.content_types.contains(&kind.to_ascii_lowercase().as_str());
    if given.as_ref().is_some_and(known) { Ok(()) } else { Err(Wrong::ContentType) }
}

/// Whether a header is there once and says this.
pub(crate) fn bound(headers: &HeaderMap, name: &str, value: &str) -> Result<(), Wrong> {
    if single(headers, name) == Some(value) { Ok(()) } else { Err(Wrong::Malformed) }
}

fn single<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    let mut values = headers.get_all(name).iter();
    let value = values.next()?.to_str().ok()?;
    values.next().is_none().then_some(value)
}

/// The event and the site a route's question is about; `None` when it is no question of this route.
pub(crate) fn site_event(value: &Value, route: &Route) -> Option<(Token, Token)> {
    let request = value.as_object()?;
    let named = Some(request.text("schema")?) == route.request_schema;
    if !named || !request.has_exactly(route.request_fields) {
        return None;
    }
    Some((Token::new(request.text("event_id")?)?, Token::new(request.text("site_id")?)?))
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
        let router = router(Arc::clone(&world));
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

    const ANY: Surface = Surface {
        error_schema: "s",
        code_prefix: "surface",
        content_types: &["application/json;charset=utf-8"],
    };

    fn headers(named: &[(&'static str, &'static str)]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in named.iter().copied() {
            headers.append(name, HeaderValue::from_static(value));
        }
        headers
    }

    #[test]
    fn a_caller_is_named_and_the_content_type_is_one_of_the_surface() {
        let (caller, kind) = ("authorization", "content-type");
        for (named, admits) in [
            (vec![(caller, "x"), (kind, "application/json;charset=utf-8")], Ok(())),
            (vec![(caller, "x"), (kind, "Application/JSON ; Charset=UTF-8")], Ok(())),
            (vec![(kind, "application/json;charset=utf-8")], Err(Wrong::Unauthenticated)),
            (vec![(caller, "x")], Err(Wrong::ContentType)),
            (vec![(caller, "x"), (kind, "application/json")], Err(Wrong::ContentType)),
            (
                vec![
                    (caller, "x"),
                    (kind, "application/json;charset=utf-8"),
                    (kind, "application/json;charset=utf-8"),
                ],
                Err(Wrong::ContentType),
            ),
        ] {
            assert_eq!(admitted(&ANY, &headers(&named)), admits, "{named:?}");
        }
    }

    #[test]
    fn a_binding_header_is_there_once_and_says_the_same() {
        let once = headers(&[("idempotency-key", "a")]);
        assert_eq!(bound(&once, "idempotency-key", "a"), Ok(()));
        assert_eq!(bound(&once, "idempotency-key", "b"), Err(Wrong::Malformed));
        assert_eq!(bound(&once, "other", "a"), Err(Wrong::Malformed));
        let twice = headers(&[("idempotency-key", "a"), ("idempotency-key", "a")]);
        assert_eq!(bound(&twice, "idempotency-key", "a"), Err(Wrong::Malformed));
    }

    #[test]
    fn each_refusal_has_its_status() {
        for (wrong, status) in [
            (Wrong::Malformed, 400),
            (Wrong::Unauthenticated, 401),
            (Wrong::Unknown, 404),
            (Wrong::Collision, 409),
            (Wrong::ContentType, 415),
            (Wrong::Unavailable, 503),
        ] {
            assert_eq!(ANY.refuse(wrong).status().as_u16(), status, "{wrong}");
        }
    }

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
