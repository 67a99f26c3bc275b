//! `onbeat lab`

mod shell;

use std::fmt::Write;
use std::io;

use clap::error::ErrorKind;
use clap::{ArgMatches, Args, FromArgMatches};
use onbeat_lab::scenario::{self, RunSettings, Scenario, list};
use serde::Serialize;

use onbeat_terminal::ResultOptions;
use onbeat_terminal::exit::{CommandResult, Result};
use onbeat_terminal::{colors, output};

/// Run ready-made networks on this machine, with traffic and faults
///
/// Networks consist of network namespaces, with real frames and the real data plane. They are removed on
/// exit. Traffic and faults stay in these namespaces.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  onbeat lab list
  onbeat lab run link-failure --html report.html
  onbeat lab shell link-failure

Exit status: 0 success, 1 a check or the command of `shell` failed, 2 error.")]
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
    /// Whether this runs a scenario; its first `--verbose` shows all tables.
    pub(crate) fn is_run(&self) -> bool {
        matches!(self.command, Lab::Run(_))
    }

    pub(crate) fn execute(self) -> Result {
        match self.command {
            Lab::List(list) => list.execute(),
            Lab::Run(run) => run.execute(),
            Lab::Shell(shell) => shell.execute(),
        }
    }
}

/// List the scenarios with their purpose and options
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

/// A scenario in the output of `--json`.
#[derive(Serialize)]
struct ListedScenario {
    name: &'static str,
    summary: &'static str,
    options: Vec<String>,
}

fn options_of(scenario: &Scenario) -> Vec<String> {
    let command = scenario.command();
    let names = command.get_arguments().filter_map(|argument| argument.get_long());
    names.map(|name| format!("--{name}")).collect()
}

impl List {
    fn execute(self) -> Result {
        if self.json {
            let listed = list().iter().map(|s| ListedScenario {
                name: s.name,
                summary: s.summary,
                options: options_of(s),
            });
            output::print_json(&listed.collect::<Vec<_>>())?;
            return Ok(CommandResult::Success);
        }
        let width = names().map(str::len).max().unwrap_or(0);
        let mut text = String::new();
        for scenario in list() {
            // Writing to a String cannot fail.
            let _ = writeln!(text, "{:<width$}  {}", scenario.name, scenario.summary);
            let _ = writeln!(text, "{:<width$}  {}", "", options_of(scenario).join(" "));
        }
        output::print(&text)?;
        Ok(CommandResult::Success)
    }
}

const EXIT_STATUS: &str =
    "Exit status: 0 all checks hold, 1 a check failed, 2 error (root is required).";

const OUTPUT: &str = "\
Output: a summary of one screen; with --verbose, all tables of the result. Each further --verbose increases the \
log level.";

const EXAMPLES: &str = "\
Examples:
  onbeat lab run link-failure
  onbeat lab run link-failure --rate 10000 --size 256 --seconds 2 --html report.html
  onbeat lab run single-hop --compare router --html compare.html

Each scenario has options of its own: `onbeat lab run SCENARIO --help`.";

/// The run of a scenario; each scenario is a subcommand with options of its own.
#[derive(Debug)]
struct Run {
    scenario: &'static Scenario,
    matches: ArgMatches,
    shown: ResultOptions,
    /// Show all tables of the result, instead of a summary.
    verbose: bool,
}

impl clap::Args for Run {
    fn augment_args(command: clap::Command) -> clap::Command {
        command
            .about("Run a scenario: build its network, send traffic, inject faults, and report the result")
            .after_help(format!("{EXAMPLES}\n\n{OUTPUT}\n\n{EXIT_STATUS}"))
            .subcommand_value_name("SCENARIO")
            .subcommand_required(true)
            // The error for an unknown scenario lists all.
            .allow_external_subcommands(true)
            .subcommands(list().iter().map(run_of))
    }

