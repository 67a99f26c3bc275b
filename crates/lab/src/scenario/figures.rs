//! From what arrived and what nodes counted to figures of a report.

use onbeat_node::control::{NodeStatus, RecoveryStatus};
use onbeat_report::{Cell, Counters, Loss, Measurement, Recorder, TimeSeries};

use super::flow::Flowed;
use super::outage::Phase;
use super::stage::Stage;
use crate::World;
use crate::clock::SECOND;
use crate::fault::Direction;

/// Delay over time and by phase, totals by stream, counters by node.
pub(super) fn all(
    stage: &mut Stage<'_>,
    flowed: &[Flowed],
    phases: &[Phase],
    statuses: &[NodeStatus],
) {
    delays(stage, flowed, phases);
    totals(stage, flowed);
    nodes(stage, statuses);
}

/// Delay over time, and its distribution by phase. A frame is of the phase in which it was sent.
pub(super) fn delays(stage: &mut Stage<'_>, flowed: &[Flowed], phases: &[Phase]) {
    let Some(start_ns) = phases.first().map(|phase| phase.from_ns) else { return };
    let seconds = |at_ns: u64| (at_ns as f64 - start_ns as f64) / SECOND as f64;
    let mut recorder = Recorder::new();
    let mut series = TimeSeries::new("ns");
    let mut losses = Vec::new();
    for phase in phases {
        recorder.phase(&phase.name);
        series = series.phase(
            phase.name.as_str(),
            seconds(phase.from_ns),
            seconds(phase.to_ns),
            phase.state,
        );
    }
    for flow in flowed {
        let delivery = &flow.delivery;
        let mut points = Vec::new();
        for frame in 0..delivery.sent() {
            let sent_ns = delivery.sent_ns(frame);
            let place = phases.iter().rposition(|phase| phase.from_ns <= sent_ns).unwrap_or(0);
            let id = recorder.phase(&phases[place].name);
            match delivery.delay_ns(frame) {
                Some(delay_ns) => {
                    recorder.record(id, delay_ns);
                    points.push((seconds(sent_ns), delay_ns as f64));
                }
                None => recorder.lose(id, 1),
            }
        }
        series = series.series(flow.name, points);
        losses.extend(delivery.lost.iter().map(|gap| Loss {
            from_s: seconds(delivery.sent_ns(gap.first)),
            to_s: seconds(delivery.sent_ns(gap.first + gap.frames - 1)),
            frames: gap.frames,
        }));
    }
    losses.sort_by(|a, b| a.from_s.total_cmp(&b.from_s));
    stage.figure("delay over time", series.losses(losses));
    stage.figure("delay by phase", recorder.figure());
}

/// What became of the frames of each stream.
pub(super) fn totals(stage: &mut Stage<'_>, flowed: &[Flowed]) {
    let mut table = Counters::new([
        "stream".into(),
        "sent".into(),
        "delivered".into(),
        "lost".into(),
        "duplicated".into(),
        "out of order".into(),
        onbeat_report::Column::from(("sent late at most", "ns")),
    ]);
    for flow in flowed {
        let (delivery, record) = (&flow.delivery, &flow.delivery.record);
        table.row([
            Cell::from(flow.name),
            delivery.sent().into(),
            delivery.delivered().into(),
            delivery.lost().into(),
            record.duplicated().into(),
            record.out_of_order().into(),
            delivery.source.latest_ns.into(),
        ]);
    }
    stage.figure("streams", table);
    let rate: f64 = flowed.iter().map(|flow| flow.delivery.source.achieved()).sum();
    stage.figure("rate of all streams", Measurement::new("frames/s", (rate * 10.0).round() / 10.0));
}

/// What each wire did, by direction.
pub(super) fn wires(stage: &mut Stage<'_>, world: &World) {
    let mut table = Counters::new([
        "link",
        "to",
        "received",
        "forwarded",
        "lost",
        "duplicated",
        "held back",
        "no carrier",
    ]);
    for link in &world.topology().links {
        let Ok(wire) = world.wire(&link.name) else { continue };
        for direction in [Direction::Forward, Direction::Backward] {
            let did = wire.counters(direction);
            let to = match direction {
                Direction::Forward => &link.ends[1].station,
                Direction::Backward => &link.ends[0].station,
            };
            table.row([
                Cell::from(link.name.as_str()),
                to.as_str().into(),
                did.received.into(),
                did.forwarded.into(),
                did.lost.into(),
                did.duplicated.into(),
                did.reordered.into(),
                did.cut.into(),
            ]);
        }
    }
    stage.figure("wires", table);
}

/// What each node counted, in the order in which a frame meets it.
pub(super) fn nodes(stage: &mut Stage<'_>, statuses: &[NodeStatus]) {
    for status in statuses {
        stage.figure(format!("node {}", status.node), node(status));
    }
}

fn node(status: &NodeStatus) -> Counters {
    let mut table = Counters::new([
        "stream",
        "function",
        "port",
        "packets",
        "discarded",
        "rogue",
        "lost",
        "out of order",
        "tagless",
        "resets",
    ]);
    for stream in &status.streams {
        let name = || Cell::from(stream.name.as_str());
        for member in &stream.members {
            let function = format!("identify ({})", member.identification);
            table.row([
                name(),
                function.into(),
                member.port.as_str().into(),
                member.input_packets.into(),
            ]);
            if let Some(individual) = &member.individual {
                recovery(&mut table, name(), "recover (individual)", &member.port, individual);
            }
        }
        if let Some(generation) = &stream.generation {
            let passed: u64 = stream.members.iter().map(|member| member.input_packets).sum();
            let mut row = vec![name(), "generate".into(), "".into(), passed.into()];
            row.resize(9, "".into());
            row.push(generation.seq_gen_resets.into());
            table.row(row);
        }
        if let Some(found) = &stream.recovery {
            recovery(&mut table, name(), "recover", "", found);
        }
        for egress in &stream.egress {
            table.row([
                name(),
                "egress".into(),
                egress.port.as_str().into(),
                egress.output_packets.into(),
            ]);
        }
    }
    table
}

fn recovery(table: &mut Counters, name: Cell, function: &str, port: &str, found: &RecoveryStatus) {
    table.row([
        name,
        function.into(),
        port.into(),
        found.passed.into(),
        found.discarded.into(),
        found.rogue.into(),
        found.really_lost().into(),
        found.out_of_order.into(),
        found.tagless.into(),
        found.resets.into(),
    ]);
}
