//! Accuracy of the ledger: charged time compared with the true time.
//!
//! Over a device of its own, the true cost of a flow is the run time of the device's NAPI thread. The
//! same cost is assumed over a device shared with another flow, whose packets are interleaved.
//!
//! All work runs on one CPU that is never idle. The cost of packets from another CPU's caches varies
//! with the scheduler's placement by a factor of two and more. A kernel may also not report the run
//! time of a thread that it woke on an idle CPU (seen with Linux 6.18: neither a switch nor run time).

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

/// Two flows, by the packets sent of each in turn.
#[derive(Debug)]
pub(super) struct AccuracyCase {
    pub(super) name: &'static str,
    flows: [(PacketKind, u32); 2],
    pub(super) rounds: Vec<AccuracyRound>,
}

/// Result of one round of a case.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct AccuracyRound {
    pub(super) apart: AttributionShares,
    pub(super) together: AttributionShares,
    /// Packets of both flows that the ledger charged to their readers, and packets sent. Small packets
    /// only: the number of merged ones depends on the polls.
    pub(super) charged_packets: u64,
    pub(super) small_packets: u64,
    /// Imbalance of the accounts of the worst CPU, as a share of the measured time.
    pub(super) imbalance: f64,
}

/// The first flow's share of the cost of both.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct AttributionShares {
    pub(super) charged: f64,
    pub(super) truth: f64,
    /// Time charged to both, relative to the run time of the threads.
    pub(super) of_run_time: f64,
    /// The standard error that the ledger reports for the charged time, if it sampled.
    pub(super) standard_error: Option<f64>,
}

impl AttributionShares {
    /// The attribution error, in percentage points.
    pub(super) fn error(&self) -> f64 {
        (self.charged - self.truth).abs() * 100.0
    }
}

/// Packets per batch of a small flow: less than the budget of a poll, so that both flows are in one
/// poll.
const BATCH: usize = 40;

fn cases() -> Vec<AccuracyCase> {
    use PacketKind::Merged;
    const SMALL: PacketKind = PacketKind::Small(BATCH);
    let case = |name, flows| AccuracyCase { name, flows, rounds: Vec::new() };
    vec![
        case("64 octets and 64 octets", [(SMALL, 1), (SMALL, 1)]),
        case("three times 64 octets and 64 octets", [(SMALL, 3), (SMALL, 1)]),
        case("64 octets and GRO-sized", [(SMALL, 1), (Merged, 1)]),
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
    /// Replaces the true share by its median over the rounds, as the separate cost of a flow varies
    /// from round to round with other work of the machine.
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
        // The true cost of a turn of both flows is the sum of their separate costs.
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

    /// Sends packets of both flows in turn for the duration of a slice.
    fn pass(
        &self,
        flows: &[Flow; 2],
        cables: &[Cable; 2],
        ledger: &mut Ledger,
        options: &Options,
    ) -> Result<PassMeasurement> {
        let mut readers = [Reader::start(&flows[0])?, Reader::start(&flows[1])?];
        // Hosts resolve each other's addresses, and the ledger learns the owners of the sockets.
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

    /// Sends a batch of each flow, one after the other. The first one, which finds cold caches,
    /// alternates.
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

/// Measurement while packets pass.
struct PassMeasurement {
    charged: [Amount; 2],
    ran_ns: [u64; 2],
    small_packets: u64,
    imbalance: f64,
    standard_error: Option<f64>,
}

/// The standard error of the first flow's share, as reported by the ledger for all poll time of both
/// flows.
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

/// On idle CPUs, the work in progress exceeds a small share.
fn imbalance(cpu: &Accounts) -> f64 {
    const CHECKED_FROM_NS: u64 = 10_000_000;
    if cpu.measured_ns < CHECKED_FROM_NS {
        return 0.0;
    }
    cpu.imbalance_ns() as f64 / cpu.measured_ns as f64
}
