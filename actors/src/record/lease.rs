//! Leases and their tokens.

use crate::contract::text::{Sha256, WorkerToken};
use crate::contract::time::Timestamp;
use serde::{Deserialize, Serialize};
use std::fmt;
use subtle::ConstantTimeEq as _;

/// One worker's right to one attempt.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lease {
    /// Who holds it.
    pub owner: WorkerToken,
    /// Hash of its token; the token itself is never kept.
    pub token_sha256: Sha256,
    /// When it ends; at this very instant it has ended.
    pub expires_at: Timestamp,
}

impl Lease {
    /// Whether it has ended.
    #[must_use]
    pub fn expired(&self, now: Timestamp) -> bool {
        self.expires_at <= now
    }

    /// Whether the token with this hash is the lease's; takes the same time for every answer.
    #[must_use]
    pub fn held_with(&self, token_sha256: &Sha256) -> bool {
        self.token_sha256.as_bytes().ct_eq(token_sha256.as_bytes()).into()
    }
}

/// A lease's token: 32 random bytes as 43 characters of URL-safe base64 (contract 1.3).
///
/// `Debug` prints nothing of it.
#[derive(Clone)]
pub struct LeaseToken(Box<str>);

impl LeaseToken {
    /// A token of this text, drawn by the shell that owns the randomness.
    #[must_use]
    pub fn new(text: Box<str>) -> Self {
        Self(text)
    }

    /// The text, for a worker that has to carry it over a boundary of its own.
    #[must_use]
    pub fn expose(&self) -> &str {
        &self.0
    }

    /// Its hash, which is all that is kept.
    #[must_use]
    pub fn sha256(&self) -> Sha256 {
        Sha256::of(self.0.as_bytes())
    }
}

impl fmt::Debug for LeaseToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("LeaseToken(..)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_not_in_its_debug_output() {
        let token = LeaseToken::new("secret".into());
        assert_eq!(format!("{token:?}"), "LeaseToken(..)");
        assert_eq!(token.expose(), "secret");
    }

    #[test]
    fn a_lease_ends_at_its_very_instant() {
        let at = |seconds| Timestamp::new(seconds).expect("a time");
        let lease = Lease {
            owner: WorkerToken::new("w").expect("a worker"),
            token_sha256: LeaseToken::new("a".into()).sha256(),
            expires_at: at(10.0),
        };
        assert!(!lease.expired(at(9.999)) && lease.expired(at(10.0)));
        assert!(lease.held_with(&LeaseToken::new("a".into()).sha256()));
        assert!(!lease.held_with(&LeaseToken::new("b".into()).sha256()));
    }
}
