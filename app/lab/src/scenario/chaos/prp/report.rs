//! Totals of all networks, and reports on violations for analysis.

use std::fmt::Write;
use std::io::BufWriter;
use std::path::{Path, PathBuf};

use onbeat_host::output;

use super::super::super::stage::Stage;
use super::super::pcapng;
use super::super::totals::{NetworkResult, Totals};
use super::judge::{Rule, Tally, Violation};
use super::trial::{Trial, point_name};
use crate::{Error, Result};

/// Maximum number of frames of a violation that are described one by one.
const FRAMES: usize = 12;

/// Totals of all networks.
pub(super) struct Sum {
    totals: Totals<Rule>,
    tally: Tally,
}

impl Sum {
    pub(super) fn new(seed: u64, captures: PathBuf) -> Self {
        Self { totals: Totals::new(seed, captures), tally: Tally::default() }
    }

    pub(super) fn add(&mut self, stage: &mut Stage<'_>, trial: &Trial) -> Result<()> {
        let (plan, verdict) = (&trial.plan, &trial.verdict);
        self.tally.add(&verdict.tally);
        let actions = trial.done.iter().map(|(number, _)| &trial.steps[*number].action);
        let bridges = plan.bridges.iter().sum();
        let network = NetworkResult {
            seed: plan.seed,
            sizes: &[plan.nodes.len(), bridges, plan.stations.len(), plan.streams.len()],
            faults: actions
                .filter(|action| !action.ends())
                .map(|action| action.object().0)
                .collect(),
            steps: trial.done.len(),
            frames: trial.captured.frames.len(),
            checked: verdict.tally.checked,
            excused: verdict.tally.excused,
            inconclusive: &trial.inconclusive,
            broken: verdict.violations.iter().map(|violation| violation.rule).collect(),
        };
        let describe = |number: usize| describe(trial, &verdict.violations[number]);
        self.totals.add(stage, network, |under, seed| keep(under, seed, trial), describe)
    }

    pub(super) fn report(self, stage: &mut Stage<'_>) {
        let tally = self.tally;
        let checked = [
            ("delivered", tally.delivered),
            ("delivered by the only copy that arrived", tally.single),
            ("copies discarded", tally.discarded),
            ("excused by an outage", tally.excused),
            ("repeated, as a restart permits", tally.repeated),
            ("numbers compared", tally.numbers),
            ("supervision frames", tally.supervision),
        ];
        let rules = Rule::ALL.map(|rule| (rule, rule.violation()));
        let sizes = ["nodes", "bridges", "stations", "streams"];
        self.totals.report(stage, rules, &sizes, &checked, tally.latency_ns);
    }
}

/// Writes captures, schedule and violations of a network to a directory of their own.
fn keep(under: &Path, seed: u64, trial: &Trial) -> Result<PathBuf> {
    let directory = under.join(format!("prp-seed-{seed}-network-{:016x}", trial.plan.seed));
    let path = directory.join("all.pcapng");
    let failed = |error| Error::io(format!("write {}", path.display()), error);
    let file = output::create_with_directories(&path).map_err(failed)?;
    let name = |point| point_name(&trial.plan, point);
    pcapng::write(&mut BufWriter::new(file), &trial.captured, name).map_err(failed)?;
    let path = directory.join("story.txt");
    let failed = |error| Error::io(format!("write {}", path.display()), error);
    output::write(&path, story(trial)).map_err(failed)?;
    Ok(directory)
}

/// Describes a violation: rule, place, time, frames, and the previous step of the schedule.
fn describe(trial: &Trial, violation: &Violation) -> String {
    let mut text = format!("network {:#x}: {violation}", trial.plan.seed);
    let begin = trial.captured.frames.iter().map(|frame| frame.at).min().unwrap_or(0);
    let since = |at: u64| at.saturating_sub(begin) as f64 / 1e9;
    // Writing to a String cannot fail.
    let _ = write!(text, "; at {:.6} s", since(violation.at));
    if let Some((number, _)) = trial.done.iter().rfind(|(_, span)| span.from <= violation.at) {
        let _ = write!(text, ", after step {number} ({})", trial.steps[*number].action);
    }
    for index in violation.frames.iter().take(FRAMES) {
        let frame = &trial.captured.frames[*index];
        let direction = if frame.entering { "into" } else { "out of" };
        let _ = write!(
            text,
            "\n    {:.6} s {direction} {}: {} octets, {:?}",
            since(frame.at),
            point_name(&trial.plan, frame.point),
            frame.len,
            super::decode::decode(trial.captured.kept(frame))
        );
    }
    text
}

fn story(trial: &Trial) -> String {
    let mut text = String::new();
    let begin = trial.captured.frames.iter().map(|frame| frame.at).min().unwrap_or(0);
    for found in &trial.verdict.violations {
        let _ = writeln!(text, "{}", describe(trial, found));
    }
    let _ = writeln!(text, "\nSchedule: start and end, in s");
    for (number, span) in &trial.done {
        let seconds = |at: u64| at.saturating_sub(begin) as f64 / 1e9;
        let (from, to) = (seconds(span.from), seconds(span.to));
        let _ = writeln!(text, "{number:4} {from:10.6} {to:10.6} {}", trial.steps[*number].action);
    }
    let _ = writeln!(text, "\n{:#?}", trial.plan);
    text
}
