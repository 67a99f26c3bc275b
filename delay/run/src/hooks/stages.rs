//! Stages of packets inside this host, and their outcomes.

use std::collections::BTreeMap;

use onbeat_bpf::Reasons;
use onbeat_bpf::Runs;
use onbeat_bpf::statistics::MeasuredRuns;
use onbeat_hooks::{Counts, Fate, Packet, Stage, Tracer};
use onbeat_report::distribution::PhaseId;
use onbeat_report::figure::DistributionSeries;
use onbeat_report::format::count;
use onbeat_report::{Cell, Check, Counters, Distribution, Measurement, Outcome, Recorder};

use crate::error::Result;

/// Number of packets that are listed one by one.
const STORIES: usize = 20;

/// Maximum difference of the sum of stages from the total.
const SUM: f64 = 0.01;

/// Packets of one outcome: their stages, and the packets with the longest delays.
pub(super) struct FateGroup {
    name: &'static str,
    stages: Recorder,
    phases: [PhaseId; Stage::ALL.len()],
    total_ns: u64,
    first_ns: Option<u64>,
    /// Longest first.
    longest: Vec<Packet>,
}

impl FateGroup {
    pub(super) fn new(name: &'static str) -> Self {
        let mut stages = Recorder::new();
        let phases = Stage::ALL.map(|stage| stages.phase(stage.name()));
        Self { name, stages, phases, total_ns: 0, first_ns: None, longest: Vec::new() }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.longest.is_empty()
    }

    pub(super) fn record(&mut self, packet: &Packet) {
        self.total_ns += u64::from(packet.total_ns);
        self.first_ns.get_or_insert(packet.begin_ns);
        for (phase, stage_ns) in self.phases.iter().zip(packet.stages_ns) {
            if let Some(stage_ns) = stage_ns {
                self.stages.record(*phase, stage_ns.into());
            }
        }
        let place = self.longest.partition_point(|other| other.total_ns >= packet.total_ns);
        if place < STORIES {
            self.longest.insert(place, *packet);
            self.longest.truncate(STORIES);
        }
    }

    /// Their stages and the longest of them, where there are any.
    pub(super) fn fill(&self, outcome: &mut Outcome) {
        if self.is_empty() {
            return;
        }
        let mut stages = self.stages.figure();
        stages.series.retain(|series| series.count > 0);
        if !stages.series.is_empty() {
            self.fill_stages(outcome, stages);
        }
        let name = format!("{}: longest delays", self.name);
        outcome.figure(name, self.stories());
    }

    fn fill_stages(&self, outcome: &mut Outcome, stages: Distribution) {
        let parts: f64 = stages.series.iter().map(sum_ns).sum();
        let ratio = parts / self.total_ns.max(1) as f64;
        outcome.check(Check::max(
            format!("{}: difference of the sum of stages from the total", self.name),
            (ratio - 1.0).abs(),
            SUM,
            "",
        ));
        outcome.figure(format!("{}: stages", self.name), self.table(&stages));
        outcome.figure(format!("{}: distribution of stages", self.name), stages);
    }

    fn table(&self, stages: &Distribution) -> Counters {
        let mut table = Counters::new([
            ("stage", ""),
            ("packets", ""),
            ("mean", "ns"),
            ("share of the total", "%"),
        ]);
        for series in &stages.series {
            table.row([
                Cell::from(series.name.as_str()),
                series.count.into(),
                (sum_ns(series) / series.count as f64).into(),
                (100.0 * sum_ns(series) / self.total_ns.max(1) as f64).into(),
            ]);
        }
        table
    }

    fn stories(&self) -> Counters {
        // Some have only a total.
        let staged = self.longest.iter().any(|packet| packet.depth.is_some());
        let mut columns = vec![("time", "s"), ("delay", "ns")];
        if staged {
            columns.extend([("longest stage", ""), ("stage delay", "ns"), ("packets ahead", "")]);
        }
        columns.extend([("context", ""), ("task", ""), ("CPUs", ""), ("size", "octets")]);
        let mut table = Counters::new(columns);
        for packet in &self.longest {
            let since_ns = packet.begin_ns.saturating_sub(self.first_ns.unwrap_or_default());
            let mut row =
                vec![Cell::from(since_ns as f64 / 1e9), u64::from(packet.total_ns).into()];
            if staged {
                let stages = Stage::ALL.iter().zip(packet.stages_ns);
                let longest =
                    stages.filter_map(|(stage, ns)| Some((ns?, stage))).max_by_key(|s| s.0);
                let (stage_ns, stage) = longest.map_or((0, ""), |(ns, stage)| (ns, stage.name()));
                let before = u64::from(packet.depth.unwrap_or_default());
                row.extend([Cell::from(stage), u64::from(stage_ns).into(), before.into()]);
            }
            row.extend([
                Cell::from(packet.context.name()),
                format!("{} [{}]", packet.task_name(), packet.task).into(),
                match packet.cpu == packet.last_cpu {
                    true => packet.cpu.to_string().into(),
                    false => format!("{}, {}", packet.cpu, packet.last_cpu).into(),
                },
                u64::from(packet.length).into(),
            ]);
            table.row(row);
        }
        table
    }
}

/// The sum of a stage over all packets, in nanoseconds.
fn sum_ns(stage: &DistributionSeries) -> f64 {
    stage.mean.unwrap_or_default() * stage.count as f64
}

