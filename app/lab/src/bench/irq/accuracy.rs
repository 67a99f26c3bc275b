//! Whom the ledger charges, against what is true.
//!
//! Over a device of its own, a flow costs what the device's thread of NAPI ran. What it costs so, it is
//! taken to cost over a device that it shares with another one, whose packets come between its own.
//!
//! All of it is on one CPU, which always has something to do: what packets cost that come from another CPU's
//! caches changes with where the scheduler puts things by twice and more, and a kernel may not tell what a thread
//! ran that it woke an idle CPU for (seen with Linux 6.18: neither a switch nor run time).

use std::time::Instant;

use onbeat_irq_core::charge::sample::Estimate;
use onbeat_irq_core::charge::{Accounts, Amount, Cause};
use onbeat_realtime::interrupt;
use onbeat_report::Progress;

use super::super::cpu::Cpus;
use super::Options;
use super::flow::{Flow, PacketKind};
use super::ledger::Ledger;
use super::reader::Reader;
use super::rig::{Cable, Rig};
use crate::Result;

/// Two flows, by what is sent of each in turn.
#[derive(Debug)]
pub(super) struct AccuracyCase {
    pub(super) name: &'static str,
    /// How far off the paper's goal allows shares to be, in percentage points.
    pub(super) goal: f64,
    flows: [(PacketKind, u32); 2],
    pub(super) rounds: Vec<AccuracyRound>,
}

/// What a round of a case came to.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct AccuracyRound {
    pub(super) apart: AttributionShares,
    pub(super) together: AttributionShares,
    /// Packets of both flows that the ledger charged to their readers, and small ones that were sent:
    /// merged ones depend on how polls fall.
    pub(super) charged_packets: u64,
    pub(super) small_packets: u64,
    /// Imbalance of the accounts of all CPUs, by CPU, as a share of the time measured; the worst.
    pub(super) imbalance: f64,
}

/// The first flow's share of what both cost.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct AttributionShares {
    pub(super) charged: f64,
    pub(super) truth: f64,
    /// What was charged to both beside what the threads ran.
    pub(super) of_run_time: f64,
    /// The standard error that the ledger states of what it charged, where it sampled.
    pub(super) standard_error: Option<f64>,
}

impl AttributionShares {
    /// In percentage points.
    pub(super) fn error(&self) -> f64 {
        (self.charged - self.truth).abs() * 100.0
    }
}

/// Packets of a small flow's batch: less than a poll takes, so that both flows come in one poll.
const BATCH: usize = 40;

fn cases() -> Vec<AccuracyCase> {
    use PacketKind::Merged;
    const SMALL: PacketKind = PacketKind::Small(BATCH);
    let case = |name, goal, flows| AccuracyCase { name, goal, flows, rounds: Vec::new() };
    vec![
        case("64 octets and 64 octets", 2.0, [(SMALL, 1), (SMALL, 1)]),
        case("three times 64 octets and 64 octets", 2.0, [(SMALL, 3), (SMALL, 1)]),
        case("64 octets and GRO-sized", 5.0, [(SMALL, 1), (Merged, 1)]),
    ]
}

pub(super) fn measure(
    options: &Options,
    cpus: &Cpus,
    progress: &mut Progress,
) -> Result<Vec<AccuracyCase>> {
    let rig = Rig::new()?;
    let cables = [rig.lay(0, true)?, rig.lay(1, true)?];
    for cable in &cables {
        cable.pin(cpus.measured)?;
    }
    let _pinned = cpus.pin()?;
    let mut ledger = Ledger::new(options.sample)?;
    let mut cases = cases();
    for round in 0..options.rounds {
        for case in &mut cases {
            progress.update(|| {
                format!("accuracy, round {} of {}: {}", round + 1, options.rounds, case.name)
            });
            let found = case.round(&rig, &cables, &mut ledger, options)?;
            case.rounds.push(found);
        }
    }
    for case in &mut cases {
        case.settle();
    }
    Ok(cases)
}

impl AccuracyCase {
    /// What a flow costs apart changes from round to round with all that the machine does: together
    /// it is held against the median.
    fn settle(&mut self) {
        let mut truths: Vec<f64> = self.rounds.iter().map(|round| round.apart.truth).collect();
        truths.sort_by(f64::total_cmp);
        let middle = truths.len() / 2;
        for round in &mut self.rounds {
            round.together.truth = truths[middle];
        }
    }

