use std::time::Duration;

use onbeat_netdev::testing::{Feature, require_all};
use onbeat_report::Figure;
use onbeat_report::progress::{Progress, Style};

use super::{Options, run};

fn silent() -> Progress {
    Progress::to(Box::new(std::io::sink()), Style::Silent)
}

#[test]
fn what_cannot_be_measured_is_refused() {
    for options in [
        Options { rounds: 0, ..Options::default() },
        Options { slice: Duration::ZERO, ..Options::default() },
        Options { cpu: Some(100_000), ..Options::default() },
    ] {
        assert!(run(&options, &mut silent()).is_err(), "{options:?}");
    }
}

/// Every packet is charged to who reads it, and the accounts add up; how fast it is decides nothing.
#[test]
fn a_short_run_yields_a_whole_outcome() {
    if !require_all(&[Feature::Root, Feature::Veth, Feature::Btf, Feature::Kernel(6, 8)]) {
        return;
    }
    let options = Options { rounds: 2, slice: Duration::from_millis(200), ..Options::default() };
    let outcome = run(&options, &mut silent()).unwrap();
    assert!(outcome.ok(), "{:#?}", outcome.checks);
    assert_eq!(outcome.checks.len(), 6);
    assert!(outcome.checks[0].value.as_f64() > 0.0, "{:?}", outcome.checks[0]);
    for how in ["threaded NAPI", "softirq"] {
        let name = format!("packets a second with the ledger, {how}");
        let Some(Figure::Ratio(ratio)) = outcome.figures.get(&name) else { panic!("{name}") };
        assert!(ratio.ratio.as_f64() > 0.0, "{ratio:?}");
        let name = format!("time of the ledger's programs, while it is counted, {how}");
        let Some(Figure::Counters(programs)) = outcome.figures.get(&name) else { panic!("{name}") };
        assert!(programs.rows.len() >= 4, "{programs:?}");
    }
    let together = "attribution error, together: 64 octets and 64 octets (goal 2)";
    assert!(outcome.figures.contains_key(together), "{:?}", outcome.figures.keys());
}
