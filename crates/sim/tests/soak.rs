//! A network with losses and restarts, short; `examples/soak.rs` runs long ones.

use onbeat_sim::{Conditions, NetworkConfig, Soak};

#[test]
fn losses_and_restarts() {
    let conditions = Conditions { loss_per_million: 5_000, ..Conditions::CLEAN };
    let network =
        NetworkConfig { nodes: 5, cycle_us: 1000, mandatory: false, conditions, seed: 2026 };
    let outcome = Soak { network, cycles: 40_000, fault_every: 2_000 }.run();
    assert_eq!(outcome.violations, []);
    assert!(outcome.operational && outcome.faults >= 10 && outcome.failures >= 10, "{outcome:?}");
}
