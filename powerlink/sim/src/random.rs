//! Random numbers from a seed: the same on every machine and in every version.

/// A generator (splitmix64).
#[derive(Debug, Clone)]
pub struct Random(u64);

impl Random {
    /// A generator; the same seed gives the same numbers.
    pub const fn new(seed: u64) -> Self {
        Random(seed)
    }

    /// The next number.
    pub fn number(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ z >> 31
    }

    /// A number below `bound`, which is not 0.
    pub fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.number()) * u128::from(bound)) >> 64) as u64
    }

    /// Whether something happens that happens this often in a million.
    pub fn happens(&mut self, per_million: u32) -> bool {
        per_million != 0 && self.below(1_000_000) < per_million.into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_a_seed_are_known() {
        let mut random = Random::new(1_234_567);
        let expected =
            [6_457_827_717_110_365_317, 3_203_168_211_198_807_973, 9_817_491_932_198_370_423];
        assert_eq!(expected.map(|_| random.number()), expected);
    }

    #[test]
    fn chances_are_what_they_say() {
        let mut random = Random::new(7);
        let count = (0..1_000_000).filter(|_| random.happens(10_000)).count();
        assert!((9_500..10_500).contains(&count), "{count}");
        assert!((0..1000).all(|_| !random.happens(0) && random.happens(1_000_000)));
        assert!((0..1000).all(|_| random.below(3) < 3));
    }
}
