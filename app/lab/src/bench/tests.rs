use std::time::Duration;

use onbeat_node::config::Backend;
use onbeat_report::progress::{Progress, Style};
use onbeat_report::{Figure, Outcome};
use onbeat_testing::{Feature, require_all};

use super::{Options, Source, run_frer};

fn silent() -> Progress {
    Progress::to(Box::new(std::io::sink()), Style::Silent)
}

#[test]
fn invalid_options_are_rejected() {
    let refusal = |options: Options| run_frer(&options, &mut silent()).unwrap_err().to_string();
    let default = Options::default;
    assert_eq!(
        refusal(Options { streams: vec![1, 65537], ..default() }),
        "streams 65537 cannot be used here: use 1 to 65536"
    );
    for options in [
        Options { backends: vec![], ..default() },
        Options { sources: vec![], ..default() },
        Options { streams: vec![], ..default() },
        Options { streams: vec![0], ..default() },
        Options { frame_octets: 63, ..default() },
        Options { probe_octets: 1501, ..default() },
        Options { rounds: 0, ..default() },
        Options { slice: Duration::ZERO, ..default() },
        Options { probes: 0, ..default() },
        Options { probe_rate: 0, ..default() },
        Options { batch: 257, ..default() },
        Options { cpus: 0, ..default() },
        Options { cpus: 3, ..default() },
        Options { offered: Some(0), ..default() },
    ] {
        refusal(options);
    }
}

#[test]
fn one_source_is_enough() {
    if !require_all(&[Feature::Root, Feature::Veth]) {
        return;
    }
    let options = Options {
        sources: vec![Source::Socket],
        streams: vec![2],
        rounds: 1,
        slice: Duration::from_millis(1),
        probes: 1,
        ..Options::default()
    };
    let outcome = run_frer(&options, &mut silent()).unwrap();
    assert!(outcome.ok(), "{:#?}", outcome.checks);
    let of_kernel = |name: &&String| name.contains(Source::Kernel.name());
    assert_eq!(outcome.figures.keys().find(of_kernel), None);
}

#[test]
fn a_short_run_yields_a_complete_outcome() {
    if !require_all(&[Feature::Root, Feature::Veth, Feature::Kernel(5, 18)]) {
        return;
    }
    let options = Options {
        streams: vec![1, 70],
        rounds: 2,
        slice: Duration::from_millis(1),
        probes: 30,
        ..Options::default()
    };
    let outcome = run_frer(&options, &mut silent()).unwrap();
    assert!(outcome.ok(), "{:#?}", outcome.checks);
    assert_eq!(outcome.checks.len(), 12);
    for check in &outcome.checks[..6] {
        assert!(check.value.as_f64() > 0.0, "the count is 0: {check:?}");
    }
    for source in [Source::Socket, Source::Kernel].map(Source::name) {
        for paths in ["one path", "two paths"] {
            for what in [
                "FRER, {}, 1 stream",
                "FRER, {}, 70 streams",
                "70 streams relative to 1 stream, {}",
            ] {
                let name = format!("{}, {source}", what.replace("{}", paths));
                let Some(Figure::Ratio(ratio)) = outcome.figures.get(&name) else {
                    panic!("{name}")
                };
                assert!(ratio.ratio.as_f64() > 0.0, "{name}: {ratio:?}");
            }
        }
        let name = format!("time per frame, {source}");
        let Some(Figure::Counters(times)) = outcome.figures.get(&name) else { panic!("{name}") };
        assert_eq!(times.rows.len(), 14, "{times:?}");
    }
    let Some(Figure::Distribution(delays)) = outcome.figures.get("one-way delay") else { panic!() };
    let names: Vec<_> = delays.series.iter().map(|series| series.name.as_str()).collect();
    assert_eq!(names, ["redirect, idle", "FRER, idle", "redirect, CPU hog", "FRER, CPU hog"]);
    assert!(delays.series.iter().all(|series| series.count == 30), "{delays:?}");
    let json = serde_json::to_string(&outcome).unwrap();
    let back: Outcome = serde_json::from_str(&json).unwrap();
    assert_eq!((back.checks, back.figures.len()), (outcome.checks, outcome.figures.len()));
}

#[test]
fn user_space_is_compared_with_bare_forwarders() {
    if !require_all(&[Feature::Root, Feature::Veth]) {
        return;
    }
    let options = Options {
        backends: vec![Backend::Packet, Backend::Xsk],
        streams: vec![1, 70],
        rounds: 2,
        slice: Duration::from_millis(1),
        ..Options::default()
    };
    let outcome = run_frer(&options, &mut silent()).unwrap();
    assert!(outcome.ok(), "{:#?}", outcome.checks);
    assert_eq!(outcome.checks.len(), 11);
    for check in &outcome.checks {
        assert!(check.value.as_f64() > 0.0, "the count is 0: {check:?}");
    }
    for backend in ["packet", "xsk"] {
        for paths in ["one path", "two paths"] {
            let of = |streams: &str| format!("{backend}: FRER, {paths}, {streams}");
            let many = format!("{backend}: 70 streams relative to 1, {paths}");
            for name in [of("1 stream"), of("70 streams"), many] {
                let Some(Figure::Ratio(ratio)) = outcome.figures.get(&name) else {
                    panic!("{name}")
                };
                assert!(ratio.ratio.as_f64() > 0.0, "{name}: {ratio:?}");
            }
        }
        let name = format!("{backend}: time per frame");
        let Some(Figure::Counters(times)) = outcome.figures.get(&name) else { panic!("{name}") };
        assert_eq!(times.rows.len(), 8, "{times:?}");
    }
    assert_eq!(outcome.conditions.mode.as_deref(), Some("packet, xsk-copy"));
}
