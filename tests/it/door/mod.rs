//! The door over real connections: an engine in memory at a manual clock, asked as a client would.

mod guarding;
mod pages;
pub(crate) mod program;
mod records;
mod standing;
mod why;

use crate::support::snapshots;
use leasehold::door::desk::{Activity, Ceilings};
use leasehold::door::session::Token;
use leasehold::door::{Address, Door, DoorOptions};
use leasehold::metrics::Prometheus;
use leasehold::{Engine, Entropy, ManualClock, MemoryDisk, SourceRuntime, SystemEntropy};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};
use tempfile::TempDir;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::{TcpStream, UnixStream};

pub(crate) const TOKEN: &str = "canary-token-of-the-door";

/// The same bytes always, so that ids and heads are the same in every run.
struct Fixed;

impl Entropy for Fixed {
    fn fill(&self, bytes: &mut [u8]) {
        bytes.fill(7);
    }
}

/// The recorder of this process, which all tests share.
fn prometheus() -> Prometheus {
    static INSTALLED: OnceLock<Prometheus> = OnceLock::new();
    INSTALLED.get_or_init(|| Prometheus::install().expect("no other test sets one")).clone()
}

/// An engine with a door.
pub(crate) struct Served {
    pub(crate) engine: Engine,
    pub(crate) clock: ManualClock,
    pub(crate) activity: Arc<Activity>,
    door: Door,
}

/// An answer.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) head: String,
    pub(crate) body: String,
}

impl Answer {
    pub(crate) fn json(&self) -> serde_json::Value {
        serde_json::from_str(&self.body).expect("JSON")
    }

    pub(crate) fn code(&self) -> (u16, String) {
        let code = self.json()["code"].as_str().expect("a code").to_owned();
        (self.status, code)
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let mut lines = self.head.lines().filter_map(|line| line.split_once(": "));
        lines.find(|(key, _)| key.eq_ignore_ascii_case(name)).map(|(_, value)| value)
    }
}

impl Served {
    /// At a free port, behind the token.
    pub(crate) async fn at_port() -> Self {
        Self::on(&MemoryDisk::default(), "c").await
    }

    /// At a socket in a folder of its own, without a token.
    pub(crate) async fn at_socket() -> (Self, PathBuf, TempDir) {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = folder.path().join("door.sock");
        let disk = MemoryDisk::default();
        (Self::at(&disk, "c", Address::Socket(path.clone()), None).await, path, folder)
    }

    /// At a free port, behind the token, on this disk, with a digest of this digit.
    pub(crate) async fn on(disk: &MemoryDisk, digest: &str) -> Self {
        let address = Address::Tcp("127.0.0.1:0".parse().expect("an address"));
        Self::at(disk, digest, address, Some(Token::new(TOKEN).expect("it is one"))).await
    }

    async fn at(disk: &MemoryDisk, digest: &str, address: Address, token: Option<Token>) -> Self {
        let clock = ManualClock::at(1_800_000_000.0);
        let source =
            SourceRuntime { capabilities_sha256: digest.repeat(64), longest_call_seconds: 60.0 };
        let engine = Engine::in_memory(disk)
            .clock(clock.clone())
            .entropy(Fixed)
            .source_runtime(source)
            .open()
            .await
            .expect("it opens");
        let activity = Arc::new(Activity::new(&engine));
        let options = DoorOptions {
            destinations: Vec::new(),
            address,
            token,
            ceilings: Ceilings {
                dispatch_max_attempts: 5,
                delivery_max_attempts: 5,
                source_max_attempts: 5,
            },
            activity: Arc::clone(&activity),
            metrics: Some(prometheus()),
            entropy: Arc::new(SystemEntropy),
        };
        let door = Door::open(&engine, options).await.expect("it opens");
        Self { engine, clock, activity, door }
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.door.address().expect("an address")
    }

    /// Sends a request as it is, and reads all that comes.
    pub(crate) async fn raw(&self, request: &[u8]) -> Answer {
        let stream = TcpStream::connect(self.address()).await.expect("it listens");
        exchange(stream, request).await
    }

    /// Asks with the token.
    pub(crate) async fn get(&self, path: &str) -> Answer {
        self.ask("GET", path, &bearer(TOKEN), "").await
    }

    /// Sends a body with the token.
    pub(crate) async fn post(&self, path: &str, body: &str) -> Answer {
        self.ask("POST", path, &bearer(TOKEN), body).await
    }

    /// Asks with headers of the test's own.
    pub(crate) async fn ask(&self, method: &str, path: &str, headers: &str, body: &str) -> Answer {
        self.raw(request(method, path, headers, body).as_bytes()).await
    }

    /// A change that was given up after one attempt.
    pub(crate) async fn failed(&self, event_id: &str) {
        let dispatch = self.engine.dispatch();
        let change = crate::support::change(event_id);
        dispatch.enqueue(change, 5).await.expect("it is valid");
        let claim = dispatch.claim("worker-1", 600.0).await.expect("a claim").expect("due");
        dispatch.fail(&claim, "network").await.expect("it settles");
    }

    pub(crate) async fn close(self) {
        self.door.close().await;
        self.engine.close().await;
    }
}

pub(crate) fn bearer(token: &str) -> String {
    format!("Authorization: Bearer {token}\r\n")
}

pub(crate) fn request(method: &str, path: &str, headers: &str, body: &str) -> String {
    let length = body.len();
    format!(
        "{method} {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n{headers}\
         Content-Length: {length}\r\n\r\n{body}"
    )
}

/// Asks at a socket.
pub(crate) async fn at(socket: &std::path::Path, method: &str, path: &str, body: &str) -> Answer {
    let stream = UnixStream::connect(socket).await.expect("it listens");
    exchange(stream, request(method, path, "", body).as_bytes()).await
}

async fn exchange(mut stream: impl AsyncRead + AsyncWrite + Unpin, request: &[u8]) -> Answer {
    // A door that turns a large body away does not read the rest of it.
    let sent = stream.write_all(request).await;
    let mut answer = Vec::new();
    let read = stream.read_to_end(&mut answer).await;
    let answer = String::from_utf8(answer).expect("text");
    let (head, body) =
        answer.split_once("\r\n\r\n").unwrap_or_else(|| panic!("{sent:?} {read:?} {answer}"));
    let status = head.split(' ').nth(1).and_then(|it| it.parse().ok()).expect("a status");
    Answer { status, head: head.to_owned(), body: body.to_owned() }
}
