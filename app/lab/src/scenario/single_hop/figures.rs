//! Checks and figures of the single-hop scenarios.

use onbeat_delay::stats::Distribution;
use onbeat_report::{Cell as TableCell, Check, Counters, Number};

use super::cell::Cell;
use super::measurement::{Length, Load, MethodResult};
use super::method::METHODS;
use super::rig::Hop;
use crate::scenario::stage::Stage;

/// Adds checks and figures of the paper's matrix.
pub(super) fn fill(stage: &mut Stage<'_>, cells: &[Cell], length: Length) {
    let all: Vec<&Cell> = cells.iter().collect();
    checks(&all).into_iter().for_each(|check| stage.check(check));
    for hop in Hop::ALL {
        let name = format!("single-hop delay, {}", hop.name());
        stage.figure(name, delays(cells.iter().filter(|cell| cell.hop == hop)));
    }
    stage.figure("comparison as in the paper: mirror, relative to the idle hop", comparison(cells));
    stage.figure("loads", loads(cells));
    if let Some(unseen) = unseen(cells) {
        stage.figure("maximum number of packets not observed by a method", unseen);
    }
    stage.note(format!(
        "each row: probes of {} octets, {} per second for {:.2} s; the mirror's captures are at \
         the far ends of the hop's links, so that its delays include a veth pair on each side",
        length.octets,
        length.rate,
        length.for_ns as f64 / 1e9
    ));
    stage.note(
        "CPUs of the hop: the last one, or the last and the first; it receives in softirq there \
         (RPS), and the CPU load may run there. XDP of the FRER relay runs on the CPU of the \
         sender, which then is one of them",
    );
    stage.note(
        "the one-way delay of the probe uses the one clock of both ends, and includes the path \
         through the hosts; if the hop itself is the reflector, it is the round trip including the \
         time in the reflector, as with the mirror. The round trip excludes that time. The application's \
         delays are from the scheduled transmission until the reflector has handled the probe, or until the \
         sender's process has the reply",
    );
}

/// Checks that hold for any measurement.
pub(super) fn checks(cells: &[&Cell]) -> Vec<Check> {
    let sum = |of: &dyn Fn(&MethodResult) -> u64| -> u64 {
        cells.iter().flat_map(|cell| cell.found.iter().flatten()).map(of).sum()
    };
    let negative = sum(&|found| found.delays.delays.negative());
    let unmatched = sum(&|found| found.unmatched);
    let idle = cells.iter().filter(|cell| cell.load == Load::Idle);
    let lost: u64 = idle.flat_map(|cell| cell.found.iter().flatten()).map(|found| found.lost).sum();
    let unaccounted = cells
        .iter()
        .flat_map(|cell| cell.found.iter().flatten().map(|found| found.unaccounted_of(cell.sent)));
    let unaccounted: u64 = unaccounted.sum();
    [
        ("negative delays", negative),
        ("departures without an arrival", unmatched),
        ("lost by an idle hop", lost),
        ("neither measured, lost nor missed for a detected cause, all methods", unaccounted),
    ]
    .map(|(name, number)| Check::eq(name, number, 0_u64, "packets"))
    .into()
}

pub(super) fn value(number: Option<f64>) -> TableCell {
    number.map_or(Number::MISSING, Number::from).into()
}

fn percentile(delays: &Distribution, share: f64) -> TableCell {
    value(delays.value_at(share).map(|ns| ns as f64))
}

/// Results of each method, under each load.
pub(super) fn delays<'a>(cells: impl Iterator<Item = &'a Cell>) -> Counters {
    let mut table = Counters::new([
        ("CPUs", ""),
        ("load", ""),
        ("method", ""),
        ("measured", ""),
        ("lost", ""),
        ("not observed", ""),
        ("shortest", "ns"),
        ("p50", "ns"),
        ("mean", "ns"),
        ("standard deviation", "ns"),
        ("p99", "ns"),
        ("longest", "ns"),
    ]);
    for cell in cells {
        for (method, found) in METHODS.iter().zip(&cell.found) {
            let Some(found) = found else { continue };
            let delays = &found.delays.delays;
            let exact = |ns: Option<u64>| value(ns.map(|ns| ns as f64));
            table.row([
                TableCell::from(cell.cpus),
                cell.load.name().as_str().into(),
                method.name().into(),
                delays.count().into(),
                found.lost.into(),
                found.unseen_of(cell.sent).into(),
                exact(delays.min_ns()),
                percentile(delays, 0.5),
                value(delays.mean_ns()),
                value(delays.standard_deviation_ns()),
                percentile(delays, 0.99),
                exact(delays.max_ns()),
            ]);
        }
    }
    table
}

