//! `onbeat lab`

mod shell;

use std::fmt::Write;
use std::io;
use std::path::PathBuf;
use std::time::Duration;

use clap::builder::PossibleValuesParser;
use onbeat_frer::dataplane::Backend;
use onbeat_lab::scenario::{self, Options, Scenario, list};
use serde::Serialize;

use onbeat_terminal::Shown;
use onbeat_terminal::exit::{Answer, Result};
use onbeat_terminal::output;
use onbeat_terminal::values::duration;

/// Ready-made networks on this machine, with traffic and faults
///
/// Each is built of network namespaces, with real frames and the real data plane, and is removed
/// however the command exits. Traffic and faults stay in these namespaces.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  onbeat lab list
  onbeat lab run link-failure --html report.html
  onbeat lab shell link-failure

Exit status: 0 all checks hold, 1 a check failed, 2 error.")]
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

/// List the scenarios: what each shows, and its options
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  onbeat lab list
  onbeat lab list --json | jq -r '.[].name'

Exit status: 0 success, 2 error.")]
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
    options: Vec<String>,
}

fn options_of(scenario: &Scenario) -> Vec<String> {
    scenario.parameters.iter().map(|parameter| format!("--{}", parameter.name())).collect()
}

impl List {
    fn execute(self) -> Result {
        if self.json {
            let listed = list().iter().map(|s| Listed {
                name: s.name,
                summary: s.summary,
                options: options_of(s),
            });
            output::print_json(&listed.collect::<Vec<_>>())?;
            return Ok(Answer::Good);
        }
        let width = names().map(str::len).max().unwrap_or(0);
        let mut text = String::new();
        for scenario in list() {
            // Writing to a String cannot fail.
            let _ = writeln!(text, "{:<width$}  {}", scenario.name, scenario.summary);
            let _ = writeln!(text, "{:<width$}  {}", "", options_of(scenario).join(" "));
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
  onbeat lab run powerlink-paths --nodes 4
  onbeat lab run chaos --minutes 10 --seed 7 --backend packet

Each scenario has some of the options from --backend to --captures: `onbeat lab list` shows which. An \
option that it does not have is an error.

Exit status: 0 all checks hold, 1 a check failed, 2 error (root is required).")]
#[command(mut_arg("quiet", |quiet| quiet.help("Print no picture of the network, and no progress")))]
struct Run {
    /// The scenario
    #[arg(value_parser = PossibleValuesParser::new(names()))]
    name: String,
    /// What moves the frames in the nodes: programs in the kernel (xdp), or the node's process, over
    /// packet sockets (packet) or AF_XDP sockets (xsk); without it, as the nodes' configurations have
    /// it
    #[arg(long, value_name = "NAME")]
    backend: Option<Backend>,
    #[command(flatten)]
    shown: Shown,
    /// Start value of the random choices: the same seed, the same choices; without it, 1
    #[arg(long, value_name = "NUMBER")]
    seed: Option<u64>,
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
    /// without it, 8. Of "powerlink-paths": up to 16; without it, 4
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u8).range(1..=239))]
    nodes: Option<u8>,
    /// Cycle of "powerlink" and "powerlink-paths"
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
    /// Where "chaos" writes the captures of networks in which a rule was broken; without it,
    /// onbeat-chaos
    #[arg(long, value_name = "DIRECTORY")]
    captures: Option<PathBuf>,
}

impl Run {
    fn execute(self) -> Result {
        let options = self.options(super::onbeat()?);
        // Before the report, which is a matter of the file system.
        scenario::find(&self.name)?.check(&options)?;
        self.shown.check()?;
        let outcome = scenario::run(&self.name, &options)?;
        output::print_outcome(outcome, self.shown.json, !self.shown.quiet)
    }

    fn options(&self, onbeat: PathBuf) -> Options {
        Options {
            html: self.shown.html.clone(),
            json: self.shown.json,
            quiet: self.shown.quiet,
            colours: output::colours(&io::stdout()),
            backend: self.backend,
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
            captures: self.captures.clone(),
            ..Options::new(onbeat)
        }
    }
}