/// The number of packets by outcome.
#[derive(Debug, Default)]
pub(super) struct FateCounts {
    forwarded: u64,
    answered: u64,
    answered_by_kernel: u64,
    delivered: u64,
    dropped: BTreeMap<u32, u64>,
}

impl FateCounts {
    pub(super) fn count(&mut self, fate: Fate) {
        *match fate {
            Fate::Forwarded => &mut self.forwarded,
            Fate::Answered => &mut self.answered,
            Fate::AnsweredByKernel => &mut self.answered_by_kernel,
            Fate::Delivered => &mut self.delivered,
            Fate::Dropped(reason) => self.dropped.entry(reason).or_default(),
        } += 1;
    }

    /// Packets that were sent or read.
    pub(super) fn ended_well(&self) -> u64 {
        self.forwarded + self.answered_by_kernel + self.delivered
    }

    /// The number of sent packets, and of received ones that a process did not read without an answer.
    pub(super) fn left(&self, counts: &Counts) -> (u64, u64) {
        let left = self.forwarded + self.answered_by_kernel + self.answered;
        let read = self.delivered.saturating_sub(self.answered);
        (left, self.followed(counts).saturating_sub(read).max(left))
    }

    pub(super) fn any_forwarded(&self) -> bool {
        self.forwarded > 0
    }

    /// The number of dropped packets, and the reason of most of them.
    pub(super) fn dropped(&self) -> (u64, Option<u32>) {
        let most = self.dropped.iter().max_by_key(|(_, number)| **number);
        (self.dropped.values().sum(), most.map(|(reason, _)| *reason))
    }

    /// The number of received and traced packets, without answers to them.
    pub(super) fn followed(&self, counts: &Counts) -> u64 {
        counts.begun.saturating_sub(self.answered + self.answered_by_kernel)
    }

    pub(super) fn found(&self) -> u64 {
        self.ended_well() + self.dropped.values().sum::<u64>()
    }

    pub(super) fn table(&self, counts: &Counts, doubled: u64, reasons: &Reasons) -> Counters {
        let mut table = Counters::new(["packets", "number"]);
        let mut row = |name: String, number: u64| table.row([Cell::from(name), number.into()]);
        row("received and traced".into(), self.followed(counts));
        row("forwarded".into(), self.forwarded);
        row("read by a process".into(), self.delivered);
        row("of these answered by it".into(), self.answered);
        row("answered by the kernel, including errors".into(), self.answered_by_kernel);
        for (reason, number) in &self.dropped {
            row(format!("dropped: {}", reasons.name(*reason)), *number);
        }
        row("left while a second copy of the hooks ran: not among the delays".into(), doubled);
        row("consumed by the kernel, or merged with others".into(), counts.evicted);
        row("not observed to leave".into(), counts.begun.saturating_sub(counts.ended));
        row("not traced for lack of room".into(), counts.table_full);
        row("not reported for lack of room".into(), counts.unreported);
        table
    }
}

/// The share of time in which the run time of the programs is recorded, which increases their cost: a tenth of the
/// first second, then a fiftieth.
const WATCHED_FIRST_NS: u64 = 100_000_000;
const WATCHED_NS: u64 = 20_000_000;
const WATCHED_EVERY_NS: u64 = 1_000_000_000;

/// The cost of the programs, sampled periodically.
pub(super) struct HookCost {
    /// With the number of packets received before.
    under_way: Option<(MeasuredRuns, u64)>,
    next_ns: u64,
    until_ns: u64,
    runs: Runs,
    packets: u64,
}

impl HookCost {
    pub(super) fn new() -> Self {
        let runs = Runs::default();
        Self { under_way: None, next_ns: 0, until_ns: 0, runs, packets: 0 }
    }

    /// Starts or stops recording, when it is time.
    pub(super) fn watch(&mut self, tracer: &Tracer, now_ns: u64) -> Result<()> {
        if self.under_way.is_none() && now_ns >= self.next_ns {
            let watched = MeasuredRuns::begin(|| tracer.runs())?;
            self.under_way = Some((watched, tracer.counts()?.begun));
            let is_first = self.next_ns == 0;
            self.until_ns = now_ns + if is_first { WATCHED_FIRST_NS } else { WATCHED_NS };
            self.next_ns = now_ns + WATCHED_EVERY_NS;
        } else if self.under_way.is_some() && now_ns >= self.until_ns {
            self.end(tracer)?;
        }
        Ok(())
    }

    pub(super) fn end(&mut self, tracer: &Tracer) -> Result<()> {
        if let Some((watched, begun)) = self.under_way.take() {
            let runs = watched.end(|| tracer.runs())?;
            self.runs.count += runs.count;
            self.runs.time_ns += runs.time_ns;
            self.packets += tracer.counts()?.begun - begun;
        }
        Ok(())
    }

    pub(super) fn fill(&self, outcome: &mut Outcome) {
        if self.packets == 0 {
            return;
        }
        let per_packet = |value: u64| value as f64 / self.packets as f64;
        outcome.figure(
            "cost of the hooks, per packet",
            Measurement::new("ns", per_packet(self.runs.time_ns)),
        );
        outcome.note(format!(
            "runs of the hooks per received packet: {:.1}, including those of other packets, while their run \
             time was recorded ({}); the kernel's dispatch is not included",
            per_packet(self.runs.count),
            count(self.packets, "packet")
        ));
    }
}