    fn round(
        &self,
        rig: &Rig,
        cables: &[Cable; 2],
        ledger: &mut Ledger,
        options: &Options,
    ) -> Result<AccuracyRound> {
        let [(first, _), (second, _)] = self.flows;
        let apart = [Flow::new(rig, &cables[0], first)?, Flow::new(rig, &cables[1], second)?];
        let together = [Flow::new(rig, &cables[0], first)?, Flow::new(rig, &cables[0], second)?];
        let apart = self.pass(&apart, cables, ledger, options)?;
        let together = self.pass(&together, cables, ledger, options)?;

        let truth = share(apart.ran_ns[0] as f64, apart.ran_ns[1] as f64);
        // A turn of the flows costs what it did apart.
        let ran_ns: u64 = together.ran_ns.iter().sum();
        let charged_ns =
            |pass: &PassMeasurement| pass.charged.iter().map(|amount| amount.ns).sum::<u64>();
        let shares = |pass: &PassMeasurement, ran_ns: u64| AttributionShares {
            charged: share(pass.charged[0].ns as f64, pass.charged[1].ns as f64),
            truth,
            of_run_time: charged_ns(pass) as f64 / ran_ns.max(1) as f64,
            standard_error: pass.standard_error,
        };
        let both = [&apart, &together];
        let charged = both.iter().flat_map(|pass| pass.charged.iter().zip(self.flows));
        let small = charged.filter(|(_, (packets, _))| matches!(packets, PacketKind::Small(_)));
        Ok(AccuracyRound {
            apart: shares(&apart, apart.ran_ns.iter().sum()),
            together: shares(&together, ran_ns),
            charged_packets: small.map(|(amount, _)| amount.packets).sum(),
            small_packets: apart.small_packets + together.small_packets,
            imbalance: apart.imbalance.max(together.imbalance),
        })
    }

    /// Sends of both flows in turn, as long as a slice.
    fn pass(
        &self,
        flows: &[Flow; 2],
        cables: &[Cable; 2],
        ledger: &mut Ledger,
        options: &Options,
    ) -> Result<PassMeasurement> {
        let mut readers = [Reader::start(&flows[0])?, Reader::start(&flows[1])?];
        // Hosts know each other's addresses, and the ledger whose the sockets are.
        ledger.during(|| self.turn(flows, &mut readers, 0))?;
        let ran_ns = || Ok::<_, crate::Error>([cables[0].ran_ns()?, cables[1].ran_ns()?]);
        let ran_before = ran_ns()?;
        let ((turns, ran), cpus) = ledger.during(|| {
            let (begun, mut turns) = (Instant::now(), 0u64);
            while begun.elapsed() < options.slice || turns == 0 {
                interrupt::check()?;
                self.turn(flows, &mut readers, turns % 2)?;
                turns += 1;
            }
            Ok((turns, ran_ns()?))
        })?;
        let mut total = Estimate::default();
        cpus.iter().for_each(|cpu| total.add(cpu));
        let charged = |of: &Reader| {
            let mut sum = Amount::default();
            for (cause, amount) in &total.accounts.caused {
                if matches!(cause, Cause::Process { process, .. } if *process == of.process) {
                    sum.ns += amount.ns;
                    sum.packets += amount.packets;
                }
            }
            sum
        };
        let small =
            self.flows.iter().filter(|(packets, _)| matches!(packets, PacketKind::Small(_)));
        let small_per_turn: u64 = small.map(|(_, batches)| u64::from(*batches)).sum();
        Ok(PassMeasurement {
            charged: [charged(&readers[0]), charged(&readers[1])],
            ran_ns: [ran[0] - ran_before[0], ran[1] - ran_before[1]],
            small_packets: turns * small_per_turn * BATCH as u64,
            imbalance: cpus.iter().map(|cpu| imbalance(&cpu.accounts)).fold(0.0, f64::max),
            standard_error: standard_error(&total, &readers[0]),
        })
    }

    /// A batch of each flow after one of the other; which one goes first, and finds nothing in the caches,
    /// changes from turn to turn.
    fn turn(&self, flows: &[Flow; 2], readers: &mut [Reader; 2], first: u64) -> Result<()> {
        let order = if first == 0 { [0, 1] } else { [1, 0] };
        let most = self.flows.iter().map(|(_, batches)| *batches).max().unwrap_or(1);
        for batch in 0..most {
            let takes_part = |at: usize| batch < self.flows[at].1;
            for at in order.into_iter().filter(|at| takes_part(*at)) {
                let sent = flows[at].send()?;
                readers[at].begin(sent)?;
            }
            for at in [0, 1].into_iter().filter(|at| takes_part(*at)) {
                readers[at].finish()?;
            }
        }
        Ok(())
    }
}

/// What was found while packets passed.
struct PassMeasurement {
    charged: [Amount; 2],
    ran_ns: [u64; 2],
    small_packets: u64,
    imbalance: f64,
    standard_error: Option<f64>,
}

/// Of the first flow's share, as the ledger states it: of all time of polls, which is both flows'.
fn standard_error(total: &Estimate, of: &Reader) -> Option<f64> {
    let is_its =
        |cause: &&Cause| matches!(cause, Cause::Process { process, .. } if *process == of.process);
    let error_ns =
        total.accounts.caused.keys().filter(is_its).filter_map(|cause| total.error(cause));
    let all_ns = (total.sampled_ns + total.skipped_ns) as f64;
    total.is_sampled().then(|| error_ns.map(|error| error.ns).sum::<f64>() / all_ns)
}

fn share(first: f64, second: f64) -> f64 {
    first / (first + second).max(1.0)
}

/// Of CPUs that had nothing to do, what was under way is more than a share.
fn imbalance(cpu: &Accounts) -> f64 {
    const JUDGED_FROM_NS: u64 = 10_000_000;
    if cpu.measured_ns < JUDGED_FROM_NS {
        return 0.0;
    }
    cpu.imbalance_ns() as f64 / cpu.measured_ns as f64
}
