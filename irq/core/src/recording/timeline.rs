//! Softirq time by process over the time of a recording.

use std::collections::HashMap;
use std::io::BufRead;

use super::{Error, IntervalLine, Line, Reader, Result, Summary};
use crate::charge::{Amount, Attribution, Cause, Process, Runner};

/// Maximum number of columns of a time line: about the pixels of a plot.
const COLUMNS: u64 = 500;

/// The time lines of the processes that caused or suffered most.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Timelines {
    /// Softirq time of all CPUs.
    pub all: Timeline,
    /// The part that these processes caused, largest first.
    pub caused: Vec<(Process, Timeline)>,
    /// The part without a certain process.
    pub unowned: Timeline,
    /// The part that these processes suffered, largest first.
    pub suffered: Vec<(Process, Timeline)>,
}

/// Time since the start in seconds, and share of one CPU's time (above 1 with several CPUs).
pub type Timeline = Vec<(f64, f64)>;

impl Timelines {
    /// Reads a recording a second time, for the time lines of at most `processes` processes.
    ///
    /// # Errors
    /// Read errors.
    pub fn of<R: BufRead>(reader: Reader<R>, summary: &Summary, processes: usize) -> Result<Self> {
        let total = summary.total();
        let mut caused: HashMap<Process, u64> = HashMap::new();
        for (cause, amount) in &total.caused {
            if let Some(process) = certain(*cause) {
                *caused.entry(process).or_default() += amount.ns;
            }
        }
        let suffered = total.suffered.iter().filter_map(|(runner, ns)| match runner {
            Runner::Process(process) => Some((*process, *ns)),
            _ => None,
        });
        let columns = Columns::new(summary.length_ns);
        let mut lines = Lines {
            all: columns.empty(),
            unowned: columns.empty(),
            caused: most(caused, processes).into_iter().map(|p| (p, columns.empty())).collect(),
            suffered: most(suffered, processes).into_iter().map(|p| (p, columns.empty())).collect(),
        };
        for line in reader {
            match line {
                Ok(Line::Interval(interval)) => lines.add(&interval, summary, &columns),
                Ok(_) => {}
                Err(Error::CutOff { .. }) if summary.trailer.is_none() => break,
                Err(error) => return Err(error),
            }
        }
        let shares = |list: Vec<(Process, Vec<f64>)>| {
            list.into_iter().map(|(process, ns)| (process, columns.shares(&ns))).collect()
        };
        Ok(Self {
            all: columns.shares(&lines.all),
            unowned: columns.shares(&lines.unowned),
            caused: shares(lines.caused),
            suffered: shares(lines.suffered),
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

/// The processes with the most time, largest first.
fn most(of: impl IntoIterator<Item = (Process, u64)>, count: usize) -> Vec<Process> {
    let mut list: Vec<(Process, u64)> = of.into_iter().collect();
    list.sort_by_key(|(process, ns)| (std::cmp::Reverse(*ns), *process));
    list.into_iter().take(count).map(|(process, _)| process).collect()
}

struct Lines {
    all: Vec<f64>,
    unowned: Vec<f64>,
    caused: Vec<(Process, Vec<f64>)>,
    suffered: Vec<(Process, Vec<f64>)>,
}

impl Lines {
    fn add(&mut self, interval: &IntervalLine, summary: &Summary, columns: &Columns) {
        let put = |line: &mut Vec<f64>, ns: u64| columns.put(line, interval, ns);
        for cpu in &interval.cpus {
            put(&mut self.all, cpu.measured_ns);
            for (cause, Amount { ns, .. }) in cpu.estimate().accounts.caused {
                match certain(summary.resolve(cause)) {
                    Some(process) => {
                        if let Some((_, line)) = find(&mut self.caused, process) {
                            put(line, ns);
                        }
                    }
                    None => put(&mut self.unowned, ns),
                }
            }
            for &(runner, ns) in &cpu.suffered {
                if let Runner::Process(process) = runner {
                    if let Some((_, line)) = find(&mut self.suffered, process) {
                        put(line, ns);
                    }
                }
            }
        }
    }
}

fn find(lines: &mut [(Process, Vec<f64>)], who: Process) -> Option<&mut (Process, Vec<f64>)> {
    lines.iter_mut().find(|(process, _)| *process == who)
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
