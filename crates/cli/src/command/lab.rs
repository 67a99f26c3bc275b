//! `onbeat lab`

mod shell;

use std::fmt::Write;
use std::io;
use std::path::PathBuf;
use std::time::Duration;

use clap::builder::PossibleValuesParser;
use onbeat_lab::scenario::{self, Options, list};
use onbeat_node::config::Backend;
use serde::Serialize;

use super::shown::Shown;
use crate::args::{backend, duration};
use crate::exit::{Answer, Failure, Result};
use crate::output;

/// Ready-made networks on this machine, with traffic and faults
///
/// Each is built of network namespaces, with real frames and the real data plane, and goes with
/// the command whichever way that ends. They touch nothing outside.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  onbeat lab list
  onbeat lab run link-failure --html report.html
  onbeat lab shell link-failure

Exit code: 0 every check holds, 1 a check failed, 2 it could not run.")]
pub(crate) struct Arguments {
    #[command(subcommand)]
    command: Lab,
}

#[derive(Debug, clap::Subcommand)]
enum Lab {
    List(List),
    Run(Box<Run>),
    Shell(shell::Shell),
}

impl Arguments {
    pub(crate) fn execute(self) -> Result {
        match self.command {
            Lab::List(list) => list.execute(),
            Lab::Run(run) => run.execute(),
            Lab::Shell(shell) => shell.execute(),
        }
    }
}

/// List the scenarios, and what each shows
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  onbeat lab list
  onbeat lab list --json | jq -r '.[].name'

Exit code: 0 they are listed.")]
struct List {
    /// Print the list as JSON
    #[arg(long)]
    json: bool,
}

/// A scenario as `--json` lists it.
#[derive(Serialize)]
struct Listed {
    name: &'static str,
    summary: &'static str,
}

impl List {
    fn execute(self) -> Result {
        if self.json {
            let listed = list().iter().map(|s| Listed { name: s.name, summary: s.summary });
            output::print_json(&listed.collect::<Vec<_>>())?;
            return Ok(Answer::Good);
        }
        let width = names().map(str::len).max().unwrap_or(0);
        let mut text = String::new();
        for scenario in list() {
            // Writing to a String cannot fail.
            let _ = writeln!(text, "{:<width$}  {}", scenario.name, scenario.summary);
        }
        output::print(&text)?;
        Ok(Answer::Good)
    }
}

/// Run a scenario: build its network, send, make it fail, and say what came of it
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  onbeat lab run link-failure
  onbeat lab run link-failure --rate 10000 --size 256 --seconds 2 --html report.html
  onbeat lab run flapping --cuts 1000 --seed 7 --json > flapping.json
  onbeat lab run rtt --probes 10000 --html rtt.html
  onbeat lab run interrupt-storm --scale 0.2 --html storm.html
  onbeat lab run powerlink --nodes 8 --cycle 20ms --json
  onbeat lab run chaos --minutes 10 --seed 7 --backend packet

