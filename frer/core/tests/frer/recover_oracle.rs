//! Compares the ring implementation with the standard's text, packet by packet, on random and on adversarial
//! sequences: decision and every counter.

use onbeat_frer::recover::RecoveryFunction;
use onbeat_frer::spec::{Algorithm, MAX_HISTORY, Recovery, Role};
use proptest::prelude::*;

use crate::oracle::Oracle;

const NS_PER_MS: u64 = 1_000_000;

#[derive(Debug, Clone)]
enum Step {
    /// A number relative to the highest one sent so far.
    Near(i32),
    /// Consecutive numbers above the highest.
    Burst(u16),
    /// Any number.
    Any(u16),
    /// The previous number, repeated.
    Stuck(u8),
    /// At the history length from the highest, plus this offset, ahead or behind.
    Edge(bool, i32),
    /// Half of the number space away.
    Antipode,
    Tagless,
    AdvanceMs(u32),
    Expire,
    Reset,
    /// Another history length, of vector recovery.
    Length(u16),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        10 => (-4..5i32).prop_map(Step::Near),
        4 => (-1100..1100i32).prop_map(Step::Near),
        4 => (1..200u16).prop_map(Step::Burst),
        1 => (1000..3000u16).prop_map(Step::Burst),
        1 => any::<u16>().prop_map(Step::Any),
        2 => (1..4u8).prop_map(Step::Stuck),
        4 => (any::<bool>(), -2..3i32).prop_map(|(ahead, by)| Step::Edge(ahead, by)),
        1 => Just(Step::Antipode),
        1 => Just(Step::Tagless),
        3 => prop_oneof![0..3u32, 0..60u32].prop_map(Step::AdvanceMs),
        1 => Just(Step::Expire),
        1 => Just(Step::Reset),
        2 => length().prop_map(Step::Length),
    ]
}

fn length() -> impl Strategy<Value = u16> {
    prop_oneof![
        8 => prop::sample::select(vec![2u16, 63, 64, 65, 100, 128, 1023, 1024]),
        1 => prop::sample::select(vec![1025u16, 2048, 32_767, MAX_HISTORY]),
        3 => 2..=1024u16,
        1 => 2..=MAX_HISTORY,
        2 => 2..=16u16,
    ]
}

fn config() -> impl Strategy<Value = (Recovery, Role)> {
    let algorithm = prop_oneof![
        6 => length().prop_map(|history_length| Algorithm::Vector { history_length }),
        1 => Just(Algorithm::Match),
    ];
    let role = prop_oneof![Just(Role::Sequence), Just(Role::Individual)];
    (algorithm, prop_oneof![Just(0u32), 1..50u32], any::<bool>(), role).prop_map(
        |(algorithm, reset_timeout_ms, take_no_sequence, role)| {
            (
                Recovery { algorithm, reset_timeout_ms, take_no_sequence, ..Recovery::vector(2) },
                role,
            )
        },
    )
}

struct Pair {
    ring: RecoveryFunction,
    oracle: Oracle,
    now_ns: u64,
}

impl Pair {
    fn packet(&mut self, number: Option<u16>) -> Result<(), TestCaseError> {
        let verdict = self.ring.packet(self.now_ns, number);
        prop_assert_eq!(verdict.is_accept(), self.oracle.packet(number), "{:?}", number);
        self.compare()
    }

    fn compare(&self) -> Result<(), TestCaseError> {
        prop_assert_eq!(self.ring.counters(), self.oracle.counters);
        Ok(())
    }
}

fn number(highest: u16, distance: i32) -> u16 {
    (i32::from(highest) + distance).rem_euclid(65536) as u16
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1500))]

    #[test]
    fn the_ring_equals_the_text(
        (mut config, role) in config(),
        start in prop_oneof![Just(65530u16), any::<u16>()],
        steps in prop::collection::vec(step(), 1..120),
    ) {
        let mut pair = Pair {
            ring: RecoveryFunction::new(&config, role).unwrap(),
            oracle: Oracle::new(config, role),
            now_ns: 7,
        };
        let mut length = match config.algorithm {
            Algorithm::Vector { history_length } => i32::from(history_length),
            Algorithm::Match => 2,
        };
        pair.compare()?;
        let (mut highest, mut last) = (start, start);
        for step in steps {
            let near = match step {
                Step::Near(distance) => Some(number(highest, distance)),
                Step::Any(number) => Some(number),
                Step::Edge(true, by) => Some(number(highest, length + by)),
                Step::Edge(false, by) => Some(number(highest, -length + by)),
                Step::Antipode => Some(number(highest, -32768)),
                Step::Burst(count) => {
                    for _ in 0..count {
                        highest = highest.wrapping_add(1);
                        pair.packet(Some(highest))?;
                    }
                    last = highest;
                    None
                }
                Step::Stuck(times) => {
                    for _ in 0..times {
                        pair.packet(Some(last))?;
                    }
                    None
                }
                Step::Tagless => {
                    pair.packet(None)?;
                    None
                }
                Step::AdvanceMs(ms) => {
                    pair.now_ns += u64::from(ms) * NS_PER_MS;
                    pair.oracle.advance_ms(ms);
                    None
                }
                Step::Expire => {
                    pair.ring.expire(pair.now_ns);
                    pair.compare()?;
                    None
                }
                Step::Length(history_length) => {
                    if config.algorithm != Algorithm::Match {
                        config.algorithm = Algorithm::Vector { history_length };
                        length = history_length.into();
                        pair.ring.expire(pair.now_ns);
                        pair.ring.set_parameters(&config, role).unwrap();
                        pair.oracle.set_history_length(history_length);
                        pair.compare()?;
                    }
                    None
                }
                Step::Reset => {
                    pair.ring.reset(pair.now_ns);
                    pair.oracle.reset();
                    pair.compare()?;
                    None
                }
            };
            if let Some(number) = near {
                let ahead = number.wrapping_sub(highest) as i16;
                if ahead > 0 && i32::from(ahead) < length {
                    highest = number;
                }
                last = number;
                pair.packet(Some(number))?;
            }
        }
    }
}

/// Every distance at every history length from 2 to 130, in both directions, from a full history.
#[test]
fn every_distance_at_every_length() {
    for history_length in 2..=130u16 {
        let config = Recovery::vector(history_length);
        let reach = i32::from(history_length) + 1;
        for distance in -reach..=reach {
            let mut ring = RecoveryFunction::new(&config, Role::Sequence).unwrap();
            let mut oracle = Oracle::new(config, Role::Sequence);
            // Every third number is missing, and the numbers wrap around.
            let start = 65536 - 2 * i32::from(history_length);
            let sent = (0..3 * i32::from(history_length)).filter(|n| n % 3 != 1);
            let highest = 3 * i32::from(history_length) - 1;
            let then = [highest + distance, highest + distance, highest + distance + 1];
            for offset in sent.chain(then) {
                let number = number(start as u16, offset);
                let accepted = ring.packet(0, Some(number)).is_accept();
                assert_eq!(accepted, oracle.packet(Some(number)), "{history_length} {distance}");
                assert_eq!(ring.counters(), oracle.counters, "{history_length} {distance}");
            }
        }
    }
}
