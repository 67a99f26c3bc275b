//! Figures of a report, from deliveries and counters of nodes.

use onbeat_node::control::{NodeStatus, RecoveryStatus};
use onbeat_realtime::clock::SECOND;
use onbeat_report::{Cell, Counters, Loss, Measurement, Recorder, TimeSeries};

use super::flow::FlowResult;
use super::phase::PhaseLog;
use super::stage::Stage;
use crate::World;
use crate::fault::Direction;
use crate::traffic::Delivery;

/// Delay over time and by phase, totals by stream, counters by node.
pub(super) fn all(
    stage: &mut Stage<'_>,
    flowed: &[FlowResult],
    course: &PhaseLog,
    statuses: &[NodeStatus],
) {
    delays(stage, flowed, course);
    totals(stage, flowed);
    nodes(stage, statuses);
}

/// Delay over time, and its distribution by phase ([`PhaseLog::phase_of`]).
fn delays(stage: &mut Stage<'_>, flowed: &[FlowResult], course: &PhaseLog) {
    let Some(start_ns) = course.phases().first().map(|phase| phase.from_ns) else { return };
    let seconds = |at_ns: u64| (at_ns as f64 - start_ns as f64) / SECOND as f64;
    let mut series = TimeSeries::new("ns");
    let mut losses = Vec::new();
    for phase in course.phases() {
        series = series.phase(
            phase.name.as_str(),
            seconds(phase.from_ns),
            seconds(phase.to_ns),
            phase.state,
        );
    }
    for flow in flowed {
        let delivery = &flow.delivery;
        let arrived =
            |frame| Some((seconds(delivery.sent_ns(frame)), delivery.delay_ns(frame)? as f64));
        series = series.series(flow.name, (0..delivery.sent()).filter_map(arrived).collect());
        losses.extend(delivery.lost.iter().map(|gap| Loss {
            from_s: seconds(delivery.sent_ns(gap.first)),
            to_s: seconds(delivery.sent_ns(gap.first + gap.frames - 1)),
            frames: gap.frames,
        }));
    }
    losses.sort_by(|a, b| a.from_s.total_cmp(&b.from_s));
    stage.figure("delay over time", series.losses(losses));
    let deliveries = flowed.iter().map(|flow| &flow.delivery);
    stage.figure("delay by phase", by_phase(deliveries, course).figure());
}

/// Delays of arrived frames and the number of lost ones, by phase.
fn by_phase<'a>(deliveries: impl Iterator<Item = &'a Delivery>, course: &PhaseLog) -> Recorder {
    let mut recorder = Recorder::new();
    let ids: Vec<_> = course.phases().iter().map(|phase| recorder.phase(&phase.name)).collect();
    for (flow, delivery) in deliveries.enumerate() {
        for frame in 0..delivery.sent() {
            let id = ids[course.phase_of(flow, delivery, frame)];
            match delivery.delay_ns(frame) {
                Some(delay_ns) => recorder.record(id, delay_ns),
                None => recorder.lose(id, 1),
            }
        }
    }
    recorder
}

/// Totals of each stream.
pub(super) fn totals(stage: &mut Stage<'_>, flowed: &[FlowResult]) {
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

/// Counters of each wire, by direction.
pub(super) fn wires(stage: &mut Stage<'_>, world: &World) {
    let mut table = Counters::new([
        "link",
        "receiver",
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

/// Counters of each node, in the order of the packet path.
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
    let names = [name, function.into(), port.into()];
    table.row(names.into_iter().chain(found.columns().map(|(_, value)| Cell::from(value))));
}

#[cfg(test)]
mod tests {
    use super::super::phase::tests::{course, delivery};
    use super::*;

    #[test]
    fn phases_with_a_path_have_no_losses() {
        // 40 was in flight when the last path was cut, 58 and 59 were sent during a restoration.
        let delivery = delivery(|n| Some(1000 + n + 7).filter(|_| !(40..60).contains(&n)));
        let recorder = by_phase([&delivery].into_iter(), &course());
        let table: Vec<_> = recorder.figure().series.iter().map(|s| (s.count, s.lost)).collect();
        assert_eq!(table, [(20, 0), (20, 0), (0, 20), (20, 0), (20, 0)]);
    }
}