fn names() -> impl Iterator<Item = &'static str> {
    list().iter().map(|scenario| scenario.name)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use onbeat_lab::scenario::Parameter;

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
        assert_eq!((run.seed, run.rate, run.size), (Some(7), Some(10_000), Some(256)));
        assert_eq!((run.seconds, run.cuts), (Some(0.5), Some(9)));
        assert_eq!((run.probes, run.streams), (Some(50), Some(99)));
        let run = parse_run("flapping").unwrap();
        assert_eq!((run.seed, run.rate, run.size), (None, None, None));
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

    /// `--backend`, `--seed`, ... belong to scenarios; the others show the result.
    #[test]
    fn every_option_of_a_scenario_is_one_of_the_command_line() {
        use clap::Args;
        let command = Run::augment_args(clap::Command::new("run"));
        let options = command.get_arguments().filter_map(|argument| argument.get_long());
        let options: Vec<_> = options.filter(|o| !["json", "html", "quiet"].contains(o)).collect();
        assert_eq!(options, Parameter::ALL.map(Parameter::name));
    }

    fn check_run(line: &str) -> std::result::Result<(), String> {
        let run = parse_run(line).map_err(|error| error.to_string())?;
        let scenario = scenario::find(&run.name).map_err(|error| error.to_string())?;
        scenario.check(&run.options("onbeat".into())).map_err(|error| error.to_string())
    }

    #[test]
    fn a_value_for_each_option_reaches_the_scenario() {
        let value = |parameter| match parameter {
            Parameter::Backend => "packet",
            Parameter::Cycle => "5ms",
            Parameter::Streams => "99",
            _ => "1",
        };
        for scenario in list() {
            for parameter in Parameter::ALL {
                let line = format!("{} --{} {}", scenario.name, parameter.name(), value(parameter));
                let known = scenario.parameters.contains(&parameter);
                assert_eq!(check_run(&line).is_ok(), known, "{line}");
            }
        }
    }

    /// The command lines of a document: what follows `onbeat lab run` or `onbeat bench`, and the
    /// values of DEMO and BENCH in the Makefile. Lines without a name, or with a placeholder (N), are none.
    fn documented(text: &str) -> Vec<String> {
        let mut lines = Vec::new();
        let text = text.replace("\\-", "-");
        let after = |line: &str, from: &str, to: &str, lines: &mut Vec<String>| {
            for rest in line.split(from).skip(1) {
                let end =
                    rest.find(['`', '"', '>', '|', ',', ':', ';', '(', ')']).unwrap_or(rest.len());
                let words = rest[..end].split("  ").next().unwrap_or_default();
                let is_placeholder =
                    |word: &str| !word.is_empty() && word.chars().all(|c| c.is_ascii_uppercase());
                // A synopsis of the man page is none either.
                let has_name =
                    words.starts_with(|c: char| c.is_ascii_lowercase()) && !words.contains('[');
                if has_name && !words.split_whitespace().any(is_placeholder) {
                    lines.push(format!("{to} {words}"));
                }
            }
        };
        for line in text.lines() {
            after(line, "onbeat lab run ", "lab run", &mut lines);
            after(line, "DEMO ?= lab run ", "lab run", &mut lines);
            after(line, "onbeat bench ", "bench", &mut lines);
            after(line, "BENCH ?= ", "bench", &mut lines);
        }
        lines
    }

    #[test]
    fn every_documented_command_line_is_one() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let mut files =
            vec![root.join("README.md"), root.join("Makefile"), root.join("CHANGELOG.md")];
        let docs = fs::read_dir(root.join("docs")).unwrap();
        files.extend(docs.map(|entry| entry.unwrap().path()));
        let mut checked = 0;
        for file in files {
            for line in documented(&fs::read_to_string(&file).unwrap()) {
                let result = match line.strip_prefix("lab run ") {
                    Some(run) => check_run(run),
                    None => parse(&line).map(drop).map_err(|error| error.to_string()),
                };
                assert_eq!(result, Ok(()), "{}: onbeat {line}", file.display());
                checked += 1;
            }
        }
        assert!(checked > 50, "{checked} lines were found");
    }
}
