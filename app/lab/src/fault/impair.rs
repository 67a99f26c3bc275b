//! Impairment of frames on a wire: a pure, seeded model.

use serde::Deserialize;

use onbeat_wire::random::Random;

/// Impairment of a wire. All 0: none.
#[derive(Debug, Clone, Copy, PartialEq, Default, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct Impairment {
    /// Probability that a frame is lost.
    pub loss: f64,
    /// Probability that a frame is duplicated.
    pub duplicate: f64,
    /// Delay of every frame, in microseconds.
    pub delay_us: u64,
    /// Maximum additional random delay of a frame, in microseconds. Frames keep their order
    /// nevertheless.
    pub jitter_us: u64,
    /// Probability that a frame is held until later frames have overtaken it.
    pub reorder: f64,
    /// Maximum number of frames that overtake a held frame; 0: [`MAX_HELD`].
    pub overtaken: u16,
    /// Seed: the same seed yields the same fates.
    pub seed: u64,
}

/// Frames that may overtake a held frame, unless [`Impairment::overtaken`] sets another number.
pub const MAX_HELD: u16 = 3;

/// Maximum delay, in microseconds.
const MAX_DELAY_US: u64 = 10_000_000;

impl Impairment {
    /// The number of frames that may overtake a held frame.
    #[must_use]
    pub fn max_held(&self) -> u16 {
        if self.overtaken == 0 { MAX_HELD } else { self.overtaken }
    }

    /// The value that is out of range, if any.
    #[must_use]
    pub fn fault(&self) -> Option<String> {
        let shares =
            [("loss", self.loss), ("duplicate", self.duplicate), ("reorder", self.reorder)];
        let share = shares.iter().find(|(_, share)| !(0.0..=1.0).contains(share));
        let delays = [("delay-us", self.delay_us), ("jitter-us", self.jitter_us)];
        let delay = delays.iter().find(|(_, us)| *us > MAX_DELAY_US);
        share
            .map(|(name, value)| format!("{name} {value} is not a probability; use 0.0 to 1.0"))
            .or_else(|| {
                delay.map(|(name, us)| {
                    format!("{name} {us} is out of range; use {MAX_DELAY_US} at most")
                })
            })
    }
}

/// Treatment of one frame by a wire.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FrameFate {
    /// Number of copies that arrive: 0 (lost), 1 or 2.
    pub copies: u8,
    /// Additional delay, in nanoseconds.
    pub delay_ns: u64,
    /// Number of later frames that overtake it.
    pub held: u16,
}

/// Generator of fates.
#[derive(Debug, Clone)]
pub struct ImpairmentModel {
    impairment: Impairment,
    random: Random,
}

impl ImpairmentModel {
    /// Creates the model of a wire.
    #[must_use]
    pub fn new(impairment: Impairment) -> Self {
        Self { impairment, random: Random::new(impairment.seed) }
    }

    /// Draws the fate of the next frame.
    pub fn next_fate(&mut self) -> FrameFate {
        let Impairment { loss, duplicate, delay_us, jitter_us, reorder, .. } = self.impairment;
        // Every frame takes the same number of draws: a change of one probability does not affect the
        // frames selected by the others.
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
    fn a_clean_wire_changes_no_frame() {
        let mut model = ImpairmentModel::new(Impairment::default());
        assert!((0..10_000).all(|_| model.next_fate() == CLEAN));
    }

    #[test]
    fn probability_one_hits_every_frame() {
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
    fn probabilities_are_independent() {
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
        fn probabilities_are_met(share in 0.0..=1.0_f64, seed: u64) {
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
        fn delays_stay_in_range_and_a_seed_repeats_its_fates(
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
        fn other_values_than_probabilities_are_rejected(share: f64) {
            let fine = Impairment { loss: share, ..Default::default() }.fault().is_none();
            prop_assert_eq!(fine, (0.0..=1.0).contains(&share));
        }
    }
}
