//! Options of a run of random networks, and the totals of all networks.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use onbeat_realtime::clock::{SECOND, now_ns};
use onbeat_report::{Cell, Check, Counters, Measurement};

use super::super::options::{DataPlaneOptions, SeedOptions};
use super::super::stage::Stage;
use crate::{Error, Result};

const LONGEST_MINUTES: f64 = 24.0 * 60.0;
/// Maximum number of violations that are described one by one.
const MAX_DESCRIBED: usize = 10;

/// Options of the scenarios.
#[derive(Debug, clap::Args)]
pub(in super::super) struct Options {
    #[command(flatten)]
    pub(super) plane: DataPlaneOptions,
    /// Run time in minutes
    #[arg(long, value_name = "NUMBER", default_value_t = 1.0)]
    minutes: f64,
    #[command(flatten)]
    pub(super) seed: SeedOptions,
    /// Directory for the captures of networks that violate a rule
    #[arg(long, value_name = "DIRECTORY", default_value = "onbeat-chaos")]
    pub(super) captures: PathBuf,
}

impl Options {
    /// Returns the time of CLOCK_MONOTONIC at which a run ends that starts now.
    pub(super) fn end_ns(&self) -> Result<u64> {
        let minutes = self.minutes;
        if !(0.05..=LONGEST_MINUTES).contains(&minutes) {
            return Err(Error::Option {
                option: "minutes",
                value: minutes.to_string(),
                reason: format!("use 0.05 to {LONGEST_MINUTES}"),
            });
        }
        Ok(now_ns() + (minutes * 60.0 * SECOND as f64) as u64)
    }
}

/// The result of a network, by rules `R`.
pub(super) struct NetworkResult<'a, R> {
    pub(super) seed: u64,
    /// Numbers of its parts, by the columns of [`Totals::report`].
    pub(super) sizes: &'a [usize],
    /// Objects with a fault.
    pub(super) faults: Vec<&'static str>,
    /// Executed steps.
    pub(super) steps: usize,
    pub(super) frames: usize,
    pub(super) checked: u64,
    pub(super) excused: u64,
    /// Reasons why the captures are incomplete.
    pub(super) inconclusive: &'a [String],
    /// Of each violation.
    pub(super) broken: Vec<R>,
}

/// Totals of all networks.
pub(super) struct Totals<R> {
    networks: u64,
    inconclusive: u64,
    broken: BTreeMap<R, u64>,
    faults: BTreeMap<&'static str, u64>,
    frames: u64,
    checked: u64,
    rows: Vec<Vec<Cell>>,
    described: usize,
    seed: u64,
    captures: PathBuf,
}

impl<R: Copy + Ord> Totals<R> {
    pub(super) fn new(seed: u64, captures: PathBuf) -> Self {
        Self {
            networks: 0,
            inconclusive: 0,
            broken: BTreeMap::new(),
            faults: BTreeMap::new(),
            frames: 0,
            checked: 0,
            rows: Vec::new(),
            described: 0,
            seed,
            captures,
        }
    }

    /// Adds a network. `keep` writes its captures to a directory of their own, below this one and for this seed of the
    /// run, if it violates a rule; `describe` describes a violation by its number.
    pub(super) fn add(
        &mut self,
        stage: &mut Stage<'_>,
        network: NetworkResult<'_, R>,
        keep: impl FnOnce(&Path, u64) -> Result<PathBuf>,
        describe: impl Fn(usize) -> String,
    ) -> Result<()> {
        self.networks += 1;
        self.frames += network.frames as u64;
        self.checked += network.checked;
        for object in network.faults {
            *self.faults.entry(object).or_default() += 1;
        }
        let mut row = vec![format!("{:#018x}", network.seed).into()];
        row.extend(network.sizes.iter().map(|size| Cell::from(*size as u64)));
        row.extend([
            (network.steps as u64).into(),
            (network.frames as u64).into(),
            network.checked.into(),
            network.excused.into(),
            (network.broken.len() as u64).into(),
        ]);
        self.rows.push(row);
        if !network.inconclusive.is_empty() {
            self.inconclusive += 1;
            let why = network.inconclusive.join("; ");
            stage.note(format!("network {:#x} is inconclusive: {why}", network.seed));
            return Ok(());
        }
        for rule in &network.broken {
            *self.broken.entry(*rule).or_default() += 1;
        }
        if network.broken.is_empty() {
            return Ok(());
        }
        let directory = keep(&self.captures, self.seed)?;
        stage.note(format!("network {:#x}: captures in {}", network.seed, directory.display()));
        let left = MAX_DESCRIBED.saturating_sub(self.described);
        for number in 0..network.broken.len().min(left) {
            stage.note(describe(number));
            self.described += 1;
        }
        Ok(())
    }

    /// Reports checks and figures. `rules` with the names of their checks; `sizes`: columns of the table of networks;
    /// `checked`: totals of what was checked.
    pub(super) fn report(
        self,
        stage: &mut Stage<'_>,
        rules: impl IntoIterator<Item = (R, &'static str)>,
        sizes: &[&'static str],
        checked: &[(&'static str, u64)],
        latency_ns: u64,
    ) {
        for (rule, violation) in rules {
            let broken = self.broken.get(&rule).copied().unwrap_or(0);
            stage.check(Check::eq(violation, broken, 0_u64, ""));
        }
        stage.check(Check::eq("inconclusive networks", self.inconclusive, 0_u64, ""));
        stage.check(Check::min("networks", self.networks, 1_u64, ""));
        stage.check(Check::min("frames checked", self.checked, 1_u64, "frames"));
        stage.figure("faults", Counters::named(["object", "number"], self.faults));
        let all = [("frames captured", self.frames), ("frames checked", self.checked)];
        let all = all.into_iter().chain(checked.iter().copied());
        stage.figure("checked", Counters::named(["item", "number"], all));
        stage.figure("longest transit time of a node", Measurement::new("ns", latency_ns));
        let last = ["steps", "captured", "checked", "excused", "violations"];
        let columns = ["network"].into_iter().chain(sizes.iter().copied()).chain(last);
        let mut networks = Counters::new(columns);
        for row in self.rows {
            networks.row(row);
        }
        stage.figure("networks", networks);
    }
}
