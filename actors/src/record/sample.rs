//! A binding for the tests of this module's rules.

use crate::contract::lifecycle::RemoteStatus;
use crate::contract::text::{Sha256, Token};
use crate::contract::time::{Ceiling, Timestamp};
use crate::flows::processing::ProcessingBinding;

pub(super) fn at(seconds: f64) -> Timestamp {
    Timestamp::new(seconds).expect("a time")
}

pub(super) fn token(text: &str) -> Token {
    Token::new(text).expect("a token")
}

/// What a notification with this id registers with flow `processing`, under the digest of `older`.
pub(super) fn binding(notification_id: &str) -> ProcessingBinding {
    ProcessingBinding {
        event_id: token("event-1"),
        notification_id: token(notification_id),
        site_id: token("site-1"),
        terminal_status: RemoteStatus::Published,
        notification_sha256: Sha256::of(b"notification"),
        capabilities_sha256: Sha256::of(b"older"),
        max_failures: Ceiling::new(5).expect("in range"),
    }
}
