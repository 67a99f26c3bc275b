//! `onbeat lab shell`

use std::ffi::{OsStr, OsString};
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;
use std::{env, fs, io, iter};

use clap::ValueHint;
use onbeat_host::run_directory;
use onbeat_lab::Topology;
use onbeat_lab::scenario::list;
use onbeat_lab::shell;

use super::names;
use onbeat_terminal::exit::{CommandResult, Failure, Result};
use onbeat_terminal::{colors, companion, output};

/// Build the network of a scenario or file, start its nodes, and open a shell
///
/// Hosts and nodes are network namespaces; the shell prints how to enter each. Its private /run contains
/// the control sockets of the nodes. When the shell exits, the network is removed and all processes in it
/// are killed. Without --at the shell is in the network namespace of the caller: commands there can
/// change the interfaces of this machine.
///
/// kill -9 of this command kills the shell and the nodes; the shell's background processes keep running, and keep
/// their namespaces. They have ONBEAT_LAB in their environment: grep -las ONBEAT_LAB= /proc/[0-9]*/environ
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  onbeat lab shell link-failure
  onbeat lab shell link-failure --at a
  onbeat lab shell /usr/share/doc/onbeat/examples/lab/end-systems.toml --at talker
  onbeat lab shell ladder --quiet -- onbeat show f

Exit status: 0 the shell exited with any status, or the command with status 0; 1 the command exited \
with another status; 2 error (root is required).")]
pub(super) struct Shell {
    /// Network: the name of a scenario, or a topology file
    #[arg(value_name = "TOPOLOGY|SCENARIO", value_hint = ValueHint::AnyPath)]
    network: String,
    /// Host or node of the shell [default: the network namespace of the caller]
    #[arg(long, value_name = "NAME")]
    at: Option<String>,
    /// Print neither the network diagram nor hints
    #[arg(short, long)]
    quiet: bool,
    /// Command to run instead of $SHELL
    #[arg(last = true)]
    command: Vec<OsString>,
}

impl Shell {
    pub(super) fn execute(self) -> Result {
        let topology = network(&self.network)?;
        let onbeat = crate::command::ONBEAT.find()?;
        if !self.quiet {
            output::print(&topology.drawing().text(colors::enabled(&io::stdout())))?;
        }
        let mut shell = shell::Shell::open(&topology, self.at.as_deref(), &onbeat)?;
        if !self.quiet {
            output::print(&shell.ways_in())?;
        }
        let mut command = command(&self.command);
        command.env("ONBEAT_LAB", &self.network);
        command.env_remove(companion::VERSION).env("PATH", search_path(&onbeat)?);
        let status = shell.run(&mut command)?;
        // The exit status of an interactive shell is that of its last command, and has no meaning here.
        Ok(CommandResult::good_if(self.command.is_empty() || status.success()))
    }
}

/// The network of a scenario or of a file.
fn network(name: &str) -> Result<Topology> {
    if let Some(scenario) = list().iter().find(|scenario| scenario.name == name) {
        return Ok(scenario.network());
    }
    if !Path::new(name).is_file() {
        return Err(Failure::new(format!(
            "{name:?} is neither a file nor a scenario; scenarios: {}",
            names().collect::<Vec<_>>().join(", ")
        )));
    }
    Ok(Topology::load(Path::new(name))?)
}

fn command(words: &[OsString]) -> Command {
    let shell = env::var_os("SHELL").filter(|shell| !shell.is_empty());
    let mut command = match words {
        [] => Command::new(shell.as_deref().unwrap_or(OsStr::new("/bin/sh"))),
        [program, ..] => Command::new(program),
    };
    command.args(words.iter().skip(1));
    command
}

/// A search path that starts with a directory that contains `onbeat` only: users other than root may be
/// able to write to the directory of the program.
fn search_path(onbeat: &Path) -> Result<OsString> {
    // In the network's own /run.
    let programs = Path::new(run_directory!("programs"));
    let made = fs::create_dir(programs).and_then(|()| symlink(onbeat, programs.join("onbeat")));
    made.map_err(|error| Failure::new(format!("cannot make {programs:?}: {error}")))?;
    let path = env::var_os("PATH").unwrap_or_default();
    Ok(env::join_paths(iter::once(programs.to_owned()).chain(env::split_paths(&path)))?)
}

#[cfg(test)]
mod tests {
    use super::super::{Arguments, Lab};
    use super::*;
    use crate::command::{Command as Parsed, parse};

    fn parse_shell(line: &str) -> Shell {
        match parse(&format!("lab shell {line}")) {
            Ok(Parsed::Lab(Arguments { command: Lab::Shell(shell) })) => shell,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn network_host_and_command_are_parsed() {
        let shell = parse_shell("ladder");
        assert_eq!((shell.network.as_str(), shell.at, shell.command.len()), ("ladder", None, 0));
        let shell = parse_shell("a.toml --at b -q -- ping -c 1 192.0.2.1");
        assert_eq!((shell.network.as_str(), shell.at.as_deref()), ("a.toml", Some("b")));
        assert!(shell.quiet);
        assert_eq!(shell.command, ["ping", "-c", "1", "192.0.2.1"]);
        assert!(parse("lab shell").is_err());
    }

    #[test]
    fn every_scenario_has_a_network() {
        for name in names() {
            assert!(network(name).is_ok(), "{name}");
        }
        assert!(network("link-failur").is_err());
    }
}
