//! `onbeat fleet status`

use std::collections::{BTreeMap, BTreeSet};
use std::io::IsTerminal;
use std::time::Duration;

use onbeat_plan::manifest::Manifest;
use onbeat_report::format;
use onbeat_rollout::change::owner;
use onbeat_rollout::record::NodeReport;
use onbeat_rollout::{Current, NodeState, Phase};
use onbeat_terminal::exit::{CommandResult, Failure, Result};
use onbeat_terminal::output::{self, print, print_json, print_to_reader};
use serde::Serialize;

use super::FleetOption;
use super::apply::OpenFleet;
use crate::agent::unix_time;
use crate::controller::FleetReader;
use crate::{error, files};

/// Exit statuses of their own: a roll-out is under way; the fleet is not healthy.
const UNDER_WAY: u8 = 3;
const NOT_HEALTHY: u8 = 4;

/// Ports that a line names, and paths that have a line.
const NAMED: usize = 3;
const NAMED_PATHS: usize = 20;

/// Why a state counts as none.
const UNSIGNED: &str = "its state is not signed by the key of its invitation; upgrade its agent, or invite the node again";

/// Age of a report, in seconds, after which two are missing.
const OLD_REPORT_S: u64 = 150;

/// Time between two views of --watch.
const INTERVAL: Duration = Duration::from_secs(2);

/// Show the plan that runs, and the nodes that are missing
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  onbeat fleet status
  onbeat fleet status --watch
  onbeat fleet status --json

Exit status: 0 all nodes run the plan; 2 error; 3 a roll-out is under way; 4 a node is missing, refuses or loses frames, or
the store was restored.")]
pub(crate) struct Status {
    /// Print JSON
    #[arg(long)]
    json: bool,
    /// Show it again each 2 s, until Ctrl-C
    #[arg(long, conflicts_with = "json")]
    watch: bool,
    #[command(flatten)]
    fleet: FleetOption,
}

#[derive(Debug, Serialize)]
struct NodeLine {
    node: String,
    /// `ok`, `waiting`, `refused`, `lossy`, `missing`.
    state: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    step: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    sha256: Option<String>,
    #[serde(skip_serializing_if = "String::is_empty")]
    why: String,
    /// What the agent reported last, with or without a lease.
    #[serde(skip_serializing_if = "Option::is_none")]
    report: Option<NodeReport>,
}

#[derive(Debug, Serialize)]
struct FleetStatus {
    step: u64,
    from: u64,
    to: u64,
    phase: Phase,
    is_returning: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    paused: Option<String>,
    is_restored: bool,
    nodes: Vec<NodeLine>,
    silent_paths: Vec<SilentPath>,
}

fn line(current: &Current, node: String, state: Option<NodeState>) -> NodeLine {
    let Some(state) = state else {
        let (state, why) = ("missing", String::new());
        return NodeLine { node, state, step: None, sha256: None, why, report: None };
    };
    let word = match (state.current == *current, state.ok) {
        (_, false) => "refused",
        (true, true) if state.lost > 0 => "lossy",
        (true, true) => "ok",
        (false, true) => "waiting",
    };
    let (step, sha256) = (Some(state.current.step), Some(state.hash.to_string()));
    NodeLine { node, state: word, step, sha256, why: state.why, report: None }
}

impl Status {
    pub(crate) fn execute(self) -> Result<CommandResult> {
        let mut fleet = OpenFleet::open(&self.fleet)?;
        let mut reader = FleetReader::default();
        if self.watch {
            return watch(&mut fleet, &mut reader);
        }
        let status = status(&mut fleet, &mut reader)?;
        let has = |words: &[&str]| status.nodes.iter().any(|node| words.contains(&node.state));
        let is_healthy = !has(&["missing", "refused", "lossy"]) && !status.is_restored;
        let is_over = status.phase == Phase::Rest && !has(&["waiting"]);
        if self.json {
            print_json(&status)?;
        } else {
            print(&text(&status))?;
        }
        let code = match (is_healthy, is_over) {
            (true, true) => return Ok(CommandResult::Success),
            (true, false) => UNDER_WAY,
            (false, _) => NOT_HEALTHY,
        };
        let what = match (is_healthy, status.is_restored) {
            (true, _) => "a roll-out is under way",
            (false, true) => "the store was restored; run `onbeat fleet apply --continue`",
            (false, false) => "not all nodes are healthy",
        };
        Err(Failure::with_code(what, code))
    }
}

