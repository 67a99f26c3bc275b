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
mod totals;
mod trial;

use std::path::{Path, PathBuf};

use onbeat_realtime::clock::now_ns;
use onbeat_realtime::interrupt::Guard;
use onbeat_report::Outcome;
use onbeat_wire::random::Random;

use self::check::{Rule, Tally};
use self::plan::Plan;
pub(super) use self::totals::Options;
use self::totals::{NetworkResult, Totals};
use self::trial::Trial;
use super::options::{DataPlaneOptions, RunSettings};
use super::stage::Stage;
use crate::{Result, Topology};

/// The first network of seed 1.
pub(super) fn network() -> Topology {
    let plan = Plan::draw(seeds(1).number());
    let configured = trial::as_planned(&plan);
    actions::topology(&plan, &configured)
}

fn seeds(seed: u64) -> Random {
    Random::new(seed)
}

pub(super) fn play(stage: &mut Stage<'_>, options: &Options) -> Result<()> {
    let end_ns = options.end_ns()?;
    let mut seeds = seeds(options.seed.seed);
    let mut sum = Sum::new(options.seed.seed, options.captures.clone());
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
    let mut sum = Sum::new(SEED, captures);
    let trial = trial::run(&mut stage, &plane, plan, &configured, Vec::new(), u64::MAX)?;
    sum.add(&mut stage, &trial)?;
    sum.report(&mut stage);
    Ok(stage.finish())
}

/// Totals of all networks.
struct Sum {
    totals: Totals<Rule>,
    tally: Tally,
}

impl Sum {
    fn new(seed: u64, captures: PathBuf) -> Self {
        Self { totals: Totals::new(seed, captures), tally: Tally::default() }
    }

    fn add(&mut self, stage: &mut Stage<'_>, trial: &Trial) -> Result<()> {
        let (plan, verdict) = (&trial.plan, &trial.verdict);
        self.tally.add(&verdict.tally);
        let actions = trial.log.done.iter().map(|(number, _)| &trial.steps[*number].action);
        let network = NetworkResult {
            seed: plan.seed,
            sizes: &[plan.nodes.len(), plan.links.len(), plan.streams.len()],
            faults: actions
                .filter(|action| !action.ends())
                .map(|action| action.object().0)
                .collect(),
            steps: trial.log.done.len(),
            frames: trial.captured.frames.len(),
            checked: verdict.tally.checked,
            excused: verdict.tally.excused,
            inconclusive: &trial.inconclusive,
            broken: verdict.violations.iter().map(|violation| violation.rule).collect(),
        };
        let keep = |under: &Path, seed| history::keep(under, seed, trial);
        let describe = |number: usize| history::violation(trial, &verdict.violations[number]);
        self.totals.add(stage, network, keep, describe)
    }

    fn report(self, stage: &mut Stage<'_>) {
        let tally = self.tally;
        let checked = [
            ("delivered", tally.delivered),
            ("discarded, outside of the history", tally.outside),
            ("excused by a fault", tally.excused),
            ("repeated, as match recovery and resets permit", tally.repeated),
            ("numbers assigned", tally.numbered),
            ("restarts of generators", tally.wrapped),
            ("counters compared", tally.counters),
            ("counters that match exactly", tally.exact),
        ];
        let rules = Rule::ALL.map(|rule| (rule, rule.violation()));
        let sizes = ["nodes", "links", "streams"];
        self.totals.report(stage, rules, &sizes, &checked, tally.latency_ns);
    }
}
