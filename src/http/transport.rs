//! One exchange: a GET or a POST out, an answer in.
//!
//! Owns how: no redirects, no proxy, no content coding, no retries, one overall deadline for
//! connecting and every wait, at most the limit plus one byte read. Errors of reqwest are dropped
//! with their text, which carries addresses.

use super::address::{AddressInvalid, Origin};
use super::credentials::{AuthHeaders, Signature};
use reqwest::header::HeaderMap;
use reqwest::redirect::Policy;
use secrecy::{ExposeSecret as _, SecretString};
use std::time::Duration;

/// Idle connections are closed before a usual server closes them, so that fewer calls meet one that
/// is just being closed.
const IDLE: Duration = Duration::from_secs(15);

/// What came back. `Debug` shows its status and size only.
pub struct Answer {
    /// HTTP status.
    pub status: u16,
    /// Its headers.
    pub headers: HeaderMap,
    /// Its body; one byte more than the limit when it is too large.
    pub body: Vec<u8>,
}

impl std::fmt::Debug for Answer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Answer")
            .field("status", &self.status)
            .field("body_bytes", &self.body.len())
            .finish_non_exhaustive()
    }
}

/// Connecting, TLS, a deadline, a broken read: the answer, if there was one, is unknown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("network")]
pub struct NetworkFault;

/// A transport that cannot be built.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("transport_invalid")]
pub struct TransportInvalid;

/// A client that cannot be made; nothing was sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ClientInvalid {
    /// The address is refused.
    #[error("address_invalid")]
    Address(#[from] AddressInvalid),
    /// The timeout is out of range, or TLS cannot be set up.
    #[error("transport_invalid")]
    Transport(#[from] TransportInvalid),
}

/// Makes exchanges with one origin.
#[derive(Clone)]
pub struct Transport {
    client: reqwest::Client,
    origin: Origin,
    timeout: Duration,
}

impl std::fmt::Debug for Transport {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Transport").field("timeout", &self.timeout).finish_non_exhaustive()
    }
}

impl Transport {
    /// A transport to one origin; `timeout_seconds` is the deadline of a whole exchange, more than 0
    /// and at most 300.
    ///
    /// # Errors
    /// [`TransportInvalid`] for another timeout, or when TLS cannot be set up.
    pub fn new(origin: Origin, timeout_seconds: f64) -> Result<Self, TransportInvalid> {
        let https_only = !origin.is_plain();
        Self::built(origin, timeout_seconds, |builder| builder.https_only(https_only))
    }

    /// A transport to who listens at a Unix socket, in plain HTTP; the timeout is as for [`Self::new`].
    ///
    /// # Errors
    /// [`TransportInvalid`] as for [`Self::new`].
    #[cfg(unix)]
    pub fn at_socket(
        path: &std::path::Path,
        timeout_seconds: f64,
    ) -> Result<Self, TransportInvalid> {
        let origin = Origin::new("http://localhost", true).map_err(|_| TransportInvalid)?;
        Self::built(origin, timeout_seconds, |builder| builder.unix_socket(path))
    }

    fn built(
        origin: Origin,
        timeout_seconds: f64,
        towards: impl FnOnce(reqwest::ClientBuilder) -> reqwest::ClientBuilder,
    ) -> Result<Self, TransportInvalid> {
        if !(timeout_seconds > 0.0 && timeout_seconds <= 300.0) {
            return Err(TransportInvalid);
        }
        let timeout = Duration::try_from_secs_f64(timeout_seconds).map_err(|_| TransportInvalid)?;
        let client = towards(reqwest::Client::builder())
            .redirect(Policy::none())
            .no_proxy()
            .referer(false)
            .retry(reqwest::retry::never())
            .http1_only()
            .connect_timeout(timeout)
            .read_timeout(timeout)
            .timeout(timeout)
            .pool_idle_timeout(IDLE)
            .tcp_nodelay(true)
            .build()
            .map_err(|_| TransportInvalid)?;
        Ok(Self { client, origin, timeout })
    }

    /// The deadline of one exchange, in seconds.
    #[must_use]
    pub fn timeout_seconds(&self) -> f64 {
        self.timeout.as_secs_f64()
    }

    /// Where it goes.
    #[must_use]
    pub fn origin(&self) -> &Origin {
        &self.origin
    }

    /// Gets, without a body, and reads the answer, at most `body_bytes_max` and one byte.
    ///
    /// # Errors
    /// [`NetworkFault`], whatever went wrong on the way.
    pub async fn get(
        &self,
        path: &str,
        headers: Vec<(String, SecretString)>,
        body_bytes_max: usize,
    ) -> Result<Answer, NetworkFault> {
        let request = self.client.get(self.origin.with_path(path));
        exchange(request, headers, body_bytes_max).await
    }

    /// Posts a body and reads the answer, at most `body_bytes_max` and one byte.
    ///
    /// # Errors
    /// [`NetworkFault`], whatever went wrong on the way.
    pub async fn post(
        &self,
        path: &str,
        headers: Vec<(String, SecretString)>,
        body: Vec<u8>,
        body_bytes_max: usize,
    ) -> Result<Answer, NetworkFault> {
        let request = self
            .client
            .post(self.origin.with_path(path))
            .header("Content-Type", "application/json; charset=utf-8")
            .body(body);
        exchange(request, headers, body_bytes_max).await
    }
}

/// Sends a request with the headers every request has, and reads the answer.
async fn exchange(
    request: reqwest::RequestBuilder,
    headers: Vec<(String, SecretString)>,
    body_bytes_max: usize,
) -> Result<Answer, NetworkFault> {
    let mut request =
        request.header("Accept", "application/json").header("Accept-Encoding", "identity");
    for (name, value) in headers {
        request = request.header(name, value.expose_secret());
    }
    let mut response = request.send().await.map_err(|_| NetworkFault)?;
    let status = response.status().as_u16();
    let headers = response.headers().clone();
    let mut body = Vec::new();
    while let Some(chunk) = response.chunk().await.map_err(|_| NetworkFault)? {
        let room = (body_bytes_max + 1).saturating_sub(body.len());
        body.extend_from_slice(&chunk[..chunk.len().min(room)]);
        if body.len() > body_bytes_max {
            break; // dropping the response closes the connection
        }
    }
    Ok(Answer { status, headers, body })
}

/// The headers of a signature.
#[must_use]
pub fn signature_headers(signature: Signature) -> Vec<(String, SecretString)> {
    vec![
        ("X-Localization-Signature-Algorithm".to_owned(), signature.algorithm.into()),
        ("X-Localization-Key-Id".to_owned(), signature.key_id.into()),
        ("X-Localization-Signature".to_owned(), signature.value.into()),
    ]
}

/// The host's authentication headers, checked; `None` when they are not to be had or not allowed.
#[must_use]
pub fn auth_headers(source: &dyn AuthHeaders) -> Option<Vec<(String, SecretString)>> {
    source.headers().ok().filter(|headers| super::credentials::are_allowed(headers))
}
