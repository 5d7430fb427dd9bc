//! Addresses, sockets, connections.
//!
//! Owns how a connection comes to be and how it ends: limits on how many there are and how long a head
//! may take, and a close that waits for what is under way. Must not know what is asked.

use super::guard::REQUEST_TIMEOUT;
#[cfg(unix)]
use super::socket;
use super::{Address, DoorInvalid};
use axum::Router;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use std::io;
use std::net::SocketAddr;
#[cfg(unix)]
use std::path::PathBuf;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
#[cfg(unix)]
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::task::{JoinHandle, JoinSet};

/// Connections at once; more wait until one ends.
const CONNECTIONS_MAX: usize = 256;
/// How long the head of a request may take, and how long a connection may be idle before it.
const HEAD_TIMEOUT: Duration = Duration::from_secs(10);
/// Largest head of a request, in bytes.
const HEAD_BYTES_MAX: usize = 32 * 1024;
/// How long a listener rests after the system refused a connection (no more files, mostly).
const REST: Duration = Duration::from_millis(100);
/// How often it is looked whether something may be let go.
const LOOK_EVERY: Duration = Duration::from_secs(60);

/// A place that is listened at.
#[derive(Debug)]
pub enum Place {
    /// An address.
    Tcp {
        /// The listener.
        listener: TcpListener,
        /// Where it is.
        address: SocketAddr,
    },
    /// A socket in the file system; removed in the end.
    #[cfg(unix)]
    Socket {
        /// The listener.
        listener: UnixListener,
        /// Where it is.
        path: PathBuf,
    },
}

impl Place {
    /// Begins to listen.
    ///
    /// # Errors
    /// [`DoorInvalid`].
    pub async fn bind(address: &Address) -> Result<Self, DoorInvalid> {
        match address {
            Address::Tcp(address) if !address.ip().is_loopback() => Err(DoorInvalid::NotLoopback),
            Address::Tcp(address) => {
                let refused = |_| DoorInvalid::Listen;
                let listener = TcpListener::bind(address).await.map_err(refused)?;
                let address = listener.local_addr().map_err(refused)?;
                Ok(Self::Tcp { listener, address })
            }
            #[cfg(unix)]
            Address::Socket(path) => {
                let listener = socket::bind(path).await?;
                Ok(Self::Socket { listener, path: path.clone() })
            }
            #[cfg(not(unix))]
            Address::Socket(_) => Err(DoorInvalid::Listen),
        }
    }

    /// Its address; `None` for a socket.
    #[must_use]
    pub fn address(&self) -> Option<SocketAddr> {
        match self {
            Self::Tcp { address, .. } => Some(*address),
            #[cfg(unix)]
            Self::Socket { .. } => None,
        }
    }
}

/// A place with somebody listening.
#[derive(Debug)]
pub struct Listening {
    address: Option<SocketAddr>,
    stop: watch::Sender<bool>,
    listener: JoinHandle<()>,
}

impl Listening {
    /// Serves what comes. `looked` is called about once a minute.
    pub fn start(place: Place, router: Router, looked: impl Fn() + Send + 'static) -> Self {
        let stop = watch::Sender::new(false);
        let address = place.address();
        let listener = tokio::spawn(serve(place, router, stop.subscribe(), looked));
        Self { address, stop, listener }
    }

    /// Its address; `None` for a socket.
    #[must_use]
    pub fn address(&self) -> Option<SocketAddr> {
        self.address
    }

    /// Takes nothing more and waits for what is under way.
    pub async fn close(self) {
        self.stop.send_replace(true);
        if self.listener.await.is_err() {
            tracing::error!(code = "door_listen", "the door ended with a panic");
        }
    }
}

