//! Calls at once over all sides.
//!
//! A side may take what nobody uses, but half of each other side's even share stays free for it: a side
//! that hangs fills what it may have, and the others go on. Even shares alone were ruled out, since most
//! of the time one side is busy and the others are not.

use super::limits::LimitsInvalid;

/// Largest limit over all sides.
pub const OVERALL_MAX: usize = 65_536;

/// One side's place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Seat(pub(super) usize);

/// The limit, and what each side has of it.
#[derive(Debug)]
pub struct Overall {
    in_flight_max: usize,
    in_flight: Vec<usize>,
}

impl Overall {
    /// A limit without sides.
    ///
    /// # Errors
    /// [`LimitsInvalid::OverallInFlightMax`] outside of 1 to [`OVERALL_MAX`].
    pub fn new(in_flight_max: usize) -> Result<Self, LimitsInvalid> {
        if !(1..=OVERALL_MAX).contains(&in_flight_max) {
            return Err(LimitsInvalid::OverallInFlightMax);
        }
        Ok(Self { in_flight_max, in_flight: Vec::new() })
    }

    /// Adds a side. All of them should be there before the first call.
    ///
    /// # Errors
    /// [`LimitsInvalid::OverallInFlightMax`] for more sides than calls.
    pub fn join(&mut self) -> Result<Seat, LimitsInvalid> {
        if self.in_flight.len() == self.in_flight_max {
            return Err(LimitsInvalid::OverallInFlightMax);
        }
        self.in_flight.push(0);
        Ok(Seat(self.in_flight.len() - 1))
    }

    /// What is kept free for each side: half of an even share, at least one call.
    #[must_use]
    pub fn reserve(&self) -> usize {
        (self.in_flight_max / (2 * self.in_flight.len().max(1))).max(1)
    }

    /// Whether this side may have one call more.
    #[must_use]
    pub fn has_room(&self, seat: Seat) -> bool {
        let reserve = self.reserve();
        let taken = |(place, calls): (usize, &usize)| {
            if place == seat.0 { *calls } else { (*calls).max(reserve) }
        };
        self.in_flight.iter().enumerate().map(taken).sum::<usize>() < self.in_flight_max
    }

    pub(super) fn take(&mut self, seat: Seat) {
        self.in_flight[seat.0] += 1;
    }

    pub(super) fn give_back(&mut self, seat: Seat) {
        self.in_flight[seat.0] = self.in_flight[seat.0].saturating_sub(1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_busy_side_takes_all_but_half_of_the_others_shares_and_they_find_theirs_free() {
        let mut overall = Overall::new(12).expect("within limits");
        let seats = [(); 3].map(|()| overall.join().expect("fewer than calls"));
        let mut fill = |seat| {
            let mut taken = 0;
            while overall.has_room(seat) {
                overall.take(seat);
                taken += 1;
            }
            taken
        };
        assert_eq!(seats.map(&mut fill), [8, 2, 2]);
        overall.give_back(seats[0]);
        assert!(overall.has_room(seats[0]));
    }

    #[test]
    fn limits_that_leave_a_side_without_a_call_are_refused() {
        assert_eq!(Overall::new(0).err(), Some(LimitsInvalid::OverallInFlightMax));
        assert_eq!(Overall::new(OVERALL_MAX + 1).err(), Some(LimitsInvalid::OverallInFlightMax));
        let mut overall = Overall::new(1).expect("within limits");
        let only = overall.join().expect("one call for one side");
        assert_eq!(overall.join(), Err(LimitsInvalid::OverallInFlightMax));
        assert!(overall.has_room(only));
    }
}