    fn augment_args_for_update(command: clap::Command) -> clap::Command {
        Self::augment_args(command)
    }
}

/// The subcommand of a scenario.
fn run_of(scenario: &Scenario) -> clap::Command {
    let Scenario { name, summary, example, about, .. } = scenario;
    let summary = format!("{}{}", summary[..1].to_uppercase(), &summary[1..]);
    ResultOptions::augment_args(scenario.command())
        .mut_arg("quiet", |quiet| quiet.help("Print neither the network diagram nor progress"))
        .long_about(format!("{summary}\n\n{about}"))
        .about(summary)
        .after_help(format!(
            "Examples:\n  onbeat lab run {name}\n  onbeat lab run {name} {example}\n\n{OUTPUT}\n\n{EXIT_STATUS}"
        ))
}

impl FromArgMatches for Run {
    fn from_arg_matches(matches: &ArgMatches) -> std::result::Result<Self, clap::Error> {
        let (name, matches) =
            matches.subcommand().ok_or_else(|| clap::Error::new(ErrorKind::MissingSubcommand))?;
        let scenario = scenario::find(name)
            .map_err(|error| clap::Error::raw(ErrorKind::InvalidSubcommand, error))?;
        let shown = ResultOptions::from_arg_matches(matches)?;
        let verbose =
            matches.try_get_one::<u8>("verbose").ok().flatten().is_some_and(|count| *count > 0);
        Ok(Self { scenario, matches: matches.clone(), shown, verbose })
    }

    fn update_from_arg_matches(
        &mut self,
        matches: &ArgMatches,
    ) -> std::result::Result<(), clap::Error> {
        Self::from_arg_matches(matches).map(|run| *self = run)
    }
}

impl Run {
    fn execute(self) -> Result {
        let ResultOptions { json, quiet, html } = &self.shown;
        let common = RunSettings {
            json: *json,
            quiet: *quiet,
            colors: colors::enabled(&io::stdout()),
            ..RunSettings::new(super::ONBEAT.find()?)
        };
        // Before the run: the report depends on the file system.
        self.shown.check()?;
        let outcome = self.scenario.run(&self.matches, &common)?;
        // The result is printed also where the report fails.
        let written = output::write_report(html.as_deref(), &outcome);
        let answer = if *json || self.verbose {
            output::print_outcome(outcome, *json, !quiet)?
        } else {
            let introduction = if *quiet { 0 } else { self.scenario.introduction_lines(&outcome) };
            let report = html.as_deref().filter(|_| written.is_ok());
            output::print_summary(&outcome, self.scenario.shows, introduction, report)?
        };
        written.map(|()| answer)
    }
}

