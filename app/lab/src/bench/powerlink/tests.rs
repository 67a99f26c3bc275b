use std::time::Duration;

use onbeat_report::progress::{Progress, Style};
use onbeat_report::{Cell, Figure, Outcome};
use onbeat_testing::{Feature, require_all};

use super::{defaults, run};
use crate::bench::cyclic::{Load, Options};

fn series(outcome: &Outcome, name: &str) -> Vec<(String, u64)> {
    let Some(Figure::Distribution(figure)) = outcome.figures.get(name) else {
        panic!("{name}: {:?}", outcome.figures.keys())
    };
    figure.series.iter().map(|series| (series.name.clone(), series.count)).collect()
}

#[test]
fn complete_nodes_are_measured_idle_and_loaded_and_xdp_responds_in_the_driver() {
    if !require_all(&[Feature::Root, Feature::Veth, Feature::Kernel(5, 18)]) {
        return;
    }
    let options = Options {
        backends: ["limit", "packet", "xdp", "module"].map(String::from).to_vec(),
        cycles: 60,
        rounds: 2,
        periods: vec![Duration::from_millis(5)],
        ..defaults()
    };
    let outcome = run(&options, &mut Progress::to(Box::new(std::io::sink()), Style::Silent));
    let outcome = outcome.unwrap();
    assert!(outcome.ok(), "{:#?}\n{:#?}", outcome.checks, outcome.figures.get("frames"));
    let Some(Figure::Counters(rows)) = outcome.figures.get("back ends") else { panic!() };
    let state = |name: &str| {
        let row = rows.rows.iter().find(|row| row[0] == Cell::from(name)).unwrap();
        row[4].clone()
    };
    for row in ["limit", "packet", "xdp"] {
        assert_eq!(state(row), Cell::from("measured"), "{row}");
    }
    for load in Load::ALL {
        for quantity in ["PReq to PRes", "SoC jitter"] {
            let found = series(&outcome, &format!("{quantity}, 5 ms, {load}"));
            for row in ["limit", "packet", "xdp"] {
                let count = found.iter().find(|(name, _)| name == row).map(|(_, count)| *count);
                assert!(count.is_some_and(|count| count > 0), "{quantity}, {row}: {found:?}");
            }
        }
        let ratio = format!("p99.9 of PReq to PRes: xdp relative to packet, 5 ms, {load}");
        assert!(matches!(outcome.figures.get(&ratio), Some(Figure::Ratio(_))), "{ratio}");
    }
    let driver = "xdp: responses that the node's process had to send";
    assert!(outcome.checks.iter().any(|check| check.name == driver), "{:?}", outcome.checks);
}
