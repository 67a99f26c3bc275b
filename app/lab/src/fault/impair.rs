//! What a bad wire does to each frame: a pure, seeded model.

use serde::Deserialize;

use onbeat_wire::random::Random;

/// What a wire does to frames. All 0: nothing.
#[derive(Debug, Clone, Copy, PartialEq, Default, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct Impairment {
    /// Probability that a frame is lost.
    pub loss: f64,
    /// Probability that a frame arrives twice.
    pub duplicate: f64,
    /// What every frame is delayed by, in microseconds.
    pub delay_us: u64,
    /// What a frame is delayed by at most beyond that, in microseconds. The wire keeps the order
    /// of frames nevertheless.
    pub jitter_us: u64,
    /// Probability that a frame is held back until later ones have overtaken it.
    pub reorder: f64,
    /// How many later frames overtake one that is held back, at most; 0: [`MAX_HELD`].
    pub overtaken: u16,
    /// The same seed, the same fates.
    pub seed: u64,
}

/// Later frames that may overtake one that is held back, unless [`Impairment::overtaken`] says more.
pub const MAX_HELD: u16 = 3;

/// Longest delay, in microseconds.
const MAX_DELAY_US: u64 = 10_000_000;

impl Impairment {
    /// Later frames that may overtake one that is held back.
    #[must_use]
    pub fn max_held(&self) -> u16 {
        if self.overtaken == 0 { MAX_HELD } else { self.overtaken }
    }

    /// What is out of range.
    #[must_use]
    pub fn fault(&self) -> Option<String> {
        let shares =
            [("loss", self.loss), ("duplicate", self.duplicate), ("reorder", self.reorder)];
        let share = shares.iter().find(|(_, share)| !(0.0..=1.0).contains(share));
        let delays = [("delay-us", self.delay_us), ("jitter-us", self.jitter_us)];
        let delay = delays.iter().find(|(_, us)| *us > MAX_DELAY_US);
        share
            .map(|(name, value)| format!("{name} {value} is no probability; use 0.0 to 1.0"))
            .or_else(|| delay.map(|(name, us)| format!("{name} {us}; use {MAX_DELAY_US} at most")))
    }
}

/// What becomes of a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FrameFate {
    /// How often it arrives: 0 (lost), 1 or 2.
    pub copies: u8,
    /// By how much it is delayed, in nanoseconds.
    pub delay_ns: u64,
    /// How many later frames overtake it.
    pub held: u16,
}

/// Deals out fates, one after the other.
#[derive(Debug, Clone)]
pub struct ImpairmentModel {
    impairment: Impairment,
    random: Random,
}

impl ImpairmentModel {
    /// The model of a wire.
    #[must_use]
    pub fn new(impairment: Impairment) -> Self {
        Self { impairment, random: Random::new(impairment.seed) }
    }

    /// The fate of the next frame.
    pub fn next_fate(&mut self) -> FrameFate {
        let Impairment { loss, duplicate, delay_us, jitter_us, reorder, .. } = self.impairment;
        // Every frame takes the same number of draws: changing one share does not change what the
        // others hit.
        let (lost, twice, held) =
            (self.random.chance(loss), self.random.chance(duplicate), self.random.chance(reorder));
        let jitter_ns = self.random.below(jitter_us * 1000 + 1);
        let overtaken = 1 + self.random.below(u64::from(self.impairment.max_held())) as u16;
        FrameFate {
            copies: if lost { 0 } else { 1 + u8::from(twice) },
            delay_ns: delay_us * 1000 + jitter_ns,
            held: if held { overtaken } else { 0 },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const CLEAN: FrameFate = FrameFate { copies: 1, delay_ns: 0, held: 0 };

    #[test]
    fn a_clean_wire_does_nothing() {
        let mut model = ImpairmentModel::new(Impairment::default());
        assert!((0..10_000).all(|_| model.next_fate() == CLEAN));
    }

    #[test]
    fn certainties() {
        let mut lost =
            ImpairmentModel::new(Impairment { loss: 1.0, duplicate: 1.0, ..Default::default() });
        assert!((0..1000).all(|_| lost.next_fate().copies == 0));
        let mut twice = ImpairmentModel::new(Impairment { duplicate: 1.0, ..Default::default() });
        assert!((0..1000).all(|_| twice.next_fate().copies == 2));
        let mut held = ImpairmentModel::new(Impairment { reorder: 1.0, ..Default::default() });
        assert!((0..1000).all(|_| (1..=MAX_HELD).contains(&held.next_fate().held)));
        let far = Impairment { reorder: 1.0, overtaken: 500, ..Default::default() };
        let mut far = ImpairmentModel::new(far);
        let most = (0..1000).map(|_| far.next_fate().held).max();
        assert!(most.is_some_and(|most| (MAX_HELD + 1..=500).contains(&most)));
    }

    #[test]
    fn one_share_does_not_disturb_another() {
        let lost = |duplicate| {
            let mut model = ImpairmentModel::new(Impairment {
                loss: 0.3,
                duplicate,
                seed: 5,
                ..Default::default()
            });
            (0..1000).map(|_| model.next_fate().copies == 0).collect::<Vec<_>>()
        };
        assert_eq!(lost(0.0), lost(0.9));
    }

    proptest! {
        #[test]
        fn shares_are_hit(share in 0.0..=1.0_f64, seed: u64) {
            const FRAMES: u32 = 20_000;
            let mut model =
                ImpairmentModel::new(Impairment { loss: share, reorder: share, seed, ..Default::default() });
            let fates: Vec<FrameFate> = (0..FRAMES).map(|_| model.next_fate()).collect();
            // Six standard deviations of a binomial: one false alarm in 500 million.
            let slack = 6.0 * (share * (1.0 - share) / f64::from(FRAMES)).sqrt() + 1e-9;
            for hits in [
                fates.iter().filter(|fate| fate.copies == 0).count(),
                fates.iter().filter(|fate| fate.held > 0).count(),
            ] {
                prop_assert!((hits as f64 / f64::from(FRAMES) - share).abs() <= slack);
            }
        }

        #[test]
        fn delays_stay_in_range_and_fates_repeat(
            delay_us in 0..1000_u64, jitter_us in 0..1000_u64, seed: u64,
        ) {
            let impairment = Impairment { delay_us, jitter_us, seed, ..Default::default() };
            let (mut model, mut again) = (ImpairmentModel::new(impairment), ImpairmentModel::new(impairment));
            for _ in 0..200 {
                let fate = model.next_fate();
                prop_assert!(fate.delay_ns >= delay_us * 1000);
                prop_assert!(fate.delay_ns <= (delay_us + jitter_us) * 1000);
                prop_assert_eq!(fate, again.next_fate());
            }
        }

        #[test]
        fn only_probabilities_are_taken(share: f64) {
            let fine = Impairment { loss: share, ..Default::default() }.fault().is_none();
            prop_assert_eq!(fine, (0.0..=1.0).contains(&share));
        }
    }
}
