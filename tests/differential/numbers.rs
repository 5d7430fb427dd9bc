//! Numbers that follow from a seed and a place.

/// SplitMix64.
pub(crate) struct Numbers(u64);

impl Numbers {
    /// The numbers of one place under one seed.
    pub(crate) fn new(seed: u64, place: u64) -> Self {
        let mixed = Self(seed).draw() ^ place.wrapping_mul(0xd1b5_4a32_d192_ed03);
        Self(Self(mixed).draw())
    }

    /// Any number.
    pub(crate) fn draw(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut bits = self.0;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        bits ^ (bits >> 31)
    }

    /// A number below `bound`, which is not 0.
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        self.draw() % bound
    }

    /// A place in a list of this length, which is not 0.
    pub(crate) fn place(&mut self, length: usize) -> usize {
        self.below(length as u64) as usize
    }

    /// Whether one of so many times has come.
    pub(crate) fn one_in(&mut self, many: u64) -> bool {
        self.below(many) == 0
    }

    /// One of a list that is not empty.
    pub(crate) fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.place(from.len())]
    }
}
