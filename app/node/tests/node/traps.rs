//! Warnings of recovery functions are true of them.

use onbeat_frer::recover::RecoveryFunction;
use onbeat_frer::spec::Role;
use onbeat_node::config::Config;

const MS: u64 = 1_000_000;

/// Packets are sent every ms.
fn at(packet: u64) -> u64 {
    packet * MS
}

/// The recovery functions of a configuration that is warned of, over all members and of the first.
fn functions(file: &str) -> (Option<RecoveryFunction>, Option<RecoveryFunction>) {
    let path = format!("{}/tests/warnings/{file}.toml", env!("CARGO_MANIFEST_DIR"));
    let config = Config::load(path.as_ref()).unwrap_or_else(|error| panic!("{error}"));
    let stream = &config.streams[0];
    let function = |recovery, role| RecoveryFunction::new(&recovery, role).unwrap();
    let all = stream.recover.map(|recovery| function(recovery, Role::Sequence));
    let one = stream.members[0].individual;
    (all, one.map(|recovery| function(recovery, Role::Individual)))
}

/// Number of packets after `jump` that are discarded, where packets have consecutive numbers, one every
/// ms, and number 1000 is followed by number 1000 + `jump`.
fn dead_for(function: &mut RecoveryFunction, jump: u16) -> u64 {
    for number in 0..=1000 {
        assert!(function.packet(at(number.into()), Some(number)).is_accept(), "{number}");
    }
    let number = |n: u64| 1000_u16.wrapping_add(jump).wrapping_add(n as u16);
    let taken = |n: &u64| function.packet(at(1001 + n), Some(number(*n))).is_accept();
    (0..200_000).find(taken).expect("it recovers at last")
}

#[test]
fn individual_vector_recovery_is_dead_after_a_jump_until_the_numbers_come_round() {
    for (file, history) in [("individual-vector", 2), ("individual-history", 512)] {
        let dead = |jump| dead_for(&mut functions(file).1.unwrap(), jump);
        assert_eq!(dead(history - 1), 0, "{file}: a smaller jump is survived");
        // The next one that was not there is 1001.
        let round = 65537 - u64::from(history);
        assert_eq!(dead(history), round, "{file}: the path was cut");
        // The talker begins again with 0.
        assert!(dead(0_u16.wrapping_sub(1000)) >= 1000 - u64::from(history), "{file}");
    }
    let (_, individual) = functions("individual-vector");
    assert!(dead_for(&mut individual.unwrap(), 40_000) > 20_000, "the timeout is no help");
}

#[test]
fn a_history_of_two_is_dead_after_one_lost_packet_until_it_is_reset() {
    for (file, expected) in
        [("history-default", 2000 - 1), ("history-two", 50 - 1), ("history-never-reset", 65537 - 2)]
    {
        assert_eq!(dead_for(&mut functions(file).0.unwrap(), 2), expected, "{file}");
        assert_eq!(dead_for(&mut functions(file).0.unwrap(), 1), 0, "{file}: nothing is lost");
    }
}

#[test]
fn what_is_never_reset_is_dead_after_a_restart_of_the_talker() {
    let (recover, _) = functions("timeout-zero");
    // 0 to 936 are rogue, those after are in the history of 64 and were there, 1001 is new.
    assert_eq!(dead_for(&mut recover.unwrap(), 0_u16.wrapping_sub(1000)), 1001);
    let (recover, _) = functions("timeout-zero");
    assert_eq!(dead_for(&mut recover.unwrap(), 63), 0, "a loss that the history covers");
}
