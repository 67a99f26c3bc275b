//! A long run of a virtual POWERLINK network with random losses and restarts.
//!
//! ```text
//! cargo run --release -p onbeat-sim --example soak -- \
//!     [CYCLES [NODES [LOSSES PER MILLION [SEED [CYCLES OF A MULTIPLEXED CYCLE]]]]]
//! ```
//! It says how far it is on its standard error. Exit status 1: a rule was broken, or a node did not
//! come back.

use std::process::ExitCode;
use std::time::Instant;

use onbeat_sim::{Conditions, NetworkConfig, Progress, Soak};

const USAGE: &str = "usage: soak [CYCLES [NODES (1 to 239) [LOSSES PER MILLION [SEED \
                     [CYCLES OF A MULTIPLEXED CYCLE (0 to 255)]]]]]";

/// Number of progress lines.
const LINES: u64 = 20;

fn main() -> ExitCode {
    let mut numbers = std::env::args().skip(1).map(|text| text.parse::<u64>());
    let mut next = |default: u64| numbers.next().unwrap_or(Ok(default));
    let (cycles, nodes, loss, seed) = (next(1_000_000), next(10), next(1_000), next(1));
    let multiplexed = next(0).ok().and_then(|cycles| u8::try_from(cycles).ok());
    let (Ok(cycles), Ok(nodes @ 1..=239), Ok(loss @ 0..=1_000_000), Ok(seed)) =
        (cycles, nodes, loss, seed)
    else {
        eprintln!("{USAGE}");
        return ExitCode::from(2);
    };
    let Some(multiplexed_cycles) = multiplexed else {
        eprintln!("{USAGE}");
        return ExitCode::from(2);
    };
    // Every node uses less than 30 us of a cycle.
    let cycle_us = (30 * nodes as u32).next_multiple_of(1000);
    let conditions = Conditions { loss_per_million: loss as u32, ..Conditions::CLEAN };
    let nodes = nodes as u8;
    let network =
        NetworkConfig { nodes, cycle_us, mandatory: false, multiplexed_cycles, conditions, seed };
    let (start, mut reported) = (Instant::now(), 0);
    let outcome = Soak { network, cycles, fault_every: 20_000 }.run(|progress| {
        let line = progress.cycles * LINES / cycles.max(1);
        if line > reported {
            reported = line;
            eprintln!("{:6.1} s: {}", start.elapsed().as_secs_f64(), summary(progress));
        }
    });
    println!(
        "cycles of {cycle_us} us, multiplexed cycles of {multiplexed_cycles}, seed {seed}\n\
         {}\nall in OPERATIONAL at the end: {}\n{:.1} s",
        summary(&outcome.progress),
        outcome.operational,
        start.elapsed().as_secs_f64(),
    );
    for violation in &outcome.violations {
        println!("{:12} us: {}", violation.time_ns / 1000, violation.what);
    }
    ExitCode::from(u8::from(!outcome.violations.is_empty() || !outcome.operational))
}

fn summary(progress: &Progress) -> String {
    let Progress { cycles, frames, lost, restarts, cuts, managing_restarts, .. } = *progress;
    format!(
        "{cycles} cycles, {frames} frames, {} s of virtual time; {lost} receptions lost, nodes: \
         {restarts} restarts, {cuts} cables pulled, managing node: {managing_restarts} restarts; \
         {} failures as it saw them; {} rules broken",
        progress.time_ns / 1_000_000_000,
        progress.failures,
        progress.violations
    )
}
