//! Misbehaviour on demand, drawn from a seed: the same seed and the same order of requests misbehave
//! alike.

use std::str::FromStr;

/// One way to misbehave.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// Accept, then cut the connection.
    Drop,
    /// Refuse with 503.
    ServerError,
    /// Refuse with 429 and a `Retry-After`.
    TooMany,
    /// Answer late.
    Slow,
    /// Accept, then answer with nonsense.
    Garbage,
    /// Send elsewhere.
    Redirect,
}

const NAMES: [(&str, Fault); 6] = [
    ("drop", Fault::Drop),
    ("5xx", Fault::ServerError),
    ("429", Fault::TooMany),
    ("slow", Fault::Slow),
    ("garbage", Fault::Garbage),
    ("redirect", Fault::Redirect),
];

/// How often each fault happens, 0 to 1; together at most 1.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Rates(Vec<(Fault, f64)>);

/// A rate as on the command line, `KIND=RATE`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Rate(Fault, f64);

/// Text that is no rate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("KIND=RATE: drop, 5xx, 429, slow, garbage or redirect, and a number from 0 to 1")]
pub struct RateInvalid;

impl FromStr for Rate {
    type Err = RateInvalid;

    fn from_str(text: &str) -> Result<Self, RateInvalid> {
        let (name, rate) = text.split_once('=').ok_or(RateInvalid)?;
        let fault = NAMES.iter().find(|(known, _)| *known == name).ok_or(RateInvalid)?.1;
        let rate: f64 = rate.parse().map_err(|_| RateInvalid)?;
        if (0.0..=1.0).contains(&rate) { Ok(Self(fault, rate)) } else { Err(RateInvalid) }
    }
}

impl Rates {
    /// These rates; `None` when they are over 1 together.
    #[must_use]
    pub fn new(rates: &[Rate]) -> Option<Self> {
        let total: f64 = rates.iter().map(|rate| rate.1).sum();
        (total <= 1.0 + 1e-9).then(|| Self(rates.iter().map(|rate| (rate.0, rate.1)).collect()))
    }
}

/// Draws faults.
#[derive(Debug)]
pub struct Faults {
    state: u64,
    rates: Rates,
}

impl Faults {
    /// From this seed.
    #[must_use]
    pub fn new(seed: u64, rates: Rates) -> Self {
        Self { state: seed, rates }
    }

    /// The fault of the next request, if it has one.
    pub fn draw(&mut self) -> Option<Fault> {
        let mut left = self.uniform();
        for (fault, rate) in &self.rates.0 {
            if left < *rate {
                return Some(*fault);
            }
            left -= rate;
        }
        None
    }

    /// A number from 0 to 1: SplitMix64, which needs no library and no state but one number.
    fn uniform(&mut self) -> f64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut bits = self.state;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        bits ^= bits >> 31;
        (bits >> 11) as f64 / (1_u64 << 53) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_read_and_bad_ones_refused() {
        assert_eq!("5xx=0.1".parse(), Ok(Rate(Fault::ServerError, 0.1)));
        for bad in ["drop", "drop=", "drop=2", "drop=-0.1", "fire=0.1", "drop=NaN"] {
            assert_eq!(bad.parse::<Rate>(), Err(RateInvalid), "{bad}");
        }
        assert!(Rates::new(&[Rate(Fault::Drop, 0.6), Rate(Fault::Slow, 0.6)]).is_none());
    }

    #[test]
    fn the_same_seed_misbehaves_alike_and_about_as_often_as_asked() {
        let rates = Rates::new(&[Rate(Fault::Drop, 0.1), Rate(Fault::Slow, 0.2)]).expect("below 1");
        let drawn = |seed| {
            let mut faults = Faults::new(seed, rates.clone());
            (0..10_000).map(|_| faults.draw()).collect::<Vec<_>>()
        };
        assert_eq!(drawn(7), drawn(7));
        assert_ne!(drawn(7), drawn(8));
        let drops = drawn(7).iter().filter(|fault| **fault == Some(Fault::Drop)).count();
        assert!((900..1100).contains(&drops), "{drops}");
    }
}
