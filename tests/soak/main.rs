//! Soaks: properties that must hold for any number of random runs. `tests/soak/run` runs them;
//! `soak` alone lists them.

#[path = "../common/mod.rs"]
mod common;

mod captures;
mod chaos;
mod chaos_prp;
mod command_line;
mod control;
mod features;
mod foreign;
mod full_disk;
mod html;
mod ledger;
mod memory;
mod runs;
mod takeover;

use std::process::ExitCode;

use runs::Runs;

/// Exit status of a soak that this machine does not support, or only a part of it.
const SKIPPED: u8 = 77;

type Soak = fn(&mut Runs);

const SOAKS: [(&str, Soak); 12] = [
    ("takeover", takeover::soak),
    ("features", features::soak),
    ("foreign", foreign::soak),
    ("command-line", command_line::soak),
    ("control", control::soak),
    ("full-disk", full_disk::soak),
    ("html", html::soak),
    ("captures", captures::soak),
    ("chaos", chaos::soak),
    ("chaos-prp", chaos_prp::soak),
    ("memory", memory::soak),
    ("ledger", ledger::soak),
];

fn main() -> ExitCode {
    let Some(name) = std::env::args().nth(1) else {
        SOAKS.iter().for_each(|(name, _)| println!("{name}"));
        return ExitCode::SUCCESS;
    };
    let Some((name, soak)) = SOAKS.iter().find(|(known, _)| *known == name) else {
        eprintln!("soak: no soak {name:?}");
        return ExitCode::from(2);
    };
    if !common::can_run() {
        return ExitCode::from(SKIPPED);
    }
    let mut runs = Runs::from_env(name);
    // A failure is a panic: the drop of `runs` prints how to repeat it.
    soak(&mut runs);
    println!("{}", runs.finished());
    if runs.is_incomplete() { ExitCode::from(SKIPPED) } else { ExitCode::SUCCESS }
}
