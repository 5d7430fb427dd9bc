//! The handler a receiver's host gives it, as the sandbox plays it (contract 2.5, 4.6).
//!
//! Owns what a handler can make of a notification and what it then says. Pure. Must not know when it
//! is asked, nor what its failure costs.

use super::reply::{object, text};
use leasehold_actors::contract::notification::Notification;
use leasehold_actors::contract::payload::Payload;
use leasehold_actors::contract::text::ErrorCode;
use serde::{Deserialize, Serialize};

/// Schema of its answer.
const ANSWER_SCHEMA: &str = "blun.cms-terminal-notification-processing-ack.v1";
/// The code of one that cannot for now.
const UNAVAILABLE: ErrorCode = ErrorCode::known("cms_backend.unavailable");

/// What the handler makes of a notification it is given.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Handling {
    /// It acts on it and says so.
    Done,
    /// It cannot for now, and says so.
    Retry,
    /// It breaks down.
    Crash,
    /// It answers for another event.
    Wrong,
    /// It never comes back.
    Stuck,
}

impl Handling {
    /// How it ends; `None` for one that does not.
    #[must_use]
    pub fn outcome(self, notification: &Notification) -> Option<Outcome> {
        let event_id = notification.event_id.as_str();
        match self {
            Self::Done => Some(Outcome::Answer(acknowledgement(notification))),
            Self::Retry => Some(Outcome::Failure { code: UNAVAILABLE, retryable: true }),
            Self::Crash => Some(Outcome::Crash),
            Self::Wrong => Some(Outcome::Answer(about(&format!("{event_id}-other"), notification))),
            Self::Stuck => None,
        }
    }
}

/// How a handler ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// With this document.
    Answer(Payload),
    /// With a failure it names.
    Failure {
        /// Its code.
        code: ErrorCode,
        /// Whether trying again may help.
        retryable: bool,
    },
    /// With an exception of its own, which is nobody else's to see.
    Crash,
}

/// The one answer of a handler that has acted on a notification (contract 2.5).
#[must_use]
pub fn acknowledgement(notification: &Notification) -> Payload {
    about(notification.event_id.as_str(), notification)
}

fn about(event_id: &str, notification: &Notification) -> Payload {
    Payload::of(&object(vec![
        ("schema", text(ANSWER_SCHEMA)),
        ("event_id", text(event_id)),
        ("site_id", text(notification.site_id.as_str())),
        ("notification_id", text(notification.notification_id.as_str())),
        ("notification_sha256", text(&notification.payload.sha256().to_string())),
        ("status", text("processed")),
    ]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use leasehold_actors::contract::lifecycle::RemoteStatus;
    use leasehold_actors::contract::notification::Terminal;
    use leasehold_actors::contract::text::{Sha256, Token};

    /// The contract's example.
    fn notification() -> Notification {
        let token = |text| Token::new(text).expect("a token");
        let hash = |text| Sha256::from_hex(text).expect("64 digits");
        let terminal = Terminal {
            event_id: token("evt-2031-0007"),
            site_id: token("shop-north"),
            plan_id: token("plan-6f1c"),
            website_version: token("web-2031.4"),
            source_sequence: 7,
            job_count: 2,
            change_sha256: hash("4a8cffca989b485a5b8a79ef3041d60a145847fe334ff8bc8baaea4e446ed2e7"),
            lifecycle_binding_sha256: hash(
                "372f7a8cd4ea99c537a595c84ac54af307925b3738ab2ecbd10d4d69130588bf",
            ),
            terminal_status: RemoteStatus::Published,
            lifecycle_sha256: Some(hash(
                "68f517fe5b4230e976f0dc5862a85bd5d7cc66e9e85ef7932420cc72931c71cf",
            )),
        };
        Notification::build(&terminal).expect("a terminal status")
    }

    #[test]
    fn the_answer_of_one_that_acted_is_the_one_of_the_contract_to_the_byte() {
        let known = "499d7a1019b78f93bdc6317a92b3a65f7db95434a1491a3175c4b7d183642152";
        let answer = acknowledgement(&notification());
        assert_eq!(Some(answer.sha256()), Sha256::from_hex(known));
        assert_eq!(Handling::Done.outcome(&notification()), Some(Outcome::Answer(answer)));
    }

    #[test]
    fn every_other_one_says_something_else_or_nothing() {
        let notification = notification();
        let wrong = Handling::Wrong.outcome(&notification).expect("an answer");
        assert!(matches!(&wrong, Outcome::Answer(_)), "{wrong:?}");
        assert_ne!(wrong, Outcome::Answer(acknowledgement(&notification)));
        let retry = Outcome::Failure { code: UNAVAILABLE, retryable: true };
        assert_eq!(Handling::Retry.outcome(&notification), Some(retry));
        assert_eq!(Handling::Crash.outcome(&notification), Some(Outcome::Crash));
        assert_eq!(Handling::Stuck.outcome(&notification), None);
    }
}