/// Shows the state until its reader is gone.
fn watch(fleet: &mut OpenFleet, reader: &mut FleetReader) -> Result<CommandResult> {
    loop {
        let text = match status(fleet, reader) {
            Ok(status) => text(&status),
            Err(error) => format!("{error}\n"),
        };
        // Clears the screen of a terminal only.
        let clear = if std::io::stdout().is_terminal() { "\x1b[H\x1b[2J" } else { "" };
        if print_to_reader(&format!("{clear}{text}"))? == output::Reader::Closed {
            return Ok(CommandResult::Success);
        }
        std::thread::sleep(INTERVAL);
    }
}

fn status(fleet: &mut OpenFleet, reader: &mut FleetReader) -> error::Result<FleetStatus> {
    let read = reader.read(&mut fleet.store, &fleet.public)?;
    let mut reports = reader.reports(&mut fleet.store)?;
    let current = read.current;
    let is_silent = reports.values().any(|report| report.silent > 0);
    let silent_paths = match is_silent && current.to != 0 {
        true => {
            let plan = files::plan_manifest(&mut fleet.store, &fleet.public, current.to)?;
            silent_paths(&plan, &reports)
        }
        false => Vec::new(),
    };
    let unsigned = read.unsigned;
    let nodes = read.nodes.into_iter().chain(read.others).map(|(node, state)| {
        let report = reports.remove(&node);
        let is_unsigned = unsigned.contains(&node);
        let line = line(&current, node, state);
        let why = if is_unsigned { UNSIGNED.into() } else { line.why };
        NodeLine { report, why, ..line }
    });
    let nodes = nodes.collect();
    let Current { step, from, to, phase, .. } = current;
    let (is_returning, is_restored) = (current.is_returning(), read.is_restored);
    Ok(FleetStatus {
        step,
        from,
        to,
        phase,
        is_returning,
        paused: read.pause,
        is_restored,
        nodes,
        silent_paths,
    })
}

fn text(status: &FleetStatus) -> String {
    let FleetStatus { step, from, to, phase, is_returning, nodes, .. } = status;
    let plans = match (from == to || *phase == Phase::Rest, is_returning) {
        (true, _) => format!("plan {from}"),
        (false, false) => format!("plan {from} to {to}, {phase}"),
        (false, true) => format!("plan {from} to {to}, {phase}, returning"),
    };
    let paused = status.paused.as_ref().map_or(String::new(), |why| format!("; paused: {why}"));
    let restored = match status.is_restored {
        true => "; the store was restored: run `onbeat fleet apply --continue`",
        false => "",
    };
    let now = unix_time();
    let width = nodes.iter().map(|node| node.node.len()).max().unwrap_or(0).max(4);
    let rows = nodes.iter().map(|node| {
        let step = node.step.map_or("-".into(), |step| step.to_string());
        let hash = node.sha256.as_deref().map_or("-", |hash| &hash[..12]);
        let seen = node.report.as_ref().map_or("-".into(), |report| age(now, report.seen_s));
        let is_old = |report: &NodeReport| now.saturating_sub(report.seen_s) > OLD_REPORT_S;
        let why = match (&node.report, node.why.is_empty()) {
            (Some(report), true) if is_old(report) => {
                "no report: its node does not run, or clocks differ".into()
            }
            (Some(report), true) => trouble(report),
            _ => node.why.clone(),
        };
        let row = format!(
            "{:<width$}  {:<7}  {step:>4}  {hash:<12}  {seen:>6}  {why}",
            node.node, node.state
        );
        row.trim_end().to_owned() + "\n"
    });
    let head = format!(
        "{:<width$}  {:<7}  {:>4}  {:<12}  {:>6}  WHY\n",
        "NODE", "STATE", "STEP", "SHA-256", "SEEN"
    );
    let paths = &status.silent_paths;
    let line = |path: &SilentPath| {
        let SilentPath { stream, listener, hop } = path;
        format!("\nstream {stream:?} to {listener}: no frames over {hop}")
    };
    let mut silent: Vec<String> = paths.iter().take(NAMED_PATHS).map(line).collect();
    if paths.len() > NAMED_PATHS {
        silent.push(format!("\nand {} more (--json lists all)", paths.len() - NAMED_PATHS));
    }
    let silent = silent.concat();
    let end = if silent.is_empty() { "" } else { "\n" };
    let rows: String = rows.collect();
    format!("step {step}: {plans}{paused}{restored}\n\n{head}{rows}{silent}{end}")
}

