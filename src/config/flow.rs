//! How one flow works: `[dispatch]`, `[lifecycle]`, `[notification]`, `[processing]`, `[delivery]`.

use super::{ConfigInvalid, value};
use crate::worker::DrainOptions;
use leasehold_actors::record::Policy;
use leasehold_actors::record::policy::Delays;
use serde::Deserialize;

/// Section of one flow.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct FlowConfig {
    /// Attempts a record may have, or failures in a row (then the key is `max_failures`), 1 to 20;
    /// default 5.
    #[serde(alias = "max_failures")]
    pub max_attempts: i64,
    /// Calls side by side, 1 to 1024; default 16.
    pub in_flight: usize,
    /// Length of a lease in seconds, longer than one call can take; default 600, at most 86400.
    pub lease_seconds: f64,
    /// Time between two polls in seconds, of the flows that poll; default 30.
    pub poll_interval_seconds: f64,
    /// Delay after the first failure in seconds; default 5.
    pub base_delay_seconds: f64,
    /// Longest delay in seconds; default 300.
    pub max_delay_seconds: f64,
    /// Largest `Retry-After` that is honoured, in seconds; default 3600.
    pub retry_after_max_seconds: f64,
    /// How much shorter a delay after a failure may be, as a share of it, 0 to 1; default 0.
    pub jitter_share: f64,
}

impl Default for FlowConfig {
    fn default() -> Self {
        let delays = Delays::default();
        Self {
            max_attempts: 5,
            in_flight: 16,
            lease_seconds: crate::handle::LEASE_SECONDS,
            poll_interval_seconds: delays.poll_interval_seconds,
            base_delay_seconds: delays.base_delay_seconds,
            max_delay_seconds: delays.max_delay_seconds,
            retry_after_max_seconds: delays.retry_after_max_seconds,
            jitter_share: delays.jitter_share,
        }
    }
}

/// The names of one flow's keys, for messages.
pub(super) struct Keys {
    ceiling: &'static str,
    in_flight: &'static str,
    lease: &'static str,
    poll: &'static str,
    base: &'static str,
    max: &'static str,
    retry_after: &'static str,
    jitter: &'static str,
}

pub(super) const DISPATCH: Keys = Keys {
    ceiling: "dispatch.max_attempts",
    in_flight: "dispatch.in_flight",
    lease: "dispatch.lease_seconds",
    poll: "dispatch.poll_interval_seconds",
    base: "dispatch.base_delay_seconds",
    max: "dispatch.max_delay_seconds",
    retry_after: "dispatch.retry_after_max_seconds",
    jitter: "dispatch.jitter_share",
};
pub(super) const LIFECYCLE: Keys = Keys {
    ceiling: "lifecycle.max_failures",
    in_flight: "lifecycle.in_flight",
    lease: "lifecycle.lease_seconds",
    poll: "lifecycle.poll_interval_seconds",
    base: "lifecycle.base_delay_seconds",
    max: "lifecycle.max_delay_seconds",
    retry_after: "lifecycle.retry_after_max_seconds",
    jitter: "lifecycle.jitter_share",
};
pub(super) const NOTIFICATION: Keys = Keys {
    ceiling: "notification.max_attempts",
    in_flight: "notification.in_flight",
    lease: "notification.lease_seconds",
    poll: "notification.poll_interval_seconds",
    base: "notification.base_delay_seconds",
    max: "notification.max_delay_seconds",
    retry_after: "notification.retry_after_max_seconds",
    jitter: "notification.jitter_share",
};
pub(super) const PROCESSING: Keys = Keys {
    ceiling: "processing.max_failures",
    in_flight: "processing.in_flight",
    lease: "processing.lease_seconds",
    poll: "processing.poll_interval_seconds",
    base: "processing.base_delay_seconds",
    max: "processing.max_delay_seconds",
    retry_after: "processing.retry_after_max_seconds",
    jitter: "processing.jitter_share",
};
pub(super) const DELIVERY: Keys = Keys {
    ceiling: "delivery.max_attempts",
    in_flight: "delivery.in_flight",
    lease: "delivery.lease_seconds",
    poll: "delivery.poll_interval_seconds",
    base: "delivery.base_delay_seconds",
    max: "delivery.max_delay_seconds",
    retry_after: "delivery.retry_after_max_seconds",
    jitter: "delivery.jitter_share",
};

impl FlowConfig {
    /// The delays of the flow.
    #[must_use]
    pub fn delays(&self) -> Delays {
        Delays {
            base_delay_seconds: self.base_delay_seconds,
            max_delay_seconds: self.max_delay_seconds,
            poll_interval_seconds: self.poll_interval_seconds,
            retry_after_max_seconds: self.retry_after_max_seconds,
            jitter_share: self.jitter_share,
        }
    }

    /// How its workers work, without a destination.
    #[must_use]
    pub fn workers(&self) -> DrainOptions {
        let worker = "run".to_owned();
        DrainOptions {
            in_flight: self.in_flight,
            lease_seconds: self.lease_seconds,
            worker,
            destination: None,
        }
    }

    pub(super) fn check(&self, keys: &Keys, longest_call: f64) -> Result<(), ConfigInvalid> {
        let day = |seconds: f64| seconds > 0.0 && seconds <= 86_400.0;
        const DAY: &str = "more than 0, at most 86400";
        let rules = [
            ((1..=20).contains(&self.max_attempts), keys.ceiling, "1 to 20"),
            ((1..=1024).contains(&self.in_flight), keys.in_flight, "1 to 1024"),
            (
                self.lease_seconds > longest_call && day(self.lease_seconds),
                keys.lease,
                "longer than one call can take, at most 86400",
            ),
            (day(self.poll_interval_seconds), keys.poll, DAY),
            (day(self.retry_after_max_seconds), keys.retry_after, DAY),
            (day(self.max_delay_seconds), keys.max, DAY),
            ((0.0..=1.0).contains(&self.jitter_share), keys.jitter, "0 to 1"),
            (
                Policy::new(self.delays()).is_ok(),
                keys.base,
                "more than 0, at most the flow's max_delay_seconds",
            ),
        ];
        match rules.into_iter().find(|(kept, ..)| !kept) {
            Some((_, key, rule)) => Err(value(key, rule)),
            None => Ok(()),
        }
    }
}
