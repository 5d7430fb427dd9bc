//! What spreads records apart that failed at the same time.
//!
//! Owns where in the jitter a record is. Must not know how long anything waits. No randomness: the
//! place follows from the record and its attempt, so a replay and a test see the same one.

use super::{FlowTag, Identity};
use sha2::{Digest as _, Sha256};

const PART_TAG: &[u8] = b"leasehold.jitter.v1\0";
/// As many bits as a double tells apart below 1.
const BITS: u32 = 53;

/// A place in the jitter: at least 0, less than 1.
#[derive(Debug, Clone, Copy, PartialEq, PartialOrd)]
pub struct Part(f64);

impl Part {
    /// The place of a record after this attempt: the first 53 bits of the SHA-256 of flow, identity and
    /// attempt. Over many records, or over many attempts of one, the places are spread evenly.
    #[must_use]
    pub fn of(flow: FlowTag, identity: &Identity, attempt: u32) -> Self {
        let digest: [u8; 32] = Sha256::new()
            .chain_update(PART_TAG)
            .chain_update([flow as u8])
            .chain_update(attempt.to_be_bytes())
            .chain_update(identity.as_str().as_bytes())
            .finalize()
            .into();
        let mut first = [0; 8];
        first.copy_from_slice(&digest[..8]);
        let bits = u64::from_be_bytes(first) >> (u64::BITS - BITS);
        Self(bits as f64 / (1_u64 << BITS) as f64)
    }

    /// The number.
    #[must_use]
    pub fn get(self) -> f64 {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part(identity: &str, attempt: u32) -> f64 {
        Part::of(FlowTag::Dispatch, &Identity::new(identity), attempt).get()
    }

    #[test]
    fn a_place_follows_from_flow_identity_and_attempt_and_from_nothing_else() {
        assert_eq!(part("event-1", 1), part("event-1", 1));
        let other = Part::of(FlowTag::Lifecycle, &Identity::new("event-1"), 1).get();
        for other in [part("event-1", 2), part("event-2", 1), other] {
            assert_ne!(part("event-1", 1), other);
        }
        // Kept as it is: a due time in the journal was made of it.
        assert_eq!((part("event-1", 1) * 1e9) as u64, EVENT_1);
    }

    /// `int.from_bytes(sha256(b"leasehold.jitter.v1\0\x01\0\0\0\x01event-1").digest()[:8]) / 2**64`,
    /// in billionths.
    const EVENT_1: u64 = 691_046_568;

    #[test]
    fn over_many_records_and_over_many_attempts_of_one_the_places_are_spread_evenly() {
        let records: Vec<f64> = (0..10_000).map(|n| part(&format!("event-{n}"), 1)).collect();
        let attempts: Vec<f64> = (0..10_000).map(|n| part("event-1", n)).collect();
        for places in [records, attempts] {
            let mut tenths = [0_u32; 10];
            for place in places {
                assert!((0.0..1.0).contains(&place), "{place}");
                tenths[(place * 10.0) as usize] += 1;
            }
            // Six standard deviations of an even spread, which are 30 each.
            assert!(tenths.iter().all(|count| (820..=1_180).contains(count)), "{tenths:?}");
        }
    }
}
