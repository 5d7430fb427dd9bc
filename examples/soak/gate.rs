//! A door in front of one side: it counts the requests that pass, and can be shut.
//!
//! Owns its address and its count. Must not know what a request says: it counts the ends of request lines.

use crate::Failed;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

/// Ends every request line.
const LINE_END: &[u8] = b" HTTP/1.1\r\n";
const PIECE_BYTES: usize = 16 * 1024;

/// The door.
#[derive(Debug)]
pub(crate) struct Gate {
    address: SocketAddr,
    requests: Arc<AtomicU64>,
    shut: watch::Sender<bool>,
}

impl Gate {
    /// Opens a door on loopback to this address.
    pub(crate) async fn open(to: SocketAddr) -> Result<Self, Failed> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let address = listener.local_addr()?;
        let requests = Arc::new(AtomicU64::new(0));
        let shut = watch::Sender::new(false);
        let (counted, is_shut) = (Arc::clone(&requests), shut.subscribe());
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                // One that is shut cuts what comes; the connection was accepted and says nothing.
                if !*is_shut.borrow() {
                    tokio::spawn(pass(client, to, Arc::clone(&counted), is_shut.clone()));
                }
            }
        });
        Ok(Self { address, requests, shut })
    }

    pub(crate) fn origin(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Shuts it, which cuts every connection, or opens it.
    pub(crate) fn shut(&self, shut: bool) {
        self.shut.send_replace(shut);
    }

    pub(crate) fn is_shut(&self) -> bool {
        *self.shut.borrow()
    }

    /// Requests since it was asked last.
    pub(crate) fn take(&self) -> u64 {
        self.requests.swap(0, Ordering::Relaxed)
    }
}

async fn pass(
    client: TcpStream,
    to: SocketAddr,
    requests: Arc<AtomicU64>,
    mut shut: watch::Receiver<bool>,
) {
    let Ok(server) = TcpStream::connect(to).await else { return };
    let (from_client, mut to_client) = client.into_split();
    let (mut from_server, to_server) = server.into_split();
    let asked = count(from_client, to_server, &requests);
    let answered = tokio::io::copy(&mut from_server, &mut to_client);
    // Whichever ends first ends both; so does the door.
    tokio::select! {
        () = asked => {}
        _ = answered => {}
        _ = shut.wait_for(|shut| *shut) => {}
    }
}

async fn count(
    mut from: impl AsyncRead + Unpin,
    mut to: tokio::net::tcp::OwnedWriteHalf,
    requests: &AtomicU64,
) {
    let (mut piece, mut seen) = (vec![0; PIECE_BYTES], Vec::new());
    loop {
        let Ok(length @ 1..) = from.read(&mut piece).await else { return };
        seen.extend_from_slice(&piece[..length]);
        let lines = seen.windows(LINE_END.len()).filter(|window| *window == LINE_END).count();
        requests.fetch_add(lines as u64, Ordering::Relaxed);
        // What may be the beginning of the next end is looked at again.
        seen.drain(..seen.len().saturating_sub(LINE_END.len() - 1));
        if to.write_all(&piece[..length]).await.is_err() {
            return;
        }
    }
}
