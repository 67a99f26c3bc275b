//! Worlds of packet delays whose quantiles are known.
//!
//! The generator of random numbers is not the one of the library (xoshiro256++: Blackman, Vigna 2019).

/// Random numbers.
pub(crate) struct Random([u64; 4]);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        let mut state =
            seed.wrapping_mul(0x9e37_79b9_7f4a_7c15).wrapping_add(0x2545_f491_4f6c_dd1d);
        // splitmix64.
        Random(std::array::from_fn(|_| {
            state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let mut z = state;
            z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            z ^ (z >> 31)
        }))
    }

    fn next(&mut self) -> u64 {
        let state = &mut self.0;
        let result = state[0].wrapping_add(state[3]).rotate_left(23).wrapping_add(state[0]);
        let shifted = state[1] << 17;
        state[2] ^= state[0];
        state[3] ^= state[1];
        state[1] ^= state[2];
        state[0] ^= state[3];
        state[2] ^= shifted;
        state[3] = state[3].rotate_left(45);
        result
    }

    /// Between 0 and 1, both excluded.
    pub(crate) fn uniform(&mut self) -> f64 {
        ((self.next() >> 11) as f64 + 0.5) / (1_u64 << 53) as f64
    }

    fn exponential(&mut self, mean: f64) -> f64 {
        -mean * self.uniform().ln()
    }
}

/// A source of delays, in nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum World {
    /// Independent, with a tail above the exponential one (Weibull of shape 0.7).
    Independent,
    /// The time in a queue of one server with exponential times, at a load of 0.8.
    Mm1,
    /// Waiting for one server whose times have two exponential phases, at a load of 0.5.
    Mg1,
    /// Bursts of long delays: a tenth of the packets, 5 in a row on average.
    OnOff,
    /// Packets whose period drifts through that of a gate, which is open for a fifth of the time.
    Periodic,
    /// Two paths.
    Bimodal,
    /// Between two limits.
    Bounded,
}

pub(crate) const WORLDS: [World; 7] = [
    World::Independent,
    World::Mm1,
    World::Mg1,
    World::OnOff,
    World::Periodic,
    World::Bimodal,
    World::Bounded,
];

const SECOND_PATH: f64 = 0.05;
const OPEN: f64 = 0.2;
const GATE_US: f64 = 500.0;
/// The service times of [`World::Mg1`]: share of the first phase, and means of both.
const PHASES: (f64, f64, f64) = (0.9, 0.7, 4.0);
const ARRIVALS: f64 = 0.5;

