//! `onbeat yang`

use std::path::{Path, PathBuf};

use clap::Subcommand;
use onbeat_host::file;
use onbeat_node::config::Config;
use onbeat_node::yang::{self, NodeData};
use onbeat_report::format::count;

use onbeat_terminal::exit::{self, CommandResult, Failure, Result};
use onbeat_terminal::output;

use crate::node;

/// Maximum length of a document: twice that of a node with 65,536 streams.
const LONGEST: u64 = 128 << 20;

/// Read and check nodes as JSON of IEEE YANG modules
///
/// The JSON (RFC 7951) has data of ieee802-dot1cb-stream-identification, ieee802-dot1cb-mask-and-match,
/// ieee802-dot1cb-frer of 2025-11-12 (Cor 1), and ietf-interfaces.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  onbeat yang get bridge
  onbeat yang check bridge.json

Exit status: 0 success, 1 the document has faults, 2 error.")]
pub(crate) struct Arguments {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    Get(GetOptions),
    Check(CheckOptions),
}

/// Print a running node, or the configuration of a file
///
/// YANG has no names of streams: each member has a handle, and each egress entry that edits frames. Warnings list what
/// the modules cannot express. A running node is read without root, by its socket for readers.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  onbeat yang get bridge
  onbeat yang get bridge --config > bridge.json
  onbeat yang get /etc/onbeat/bridge.toml

Exit status: 0 success, 2 error (no daemon answers, or the file has errors).")]
struct GetOptions {
    /// Name of the node, path of its control socket, or configuration file (a path that ends in .toml)
    #[arg(value_name = "NODE|FILE")]
    source: String,
    /// Print the configuration of a running node without its state
    #[arg(long)]
    config: bool,
}

/// Check a document without a node
///
/// Prints all leaves that are wrong, or that no node can set, each with its path. The document contains the interfaces
/// that it names.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  onbeat yang check bridge.json
  onbeat yang get bridge --config | onbeat yang check -

Exit status: 0 a node with these interfaces can run the document, 1 the document has faults, 2 error.")]
struct CheckOptions {
    /// Document, or - for standard input
    file: PathBuf,
}

impl Arguments {
    pub(crate) fn execute(self) -> Result {
        match self.action {
            Action::Get(GetOptions { source, config }) => get(&source, config),
            Action::Check(CheckOptions { file }) => check(&file),
        }
    }
}

fn get(source: &str, config: bool) -> Result {
    let NodeData { document, lost } = match source.ends_with(".toml") {
        true => yang::configuration(&exit::load_to_preview(Path::new(source), Config::load)?),
        false => {
            let mut client = node::connect(Some(source), "onbeat yang get")?;
            yang::running(&mut client, !config)?
        }
    };
    for part in lost {
        exit::warn(format!("warning: not in the document, as YANG cannot express it: {part}"));
    }
    output::print_json(&document)?;
    Ok(CommandResult::Success)
}

fn check(path: &Path) -> Result {
    let is_input = path == Path::new("-");
    let name = if is_input { "standard input".to_owned() } else { path.display().to_string() };
    let octets = match is_input {
        true => file::read_stream(std::io::stdin(), LONGEST),
        false => file::read(path, LONGEST),
    };
    let octets = octets.map_err(|error| Failure::new(format!("{name} cannot be read: {error}")))?;
    let document = serde_json::from_slice(&octets)
        .map_err(|error| Failure::new(format!("{name} is not JSON: {error}; correct it")))?;
    match yang::check(&document) {
        Ok(document) => {
            let interfaces = count(document.interfaces.len() as u64, "interface");
            let streams = count(document.streams.len() as u64, "stream");
            output::print(&format!("{name}: {interfaces}, {streams}\n"))?;
            Ok(CommandResult::Success)
        }
        Err(faults) => {
            for fault in faults.0 {
                exit::warn(format!("{name}: {fault}"));
            }
            Ok(CommandResult::Negative)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::{Command, parse};

    #[test]
    fn accepts_a_file() {
        let Ok(Command::Yang(Arguments { action })) = parse("yang check a.json") else { panic!() };
        let Action::Check(check) = action else { panic!() };
        assert_eq!(check.file.to_str(), Some("a.json"));
        assert!(parse("yang get").is_err() && parse("yang get a.toml").is_ok());
    }
}
