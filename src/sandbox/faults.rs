//! Misbehaviour on demand, drawn from a seed: the same seed and the same order of requests misbehave
//! alike.
//!
//! Owns the rates, by which of two kinds of thing goes wrong: an answer, or the receiver's handler. Must
//! not know how either misbehaves.

use super::handler::Handling;
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

/// What there can be a rate of.
pub trait Kind: Copy + 'static {
    /// Each, under its name on the command line.
    const NAMES: &'static [(&'static str, Self)];
    /// Those names, for who wrote another.
    const CHOICE: &'static str;
}

impl Kind for Fault {
    const NAMES: &'static [(&'static str, Self)] = &[
        ("drop", Self::Drop),
        ("5xx", Self::ServerError),
        ("429", Self::TooMany),
        ("slow", Self::Slow),
        ("garbage", Self::Garbage),
        ("redirect", Self::Redirect),
    ];
    const CHOICE: &'static str = "drop, 5xx, 429, slow, garbage or redirect";
}

impl Kind for Handling {
    const NAMES: &'static [(&'static str, Self)] = &[
        ("retry", Self::Retry),
        ("crash", Self::Crash),
        ("wrong", Self::Wrong),
        ("stuck", Self::Stuck),
    ];
    const CHOICE: &'static str = "retry, crash, wrong or stuck";
}

/// How often each of a kind happens, 0 to 1; together at most 1.
#[derive(Debug, Clone, PartialEq)]
pub struct Rates<K = Fault>(Vec<(K, f64)>);

/// A rate as on the command line, `KIND=RATE`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Rate<K = Fault>(K, f64);

/// Text that is no rate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("KIND=RATE: {0}, and a number from 0 to 1")]
pub struct RateInvalid(&'static str);

impl<K: Kind> FromStr for Rate<K> {
    type Err = RateInvalid;

    fn from_str(text: &str) -> Result<Self, RateInvalid> {
        let invalid = RateInvalid(K::CHOICE);
        let (name, rate) = text.split_once('=').ok_or(invalid)?;
        let kind = K::NAMES.iter().find(|(known, _)| *known == name).ok_or(invalid)?.1;
        let rate: f64 = rate.parse().map_err(|_| invalid)?;
        if (0.0..=1.0).contains(&rate) { Ok(Self(kind, rate)) } else { Err(invalid) }
    }
}

impl<K> Default for Rates<K> {
    /// Nothing misbehaves.
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<K: Copy> Rates<K> {
    /// These rates; `None` when they are over 1 together.
    #[must_use]
    pub fn new(rates: &[Rate<K>]) -> Option<Self> {
        let total: f64 = rates.iter().map(|rate| rate.1).sum();
        (total <= 1.0 + 1e-9).then(|| Self(rates.iter().map(|rate| (rate.0, rate.1)).collect()))
    }

    /// What happens at this place between 0 and 1, if anything.
    fn at(&self, place: f64) -> Option<K> {
        let mut left = place;
        for (kind, rate) in &self.0 {
            if left < *rate {
                return Some(*kind);
            }
            left -= rate;
        }
        None
    }
}

/// Draws what goes wrong.
#[derive(Debug)]
pub struct Faults {
    state: u64,
    answers: Rates,
    handler: Rates<Handling>,
}

impl Faults {
    /// From this seed, with the rates of answers and of the receiver's handler.
    #[must_use]
    pub fn new(seed: u64, answers: Rates, handler: Rates<Handling>) -> Self {
        Self { state: seed, answers, handler }
    }

    /// The fault of the next request, if it has one.
    pub fn draw(&mut self) -> Option<Fault> {
        let place = self.uniform();
        self.answers.at(place)
    }

    /// What the handler makes of the next notification. Without a rate of its own nothing is drawn, so
    /// that the requests of a seed misbehave as they do without it.
    pub fn handling(&mut self) -> Handling {
        if self.handler == Rates::default() {
            return Handling::Done;
        }
        let place = self.uniform();
        self.handler.at(place).unwrap_or(Handling::Done)
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
            assert_eq!(bad.parse::<Rate>(), Err(RateInvalid(Fault::CHOICE)), "{bad}");
        }
        assert_eq!("stuck=1".parse(), Ok(Rate(Handling::Stuck, 1.0)));
        for bad in ["done=1", "drop=0.1", "crash=1.1"] {
            assert_eq!(bad.parse::<Rate<Handling>>(), Err(RateInvalid(Handling::CHOICE)), "{bad}");
        }
        assert!(Rates::new(&[Rate(Fault::Drop, 0.6), Rate(Fault::Slow, 0.6)]).is_none());
    }

    #[test]
    fn the_same_seed_misbehaves_alike_and_about_as_often_as_asked() {
        let rates = Rates::new(&[Rate(Fault::Drop, 0.1), Rate(Fault::Slow, 0.2)]).expect("below 1");
        let drawn = |seed| {
            let mut faults = Faults::new(seed, rates.clone(), Rates::default());
            (0..10_000).map(|_| faults.draw()).collect::<Vec<_>>()
        };
        assert_eq!(drawn(7), drawn(7));
        assert_ne!(drawn(7), drawn(8));
        let drops = drawn(7).iter().filter(|fault| **fault == Some(Fault::Drop)).count();
        assert!((900..1100).contains(&drops), "{drops}");
    }

    #[test]
    fn the_handler_is_drawn_from_the_same_seed_and_only_where_it_has_a_rate() {
        let rates = Rates::new(&[Rate(Fault::Drop, 0.5)]).expect("below 1");
        let handler = Rates::new(&[Rate(Handling::Crash, 0.5)]).expect("below 1");
        let both = |handler: &Rates<Handling>| {
            let mut faults = Faults::new(7, rates.clone(), handler.clone());
            let drawn = (0..100).map(|_| (faults.draw(), faults.handling()));
            drawn.unzip::<_, _, Vec<_>, Vec<_>>()
        };
        let (requests, handled) = both(&Rates::default());
        let mut alone = Faults::new(7, rates.clone(), Rates::default());
        assert_eq!(requests, (0..100).map(|_| alone.draw()).collect::<Vec<_>>());
        assert!(handled.iter().all(|handling| *handling == Handling::Done));
        let (_, handled) = both(&handler);
        assert_eq!(both(&handler).1, handled);
        let crashes = handled.iter().filter(|handling| **handling == Handling::Crash).count();
        assert!((30..70).contains(&crashes), "{crashes}");
        assert!(handled.contains(&Handling::Done));
    }
}