/// What a report says for people.
fn trouble(report: &NodeReport) -> String {
    let down = report.ports_down.iter().map(|port| format!("port {port} is down"));
    let silent = (report.silent > 0)
        .then(|| format!("{} without frames", format::count(report.silent, "member")));
    down.take(NAMED).chain(silent).collect::<Vec<_>>().join("; ")
}

/// A path on which no frame arrives.
#[derive(Debug, Serialize)]
struct SilentPath {
    stream: String,
    /// Where it ends.
    listener: String,
    /// The first link beyond which nothing arrives, as reports say: `NODE:PORT>NODE:PORT`.
    hop: String,
}

/// Paths whose last member is silent, with the hop where their frames are lost.
fn silent_paths<'p>(plan: &'p Manifest, reports: &BTreeMap<String, NodeReport>) -> Vec<SilentPath> {
    let known: BTreeSet<&str> = plan.streams.iter().map(|stream| &stream.name[..]).collect();
    let silent: BTreeSet<(&str, &str, &str)> = reports
        .iter()
        .flat_map(|(node, report)| {
            let members = report.members.iter();
            members.map(|member| (owner(&member.stream, &known), &node[..], &member.port[..]))
        })
        .collect();
    let down: BTreeSet<(&str, &str)> = reports
        .iter()
        .flat_map(|(node, report)| report.ports_down.iter().map(|port| (&node[..], &port[..])))
        .collect();
    let is_down = |hop: &&String| {
        hop.split('>').any(|end| end.split_once(':').is_some_and(|end| down.contains(&end)))
    };
    let mut found = Vec::new();
    for stream in &plan.streams {
        let is_silent = |hop: &&String| {
            let end = hop.split_once('>').and_then(|(_, end)| end.split_once(':'));
            end.is_some_and(|(node, port)| silent.contains(&(&stream.name[..], node, port)))
        };
        for listener in &stream.listeners {
            let broken =
                listener.paths.iter().filter(|path| path.last().as_ref().is_some_and(is_silent));
            // A port without a link says it before counters do.
            let hop = |path: &'p Vec<String>| {
                path.iter().find(is_down).or_else(|| path.iter().find(is_silent))
            };
            found.extend(broken.filter_map(hop).map(|hop| SilentPath {
                stream: stream.name.clone(),
                listener: listener.node.clone(),
                hop: hop.clone(),
            }));
        }
    }
    found
}

/// Time since a report, by the clocks of both: for people only.
fn age(now: u64, seen: u64) -> String {
    match now.saturating_sub(seen) {
        seconds @ ..120 => format!("{seconds} s"),
        seconds @ ..7200 => format!("{} min", seconds / 60),
        seconds => format!("{} h", seconds / 3600),
    }
}