Exit code: 0 every check holds, 1 a check failed, 2 it could not run (it needs root).")]
#[command(mut_arg("quiet", |quiet| quiet.help("Print no picture of the network, and no progress")))]
struct Run {
    /// The scenario
    #[arg(value_parser = PossibleValuesParser::new(names()))]
    name: String,
    /// What moves the frames in the nodes: programs in the kernel (xdp), or the node's process, over
    /// packet sockets (packet) or AF_XDP sockets (xsk); without it, as the nodes' configurations have
    /// it
    #[arg(long, value_name = "NAME", value_parser = backend)]
    backend: Option<Backend>,
    #[command(flatten)]
    shown: Shown,
    /// What random choices start from: the same seed, the same choices
    #[arg(long, value_name = "NUMBER", default_value_t = 1)]
    seed: u64,
    /// Frames per second of each stream; without it, as the scenario has it
    #[arg(long, value_name = "FRAMES", value_parser = clap::value_parser!(u64).range(1..))]
    rate: Option<u64>,
    /// Octets of a frame, with Ethernet header and tags, without FCS
    #[arg(long, value_name = "OCTETS")]
    size: Option<usize>,
    /// How long a phase lasts
    #[arg(long)]
    seconds: Option<f64>,
    /// How often a link is cut, in scenarios that cut it again and again
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u32).range(1..))]
    cuts: Option<u32>,
    /// Round trips that are measured of each row under each load, in the scenarios named rtt
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u64).range(1..))]
    probes: Option<u64>,
    /// Controlled nodes of "powerlink": up to 16 run on ports of this machine, more in virtual time;
    /// without it, 8
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u8).range(1..=239))]
    nodes: Option<u8>,
    /// Cycle of "powerlink"
    #[arg(long, value_name = "TIME", value_parser = duration)]
    cycle: Option<Duration>,
    /// How many streams a node has in "scale"
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u32).range(16..=65536))]
    streams: Option<u32>,
    /// For how many minutes "chaos" makes and disturbs networks; without it, one
    #[arg(long, value_name = "NUMBER")]
    minutes: Option<f64>,
    /// How much shorter than the paper's 110 s each run of "interrupt-storm" is; without it, 0.05
    #[arg(long, value_name = "NUMBER")]
    scale: Option<f64>,
    /// Where "chaos" writes what it captured of networks in which a rule was broken
    #[arg(long, value_name = "DIRECTORY", default_value = "onbeat-chaos")]
    captures: PathBuf,
}

impl Run {
    fn execute(self) -> Result {
        self.shown.check()?;
        let colours = output::colours(&io::stdout());
        let options = Options {
            backend: self.backend,
            html: self.shown.html,
            json: self.shown.json,
            quiet: self.shown.quiet,
            colours,
            seed: self.seed,
            rate: self.rate,
            size: self.size,
            seconds: self.seconds,
            cuts: self.cuts,
            probes: self.probes,
            nodes: self.nodes,
            cycle: self.cycle,
            streams: self.streams,
            minutes: self.minutes,
            scale: self.scale,
            captures: self.captures,
            ..Options::new(this_program()?)
        };
        let outcome = scenario::run(&self.name, &options)?;
        output::print_outcome(outcome, self.shown.json, !self.shown.quiet)
    }
}

/// Nodes run what runs them.
fn this_program() -> Result<PathBuf> {
    std::env::current_exe()
        .map_err(|error| Failure::new(format!("this program's own path is not known: {error}")))
}

fn names() -> impl Iterator<Item = &'static str> {
    list().iter().map(|scenario| scenario.name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::{Command, parse};

    fn parse_run(line: &str) -> std::result::Result<Run, clap::Error> {
        match parse(&format!("lab run {line}"))? {
            Command::Lab(Arguments { command: Lab::Run(run) }) => Ok(*run),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_run_takes_what_the_scenario_otherwise_chooses() {
        let run = parse_run(
            "flapping --json --html a.html -q --seed 7 --rate 10000 --size 256 --seconds 0.5 --cuts 9 \
             --probes 50 --streams 99",
        );
        let run = run.unwrap();
        assert_eq!(run.name, "flapping");
        assert!(run.shown.json && run.shown.quiet);
        assert_eq!(run.shown.html.unwrap().to_str(), Some("a.html"));
        assert_eq!((run.seed, run.rate, run.size), (7, Some(10_000), Some(256)));
        assert_eq!((run.seconds, run.cuts), (Some(0.5), Some(9)));
        assert_eq!((run.probes, run.streams), (Some(50), Some(99)));
        let run = parse_run("flapping").unwrap();
        assert_eq!((run.seed, run.rate, run.size), (1, None, None));
        assert_eq!((run.seconds, run.cuts), (None, None));
        assert_eq!((run.probes, run.streams), (None, None));
    }

    #[test]
    fn what_cannot_be_is_refused() {
        for line in ["", "no-such", "flapping --rate 0", "flapping --cuts 0", "rtt --probes 0"] {
            assert!(parse_run(line).is_err(), "{line}");
        }
        let error = parse_run("link-failur").unwrap_err().to_string();
        assert!(error.contains("link-failure"), "{error}");
    }
}
