//! Checks and figures of the throughput of TCP.

use onbeat_report::{Cell, Check, Counters, Outcome, Ratio};

use super::super::Options;
use super::super::cpu::Cpus;
use super::{MSS, SLICES, TcpResults};

/// Adds the results to an outcome.
pub(in crate::bench) fn fill(
    outcome: &mut Outcome,
    options: &Options,
    cpus: &Cpus,
    results: &TcpResults,
) {
    let TcpResults { backend, pairs, totals, numbered, discarded } = results;
    let plain = match backend.is_user_space() {
        true => "bare AF_PACKET ring forwarder, two paths",
        false => "plain XDP redirect, two paths",
    };
    let [prp, _] = totals;
    let sum = |of: fn(&super::TransferTotals) -> u64| totals.iter().map(of).sum::<u64>();
    outcome.check(Check::eq(
        format!("{backend}: TCP: octets received, of sent"),
        sum(|total| total.received),
        sum(|total| total.sent),
        "B",
    ));
    for (what, frames) in [("numbered by A", numbered), ("copies discarded by B", discarded)] {
        outcome.check(Check::min(
            format!("{backend}: TCP over PRP: {what}, of full segments"),
            *frames,
            prp.sent / MSS,
            "frames",
        ));
    }
    outcome.figure(
        format!("{backend}: TCP over PRP, two paths"),
        Ratio::of_runs("Mbit/s", pairs, plain),
    );
    let mut table =
        Counters::new([("chain", ""), ("octets", ""), ("segments", ""), ("retransmitted", "")]);
    for (name, total) in ["PRP", plain].into_iter().zip(totals) {
        let counts = [total.received, total.segments, total.retransmitted];
        table.row([Cell::from(name)].into_iter().chain(counts.map(Cell::from)));
    }
    outcome.figure(format!("{backend}: TCP segments"), table);
    outcome.note(format!(
        "{backend}: TCP: one connection, not paced, {} ms in each round, after a fifth of this time. Server, client, nodes and \
         all kernel work for them run on CPU {}, at normal priority. The interfaces have no segmentation and no checksum offload.",
        (options.slice * SLICES).as_millis(),
        cpus.measured
    ));
}
