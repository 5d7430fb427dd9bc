//! The CMS client (contract 3.2): one signed POST per call.
//!
//! Owns the order of checks and the code of each failure. Must not know what a failure costs.

use super::address::Origin;
use super::credentials::{AuthHeaders, Signer};
use super::response::{is_retryable, read_canonical, retry_after_seconds};
use super::transport::{Answer, ClientInvalid, Transport, auth_headers, signature_headers};
use crate::clock::{Clock, Entropy, SystemClock, SystemEntropy};
use crate::worker::{CallFailure, Client};
use leasehold_actors::contract::MESSAGE_BYTES_MAX;
use leasehold_actors::contract::dispatch::{DispatchResponse, api_error};
use leasehold_actors::contract::json::Value;
use leasehold_actors::flows::dispatch::{ChangeRequest, Dispatch};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

/// Where changes go.
const CHANGES_PATH: &str = "/v2/localization/changes";

/// How a client is set up. `Debug` does not print the origin, which was not checked yet.
#[derive(Clone)]
pub struct CmsOptions {
    /// `https://host[:port]`.
    pub origin: String,
    /// Whether `http` to this machine is allowed too.
    pub allow_http_loopback: bool,
    /// Deadline of one call in seconds, more than 0 and at most 300; default 30.
    pub timeout_seconds: f64,
}

impl std::fmt::Debug for CmsOptions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CmsOptions")
            .field("timeout_seconds", &self.timeout_seconds)
            .finish_non_exhaustive()
    }
}

impl CmsOptions {
    /// Options for this origin, the rest as by default.
    #[must_use]
    pub fn new(origin: impl Into<String>) -> Self {
        Self { origin: origin.into(), allow_http_loopback: false, timeout_seconds: 30.0 }
    }
}

/// Calls the CMS.
#[derive(Clone)]
pub struct CmsClient {
    transport: Transport,
    signer: Arc<dyn Signer>,
    auth: Arc<dyn AuthHeaders>,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) entropy: Arc<dyn Entropy>,
}

impl std::fmt::Debug for CmsClient {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CmsClient").field("transport", &self.transport).finish_non_exhaustive()
    }
}

impl CmsClient {
    /// A client; nothing is sent yet.
    ///
    /// # Errors
    /// [`ClientInvalid`].
    pub fn new(
        options: &CmsOptions,
        signer: impl Signer + 'static,
        auth: impl AuthHeaders + 'static,
    ) -> Result<Self, ClientInvalid> {
        let origin = Origin::new(&options.origin, options.allow_http_loopback)?;
        let transport = Transport::new(origin, options.timeout_seconds)?;
        let (signer, auth) = (Arc::new(signer), Arc::new(auth));
        let (clock, entropy) = (Arc::new(SystemClock), Arc::new(SystemEntropy));
        Ok(Self { transport, signer, auth, clock, entropy })
    }

    /// Another clock than the system's, for reading `Retry-After` dates.
    #[must_use]
    pub fn with_clock(mut self, clock: impl Clock) -> Self {
        self.clock = Arc::new(clock);
        self
    }

    /// The deadline of one call, in seconds.
    #[must_use]
    pub fn timeout_seconds(&self) -> f64 {
        self.transport.timeout_seconds()
    }

    /// Another source of randomness than the system's, for request ids.
    #[must_use]
    pub fn with_entropy(mut self, entropy: impl Entropy) -> Self {
        self.entropy = Arc::new(entropy);
        self
    }

    /// Signs, posts, and reads a successful answer in its canonical form.
    pub(super) async fn post(
        &self,
        path: &str,
        body: &[u8],
        successes: &[u16],
    ) -> Result<(Value, Vec<u8>), CallFailure> {
        let signed = catch_unwind(AssertUnwindSafe(|| self.signer.sign(body)));
        let signature = signed.ok().and_then(Result::ok).filter(super::Signature::is_well_formed);
        let mut headers = signature_headers(signature.ok_or_else(|| failure("signing", false))?);
        let auth = catch_unwind(AssertUnwindSafe(|| auth_headers(self.auth.as_ref())));
        headers.extend(auth.ok().flatten().ok_or_else(|| failure("authentication", false))?);
        let answer = self
            .transport
            .post(path, headers, body.to_vec(), MESSAGE_BYTES_MAX)
            .await
            .map_err(|_| failure("network", true))?;
        self.judge(answer, successes)
    }

    /// The status decides first (D19); then the body is read.
    fn judge(&self, answer: Answer, successes: &[u16]) -> Result<(Value, Vec<u8>), CallFailure> {
        let status = answer.status;
        if !(100..=599).contains(&status) {
            return Err(failure("transport_invalid", true));
        }
        if (300..=399).contains(&status) {
            return Err(failure("redirect", false));
        }
        let read = read_canonical(&answer, MESSAGE_BYTES_MAX);
        if successes.contains(&status) {
            return match read {
                Ok(value) => Ok((value, answer.body)),
                Err(code) => Err(failure(code, true)),
            };
        }
        let named = read.ok().and_then(|value| api_error(&value));
        let retryable = is_retryable(status);
        let now = self.clock.now_seconds();
        Err(CallFailure::Marked {
            code: named.map_or_else(|| "http_status".to_owned(), |code| code.as_str().to_owned()),
            retryable,
            retry_after_seconds: retry_after_seconds(&answer.headers, now).filter(|_| retryable),
        })
    }

    /// Submits one change and checks that the answer belongs to it.
    ///
    /// # Errors
    /// [`CallFailure::Marked`] with the codes of contract 3.2.
    pub async fn submit_change(&self, request: &ChangeRequest) -> Result<Vec<u8>, CallFailure> {
        let (_, body) = self.post(CHANGES_PATH, request.change.as_bytes(), &[200, 202]).await?;
        match DispatchResponse::parse(&body, &request.event_id) {
            Ok(_) => Ok(body),
            Err(_) => Err(failure("response_binding", true)),
        }
    }
}

impl Client<Dispatch> for CmsClient {
    fn longest_call_seconds(&self) -> Option<f64> {
        Some(self.timeout_seconds())
    }

    async fn call(&self, request: ChangeRequest) -> Result<Vec<u8>, CallFailure> {
        self.submit_change(&request).await
    }
}

pub(super) fn failure(code: &str, retryable: bool) -> CallFailure {
    CallFailure::Marked { code: code.to_owned(), retryable, retry_after_seconds: None }
}
