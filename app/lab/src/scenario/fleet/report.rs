//! Checks and figures.

use std::collections::BTreeSet;

use onbeat_report::format::count;
use onbeat_report::{Cell, Check, Column, Counters, Measurement};

use super::faults::{FaultKind, PHASES};
use super::plant::RolloutEnd;
use super::rollout::{Mark, RolloutRecord};
use super::store::Requests;
use super::traffic::DeliveryCounts;
use crate::scenario::stage::Stage;

/// Most losses that are described one by one.
const DESCRIBED: usize = 10;

/// Agents while nothing changes.
#[derive(Debug, Default)]
pub(super) struct AgentFigures {
    pub(super) cpu_percent: Vec<f64>,
    /// Resident memory.
    pub(super) octets: Vec<f64>,
}

/// Frames during the roll-outs and the control.
#[derive(Debug)]
pub(super) struct TrafficReport {
    pub(super) marks: Vec<Mark>,
    pub(super) received: DeliveryCounts,
    pub(super) seconds: f64,
    pub(super) control: DeliveryCounts,
    /// Streams of which a path is the same in both plans.
    pub(super) unchanged: u64,
    /// Whether faults were injected.
    pub(super) has_faults: bool,
}

/// Requests of agents before and after an outage of etcd.
#[derive(Debug)]
pub(super) struct OutageReport {
    pub(super) seconds: u64,
    /// From the start of the servers to a leader.
    pub(super) election_ns: u64,
    pub(super) before: Requests,
    pub(super) after: Requests,
}

/// The result of the scenario.
#[derive(Debug)]
pub(super) struct FleetReport {
    pub(super) rollouts: Vec<RolloutRecord>,
    pub(super) agents: AgentFigures,
    /// Resident memory of each server of etcd.
    pub(super) etcd_octets: Vec<f64>,
    /// None: without nodes.
    pub(super) traffic: Option<TrafficReport>,
    pub(super) outage: Option<OutageReport>,
}

impl FleetReport {
    pub(super) fn write(&self, stage: &mut Stage<'_>) {
        let done = |record: &&RolloutRecord| record.end == RolloutEnd::Done;
        let completed = self.rollouts.iter().filter(done).count() as u64;
        stage.check(Check::eq("roll-outs completed", completed, self.rollouts.len() as u64, ""));
        self.write_rollouts(stage);
        if let Some(traffic) = &self.traffic {
            if traffic.has_faults {
                self.write_faults(stage, completed);
            }
            traffic.write(stage);
        }
        self.write_processes(stage);
        if let Some(outage) = &self.outage {
            outage.write(stage);
        }
    }

    fn write_rollouts(&self, stage: &mut Stage<'_>) {
        let times = |value: &dyn Fn(&RolloutRecord) -> Option<f64>| -> Vec<f64> {
            let done = self.rollouts.iter().filter(|record| record.end == RolloutEnd::Done);
            done.filter_map(value).collect()
        };
        let total = times(&|record| Some(record.seconds()));
        stage.figure("time of a roll-out", Measurement::of_runs("s", &total));
        let preparation = times(&RolloutRecord::preparation_seconds);
        stage.figure("time of a roll-out: preparation", Measurement::of_runs("s", &preparation));
        for phase in PHASES {
            let took = times(&|record| record.phase_seconds(phase));
            stage.figure(format!("time of a roll-out: {phase}"), Measurement::of_runs("s", &took));
        }
        let columns = ["roll-out", "end"].map(Column::from).into_iter();
        let timed = ["total", "preparation"].into_iter().chain(PHASES.map(|phase| phase.name()));
        let columns = columns.chain(timed.map(|name| Column::from((name, "s"))));
        let mut table = Counters::new(columns.chain([Column::from("faults")]));
        for (number, record) in (1_u64..).zip(&self.rollouts) {
            let end = match record.end {
                RolloutEnd::Done => "complete",
                RolloutEnd::Returned => "returned",
            };
            let mut row = vec![Cell::from(number), Cell::from(end), record.seconds().into()];
            let cell = |seconds: Option<f64>| seconds.map_or(Cell::from(""), Cell::from);
            row.push(cell(record.preparation_seconds()));
            row.extend(PHASES.map(|phase| cell(record.phase_seconds(phase))));
            let faults: Vec<String> = record.faults.iter().map(|fault| fault.describe()).collect();
            row.push(faults.join("; ").as_str().into());
            table.row(row);
        }
        stage.figure("roll-outs", table);
    }