fn names() -> impl Iterator<Item = &'static str> {
    list().iter().map(|scenario| scenario.name)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::fs;
    use std::path::Path;

    use clap::parser::ValueSource;
    use onbeat_testing::documents::check_command_lines;

    use super::*;
    use crate::command::{Command, parse};

    fn parse_run(line: &str) -> std::result::Result<Run, clap::Error> {
        match parse(&format!("lab run {line}"))? {
            Command::Lab(Arguments { command: Lab::Run(run) }) => Ok(*run),
            other => panic!("{other:?}"),
        }
    }

    /// The value of an option as text; `None`: the scenario's default.
    fn value(run: &Run, name: &str) -> Option<String> {
        let given = run.matches.value_source(name) == Some(ValueSource::CommandLine);
        let values = run.matches.get_raw(name).filter(|_| given)?;
        let values: Vec<_> = values.map(|value| value.to_string_lossy()).collect();
        Some(values.join(","))
    }

    #[test]
    fn options_override_the_defaults_of_a_scenario() {
        let flapping = "flapping --json --html a.html -q --seed 7 --rate 10000 --size 256 --cuts 9";
        let run = parse_run(flapping).unwrap();
        assert_eq!(run.scenario.name, "flapping");
        assert!(run.shown.json && run.shown.quiet);
        assert_eq!(run.shown.html.unwrap().to_str(), Some("a.html"));
        for (line, name, given) in [
            (flapping, "seed", "7"),
            (flapping, "rate", "10000"),
            (flapping, "size", "256"),
            (flapping, "cuts", "9"),
            ("matrix --seconds 0.5", "seconds", "0.5"),
            ("rtt --probes 50", "probes", "50"),
            ("scale --streams 99", "streams", "99"),
        ] {
            assert_eq!(value(&parse_run(line).unwrap(), name).as_deref(), Some(given), "{line}");
            let scenario = line.split(' ').next().unwrap();
            assert_eq!(value(&parse_run(scenario).unwrap(), name), None, "{scenario}");
        }
    }

    #[test]
    fn invalid_options_are_rejected() {
        for line in ["", "no-such", "flapping --rate 0", "flapping --cuts 0", "rtt --probes 0"] {
            assert!(parse_run(line).is_err(), "{line}");
        }
        let error = parse_run("link-failur").unwrap_err().to_string();
        assert!(error.contains("link-failure"), "{error}");
    }

    /// Options such as `--backend` and `--seed` belong to scenarios; the others concern the output.
    #[test]
    fn every_option_of_a_scenario_is_on_the_command_line() {
        for scenario in list() {
            let command = run_of(scenario);
            let options = command.get_arguments().filter_map(|argument| argument.get_long());
            let own: Vec<_> = options
                .filter(|option| !["json", "html", "quiet"].contains(option))
                .map(|option| format!("--{option}"))
                .collect();
            assert_eq!(own, options_of(scenario), "{scenario:?}");
        }
    }

    #[test]
    fn a_value_for_each_option_reaches_the_scenario() {
        let all: BTreeSet<String> = list().iter().flat_map(options_of).collect();
        for scenario in list() {
            for option in &all {
                let name = &option[2..];
                let given = match name {
                    "backend" => "packet",
                    "cycle" | "for" => "5ms",
                    "streams" => "99",
                    "compare" => "router",
                    "beside" => "rps",
                    // Flags.
                    "deadlines-only" | "no-nodes" | "no-faults" => "",
                    _ => "1",
                };
                let base =
                    if ["load", "cpus", "for"].contains(&name) { "--compare frer" } else { "" };
                let known = options_of(scenario).contains(option);
                let line = format!("{} {base} {option} {given}", scenario.name);
                let run = parse_run(&line);
                assert_eq!(run.is_ok(), known, "{line}");
                let name = if name == "for" { "length" } else { &name.replace('-', "_") };
                let reached = run.ok().and_then(|run| value(&run, name));
                let given = if given.is_empty() { "true" } else { given };
                assert_eq!(reached.as_deref(), known.then_some(given), "{line}");
            }
        }
    }

    /// The command lines in a document or the Makefile: the text after `onbeat lab run` or `onbeat
    /// bench`, and the values of DEMO and BENCH. Lines without a name, or with a placeholder (N), are
    /// skipped.
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
                // A synopsis of the man page is skipped as well.
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
    fn every_documented_command_line_parses() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let mut checked = 0;
        for file in ["Makefile"] {
            for line in documented(&fs::read_to_string(root.join(file)).unwrap()) {
                let result = parse(&line).map(drop).map_err(|error| error.to_string());
                assert_eq!(result, Ok(()), "{file}: onbeat {line}");
                checked += 1;
            }
        }
        checked += check_command_lines(
            &root,
            |command| ["lab", "bench", "load"].contains(&command),
            |words| {
                let parsed = onbeat_terminal::program::command_line::<crate::command::Command>()
                    .try_get_matches_from(words);
                parsed.map(drop).map_err(|error| (format!("{:?}", error.kind()), error.to_string()))
            },
        );
        assert!(checked > 50, "only {checked} lines found");
    }
}
