//! Seeded random numbers: a run can be repeated by its seed.

/// SplitMix64 (Steele, Lea, Flood: "Fast Splittable Pseudorandom Number Generators", 2014).
#[derive(Debug, Clone)]
pub struct Random(u64);

impl Random {
    /// The sequence of this seed.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The next number.
    pub fn draw(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Uniform in `0..bound`; 0 for a bound of 0.
    pub fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.draw()) * u128::from(bound)) >> 64) as u64
    }

    /// True with the given probability.
    pub fn chance(&mut self, probability: f64) -> bool {
        // 53 bits are what a float in 0..1 holds.
        ((self.draw() >> 11) as f64 / (1_u64 << 53) as f64) < probability
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_is_a_sequence() {
        let draw = |seed| {
            let mut random = Random::new(seed);
            [random.draw(), random.draw(), random.draw()]
        };
        assert_eq!(draw(7), draw(7));
        assert_ne!(draw(7), draw(8));
        // The published generator's first number from seed 0.
        assert_eq!(Random::new(0).draw(), 0xe220_a839_7b1d_cdaf);
    }

    #[test]
    fn bounds_and_certainties() {
        let mut random = Random::new(1);
        assert_eq!(random.below(0), 0);
        assert!((0..1000).all(|_| random.below(3) < 3));
        assert!((0..1000).all(|_| !random.chance(0.0)));
        assert!((0..1000).all(|_| random.chance(1.0)));
    }
}
