//! POWERLINK networks of onbeat and the demo applications of openPOWERLINK. Every case has a capture, which tshark and
//! `onbeat powerlink sniff` read alike (agreement.rs).
//!
//! ```text
//!   n240 plk0 --- p240          p1 --- plk0 n1
//!   managing node      \       /
//!                       [ hub ]--- p32 --- plk0 n32       controlled nodes,
//!   capture at p240            \                          the first one to three
//!                               p110 --- plk0 n110
//!
//!   each node is onbeat or the reference; the hub is a bridge
//! ```

mod agreement;
mod boot;
mod bus;
mod configuration;
mod data;
mod faults;
mod record;
mod timing;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Instant;

/// Variables with the paths of the demo applications.
pub(crate) const VARIABLES: [&str; 2] = ["OPENPOWERLINK_MN", "OPENPOWERLINK_CN"];
/// Cases to run, separated by commas.
const SELECTION: &str = "CASES";

/// The implementation of a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Maker {
    Onbeat,
    Reference,
}

const MAKERS: [Maker; 2] = [Maker::Onbeat, Maker::Reference];

impl Maker {
    /// For the names of captures.
    fn name(self) -> &'static str {
        match self {
            Maker::Onbeat => "onbeat",
            Maker::Reference => "reference",
        }
    }
}

/// The demo applications.
#[derive(Debug, Clone)]
pub(crate) struct Programs {
    managing: PathBuf,
    controlled: PathBuf,
}

type Case = fn(&Programs);

const CASES: [(&str, Case); 10] = [
    ("our-nodes", boot::our_nodes),
    ("reference-nodes", boot::reference_nodes),
    ("mixed", boot::mixed),
    ("order", boot::order),
    ("steady-onbeat", boot::steady_onbeat),
    ("steady-reference", boot::steady_reference),
    ("process-data", data::process_data),
    ("kill", faults::kill),
    ("cable", faults::cable),
    ("managing-node", faults::managing_node),
];

/// Measurements, which run only if they are selected.
const MEASUREMENTS: [(&str, Case); 1] = [("timing", timing::timing)];

/// The selected cases, or a name without a case.
fn selected() -> Result<Vec<(&'static str, Case)>, String> {
    let selection = std::env::var(SELECTION).unwrap_or_default();
    let names: Vec<&str> = selection.split(',').filter(|name| !name.is_empty()).collect();
    let all = || CASES.into_iter().chain(MEASUREMENTS);
    let known = |name: &&&str| all().any(|(known, _)| known == **name);
    if let Some(unknown) = names.iter().find(|name| !known(name)) {
        let known: Vec<&str> = all().map(|(known, _)| known).collect();
        return Err(format!("{SELECTION}: unknown case {unknown:?}; use {}", known.join(", ")));
    }
    if names.is_empty() {
        return Ok(CASES.to_vec());
    }
    Ok(all().filter(|(name, _)| names.contains(name)).collect())
}

/// Runs the cases one after the other, then compares the readers of their captures.
pub(crate) fn run([managing, controlled]: [PathBuf; 2]) -> ExitCode {
    let cases = match selected() {
        Ok(cases) => cases,
        Err(error) => {
            eprintln!("peers: {error}");
            return ExitCode::from(2);
        }
    };
    // Captures of an earlier run.
    let _ = std::fs::remove_dir_all(bus::output());
    std::fs::create_dir_all(bus::output()).expect("a directory");
    let programs = Programs { managing, controlled };
    let mut failed = Vec::new();
    let mut try_case = |name: &'static str, case: &dyn Fn()| {
        let started = Instant::now();
        let passed = catch_unwind(AssertUnwindSafe(case)).is_ok();
        let result = if passed { "passed" } else { "FAILED" };
        println!("== {name}: {result}, {:.0} s", started.elapsed().as_secs_f64());
        if !passed {
            failed.push(name);
        }
    };
    for (name, case) in cases {
        try_case(name, &|| case(&programs));
    }
    try_case("agreement", &agreement::check);
    if failed.is_empty() {
        return ExitCode::SUCCESS;
    }
    eprintln!("peers: failed: {}; see {}", failed.join(", "), bus::output().display());
    ExitCode::FAILURE
}
