//! `onbeat show`

mod events;
mod hook;
mod nodes;
mod paths;
mod streams;

use std::path::PathBuf;

use onbeat_node::control::{EventStart, node_table};

use onbeat_terminal::exit::{CommandResult, Result};
use onbeat_terminal::output;

use crate::node;

/// Show ports, streams and counters of a running node, or its events
///
/// Events are: path lost and restored, latent errors, floods of rogue packets, resets, interface down and up,
/// and changes of single streams. They are numbered from 1 at each start of the daemon. --since with the
/// last number returns all later events, and warns if some are no longer stored. [node.events] in the node's
/// file sets the thresholds.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  onbeat show
  onbeat show bridge --stream axis-1 --stream axis-2
  onbeat show bridge --json | jq '.streams[].recovery.lost'
  onbeat show bridge --paths
  onbeat show red0 --nodes
  onbeat show --events --follow --json
  onbeat show bridge --events --follow --exec /usr/local/bin/alarm

Exit status: 0 success, 2 error (no daemon answers, or the stream does not exist).")]
pub(crate) struct Arguments {
    /// Name of the node, or path of its control socket [default: the only running node]
    node: Option<String>,
    /// Show all counters of these streams, their paths or events. Repeat the option for several
    #[arg(long, value_name = "NAME")]
    stream: Vec<String>,
    /// Show the paths of streams with sequence recovery: losses, skew, and the history length and reset timeout
    /// that follow
    #[arg(long, conflicts_with = "events")]
    paths: bool,
    /// Show the nodes that a PRP node or a wildcard hears, the stations behind it, and the frames of both LANs or paths
    #[arg(long, conflicts_with_all = ["events", "paths", "stream"])]
    nodes: bool,
    /// Show events, one per line
    #[arg(long)]
    events: bool,
    /// Show only events after this number, or from this time (RFC 3339, UTC; a prefix such as
    /// 2025-01-31T12:30 is sufficient)
    #[arg(long, value_name = "NUMBER|TIME", requires = "events", conflicts_with_all = ["nodes", "paths"])]
    since: Option<EventStart>,
    /// Print new events as they occur, until Ctrl-C
    #[arg(long, requires = "events", conflicts_with_all = ["nodes", "paths"])]
    follow: bool,
    /// Start PROGRAM for each new event, at most 10 times in a minute, not as root. Its standard input is the event in JSON
    #[arg(long, value_name = "PROGRAM", requires = "follow", conflicts_with_all = ["json", "since"])]
    exec: Option<PathBuf>,
    /// Print JSON: the state with all counters, or one object per line for each event
    #[arg(long)]
    json: bool,
}

impl Arguments {
    pub(crate) fn execute(self) -> Result {
        let Self { node, stream, since, follow, json, exec, .. } = self;
        if self.events {
            if let Some(program) = exec {
                return hook::run(node, program, &stream);
            }
            let mut client = node::connect(node.as_deref(), "onbeat show --events")?;
            return events::show(
                &mut client,
                &events::EventOptions { since, streams: stream, follow, json },
            );
        }
        if self.nodes {
            return nodes::show(node.as_deref(), json);
        }
        if self.paths {
            return paths::show(node.as_deref(), &stream, json);
        }
        if !stream.is_empty() {
            return streams::show(node.as_deref(), stream, json);
        }
        let status = node::connect(node.as_deref(), "onbeat show")?.status()?;
        match json {
            false => output::print(&node_table(&status))?,
            true => output::print_json(&status)?,
        }
        Ok(CommandResult::Success)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::{Command, parse};

    #[test]
    fn accepts_a_node_and_a_stream() {
        let Ok(Command::Show(show)) = parse("show a --stream axis-1 --json") else { panic!() };
        assert_eq!(show.node.as_deref(), Some("a"));
        assert_eq!(show.stream, ["axis-1"]);
        assert!(show.json);
        let Ok(Command::Show(show)) = parse("show") else { panic!() };
        assert!(show.node.is_none() && show.stream.is_empty() && !show.json && !show.events);
    }

    #[test]
    fn accepts_events_since_a_number() {
        let Ok(Command::Show(show)) = parse("show a --events --since 7 --follow") else { panic!() };
        assert!(show.events && show.follow && show.since == Some(EventStart::Number(7)));
        assert!(parse("show a --follow").is_err() && parse("show --since 7").is_err());
        // Not ignored either: `requires` is not checked for what conflicts.
        for wrong in ["--nodes --follow", "--paths --since 7", "--nodes --since 7"] {
            assert!(parse(&format!("show a {wrong}")).is_err(), "{wrong}");
        }
    }
}
