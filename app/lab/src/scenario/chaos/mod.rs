//! Random networks with random faults, checked by captured frames only.
//!
//! ```text
//!   seed --> plan (nodes, links, streams) --> schedule (cuts, loss, kills, reloads, ...)
//!              |                                 |
//!            world <--- talk, act ---------------'
//!              |
//!        capture (every port, outside of the nodes) --> check --> violations
//! ```
//!
//! The same seed yields the same networks and schedules. Losses are excused only by disturbances,
//! within the times at which the schedule was executed (`actions`).

mod actions;
mod capture;
pub mod check;
mod config;
mod decode;
mod history;
mod pcapng;
mod plan;
pub mod prp;
mod schedule;
pub mod spec;
mod talkers;
mod tick;
mod trial;

use std::collections::BTreeMap;
use std::path::PathBuf;

use onbeat_realtime::clock::{SECOND, now_ns};
use onbeat_realtime::interrupt::Guard;
use onbeat_report::{Cell, Check, Counters, Measurement, Outcome};

use self::check::{Rule, Tally};
use self::plan::Plan;
use self::trial::Trial;
use super::options::{DataPlaneOptions, RunSettings, SeedOptions};
use super::stage::Stage;
use crate::{Error, Result, Topology};
use onbeat_wire::random::Random;

const LONGEST_MINUTES: f64 = 24.0 * 60.0;
/// Maximum number of violations that are described one by one.
const MAX_DESCRIBED: usize = 10;

/// The first network of seed 1.
pub(super) fn network() -> Topology {
    let plan = Plan::draw(seeds(1).number());
    let configured = trial::as_planned(&plan);
    actions::topology(&plan, &configured)
}

fn seeds(seed: u64) -> Random {
    Random::new(seed)
}

/// Options of the scenario.
#[derive(Debug, clap::Args)]
pub(super) struct Options {
    #[command(flatten)]
    plane: DataPlaneOptions,
    /// Run time in minutes
    #[arg(long, value_name = "NUMBER", default_value_t = 1.0)]
    minutes: f64,
    #[command(flatten)]
    seed: SeedOptions,
    /// Directory for the captures of networks that violate a rule
    #[arg(long, value_name = "DIRECTORY", default_value = "onbeat-chaos")]
    captures: PathBuf,
}

pub(super) fn play(stage: &mut Stage<'_>, options: &Options) -> Result<()> {
    let minutes = options.minutes;
    if !(0.05..=LONGEST_MINUTES).contains(&minutes) {
        return Err(Error::Option {
            option: "minutes",
            value: minutes.to_string(),
            reason: format!("use 0.05 to {LONGEST_MINUTES}"),
        });
    }
    let end_ns = now_ns() + (minutes * 60.0 * SECOND as f64) as u64;
    let mut seeds = seeds(options.seed.seed);
    let mut sum = Totals::new(options.seed.seed, options.captures.clone());
    while now_ns() < end_ns {
        let plan = Plan::draw(seeds.number());
        let configured = trial::as_planned(&plan);
        let steps = schedule::draw(&plan);
        let trial = trial::run(stage, &options.plane, plan, &configured, steps, end_ns)?;
        sum.add(stage, &trial)?;
    }
    sum.report(stage);
    Ok(())
}

/// Runs one network without faults, whose edge nodes do not eliminate duplicates, while the checker
/// expects that they do. Its result must have violations.
///
/// # Errors
/// The network cannot be built or captured.
pub fn without_elimination(captures: PathBuf, common: &RunSettings) -> Result<Outcome> {
    const LIFE_MS: u64 = 3000;
    const SEED: u64 = 1;
    let _signals = Guard::install();
    let mut stage = Stage::new("chaos", common);
    let plane = DataPlaneOptions { backend: None };
    let plan = Plan { life_ms: LIFE_MS, ..Plan::draw(seeds(SEED).number()) };
    let mut configured = trial::as_planned(&plan);
    for (number, stream) in plan.streams.iter().enumerate() {
        if let Some(function) = &mut configured[plan.edge(stream.east)][number] {
            function.recover = None;
        }
    }
    let mut sum = Totals::new(SEED, captures);
    let trial = trial::run(&mut stage, &plane, plan, &configured, Vec::new(), u64::MAX)?;
    sum.add(&mut stage, &trial)?;
    sum.report(&mut stage);
    Ok(stage.finish())
}

/// Totals of all networks.
#[derive(Default)]
struct Totals {
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
    fn new(seed: u64, captures: PathBuf) -> Self {
        Self { seed, captures, ..Self::default() }
    }

    fn add(&mut self, stage: &mut Stage<'_>, trial: &Trial) -> Result<()> {
        let (plan, verdict) = (&trial.plan, &trial.verdict);
        self.networks += 1;
        self.frames += trial.captured.frames.len() as u64;
        for (number, _) in &trial.log.done {
            let action = &trial.steps[*number].action;
            if !action.ends() {
                *self.faults.entry(action.object().0).or_default() += 1;
            }
        }
        self.tally.add(&verdict.tally);
        self.rows.push(vec![
            format!("{:#018x}", plan.seed).into(),
            (plan.nodes.len() as u64).into(),
            (plan.links.len() as u64).into(),
            (plan.streams.len() as u64).into(),
            (trial.log.done.len() as u64).into(),
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
        let directory = history::keep(&self.captures, self.seed, trial)?;
        stage.note(format!("network {:#x}: captures in {}", plan.seed, directory.display()));
        for violation in
            verdict.violations.iter().take(MAX_DESCRIBED.saturating_sub(self.described))
        {
            stage.note(history::violation(trial, violation));
            self.described += 1;
        }
        Ok(())
    }

    fn report(self, stage: &mut Stage<'_>) {
        for rule in Rule::ALL {
            let broken = self.broken.get(&rule).copied().unwrap_or(0);
            stage.check(Check::eq(rule.violation(), broken, 0_u64, ""));
        }
        stage.check(Check::eq("inconclusive networks", self.inconclusive, 0_u64, ""));
        stage.check(Check::min("networks", self.networks, 1_u64, ""));
        stage.check(Check::min("frames checked", self.tally.checked, 1_u64, "frames"));
        let mut faults = Counters::new(["object", "number"]);
        for (object, times) in self.faults {
            faults.row([Cell::from(object), times.into()]);
        }
        stage.figure("faults", faults);
        let tally = self.tally;
        let mut checked = Counters::new(["item", "number"]);
        for (what, count) in [
            ("frames captured", self.frames),
            ("frames checked", tally.checked),
            ("delivered", tally.delivered),
            ("discarded, outside of the history", tally.outside),
            ("excused by a fault", tally.excused),
            ("repeated, as match recovery and resets permit", tally.repeated),
            ("numbers assigned", tally.numbered),
            ("restarts of generators", tally.wrapped),
            ("counters compared", tally.counters),
            ("counters that match exactly", tally.exact),
        ] {
            checked.row([Cell::from(what), count.into()]);
        }
        stage.figure("checked", checked);
        stage.figure("longest transit time of a node", Measurement::new("ns", tally.latency_ns));
        let mut networks = Counters::new([
            "network",
            "nodes",
            "links",
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
