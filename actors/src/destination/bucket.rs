//! Calls per second: a bucket of tokens, one for each call that starts.
//!
//! A token that is taken is held until its call begins or is given up, and what is held counts against
//! the burst. Without that, a token given back late would come on top of the one that grew in its
//! place, and two calls could start where the burst is one.

/// The bucket; without a rate it is never empty.
#[derive(Debug)]
pub(super) struct Bucket {
    per_second: Option<f64>,
    burst: f64,
    tokens: f64,
    held: u32,
}

/// How much of a token is one, so that a sum of many small steps comes to it in time. What is missing is
/// owed: the next token takes that much longer.
const WHOLE: f64 = 1.0 - 1e-6;

impl Bucket {
    pub(super) fn new(per_second: Option<f64>, burst: u32) -> Self {
        let burst = f64::from(burst);
        Self { per_second, burst, tokens: burst, held: 0 }
    }

    /// Lets time pass at a share of the rate, with at most so many tokens.
    pub(super) fn refill(&mut self, elapsed_seconds: f64, share: f64, tokens_max: f64) {
        let Some(per_second) = self.per_second else { return };
        let room = (tokens_max.min(self.burst) - f64::from(self.held)).max(0.0);
        self.tokens = (self.tokens + per_second * share * elapsed_seconds).min(room);
    }

    /// How long until there is a token, in seconds; 0 when there is one.
    pub(super) fn wait_seconds(&self, share: f64) -> f64 {
        match self.per_second {
            Some(per_second) if self.tokens < WHOLE => (1.0 - self.tokens) / (per_second * share),
            Some(_) | None => 0.0,
        }
    }

    pub(super) fn take(&mut self) {
        if self.per_second.is_some() {
            self.tokens -= 1.0;
            self.held += 1;
        }
    }

    /// The call of a held token begins.
    pub(super) fn spend(&mut self) {
        self.held = self.held.saturating_sub(1);
    }

    /// A held token goes back.
    pub(super) fn give_back(&mut self) {
        if self.per_second.is_some() {
            self.held = self.held.saturating_sub(1);
            self.tokens += 1.0;
        }
    }

    /// Nothing may start before new tokens have grown.
    pub(super) fn empty(&mut self) {
        self.tokens = self.tokens.min(0.0);
    }

    /// Tokens that are there; `None` without a rate.
    pub(super) fn tokens(&self) -> Option<f64> {
        self.per_second.map(|_| self.tokens.max(0.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_burst_is_there_at_once_and_the_rest_comes_at_the_rate() {
        let mut bucket = Bucket::new(Some(10.0), 2);
        bucket.take();
        bucket.take();
        assert!((bucket.wait_seconds(1.0) - 0.1).abs() < 1e-9);
        bucket.spend();
        bucket.spend();
        bucket.refill(0.1, 1.0, 2.0);
        assert_eq!(bucket.wait_seconds(1.0), 0.0);
        bucket.refill(100.0, 1.0, 2.0);
        assert_eq!(bucket.tokens(), Some(2.0), "a pause saves up no more than the burst");
    }

    #[test]
    fn half_the_rate_takes_twice_as_long() {
        let mut bucket = Bucket::new(Some(10.0), 1);
        bucket.take();
        assert!((bucket.wait_seconds(0.5) - 0.2).abs() < 1e-9);
    }

    #[test]
    fn a_token_given_back_late_does_not_come_on_top_of_a_new_one() {
        let mut bucket = Bucket::new(Some(1.0), 1);
        bucket.take();
        bucket.refill(50.0, 1.0, 1.0);
        assert!(bucket.wait_seconds(1.0) > 0.0, "the held one counts against the burst");
        bucket.give_back();
        assert_eq!((bucket.wait_seconds(1.0), bucket.tokens()), (0.0, Some(1.0)));
    }

    #[test]
    fn without_a_rate_there_is_always_one() {
        let mut bucket = Bucket::new(None, 1);
        for _ in 0..1_000 {
            bucket.take();
        }
        bucket.empty();
        assert_eq!((bucket.wait_seconds(1.0), bucket.tokens()), (0.0, None));
    }
}
