//! Interoperation with other implementations. Each suite runs if one of its variables is set, and then requires all
//! of them. README.md names the programs.

#[path = "../common/mod.rs"]
mod common;

mod delay;
mod frer;
mod powerlink;

use std::path::PathBuf;
use std::process::ExitCode;

/// The value of a variable that is set.
fn value(variable: &str) -> Option<PathBuf> {
    std::env::var_os(variable).filter(|value| !value.is_empty()).map(PathBuf::from)
}

/// The programs of a suite, or its variables that name no file.
fn programs(variables: [&str; 2]) -> Result<[PathBuf; 2], String> {
    let path = |variable| value(variable).unwrap_or_default();
    let missing = variables.into_iter().filter(|variable| !path(variable).is_file());
    let missing: Vec<String> =
        missing.map(|variable| format!("{variable}={}", path(variable).display())).collect();
    if missing.is_empty() {
        Ok(variables.map(|variable| path(variable).canonicalize().expect("a file")))
    } else {
        Err(missing.join(", "))
    }
}

/// The programs of each suite to run: delay, FRER, POWERLINK.
fn suites() -> Result<[Option<[PathBuf; 2]>; 3], String> {
    let suites = [delay::VARIABLES, frer::VARIABLES, powerlink::VARIABLES];
    let chosen = suites.map(|variables| variables.iter().any(|name| value(name).is_some()));
    if chosen == [false; 3] {
        return Err(suites.concat().join("=, ") + "=");
    }
    let found = |place: usize| chosen[place].then(|| programs(suites[place])).transpose();
    Ok([found(0)?, found(1)?, found(2)?])
}

fn main() -> ExitCode {
    let [delay, frer, powerlink] = match suites() {
        Ok(suites) => suites,
        Err(missing) => {
            eprintln!("peers: no such program: {missing}; tests/peers/README.md");
            return ExitCode::from(2);
        }
    };
    if !common::can_run() {
        return ExitCode::from(2);
    }
    if let Some(programs) = delay {
        delay::run(programs);
    }
    if let Some(programs) = frer {
        frer::run(programs);
    }
    powerlink.map_or(ExitCode::SUCCESS, powerlink::run)
}
