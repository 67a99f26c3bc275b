//! Totals of all networks, and reports on violations for analysis.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::io::BufWriter;
use std::path::PathBuf;

use onbeat_host::output;
use onbeat_report::{Cell, Check, Counters, Measurement};

use super::super::super::stage::Stage;
use super::super::pcapng;
use super::judge::{Rule, Tally, Violation};
use super::trial::{Trial, point_name};
use crate::{Error, Result};

/// Maximum number of violations that are described one by one.
const MAX_DESCRIBED: usize = 10;
/// Maximum number of frames of a violation that are described one by one.
const FRAMES: usize = 12;

/// Totals of all networks.
#[derive(Default)]
pub(super) struct Totals {
    networks: u64,
    inconclusive: u64,
    broken: BTreeMap<Rule, u64>,
    tally: Tally,
    faults: BTreeMap<&'static str, u64>,
    frames: u64,
    rows: Vec<Vec<Cell>>,
    described: usize,
    seed: u64,
    captures: PathBuf,
}

impl Totals {
    pub(super) fn new(seed: u64, captures: PathBuf) -> Self {
        Self { seed, captures, ..Self::default() }
    }

    pub(super) fn add(&mut self, stage: &mut Stage<'_>, trial: &Trial) -> Result<()> {
        let (plan, verdict) = (&trial.plan, &trial.verdict);
        self.networks += 1;
        self.frames += trial.captured.frames.len() as u64;
        for (number, _) in &trial.done {
            let action = &trial.steps[*number].action;
            if !action.ends() {
                *self.faults.entry(action.object().0).or_default() += 1;
            }
        }
        self.tally.add(&verdict.tally);
        self.rows.push(vec![
            format!("{:#018x}", plan.seed).into(),
            (plan.nodes.len() as u64).into(),
            (plan.bridges.iter().sum::<usize>() as u64).into(),
            (plan.stations.len() as u64).into(),
            (plan.streams.len() as u64).into(),
            (trial.done.len() as u64).into(),
            (trial.captured.frames.len() as u64).into(),
            verdict.tally.checked.into(),
            verdict.tally.excused.into(),
            (verdict.violations.len() as u64).into(),
        ]);
        if !trial.inconclusive.is_empty() {
            self.inconclusive += 1;
            let why = trial.inconclusive.join("; ");
            stage.note(format!("network {:#x} is inconclusive: {why}", plan.seed));
            return Ok(());
        }
        for violation in &verdict.violations {
            *self.broken.entry(violation.rule).or_default() += 1;
        }
        if verdict.violations.is_empty() {
            return Ok(());
        }
        let directory = self.keep(trial)?;
        stage.note(format!("network {:#x}: captures in {}", plan.seed, directory.display()));
        let left = MAX_DESCRIBED.saturating_sub(self.described);
        for violation in verdict.violations.iter().take(left) {
            stage.note(describe(trial, violation));
            self.described += 1;
        }
        Ok(())
    }

    /// Writes captures, schedule and violations of a network to a directory of their own.
    fn keep(&self, trial: &Trial) -> Result<PathBuf> {
        let name = format!("prp-seed-{}-network-{:016x}", self.seed, trial.plan.seed);
        let directory = self.captures.join(name);
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

    pub(super) fn report(self, stage: &mut Stage<'_>) {
        for rule in Rule::ALL {
            let broken = self.broken.get(&rule).copied().unwrap_or(0);
            stage.check(Check::eq(rule.violation(), broken, 0_u64, ""));
        }
        stage.check(Check::eq("inconclusive networks", self.inconclusive, 0_u64, ""));
        stage.check(Check::min("networks", self.networks, 1_u64, ""));
        stage.check(Check::min("frames checked", self.tally.checked, 1_u64, "frames"));
        let faults = Counters::named(["object", "number"], self.faults);
        stage.figure("faults", faults);
        let tally = self.tally;
        let checked = [
            ("frames captured", self.frames),
            ("frames checked", tally.checked),
            ("delivered", tally.delivered),
            ("delivered by the only copy that arrived", tally.single),
            ("copies discarded", tally.discarded),
            ("excused by an outage", tally.excused),
            ("repeated, as a restart permits", tally.repeated),
            ("numbers compared", tally.numbers),
            ("supervision frames", tally.supervision),
        ];
        stage.figure("checked", Counters::named(["item", "number"], checked));
        stage.figure("longest transit time of a node", Measurement::new("ns", tally.latency_ns));
        let mut networks = Counters::new([
            "network",
            "nodes",
            "bridges",
            "stations",
            "streams",
            "steps",
            "captured",
            "checked",
            "excused",
            "violations",
        ]);
        for row in self.rows {
            networks.row(row);
        }
        stage.figure("networks", networks);
    }
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
