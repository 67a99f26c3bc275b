//! `onbeat stream`

use std::path::{Path, PathBuf};

use clap::Subcommand;
use onbeat_host::{file, trust};
use onbeat_node::config::LONGEST;
use onbeat_node::control::Request;

use crate::node;
use onbeat_terminal::exit::{Failure, Result};

/// Add, change, remove or prove single streams of a running node
///
/// Other streams are not affected, and the cost does not depend on their number. The node's file is neither
/// read nor written: the next reload or start of the node restores the streams of the file.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  onbeat stream add axis-9.toml
  onbeat stream remove axis-9 --node bridge

Exit status: 0 success, 2 error (no stream is changed).")]
pub(crate) struct Arguments {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Add streams
    ///
    /// FILE contains [[stream]] tables in the format of the node's file. Adds all of them or, on an error, no stream.
    #[command(after_help = "\
Examples:
  onbeat stream add axis-9.toml
  onbeat stream add - --node bridge

Exit status: 0 success, 2 error (no stream is changed).")]
    Add(Streams),
    /// Change streams
    ///
    /// Replaces existing streams with the same names; the format is that of add. Counters and sequence state
    /// are kept if they remain meaningful with the new parameters.
    #[command(after_help = "\
Examples:
  onbeat stream change axis-9.toml
  onbeat stream change axis-9.toml --node bridge

Exit status: 0 success, 2 error (no stream is changed).")]
    Change(Streams),
    Remove(RemoveOptions),
    Prove(ProveOptions),
    SetNumber(NumberOptions),
}

/// Remove streams
///
/// Removes all of them or, on an error, no stream. The node then handles their frames like frames without a stream.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  onbeat stream remove axis-9
  onbeat stream remove axis-8 axis-9 --node bridge

Exit status: 0 success, 2 error (no stream is removed).")]
struct RemoveOptions {
    /// Names of the streams
    #[arg(required = true, value_name = "STREAM")]
    streams: Vec<String>,
    /// Name of the node, or path of its control socket [default: the only running node]
    #[arg(long)]
    node: Option<String>,
    /// Change a node that another system manages (managed-by in its file)
    #[arg(long)]
    force: bool,
}

/// Send probes along the paths of streams
///
/// Sends 3 shortest and 9 longest frames without R-TAG by each egress port of a stream toward other nodes. Relays
/// forward them. Sequence recovery at the end of a path counts them (input of the member, tagless) and discards
/// them, so that no host receives one. Streams with take-no-sequence deliver them. A probe that an interface drops,
/// for example because the MTU at the other end is smaller, is an error.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  onbeat stream prove axis-9
  onbeat stream prove --file axis-9.toml --node bridge

Exit status: 0 all probes were sent, 2 error (a probe was not sent).")]
struct ProveOptions {
    /// Names of the streams [default: all of --file]
    #[arg(required_unless_present = "file", value_name = "STREAM")]
    streams: Vec<String>,
    /// Prove streams as this file describes them, which need not run yet; - for standard input
    #[arg(long)]
    file: Option<PathBuf>,
    /// Name of the node, or path of its control socket [default: the only running node]
    #[arg(long)]
    node: Option<String>,
}

/// Set the number of the next packet of a stream
///
/// For a talker that moves to another node: packets with the numbers that follow pass without a reset of the listeners.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  onbeat stream set-number axis-9 4711
  onbeat stream set-number axis-9 0 --node bridge

Exit status: 0 success, 2 error (the stream does not exist, or numbers no packets).")]
struct NumberOptions {
    /// Name of the stream
    stream: String,
    /// Number of the next packet, 0 to 65535
    number: u16,
    /// Name of the node, or path of its control socket [default: the only running node]
    #[arg(long)]
    node: Option<String>,
    /// Change a node that another system manages (managed-by in its file)
    #[arg(long)]
    force: bool,
}

