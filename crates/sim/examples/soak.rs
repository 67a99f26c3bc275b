//! A long run of a virtual POWERLINK network with random losses and restarts.
//!
//! ```text
//! cargo run --release -p onbeat-sim --example soak -- [CYCLES [NODES [LOSSES PER MILLION [SEED]]]]
//! ```
//! Exit code 1: a rule was broken, or a node did not come back.

use std::process::ExitCode;
use std::time::Instant;

use onbeat_sim::{Conditions, NetworkConfig, Soak};

fn main() -> ExitCode {
    let mut numbers = std::env::args().skip(1).map(|text| text.parse::<u64>());
    let mut next = |default: u64| numbers.next().unwrap_or(Ok(default));
    let (cycles, nodes, loss, seed) = (next(1_000_000), next(10), next(1_000), next(1));
    let (Ok(cycles), Ok(nodes @ 1..=239), Ok(loss @ 0..=1_000_000), Ok(seed)) =
        (cycles, nodes, loss, seed)
    else {
        eprintln!("usage: soak [CYCLES [NODES (1 to 239) [LOSSES PER MILLION [SEED]]]]");
        return ExitCode::from(2);
    };
    // Every node takes less than 30 us of a cycle.
    let cycle_us = (30 * nodes as u32).next_multiple_of(1000);
    let conditions = Conditions { loss_per_million: loss as u32, ..Conditions::CLEAN };
    let network =
        NetworkConfig { nodes: nodes as u8, cycle_us, mandatory: false, conditions, seed };
    let start = Instant::now();
    let outcome = Soak { network, cycles, fault_every: 20_000 }.run();
    println!(
        "{} cycles of {cycle_us} us, {} frames, {} s of virtual time in {:.1} s; {} faults, {} \
         failures, {} violations, all operational: {}",
        outcome.cycles,
        outcome.frames,
        outcome.time_ns / 1_000_000_000,
        start.elapsed().as_secs_f64(),
        outcome.faults,
        outcome.failures,
        outcome.violations.len(),
        outcome.operational
    );
    for violation in &outcome.violations {
        println!("{:12} us: {}", violation.time_ns / 1000, violation.what);
    }
    ExitCode::from(u8::from(!outcome.violations.is_empty() || !outcome.operational))
}
