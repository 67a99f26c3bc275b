//! Properties of recovery: no number is accepted twice, and no number is lost that one path delivered in
//! time.

use std::collections::HashSet;

use onbeat_frer::recover::RecoveryFunction;
use onbeat_frer::spec::{MAX_HISTORY, Recovery, Role};
use proptest::prelude::*;

fn vector(history_length: u16) -> RecoveryFunction {
    let config = Recovery::vector(history_length);
    RecoveryFunction::new(&config, Role::Sequence).unwrap()
}

/// One packet of a stream: its losses on two paths, and its delay on each path.
#[derive(Debug, Clone, Copy)]
struct SentPacket {
    delivered: [bool; 2],
    late: [u32; 2],
}

fn sent(jitter: u32) -> impl Strategy<Value = SentPacket> {
    (any::<[bool; 2]>(), [0..=jitter, 0..=jitter])
        .prop_map(|(delivered, late)| SentPacket { delivered, late })
}

/// A history, the jitter and the common burst of loss that it tolerates, and a stream.
fn world() -> impl Strategy<Value = (u16, u32, u16, Vec<SentPacket>)> {
    (4..=MAX_HISTORY).prop_flat_map(|length| {
        (0..=u32::from(length) - 4).prop_flat_map(move |jitter| {
            let burst = u32::from(length) - jitter - 2;
            let stream = prop::collection::vec(sent(jitter), 1..400);
            (Just(length), Just(burst), any::<u16>(), stream)
        })
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn the_union_of_two_lossy_paths_arrives_once(
        (history_length, burst, start, mut stream) in world(),
    ) {
        // At most `burst` consecutive numbers are lost on both paths: after more, the next number is rogue by
        // the standard.
        let mut gap = 0;
        for sent in &mut stream {
            if sent.delivered == [false; 2] && gap == burst {
                sent.delivered[0] = true;
            }
            gap = if sent.delivered == [false; 2] { gap + 1 } else { 0 };
        }
        let mut arrivals: Vec<(u32, usize, u32)> = Vec::new();
        for (index, sent) in (0u32..).zip(&stream) {
            for path in 0..2 {
                if sent.delivered[path] {
                    arrivals.push((index + sent.late[path], path, index));
                }
            }
        }
        arrivals.sort_unstable();

        let mut recover = vector(history_length);
        let mut accepted = HashSet::new();
        let mut expected = HashSet::new();
        for (_, _, index) in &arrivals {
            let number = start.wrapping_add(*index as u16);
            expected.insert(number);
            if recover.packet(0, Some(number)).is_accept() {
                prop_assert!(accepted.insert(number), "{} twice", number);
            }
        }
        prop_assert_eq!(&accepted, &expected);
        let counters = recover.counters();
        prop_assert_eq!(counters.rogue, 0);
        prop_assert_eq!(counters.passed + counters.discarded, arrivals.len() as u64);
    }

    /// Within the last `history_length` accepted steps of the window no number is accepted twice, whatever
    /// arrives; accepted and discarded packets add up.
    #[test]
    fn no_number_twice_within_the_window(
        history_length in 2..=MAX_HISTORY,
        start in any::<u16>(),
        steps in prop::collection::vec(prop_oneof![-3..4i32, -1500..1500i32], 1..600),
    ) {
        let mut recover = vector(history_length);
        let mut accepted: HashSet<i64> = HashSet::new();
        // The numbers without wrap-around, to distinguish them.
        let mut highest = i64::from(start) + 65536;
        for (count, step) in steps.iter().enumerate() {
            let endless = if count == 0 { highest } else { highest + i64::from(*step) };
            let number = endless.rem_euclid(65536) as u16;
            if recover.packet(0, Some(number)).is_accept() {
                prop_assert!(endless > highest - i64::from(history_length));
                prop_assert!(accepted.insert(endless), "{} twice", endless);
                highest = highest.max(endless);
            }
        }
        let counters = recover.counters();
        prop_assert_eq!(counters.passed, accepted.len() as u64);
        prop_assert_eq!(counters.passed + counters.discarded, steps.len() as u64);
        prop_assert!(counters.rogue <= counters.discarded);
        prop_assert!(counters.lost_before_first <= counters.lost);
        prop_assert!(counters.lost_before_first < u64::from(history_length));
    }
}
