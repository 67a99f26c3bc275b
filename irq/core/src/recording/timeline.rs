//! Softirq time by process over the time of a recording.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::hash::Hash;
use std::io::BufRead;

use super::{Error, IntervalLine, Line, Reader, Result, Summary};
use crate::charge::{Amount, Attribution, Cause, Process, Runner};

/// Maximum number of columns of a time line: about the pixels of a plot.
const COLUMNS: u64 = 500;

/// The time lines of the processes, or groups of processes, that caused or suffered most.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Timelines<G> {
    /// Softirq time of all CPUs.
    pub all: Timeline,
    /// The part that these groups caused, largest first.
    pub caused: Vec<(G, Timeline)>,
    /// The part that the other groups caused.
    pub others_caused: Timeline,
    /// The part without a certain process.
    pub unowned: Timeline,
    /// The part that these groups suffered, largest first.
    pub suffered: Vec<(G, Timeline)>,
    /// The part that the other groups suffered.
    pub others_suffered: Timeline,
}

/// Time since the start in seconds, and share of one CPU's time (above 1 with several CPUs).
pub type Timeline = Vec<(f64, f64)>;

impl<G: Clone + Eq + Hash + Ord> Timelines<G> {
    /// Reads a recording a second time, for the time lines of at most `most` groups of processes.
    ///
    /// # Errors
    /// Read errors.
    pub fn of<R: BufRead>(
        reader: Reader<R>,
        summary: &Summary,
        most: usize,
        group: impl Fn(Process) -> G,
    ) -> Result<Self> {
        let total = summary.total();
        let mut caused: HashMap<G, u64> = HashMap::new();
        for (cause, amount) in &total.caused {
            if let Some(process) = certain(*cause) {
                *caused.entry(group(process)).or_default() += amount.ns;
            }
        }
        let mut suffered: HashMap<G, u64> = HashMap::new();
        for (runner, ns) in &total.suffered {
            if let Runner::Process(process) = runner {
                *suffered.entry(group(*process)).or_default() += ns;
            }
        }
        let columns = Columns::new(summary.length_ns);
        let mut lines = Lines {
            all: columns.empty(),
            unowned: columns.empty(),
            caused: largest(caused, most).map(|group| (group, columns.empty())).collect(),
            suffered: largest(suffered, most).map(|group| (group, columns.empty())).collect(),
            others_caused: columns.empty(),
            others_suffered: columns.empty(),
        };
        for line in reader {
            match line {
                Ok(Line::Interval(interval)) => lines.add(&interval, summary, &columns, &group),
                Ok(_) => {}
                Err(Error::CutOff { .. }) if summary.trailer.is_none() => break,
                Err(error) => return Err(error),
            }
        }
        let shares = |list: Vec<(G, Vec<f64>)>| {
            list.into_iter().map(|(group, ns)| (group, columns.shares(&ns))).collect()
        };
        Ok(Self {
            all: columns.shares(&lines.all),
            unowned: columns.shares(&lines.unowned),
            caused: shares(lines.caused),
            suffered: shares(lines.suffered),
            others_caused: columns.shares(&lines.others_caused),
            others_suffered: columns.shares(&lines.others_suffered),
        })
    }
}

/// The process of a cause that is not an estimate.
fn certain(cause: Cause) -> Option<Process> {
    match cause {
        Cause::Process { process, by, .. } if by != Attribution::Estimate => Some(process),
        _ => None,
    }
}

/// The groups with the most time, largest first.
fn largest<G: Ord>(of: HashMap<G, u64>, count: usize) -> impl Iterator<Item = G> {
    let mut list: Vec<(Reverse<u64>, G)> =
        of.into_iter().map(|(group, ns)| (Reverse(ns), group)).collect();
    list.sort();
    list.into_iter().take(count).map(|(_, group)| group)
}

struct Lines<G> {
    all: Vec<f64>,
    unowned: Vec<f64>,
    caused: Vec<(G, Vec<f64>)>,
    suffered: Vec<(G, Vec<f64>)>,
    others_caused: Vec<f64>,
    others_suffered: Vec<f64>,
}

impl<G: Eq> Lines<G> {
    fn add(
        &mut self,
        interval: &IntervalLine,
        summary: &Summary,
        columns: &Columns,
        group: &impl Fn(Process) -> G,
    ) {
        let put = |line: &mut Vec<f64>, ns: u64| columns.put(line, interval, ns);
        for cpu in &interval.cpus {
            put(&mut self.all, cpu.measured_ns);
            for (cause, Amount { ns, .. }) in cpu.estimate().accounts.caused {
                let line = match certain(summary.resolve(cause)) {
                    Some(process) => {
                        find(&mut self.caused, &group(process)).unwrap_or(&mut self.others_caused)
                    }
                    None => &mut self.unowned,
                };
                put(line, ns);
            }
            for &(runner, ns) in &cpu.suffered {
                if let Runner::Process(process) = runner {
                    let line = find(&mut self.suffered, &group(process));
                    put(line.unwrap_or(&mut self.others_suffered), ns);
                }
            }
        }
    }
}

fn find<'a, G: Eq>(lines: &'a mut [(G, Vec<f64>)], group: &G) -> Option<&'a mut Vec<f64>> {
    lines.iter_mut().find(|(known, _)| known == group).map(|(_, line)| line)
}

/// Equal parts of the recording's time.
struct Columns {
    length_ns: u64,
    width_ns: u64,
    count: usize,
}

impl Columns {
    fn new(length_ns: u64) -> Self {
        let width_ns = length_ns.div_ceil(COLUMNS).max(1);
        Self { length_ns, width_ns, count: length_ns.div_ceil(width_ns).max(1) as usize }
    }

    fn empty(&self) -> Vec<f64> {
        vec![0.0; self.count]
    }

    /// Spreads the time of an interval over the columns that it overlaps.
    fn put(&self, line: &mut [f64], interval: &IntervalLine, ns: u64) {
        let length_ns = interval.to_ns.saturating_sub(interval.from_ns).max(1);
        let first = (interval.from_ns / self.width_ns) as usize;
        let last = (interval.to_ns.saturating_sub(1) / self.width_ns) as usize;
        let touched = line.iter_mut().enumerate().take(last + 1).skip(first);
        for (column, sum) in touched {
            let from = (column as u64 * self.width_ns).max(interval.from_ns);
            let to = ((column as u64 + 1) * self.width_ns).min(interval.to_ns);
            *sum += ns as f64 * to.saturating_sub(from) as f64 / length_ns as f64;
        }
    }

    fn shares(&self, line: &[f64]) -> Timeline {
        let share = |(at, ns): (usize, &f64)| {
            let from_ns = at as u64 * self.width_ns;
            // The last column is shorter if the length is not a multiple.
            let width_ns = self.width_ns.min(self.length_ns.saturating_sub(from_ns)).max(1) as f64;
            ((from_ns as f64 + width_ns / 2.0) / 1e9, ns / width_ns)
        };
        line.iter().enumerate().map(share).collect()
    }
}