async fn serve(place: Place, router: Router, mut stop: watch::Receiver<bool>, looked: impl Fn()) {
    let (room, mut open) = (Arc::new(Semaphore::new(CONNECTIONS_MAX)), JoinSet::new());
    let mut look = tokio::time::interval(LOOK_EVERY);
    let told = stop.clone();
    loop {
        tokio::select! {
            () = asked(&mut stop) => break,
            _ = look.tick() => looked(),
            // Taken away as they end, so that the set does not grow.
            Some(_) = open.join_next() => {}
            accepted = accept(&place, &room) => match accepted {
                Ok(accepted) => {
                    open.spawn(connection(accepted, router.clone(), told.clone()));
                }
                Err(_) => {
                    tracing::warn!(code = "door_listen", "a connection was not accepted");
                    tokio::time::sleep(REST).await;
                }
            },
        }
    }
    #[cfg(unix)]
    if let Place::Socket { path, .. } = &place
        && std::fs::remove_file(path).is_err()
    {
        tracing::warn!(code = "door_listen", "the socket could not be removed");
    }
    drop(place);
    let all = async { while open.join_next().await.is_some() {} };
    if tokio::time::timeout(REQUEST_TIMEOUT, all).await.is_err() {
        tracing::warn!(code = "door_listen", "connections that did not end are cut");
    }
}

/// Waits until it is to end; a sender that is gone counts as asking.
async fn asked(stop: &mut watch::Receiver<bool>) {
    drop(stop.wait_for(|stop| *stop).await);
}

enum Stream {
    Tcp(TcpStream),
    #[cfg(unix)]
    Unix(UnixStream),
}

/// A connection and its place among those that may be open.
struct Accepted {
    stream: Stream,
    _room: OwnedSemaphorePermit,
}

async fn accept(place: &Place, room: &Arc<Semaphore>) -> io::Result<Accepted> {
    let closed = |_| io::Error::from(io::ErrorKind::Other);
    let _room = Arc::clone(room).acquire_owned().await.map_err(closed)?;
    let stream = match place {
        Place::Tcp { listener, .. } => Stream::Tcp(listener.accept().await?.0),
        #[cfg(unix)]
        Place::Socket { listener, .. } => Stream::Unix(listener.accept().await?.0),
    };
    Ok(Accepted { stream, _room })
}

async fn connection(accepted: Accepted, router: Router, stop: watch::Receiver<bool>) {
    match accepted.stream {
        Stream::Tcp(stream) => speak(stream, router, stop).await,
        #[cfg(unix)]
        Stream::Unix(stream) => speak(stream, router, stop).await,
    }
}

/// Answers the requests of one connection.
async fn speak(
    stream: impl AsyncRead + AsyncWrite + Unpin,
    router: Router,
    mut stop: watch::Receiver<bool>,
) {
    let spoken = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIMEOUT)
        .max_header_size(HEAD_BYTES_MAX)
        .serve_connection(TokioIo::new(stream), TowerToHyperService::new(router));
    let mut spoken = pin!(spoken);
    let ended = tokio::select! {
        ended = spoken.as_mut() => ended,
        () = asked(&mut stop) => {
            spoken.as_mut().graceful_shutdown();
            spoken.await
        }
    };
    if ended.is_err() {
        // A client that went away or sent what is no HTTP; its words are not ours to repeat.
        tracing::debug!(code = "door_connection", "a connection ended early");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_others_can_reach_is_refused() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        runtime.expect("a runtime").block_on(async {
            for address in ["0.0.0.0:0", "[::]:0", "192.0.2.1:80"] {
                let address = Address::Tcp(address.parse().expect("an address"));
                assert_eq!(Place::bind(&address).await.err(), Some(DoorInvalid::NotLoopback));
            }
            let free = Address::Tcp("127.0.0.1:0".parse().expect("an address"));
            let place = Place::bind(&free).await.expect("a free port");
            let taken = Address::Tcp(place.address().expect("an address"));
            assert_eq!(Place::bind(&taken).await.err(), Some(DoorInvalid::Listen));
        });
    }
}
