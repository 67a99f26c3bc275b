//! A short run of a network with losses and restarts; `examples/soak.rs` runs long ones.

use onbeat_sim::{Conditions, NetworkConfig, Soak};

use crate::CONFIG;

fn losses_and_restarts(multiplexed_cycles: u8) {
    let conditions = Conditions { loss_per_million: 5_000, ..Conditions::CLEAN };
    let network = NetworkConfig { nodes: 5, multiplexed_cycles, conditions, seed: 2026, ..CONFIG };
    let mut reported = 0;
    let outcome = Soak { network, cycles: 40_000, fault_every: 2_000 }.run(|_| reported += 1);
    let progress = outcome.progress;
    assert_eq!(outcome.violations, []);
    assert!(outcome.operational && progress.failures >= 10, "{outcome:?}");
    assert!(progress.restarts > 0 && progress.cuts > 0 && progress.managing_restarts > 0);
    assert_eq!(reported, progress.restarts + progress.cuts + progress.managing_restarts);
    assert!(progress.lost > 1_000, "{progress:?}");
}

#[test]
fn of_a_network() {
    losses_and_restarts(0);
}

#[test]
fn of_a_network_with_multiplexed_nodes() {
    losses_and_restarts(3);
}
