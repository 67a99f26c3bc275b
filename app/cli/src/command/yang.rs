//! `onbeat yang`

use std::io::{ErrorKind, Read, Write};
use std::path::{Path, PathBuf};

use clap::Subcommand;
use onbeat_host::file;
use onbeat_node::config::Config;
use onbeat_node::netconf::{ManagedNode, Session};
use onbeat_node::yang::{self, Faults, NodeData, SetError, SetTerms};
use onbeat_report::format::count;
use serde_json::Value;

use onbeat_terminal::exit::{self, CommandResult, Failure, Result};
use onbeat_terminal::output;

use crate::node;

/// Maximum length of a document: twice that of a node with 65,536 streams.
const LONGEST: u64 = 128 << 20;

/// Octets of a session that are read at once.
const LENGTH: usize = 1 << 16;

/// Read, check and set nodes as JSON of IEEE YANG modules
///
/// The JSON (RFC 7951) has data of ieee802-dot1cb-stream-identification, ieee802-dot1cb-mask-and-match,
/// ieee802-dot1cb-frer of 2025-11-12 (Cor 1), and ietf-interfaces.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  onbeat yang get bridge
  onbeat yang check bridge.json
  onbeat yang set bridge bridge.json

Exit status: 0 success, 1 the document has faults, 2 error.")]
pub(crate) struct Arguments {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    Get(GetOptions),
    Check(CheckOptions),
    Set(SetOptions),
    Netconf(NetconfOptions),
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

/// Give a running node the streams of a document
///
/// Adds, changes and removes streams until the node has those of the document: all of them or, on an error, none. Each
/// leaf that the node cannot set is printed with its path. The streams are stored: a restart and a reload keep them.
/// Streams of the node's file change only there.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  onbeat yang get bridge --config > bridge.json
  onbeat yang set bridge bridge.json
  onbeat yang set bridge after.json --base bridge.json

Exit status: 0 success, 1 the document has faults (no stream is changed), 2 error (no stream is changed).")]
struct SetOptions {
    /// Name of the node, or path of its control socket
    node: String,
    /// Document, or - for standard input
    #[arg(default_value = "-")]
    file: PathBuf,
    /// Document that was read before the change: refuse if the node has another configuration by now
    #[arg(long, value_name = "FILE")]
    base: Option<PathBuf>,
    /// Change a node that another system manages (managed-by in its file)
    #[arg(long)]
    force: bool,
}

/// Serve one NETCONF 1.1 session on standard input and output
///
/// For the SSH server: Subsystem netconf "/usr/bin/onbeat yang netconf bridge". Running is the configuration in effect,
/// and startup adds the stored streams to the node's file. A message has at most 1 MiB and 32 levels.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  onbeat yang netconf bridge
  onbeat yang netconf bridge --force

Exit status: 0 the client closed the session, 2 error (no daemon answers, or the client broke the protocol).")]
struct NetconfOptions {
    /// Name of the node, or path of its control socket [default: the only running node]
    node: Option<String>,
    /// Change a node that another system manages (managed-by in its file)
    #[arg(long)]
    force: bool,
}

impl Arguments {
    pub(crate) fn execute(self) -> Result {
        match self.action {
            Action::Get(GetOptions { source, config }) => get(&source, config),
            Action::Check(CheckOptions { file }) => check(&file),
            Action::Set(options) => set(&options),
            Action::Netconf(NetconfOptions { node, force }) => netconf(node.as_deref(), force),
        }
    }
}

fn get(source: &str, config: bool) -> Result {
    let NodeData { document, lost, .. } = match source.ends_with(".toml") {
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
    let (name, document) = read(path)?;
    match yang::check(&document) {
        Ok(document) => {
            let interfaces = count(document.interfaces.len() as u64, "interface");
            let streams = count(document.streams.len() as u64, "stream");
            output::print(&format!("{name}: {interfaces}, {streams}\n"))?;
            Ok(CommandResult::Success)
        }
        Err(faults) => Ok(report(&name, &faults)),
    }
}

fn set(SetOptions { node, file, base, force }: &SetOptions) -> Result {
    let (name, document) = read(file)?;
    let base = base.as_deref().map(read).transpose()?;
    let mut client = node::connect(Some(node), "onbeat yang set")?;
    let base = match base {
        Some((name, document)) => match yang::base(&mut client, &document) {
            Err(SetError::Faults(faults)) => return Ok(report(&name, &faults)),
            base => Some(base?),
        },
        None => None,
    };
    let terms = SetTerms { base, store: true, force: *force, ..SetTerms::default() };
    match yang::set(&mut client, &document, terms, &name) {
        Ok(done) => {
            output::print(&format!("{}\n", done.unwrap_or_else(|| "no change".to_owned())))?;
            Ok(CommandResult::Success)
        }
        Err(SetError::Faults(faults)) => Ok(report(&name, &faults)),
        Err(error) => Err(Failure::from(error)),
    }
}

/// Serves a session until a side ends it.
fn netconf(node: Option<&str>, force: bool) -> Result {
    let client = node::connect(node, "onbeat yang netconf")?;
    let mut session = Session::new(ManagedNode::new(client, force)?, std::process::id());
    let (mut input, mut output) = (std::io::stdin().lock(), std::io::stdout().lock());
    let mut octets = vec![0; LENGTH];
    loop {
        output.write_all(&session.output())?;
        output.flush()?;
        if session.is_closed() {
            break;
        }
        match input.read(&mut octets) {
            Ok(0) => session.end(),
            Ok(length) => session.receive(&octets[..length]),
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(Failure::new(format!("standard input: {error}"))),
        }
    }
    match session.failure() {
        Some(cause) => Err(Failure::new(format!("the NETCONF session ended: {cause}"))),
        None => Ok(CommandResult::Success),
    }
}

/// Prints the faults of a document.
fn report(name: &str, faults: &Faults) -> CommandResult {
    for fault in &faults.0 {
        exit::warn(format!("{name}: {fault}"));
    }
    CommandResult::Negative
}

/// Reads a document; returns it with its name in messages.
fn read(path: &Path) -> std::result::Result<(String, Value), Failure> {
    let is_input = path == Path::new("-");
    let name = if is_input { "standard input".to_owned() } else { path.display().to_string() };
    let octets = match is_input {
        true => file::read_stream(std::io::stdin(), LONGEST),
        false => file::read(path, LONGEST),
    };
    let octets = octets.map_err(|error| Failure::new(format!("{name} cannot be read: {error}")))?;
    let document = serde_json::from_slice(&octets)
        .map_err(|error| Failure::new(format!("{name} is not JSON: {error}; correct it")))?;
    Ok((name, document))
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