/// Causes of packets that methods did not observe; `None`: all were observed.
pub(super) fn unseen(cells: &[Cell]) -> Option<Counters> {
    let mut table = Counters::new([
        ("hop", ""),
        ("CPUs", ""),
        ("load", ""),
        ("method", ""),
        ("cause", ""),
        ("packets", ""),
    ]);
    let mut all_seen = true;
    for cell in cells {
        for (method, found) in METHODS.iter().zip(&cell.found) {
            let Some(found) = found.as_ref().filter(|found| found.unseen_of(cell.sent) > 0) else {
                continue;
            };
            for (cause, packets) in found.unseen.iter().filter(|(_, packets)| *packets > 0) {
                all_seen = false;
                table.row([
                    TableCell::from(cell.hop.name()),
                    cell.cpus.into(),
                    cell.load.name().as_str().into(),
                    method.name().into(),
                    (*cause).into(),
                    (*packets).into(),
                ]);
            }
        }
    }
    (!all_seen).then_some(table)
}

/// The comparison of the paper: CPU load increases delay and jitter, other traffic decreases the delay
/// at first, two CPUs help under load only.
fn comparison(cells: &[Cell]) -> Counters {
    let mut table = Counters::new([
        ("hop", ""),
        ("CPUs", ""),
        ("load", ""),
        ("mean", "ns"),
        ("relative to the idle hop", ""),
        ("standard deviation, relative to the idle hop", ""),
        ("mean, relative to 1 CPU", ""),
    ]);
    let mirrored = |cell: &Cell| {
        let delays = &cell.found.first()?.as_ref()?.delays.delays;
        Some((delays.mean_ns()?, delays.standard_deviation_ns()))
    };
    let other = |cell: &Cell, cpus: &str, load: Load| {
        let is = |one: &&Cell| (one.hop, one.cpus, one.load) == (cell.hop, cpus, load);
        cells.iter().find(is).and_then(mirrored)
    };
    let ratio = |a: Option<f64>, b: Option<f64>| {
        let known = a.zip(b.filter(|b| *b > 0.0));
        value(known.map(|(a, b)| a / b))
    };
    for cell in cells {
        let Some((mean, deviation)) = mirrored(cell) else { continue };
        let idle = other(cell, cell.cpus, Load::Idle);
        let single = other(cell, "1", cell.load).filter(|_| cell.cpus != "1");
        table.row([
            TableCell::from(cell.hop.name()),
            cell.cpus.into(),
            cell.load.name().as_str().into(),
            value(Some(mean)),
            ratio(Some(mean), idle.map(|idle| idle.0)),
            ratio(deviation, idle.and_then(|idle| idle.1)),
            ratio(Some(mean), single.map(|single| single.0)),
        ]);
    }
    table
}

/// Reports of the loads.
pub(super) fn loads(cells: &[Cell]) -> Counters {
    let mut table = Counters::new([
        ("hop", ""),
        ("CPUs", ""),
        ("load", ""),
        ("share of a CPU", "%"),
        ("sent", "packets/s"),
        ("refused", "packets"),
    ]);
    for cell in cells.iter().filter(|cell| cell.load != Load::Idle) {
        let rate =
            cell.net.filter(|net| net.seconds > 0.0).map(|net| net.sent as f64 / net.seconds);
        table.row([
            TableCell::from(cell.hop.name()),
            cell.cpus.into(),
            cell.load.name().as_str().into(),
            value(cell.duty.as_ref().map(|duty| duty.share * 100.0)),
            value(rate),
            value(cell.net.map(|net| net.refused as f64)),
        ]);
    }
    table
}
