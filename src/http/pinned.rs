//! How the clients are set up that compare a capability document first: source and receiver.
//!
//! Must not know what either of them calls.

use leasehold_actors::contract::text::Sha256;

/// How a client is set up. `Debug` does not print the origin, which was not checked yet.
#[derive(Clone)]
pub struct PinnedOptions {
    /// `https://host[:port]`, without a trailing `/`.
    pub origin: String,
    /// Whether `http` to this machine is allowed too.
    pub allow_http_loopback: bool,
    /// Deadline of one request in seconds, more than 0 and at most 300; default 30. A call makes two.
    pub timeout_seconds: f64,
    /// The pinned digest of the other side's capability document.
    pub expected_capabilities_sha256: Sha256,
}

impl PinnedOptions {
    /// Options for this origin and pin, the rest as by default.
    #[must_use]
    pub fn new(origin: impl Into<String>, expected_capabilities_sha256: Sha256) -> Self {
        Self {
            origin: origin.into(),
            allow_http_loopback: false,
            timeout_seconds: 30.0,
            expected_capabilities_sha256,
        }
    }
}

impl std::fmt::Debug for PinnedOptions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PinnedOptions")
            .field("timeout_seconds", &self.timeout_seconds)
            .field("expected_capabilities_sha256", &self.expected_capabilities_sha256)
            .finish_non_exhaustive()
    }
}
