//! `onbeat stream`

use std::path::{Path, PathBuf};

use clap::Subcommand;
use onbeat_host::{file, trust};
use onbeat_node::config::LONGEST;
use onbeat_node::control::Request;

use crate::node;
use onbeat_terminal::exit::{Failure, Result};

/// Add, change or remove streams of a running node, one by one
///
/// Frames of other streams are not touched, and the work does not depend on how many there are. The
/// node's file is neither read nor written: its next reload, or the node's next start, make all
/// streams what the file says.
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
    /// The file holds [[stream]] tables, as the node's own file does; its faults are told as there. All
    /// of them are added, or none.
    #[command(after_help = "\
Examples:
  onbeat stream add axis-9.toml
  onbeat stream add - --node bridge

Exit status: 0 success, 2 error (no stream is changed).")]
    Add(Streams),
    /// Change streams
    ///
    /// As add, for streams that are there by their names. Counters and sequence state go on where the
    /// new parameters leave them their meaning.
    #[command(after_help = "\
Examples:
  onbeat stream change axis-9.toml
  onbeat stream change axis-9.toml --node bridge

Exit status: 0 success, 2 error (no stream is changed).")]
    Change(Streams),
    Remove(Remove),
}

/// Remove streams
///
/// Their frames are of no stream from then on. All of them are removed, or none.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  onbeat stream remove axis-9
  onbeat stream remove axis-8 axis-9 --node bridge

Exit status: 0 success, 2 error (no stream is removed).")]
struct Remove {
    /// Names of the streams
    #[arg(required = true, value_name = "STREAM")]
    streams: Vec<String>,
    /// Name of the node, or path of its control socket; without it, the only node that runs
    #[arg(long)]
    node: Option<String>,
}

#[derive(Debug, clap::Args)]
struct Streams {
    /// File of [[stream]] tables; -: standard input
    file: PathBuf,
    /// Name of the node, or path of its control socket; without it, the only node that runs
    #[arg(long)]
    node: Option<String>,
}

impl Arguments {
    pub(crate) fn execute(self) -> Result {
        match self.action {
            Action::Add(streams) => {
                streams.order("add", |text, file| Request::AddStreams { text, file })
            }
            Action::Change(streams) => {
                streams.order("change", |text, file| Request::ChangeStreams { text, file })
            }
            Action::Remove(Remove { streams, node }) => {
                let command = format!("onbeat stream remove {} --node", streams.join(" "));
                node::order(node.as_deref(), &command, &Request::RemoveStreams { streams })
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

/// A text, and what to call it.
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
    fn takes_a_file_or_names_and_a_node() {
        let Ok(Command::Stream(Arguments { action })) = parse("stream add a.toml --node b") else {
            panic!()
        };
        let Action::Add(streams) = action else { panic!() };
        assert_eq!((streams.file.to_str(), streams.node.as_deref()), (Some("a.toml"), Some("b")));
        let Ok(Command::Stream(Arguments { action })) = parse("stream remove x y") else {
            panic!()
        };
        let Action::Remove(remove) = action else { panic!() };
        assert_eq!((remove.streams, remove.node), (vec!["x".to_owned(), "y".into()], None));
        assert!(parse("stream remove").is_err() && parse("stream change").is_err());
    }

    #[test]
    fn a_file_that_is_not_there_is_named() {
        let message = format!("{:?}", read(Path::new("/nowhere/axis.toml")).unwrap_err());
        assert!(message.contains("/nowhere/axis.toml cannot be read"), "{message}");
    }
}
