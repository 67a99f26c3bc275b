//! `onbeat lab`, `bench`, `load`: of the laboratory, a program of its own.
//!
//! It runs with the privileges of the caller, mostly root: it is taken from the directory of this program,
//! or from the libexec directory beside it, never from PATH, and only if users who cannot replace this program
//! cannot replace it either.

use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process;

use onbeat_host::trust;
use onbeat_terminal::exit::{Failure, Result};

/// The laboratory's program.
const PROGRAM: &str = "onbeat-lab";

/// Directory of the laboratory, from that of this program, where it is not the same.
const LIBEXEC: &str = "../libexec/onbeat";

/// Version of this program, for the laboratory to compare.
const VERSION: &str = "ONBEAT_VERSION";

/// Commands of the laboratory.
#[derive(Debug, clap::Subcommand)]
pub(crate) enum Laboratory {
    /// Ready-made networks on this machine, with traffic and faults (onbeat-lab)
    #[command(
        disable_help_flag = true,
        after_help = "\
Examples:
  onbeat lab list
  onbeat lab run link-failure --html report.html
  onbeat lab shell link-failure

Exit status: 0 all checks hold, 1 a check failed, 2 error (the laboratory is not installed)."
    )]
    Lab(Passed),
    /// Measure, always beside the limit in the same run (onbeat-lab)
    #[command(
        disable_help_flag = true,
        after_help = "\
Examples:
  onbeat bench frer
  onbeat bench port --cycles 5000

Exit status: 0 all checks hold, 1 a check failed, 2 error (the laboratory is not installed)."
    )]
    Bench(Passed),
    /// Generate reproducible CPU and network load (onbeat-lab)
    #[command(
        disable_help_flag = true,
        after_help = "\
Examples:
  onbeat load cpu examples/load/paper.toml --for 60s
  onbeat load net 192.0.2.2:9 --rate 10000 --size 1470

Exit status: 0 success, 2 error (the laboratory is not installed)."
    )]
    Load(Passed),
}

/// Arguments that the laboratory parses.
#[derive(Debug, clap::Args)]
pub(crate) struct Passed {
    /// Arguments of the laboratory; --help lists them
    #[arg(value_name = "ARGUMENTS", trailing_var_arg = true, allow_hyphen_values = true)]
    arguments: Vec<OsString>,
}

impl Laboratory {
    pub(crate) fn execute(self, verbose: u8) -> Result {
        let (command, passed) = match self {
            Laboratory::Lab(passed) => ("lab", passed),
            Laboratory::Bench(passed) => ("bench", passed),
            Laboratory::Load(passed) => ("load", passed),
        };
        execute(command, passed, verbose)
    }
}

/// Executes the laboratory in place of this process; returns only where that fails.
fn execute(command: &str, passed: Passed, verbose: u8) -> Result {
    let program = installed().map_err(Failure::new)?;
    let error = process::Command::new(&program)
        .args(std::iter::repeat_n("-v", verbose.into()))
        .arg(command)
        .args(passed.arguments)
        .env(VERSION, env!("CARGO_PKG_VERSION"))
        .exec();
    Err(Failure::new(format!("cannot execute {program:?}: {error}")))
}

/// Names of its commands.
pub(crate) const COMMANDS: [&str; 3] = ["lab", "bench", "load"];

/// The laboratory of this program.
pub(crate) fn installed() -> std::result::Result<PathBuf, String> {
    let own = std::env::current_exe()
        .map_err(|error| format!("this program's own path is not known: {error}"))?;
    find(&own)
}

/// The laboratory of the program `own`.
fn find(own: &Path) -> std::result::Result<PathBuf, String> {
    let directory = own.parent().unwrap_or(Path::new("/"));
    let places = [directory.join(PROGRAM), directory.join(LIBEXEC).join(PROGRAM)];
    let Some(program) = places.iter().find(|place| place.is_file()) else {
        return Err(format!(
            "the laboratory is not installed: no {PROGRAM} in {} or {}; install it beside this program \
             (in a checkout: make lab)",
            directory.display(),
            directory.join(LIBEXEC).display(),
        ));
    };
    trust::check_program(program, own).map_err(|refusal| refusal.to_string())?;
    Ok(program.clone())
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    use onbeat_testing::TemporaryDirectory;

    use super::*;
    use crate::command::{Command, parse};

    #[test]
    fn all_arguments_are_passed() {
        let Ok(Command::Laboratory(Laboratory::Bench(bench))) =
            parse("bench frer --json --help -- x")
        else {
            panic!()
        };
        assert_eq!(bench.arguments, ["frer", "--json", "--help", "--", "x"]);
        let Ok(Command::Laboratory(Laboratory::Lab(lab))) = parse("lab --help") else { panic!() };
        assert_eq!(lab.arguments, ["--help"]);
    }

    #[test]
    fn it_is_found_beside_the_program_and_in_libexec_alone() {
        let root = TemporaryDirectory::new("laboratory");
        let (bin, libexec) = (root.path().join("bin"), root.path().join("libexec/onbeat"));
        let install = |directory: &Path, name, mode| {
            fs::create_dir_all(directory).unwrap();
            let program = directory.join(name);
            fs::write(&program, "").unwrap();
            fs::set_permissions(&program, fs::Permissions::from_mode(mode)).unwrap();
            program
        };
        let own = install(&bin, "onbeat", 0o755);
        let missing = find(&own).unwrap_err();
        assert!(missing.contains("make lab") && missing.contains("libexec/onbeat"), "{missing}");
        install(&libexec, PROGRAM, 0o755);
        assert_eq!(find(&own).unwrap(), bin.join(LIBEXEC).join(PROGRAM));
        fs::set_permissions(&libexec, fs::Permissions::from_mode(0o775)).unwrap();
        assert!(find(&own).unwrap_err().contains("chmod go-w"));
        // A group that can exchange this program (umask 002) gains nothing by the laboratory.
        fs::set_permissions(&bin, fs::Permissions::from_mode(0o775)).unwrap();
        let beside = install(&bin, PROGRAM, 0o755);
        assert_eq!(find(&own).unwrap(), beside);
        // Others could have written it and not this program: it is refused, and no other is taken instead.
        install(&bin, PROGRAM, 0o775);
        let refused = find(&own).unwrap_err();
        assert!(refused.contains("chmod go-w"), "{refused}");
        install(&bin, "onbeat", 0o775);
        assert_eq!(find(&own).unwrap(), beside);
    }
}