    fn write_faults(&self, stage: &mut Stage<'_>, completed: u64) {
        let injected = self.rollouts.iter().map(|record| record.faults.len() as u64).sum::<u64>();
        stage.check(Check::min("faults", injected, PHASES.len() as u64 * completed, ""));
        let columns = ["fault"].into_iter().chain(PHASES.map(|phase| phase.name()));
        let mut table = Counters::new(columns);
        for kind in FaultKind::ALL {
            let faults = || self.rollouts.iter().flat_map(|record| &record.faults);
            let counted = PHASES.map(|phase| {
                let same = faults().filter(|fault| (fault.kind, fault.phase) == (kind, phase));
                Cell::from(same.count() as u64)
            });
            table.row([Cell::from(kind.name())].into_iter().chain(counted));
        }
        stage.figure("faults by phase", table);
    }

    fn write_processes(&self, stage: &mut Stage<'_>) {
        let memory = Measurement::of_runs("octets", &self.agents.octets);
        stage.figure("resident memory of an agent", memory);
        let cpu = Measurement::of_runs("%", &self.agents.cpu_percent);
        stage.figure("CPU time of an idle agent", cpu);
        let memory = Measurement::of_runs("octets", &self.etcd_octets);
        stage.figure("resident memory of a server of etcd", memory);
    }
}

impl OutageReport {
    fn write(&self, stage: &mut Stage<'_>) {
        let mut table = Counters::new(["request", "10 s before", "10 s after"]);
        let methods: BTreeSet<&String> = self.before.keys().chain(self.after.keys()).collect();
        for method in methods {
            let count = |requests: &Requests| requests.get(method).copied().unwrap_or(0);
            let counts = [&self.before, &self.after].map(count);
            if counts != [0, 0] {
                table.row([Cell::from(&method[..]), counts[0].into(), counts[1].into()]);
            }
        }
        stage.figure(format!("requests of etcd around an outage of {} s", self.seconds), table);
        stage.figure("time until etcd has a leader", Measurement::new("ns", self.election_ns));
    }
}

impl TrafficReport {
    fn write(&self, stage: &mut Stage<'_>) {
        let DeliveryCounts { fewest, wrong, foreign, .. } = self.received;
        let doubled = self.received.doubled.len() as u64;
        let [lost, lost_by_control] =
            [&self.received, &self.control].map(|received| received.lost.len() as u64);
        stage.check(Check::eq("streams with an unchanged path", self.unchanged, 0_u64, ""));
        stage.check(Check::min("frames sent by each stream", fewest, 1_u64, ""));
        stage.check(Check::eq("lost", lost, 0_u64, "frames"));
        stage.check(Check::eq("doubled", doubled, 0_u64, "frames"));
        stage.check(Check::eq("changed, or not of a talker", wrong + foreign, 0_u64, "frames"));
        stage.check(Check::min("control in one step: lost", lost_by_control, 1_u64, "frames"));
        self.note_losses(stage);
        self.write_frames(stage);
    }

    /// Describes when lost and doubled frames were sent, and the first one that no talker sent.
    fn note_losses(&self, stage: &mut Stage<'_>) {
        for (what, numbers) in [("lost", &self.received.lost), ("doubled", &self.received.doubled)]
        {
            let mut last = None;
            let mut described = 0;
            for number in numbers {
                let before = self.marks.iter().rev().find(|mark| mark.sent <= *number);
                let event = before.map_or("before the first roll-out", |mark| &mark.event);
                if last == Some(event) || described == DESCRIBED {
                    continue;
                }
                stage.note(format!("{what}: frame {number} of all streams, {event}"));
                (last, described) = (Some(event), described + 1);
            }
        }
        if let Some(first) = &self.received.first {
            stage.note(format!("not sent by a talker: {first}"));
        }
    }

    fn write_frames(&self, stage: &mut Stage<'_>) {
        let mut table = Counters::new(["change", "sent", "delivered", "lost", "doubled"]);
        for (name, received) in
            [("roll-outs", &self.received), ("control in one step", &self.control)]
        {
            table.row([
                Cell::from(name),
                received.sent.into(),
                received.delivered.into(),
                (received.lost.len() as u64).into(),
                (received.doubled.len() as u64).into(),
            ]);
        }
        stage.figure("frames", table);
        let rate = self.received.sent as f64 / self.seconds.max(1.0);
        stage.figure("rate of all streams", Measurement::new("frames/s", rate.round()));
        if self.received.retries > 0 {
            stage.note(format!(
                "interfaces of hosts had no room {}",
                count(self.received.retries, "time")
            ));
        }
    }
}