#[derive(Debug, clap::Args)]
struct Streams {
    /// File with [[stream]] tables, or - for standard input
    file: PathBuf,
    /// Name of the node, or path of its control socket [default: the only running node]
    #[arg(long)]
    node: Option<String>,
    /// Change a node that another system manages (managed-by in its file)
    #[arg(long)]
    force: bool,
}

impl Arguments {
    pub(crate) fn execute(self) -> Result {
        match self.action {
            Action::Add(streams) => {
                let force = streams.force;
                streams.order("add", |text, file| Request::AddStreams { text, file, force })
            }
            Action::Change(streams) => {
                let force = streams.force;
                streams.order("change", |text, file| Request::ChangeStreams { text, file, force })
            }
            Action::Remove(RemoveOptions { streams, node, force }) => {
                let command = format!("onbeat stream remove {} --node", streams.join(" "));
                node::order(node.as_deref(), &command, &Request::RemoveStreams { streams, force })
            }
            Action::Prove(ProveOptions { streams, file, node }) => {
                let of_file = file.as_ref().map(|file| format!("--file {}", file.display()));
                let words: Vec<&str> = streams.iter().chain(&of_file).map(String::as_str).collect();
                let command = format!("onbeat stream prove {} --node", words.join(" "));
                let (text, file) = file.map(|file| read(&file)).transpose()?.unzip();
                let request = Request::Prove { streams, text, file: file.unwrap_or_default() };
                node::order(node.as_deref(), &command, &request)
            }
            Action::SetNumber(NumberOptions { stream, number, node, force }) => {
                let command = format!("onbeat stream set-number {stream} {number} --node");
                let request = Request::SetNumber { stream, number, force };
                node::order(node.as_deref(), &command, &request)
            }
        }
    }
}

impl Streams {
    fn order(self, what: &str, request: impl FnOnce(String, String) -> Request) -> Result {
        let (text, name) = read(&self.file)?;
        let command = format!("onbeat stream {what} {} --node", self.file.display());
        node::order(self.node.as_deref(), &command, &request(text, name))
    }
}

/// Reads a text; returns it with its name in messages.
fn read(path: &Path) -> Result<(String, String)> {
    let is_input = path == Path::new("-");
    let name = if is_input { "standard input".to_owned() } else { path.display().to_string() };
    let failed = |error| Failure::new(format!("{name} cannot be read: {error}"));
    let text = if is_input {
        let octets = file::read_stream(std::io::stdin(), LONGEST);
        octets.and_then(file::text).map_err(failed)
    } else {
        trust::load(path, |path| file::read_text(path, LONGEST).map_err(failed))
    }?;
    Ok((text, name))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::{Command, parse};

    #[test]
    fn accepts_a_file_or_names_and_a_node() {
        let Ok(Command::Stream(Arguments { action })) = parse("stream add a.toml --node b") else {
            panic!()
        };
        let Action::Add(streams) = action else { panic!() };
        assert_eq!((streams.file.to_str(), streams.node.as_deref()), (Some("a.toml"), Some("b")));
        let Ok(Command::Stream(Arguments { action })) = parse("stream remove x y") else {
            panic!()
        };
        let Action::Remove(remove) = action else { panic!() };
        assert!(!remove.force);
        assert_eq!((remove.streams, remove.node), (vec!["x".to_owned(), "y".into()], None));
        assert!(parse("stream prove").is_err() && parse("stream prove --file a.toml").is_ok());
        assert!(parse("stream set-number x 65536").is_err());
        assert!(parse("stream set-number x 65535 --force").is_ok());
        assert!(parse("stream remove").is_err() && parse("stream change").is_err());
    }

    #[test]
    fn the_error_of_a_missing_file_names_it() {
        let message = format!("{:?}", read(Path::new("/nowhere/axis.toml")).unwrap_err());
        assert!(message.contains("/nowhere/axis.toml cannot be read"), "{message}");
    }
}
