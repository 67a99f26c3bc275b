use std::time::Duration;

use onbeat_report::progress::{Progress, Style};
use onbeat_report::{Cell, Figure, Outcome};
use onbeat_testing::{Feature, require_all, require_that};

use super::{defaults, run};
use crate::bench::cyclic::{Load, Options};

fn silent() -> Progress {
    Progress::to(Box::new(std::io::sink()), Style::Silent)
}

fn short(backends: &[&str], periods_us: &[u64], loads: &[Load]) -> Options {
    Options {
        backends: backends.iter().map(ToString::to_string).collect(),
        cycles: 40,
        rounds: 2,
        periods: periods_us.iter().copied().map(Duration::from_micros).collect(),
        loads: loads.to_vec(),
        ..defaults()
    }
}

fn counts(outcome: &Outcome, name: &str) -> Vec<(String, u64)> {
    let Some(Figure::Distribution(figure)) = outcome.figures.get(name) else {
        panic!("{name}: {:?}", outcome.figures.keys())
    };
    figure.series.iter().map(|series| (series.name.clone(), series.count)).collect()
}

#[test]
fn rows_are_measured_together_and_separately_idle_and_loaded() {
    if !require_all(&[Feature::Root, Feature::Veth, Feature::Kernel(5, 18)]) {
        return;
    }
    let options = short(&["limit", "packet", "packet-spin"], &[1000, 250], &Load::ALL);
    let outcome = run(&options, &mut silent()).unwrap();
    assert!(outcome.ok(), "{:#?}\n{:#?}", outcome.checks, outcome.figures.get("frames"));
    assert_eq!(outcome.checks.len(), 3 * 5);
    let mut sums = [0; 3];
    for load in Load::ALL {
        for cycle in ["1 ms", "250 µs"] {
            let delays = counts(&outcome, &format!("response delay, {cycle}, {load}"));
            let names: Vec<&str> = delays.iter().map(|(name, _)| name.as_str()).collect();
            assert_eq!(names, ["limit", "packet", "packet-spin"]);
            // An instant may pass without a request, as may a whole round of a back end without CPU
            // time; all requests that were sent are answered.
            assert!(delays.iter().all(|(_, count)| *count <= 40), "{delays:?}");
            for (sum, (_, count)) in sums.iter_mut().zip(&delays) {
                *sum += count;
            }
            let late = counts(&outcome, &format!("lateness of requests, {cycle}, {load}"));
            assert_eq!(late[0].0, "clock_nanosleep only");
            let ratio = format!(
                "p99.9 of the response delay: packet-spin relative to packet, {cycle}, {load}"
            );
            assert!(matches!(outcome.figures.get(&ratio), Some(Figure::Ratio(_))), "{ratio}");
        }
    }
    assert!(sums.iter().all(|sum| *sum > 0), "{sums:?}");
    let json = serde_json::to_string(&outcome).unwrap();
    let back: Outcome = serde_json::from_str(&json).unwrap();
    assert_eq!((back.checks, back.figures.len()), (outcome.checks, outcome.figures.len()));
}

#[test]
fn a_plain_libpcap_program_is_a_row() {
    if !require_all(&[Feature::Root, Feature::Veth]) {
        return;
    }
    let available = onbeat_netdev::libpcap::functions();
    if !require_that(available.is_ok(), available.as_ref().err().map_or("", String::as_str)) {
        return;
    }
    let outcome = run(&short(&["pcap"], &[1000], &[Load::Idle]), &mut silent()).unwrap();
    assert!(outcome.ok(), "{:#?}", outcome.checks);
    let Some(Figure::Counters(rows)) = outcome.figures.get("back ends") else { panic!() };
    assert_eq!(rows.rows[0][2], Cell::from("measured"));
}