impl World {
    pub(crate) fn name(self) -> &'static str {
        match self {
            World::Independent => "independent",
            World::Mm1 => "M/M/1, load 0.8",
            World::Mg1 => "M/G/1",
            World::OnOff => "on-off",
            World::Periodic => "periodic schedule",
            World::Bimodal => "bimodal",
            World::Bounded => "bounded",
        }
    }

    /// Calls `take` with each of `n` delays, in order.
    pub(crate) fn delays(self, n: usize, random: &mut Random, mut take: impl FnMut(i64)) {
        let mut take = |us: f64| take((us * 1e3).round() as i64);
        match self {
            World::Independent => (0..n).for_each(|_| {
                take(50.0 + 20.0 * random.exponential(1.0).powf(1.0 / 0.7));
            }),
            World::Mm1 => {
                let mut queue = random.exponential(5.0 * 0.8);
                for _ in 0..n {
                    queue = (queue - random.exponential(1.25)).max(0.0) + random.exponential(1.0);
                    take(5.0 + queue);
                }
            }
            World::Mg1 => {
                let (share, fast, slow) = PHASES;
                let mut wait = 0.0_f64;
                for number in 0..n + 2_000 {
                    if number >= 2_000 {
                        take(10.0 + wait);
                    }
                    let mean = if random.uniform() < share { fast } else { slow };
                    let service = random.exponential(mean);
                    wait = (wait + service - random.exponential(1.0 / ARRIVALS)).max(0.0);
                }
            }
            World::OnOff => {
                let mut on = random.uniform() < 0.1;
                for _ in 0..n {
                    take(20.0 + random.exponential(if on { 100.0 } else { 5.0 }));
                    on ^= random.uniform() < if on { 0.2 } else { 0.2 / 9.0 };
                }
            }
            World::Periodic => {
                let drift = (0.9 + 0.2 * random.uniform()) / 97.0;
                let mut phase = random.uniform();
                for _ in 0..n {
                    let wait = if phase < OPEN { 0.0 } else { GATE_US * (1.0 - phase) };
                    take(20.0 + wait + random.exponential(2.0));
                    phase = (phase + drift).fract();
                }
            }
            World::Bimodal => (0..n).for_each(|_| {
                let second = random.uniform() < SECOND_PATH;
                let p = random.uniform();
                let logistic = (p / (1.0 - p)).ln();
                take(if second { 200.0 + 3.0 * logistic } else { 40.0 + logistic });
            }),
            World::Bounded => (0..n).for_each(|_| {
                take(50.0 + 10.0 * (random.uniform() + random.uniform()));
            }),
        }
    }

    /// The share of packets with a longer delay.
    fn exceeding(self, us: f64) -> f64 {
        let exponential = |mean: f64, us: f64| if us <= 0.0 { 1.0 } else { (-us / mean).exp() };
        match self {
            World::Independent => (-((us - 50.0).max(0.0) / 20.0).powf(0.7)).exp(),
            World::Mm1 => exponential(5.0, us - 5.0),
            World::Mg1 => {
                // The Pollaczek-Khinchine formula, inverted by partial fractions.
                let (share, fast, slow) = PHASES;
                let (one, two) = (1.0 / fast, 1.0 / slow);
                let load = ARRIVALS * (share * fast + (1.0 - share) * slow);
                let b = one + two - ARRIVALS;
                let c = one * two - ARRIVALS * (one + two)
                    + ARRIVALS * (share * one + (1.0 - share) * two);
                let root = (b * b - 4.0 * c).sqrt();
                let (near, far) = ((b - root) / 2.0, (b + root) / 2.0);
                let part = |at: f64, other: f64| {
                    (one - at) * (two - at) / (other - at) / at * (-at * (us - 10.0)).exp()
                };
                match us < 10.0 {
                    true => 1.0,
                    false => (1.0 - load) * (part(near, far) + part(far, near)),
                }
            }
            World::OnOff => 0.1 * exponential(100.0, us - 20.0) + 0.9 * exponential(5.0, us - 20.0),
            World::Periodic => {
                let us = us - 20.0;
                let longest = (1.0 - OPEN) * GATE_US;
                // A uniform and an exponential delay.
                let below =
                    |us: f64| if us <= 0.0 { 0.0 } else { us - 2.0 * (1.0 - (-us / 2.0).exp()) };
                let closed = 1.0 - (below(us) - below(us - longest)) / longest;
                OPEN * exponential(2.0, us) + (1.0 - OPEN) * closed
            }
            World::Bimodal => {
                let logistic = |x: f64| 1.0 / (1.0 + x.exp());
                SECOND_PATH * logistic((us - 200.0) / 3.0)
                    + (1.0 - SECOND_PATH) * logistic(us - 40.0)
            }
            World::Bounded => match (us - 50.0) / 10.0 {
                x if x <= 0.0 => 1.0,
                x if x <= 1.0 => 1.0 - x * x / 2.0,
                x if x <= 2.0 => (2.0 - x) * (2.0 - x) / 2.0,
                _ => 0.0,
            },
        }
    }

    /// The delay that a share `p` of the packets exceeds, in nanoseconds.
    pub(crate) fn exceeded_with(self, p: f64) -> f64 {
        let (mut low, mut high) = (0.0, 1e6);
        for _ in 0..200 {
            let middle = 0.5 * (low + high);
            if self.exceeding(middle) > p { low = middle } else { high = middle }
        }
        1e3 * high
    }

    /// The mean, in nanoseconds.
    pub(crate) fn mean(self) -> f64 {
        let (share, fast, slow) = PHASES;
        1e3 * match self {
            World::Independent => 50.0 + 20.0 * 1.265_823_506_057_286,
            World::Mm1 => 10.0,
            World::Mg1 => {
                let squares = 2.0 * (share * fast * fast + (1.0 - share) * slow * slow);
                let load = ARRIVALS * (share * fast + (1.0 - share) * slow);
                10.0 + ARRIVALS * squares / (2.0 * (1.0 - load))
            }
            World::OnOff => 34.5,
            World::Periodic => 22.0 + GATE_US * (1.0 - OPEN) * (1.0 - OPEN) / 2.0,
            World::Bimodal => 40.0 + SECOND_PATH * 160.0,
            World::Bounded => 60.0,
        }
    }
}
