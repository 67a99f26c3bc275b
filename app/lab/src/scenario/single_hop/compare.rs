//! Comparison of the methods by the same packets at the same time: their results, the error of each,
//! and whether they agree.
//!
//! Mirror and probe also measure a packet's path to and from the hop. This is measured without the hop
//! ([`Hop::Nothing`]), and subtracted by equation (2) of the paper; the error of the result is the
//! spread of that path. The hooks observe a packet until the driver has finished its work, and not the
//! exact time of transmission before.

use std::time::Duration;

use onbeat_delay::correction::Correction;
use onbeat_realtime::clock::SECOND;
use onbeat_report::format::parse_duration;
use onbeat_report::{Cell as TableCell, Counters, Number};

use super::cell::Cell;
use super::matrix::Matrix;
use super::measurement::{HopCpus, Length, Load, MethodResult};
use super::method::{HOOKS, METHODS, MIRROR, PROBE_ONE_WAY};
use super::rig::Hop;
use super::{figures, plots};
use crate::scenario::stage::Stage;
use crate::{Error, Result, rounds};

/// Confidence level of all intervals.
const CONFIDENCE: f64 = 0.95;

/// Methods that measure the same path and can be compared; the first is the reference of the others.
const COMPARED: [usize; 3] = [MIRROR, HOOKS, PROBE_ONE_WAY];

/// Options of the comparison.
#[derive(Debug, clap::Args)]
pub(super) struct CompareOptions {
    /// Compare the methods on the same packets instead, for these hops
    ///
    /// Mirror, hooks and probe measure each packet at the same time. The part of mirror and probe
    /// outside of the hop is measured without it and subtracted. The result has each method's median
    /// with its confidence interval, and the agreement of the methods. The page (--html) has figures 5
    /// to 10 of Vondrouš 2016.
    #[arg(
        long,
        value_name = "HOP,...",
        value_enum,
        value_delimiter = ',',
        conflicts_with = "seconds"
    )]
    compare: Vec<Hop>,
    /// Loads on the hop, with --compare: idle, cpu (table 1 of Vondrouš 2016), or a number of datagrams per
    /// second through another interface
    #[arg(
        long,
        value_name = "LOAD,...",
        value_delimiter = ',',
        default_value = "idle,cpu,1000,5000,20000",
        requires = "compare"
    )]
    load: Vec<Load>,
    /// Number of CPUs of the hop, with --compare
    #[arg(long, value_name = "1,2", value_delimiter = ',', default_value = "1,2", requires = "compare",
        value_parser = clap::value_parser!(u8).range(1..=2))]
    cpus: Vec<u8>,
    /// Duration of the measurement of each hop under each load, with --compare
    #[arg(long = "for", value_name = "TIME", default_value = "2s", requires = "compare",
        value_parser = parse_duration)]
    length: Duration,
}

impl CompareOptions {
    /// Whether the comparison is requested.
    pub(super) fn is_wanted(&self) -> bool {
        !self.compare.is_empty()
    }

    fn matrix(&self, rate: u64, octets: usize) -> Result<Matrix> {
        const FASTEST: u64 = 100_000;
        let refuse =
            |option, value: String, reason: String| Err(Error::Option { option, value, reason });
        if rate > FASTEST {
            return refuse("rate", rate.to_string(), format!("use at most {FASTEST}"));
        }
        let for_ns = u64::try_from(self.length.as_nanos()).unwrap_or(u64::MAX);
        if for_ns < SECOND / 20 {
            return refuse("for", format!("{for_ns} ns"), "use at least 50ms".into());
        }
        let places = HopCpus::all()?;
        let place = |number: &u8| places[usize::from(number - 1)].clone();
        Ok(Matrix {
            hops: self.compare.clone(),
            places: self.cpus.iter().map(place).collect(),
            loads: self.load.clone(),
            length: Length { rate, for_ns, octets },
        })
    }
}

/// Measures, and reports the agreement of the methods.
///
/// # Errors
/// Invalid options; missing support or privileges; [`Error::Interrupted`]. All namespaces and programs
/// are removed then.
pub(super) fn play(
    stage: &mut Stage<'_>,
    options: &CompareOptions,
    rate: u64,
    octets: usize,
) -> Result<()> {
    let matrix = options.matrix(rate, octets)?;
    stage.rename("delay-compare");
    let null = Matrix {
        hops: vec![Hop::Nothing],
        places: matrix.places[..1].to_vec(),
        loads: vec![Load::Idle],
        length: matrix.length,
    };
    let takes = rounds::in_words(matrix.takes_ns() + null.takes_ns());
    stage.progress.line(&format!("estimated duration: {takes}"));
    let null = null.measure(stage.onbeat_bin(), &mut |line| stage.show_step(line))?;
    let cells = matrix.measure(stage.onbeat_bin(), &mut |line| stage.show_step(line))?;
    stage.set_driver("veth");
    fill(stage, &null, &cells, &matrix);
    Ok(())
}

fn fill(stage: &mut Stage<'_>, null: &[Cell], cells: &[Cell], matrix: &Matrix) {
    let all: Vec<&Cell> = null.iter().chain(cells).collect();
    for check in figures::checks(&all) {
        stage.check(check);
    }
    let corrections = Corrections::of(null);
    stage.figure("path without a hop: subtracted delay", corrections.table());
    for hop in &matrix.hops {
        let of_hop = || cells.iter().filter(|cell| cell.hop == *hop);
        let name = hop.name();
        stage.figure(format!("{name}: agreement"), agreement(of_hop(), &corrections));
        stage.figure(format!("{name}: as measured"), figures::delays(of_hop()));
        for (figure, drawn) in plots::of(&of_hop().collect::<Vec<_>>()) {
            stage.figure(format!("{name}: {figure}"), drawn);
        }
    }
    stage.figure("loads", figures::loads(cells));
    if let Some(unseen) = figures::unseen(cells) {
        stage.figure("maximum number of packets not observed by a method", unseen);
    }
    let Length { rate, for_ns, octets } = matrix.length;
    stage.note(format!(
        "each row: probes of {octets} octets, {rate} per second for {:.2} s, measured by all methods at the same time. The overhead of each affects all of \
         them",
        for_ns as f64 / 1e9
    ));
    stage.note(format!(
        "agreement: medians, each with the limits of its {:.0} % confidence interval. Mirror and \
         probe: without the mean of the path without a hop, whose spread is their error; values \
         below the error are omitted (–). Hooks: a packet leaves during the driver's work, whose \
         end they observe, so that their values may be too high by that time. Methods agree if the \
         intervals overlap",
        CONFIDENCE * 100.0
    ));
    if matrix.hops.contains(&Hop::Relay) {
        stage.note(
            "FRER relay: XDP receives packets in the driver, before the first tracepoint of the \
             hooks, which do not observe them",
        );
    }
    stage.note(
        "the path without a hop is measured idle. Under load it takes the same time if it runs on \
         other CPUs than the load, and longer otherwise. Then mirror and probe exceed the hooks by \
         the difference",
    );
}

/// The delay of the path without a hop, by method.
struct Corrections([Option<Correction>; METHODS.len()]);

impl Corrections {
    fn of(null: &[Cell]) -> Self {
        let found = |at: usize| null.first()?.found.get(at)?.as_ref();
        Self(std::array::from_fn(|at| Correction::of(&found(at)?.delays.delays, CONFIDENCE)))
    }

    fn table(&self) -> Counters {
        let mut table = Counters::new([
            ("method", ""),
            ("mean", "ns"),
            ("standard deviation", "ns"),
            ("packets", ""),
        ]);
        for (method, correction) in METHODS.iter().zip(&self.0) {
            let Some(Correction { mean_ns, standard_deviation_ns, count, .. }) = *correction else {
                continue;
            };
            table.row([
                TableCell::from(method.name()),
                mean_ns.into(),
                standard_deviation_ns.into(),
                count.unwrap_or(0).into(),
            ]);
        }
        table
    }
}

/// A median with its error.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Estimate {
    measured_ns: f64,
    /// Without the delay outside of the hop; `None`: not greater than its error.
    hop_median_ns: Option<f64>,
    from_ns: f64,
    to_ns: f64,
}

impl Estimate {
    fn of(found: &MethodResult, correction: Option<&Correction>) -> Option<Self> {
        let median = found.delays.delays.percentile(0.5, CONFIDENCE)?;
        let measured_ns = median.value_ns as f64;
        let bound = |bound: Option<u64>| bound.map_or(measured_ns, |ns| ns as f64);
        Some(match correction {
            Some(correction) => {
                let corrected = correction.percentile(&median, CONFIDENCE)?;
                Self {
                    measured_ns,
                    hop_median_ns: corrected.significant(),
                    from_ns: corrected.lower_ns,
                    to_ns: corrected.upper_ns,
                }
            }
            None => Self {
                measured_ns,
                hop_median_ns: Some(measured_ns),
                from_ns: bound(median.lower_ns) - found.too_long_ns,
                to_ns: bound(median.upper_ns),
            },
        })
    }

    fn overlaps(&self, other: &Self) -> bool {
        self.from_ns <= other.to_ns && other.from_ns <= self.to_ns
    }
}

/// The table of the methods' results for the same packets.
fn agreement<'a>(cells: impl Iterator<Item = &'a Cell>, corrections: &Corrections) -> Counters {
    let mut table = Counters::new([
        ("CPUs", ""),
        ("load", ""),
        ("method", ""),
        ("median, measured", "ns"),
        ("median of the hop", "ns"),
        ("lower bound", "ns"),
        ("upper bound", "ns"),
        ("difference to the mirror", "ns"),
        ("overlap with the mirror", ""),
    ]);
    for cell in cells {
        let estimate = |at: usize| {
            // The hooks observe the hop only.
            let correction = corrections.0[at].as_ref().filter(|_| at != HOOKS);
            Estimate::of(cell.found.get(at)?.as_ref()?, correction)
        };
        let mirror = estimate(COMPARED[0]);
        for at in COMPARED {
            let Some(found) = estimate(at) else { continue };
            let others = mirror.filter(|_| at != COMPARED[0]);
            let beside =
                others.and_then(|mirror| Some(found.hop_median_ns? - mirror.hop_median_ns?));
            let agrees = others.map_or("", |m| if found.overlaps(&m) { "yes" } else { "no" });
            table.row([
                TableCell::from(cell.cpus),
                cell.load.name().as_str().into(),
                METHODS[at].name().into(),
                found.measured_ns.into(),
                figures::value(found.hop_median_ns),
                found.from_ns.into(),
                found.to_ns.into(),
                beside.map_or(Number::MISSING, Number::from).into(),
                agrees.into(),
            ]);
        }
    }
    table
}

#[cfg(test)]
mod tests {
    use super::super::Options;
    use super::*;
    use clap::Parser;
    use onbeat_delay::matching::Verdict;

    fn found(delays: impl Iterator<Item = i64>) -> MethodResult {
        let mut found = MethodResult::default();
        delays.enumerate().for_each(|(at, ns)| found.record(at as i64, ns, Verdict::Certain));
        found
    }

    #[test]
    fn the_delay_outside_of_the_hop_is_subtracted() {
        let mirror = found((0..1_001).map(|n| 20_000 + n * 389 % 1_001));
        let correction = Correction {
            mean_ns: 8_000.0,
            standard_deviation_ns: 100.0,
            count: Some(1_000),
            mean_error_ns: None,
        };
        let estimate = Estimate::of(&mirror, Some(&correction)).unwrap();
        let median = estimate.hop_median_ns.unwrap();
        assert!((median - 12_500.0).abs() < 20.0, "{estimate:?}");
        // 1.96 deviations, plus the error of the median itself.
        assert!(
            estimate.from_ns < median - 196.0 && median + 196.0 < estimate.to_ns,
            "{estimate:?}"
        );
        assert!(estimate.to_ns - estimate.from_ns < 600.0, "{estimate:?}");

        let mut hooks = found((0..1_001).map(|n| 12_600 + n * 389 % 1_001));
        hooks.too_long_ns = 700.0;
        let hooks = Estimate::of(&hooks, None).unwrap();
        assert!(hooks.overlaps(&estimate) && estimate.overlaps(&hooks), "{hooks:?} {estimate:?}");
        let other =
            Estimate::of(&found((0..1_001).map(|n| 14_000 + n * 389 % 1_001)), None).unwrap();
        assert!(!other.overlaps(&estimate));
    }

    #[test]
    fn a_delay_below_its_error_is_omitted() {
        let correction = Correction {
            mean_ns: 8_000.0,
            standard_deviation_ns: 400.0,
            count: Some(1_000),
            mean_error_ns: None,
        };
        let estimate = Estimate::of(&found((0..99).map(|_| 8_700)), Some(&correction)).unwrap();
        assert_eq!(estimate.hop_median_ns, None);
        assert!(estimate.from_ns < 0.0 && estimate.to_ns > 1_400.0, "{estimate:?}");
        assert_eq!(Estimate::of(&MethodResult::default(), None), None);
    }

    #[derive(Debug, clap::Parser)]
    struct Line {
        #[command(flatten)]
        options: Options,
    }

    fn parse(line: &str) -> std::result::Result<Options, clap::Error> {
        let words =
            ["single-hop"].into_iter().chain(line.split(' ').filter(|word| !word.is_empty()));
        Line::try_parse_from(words).map(|line| line.options)
    }

    #[test]
    fn hops_and_loads_are_parsed() {
        for (line, good) in [
            ("--compare router", true),
            ("--compare router,frer --load idle,20000 --cpus 2 --for 50ms", true),
            ("--compare", false),
            ("--compare switch", false),
            ("--compare no-hop", false),
            ("--compare nothing", false),
            ("--compare router --load 0", false),
            ("--compare router --load busy", false),
            ("--compare router --load=", false),
            ("--compare router --cpus 3", false),
            ("--compare router --cpus=", false),
            ("--compare router --rate 0", false),
            // Options of one mode that are invalid in the other.
            ("--compare router --seconds 1", false),
            ("--load idle", false),
            ("--cpus 1", false),
            ("--for 1s", false),
            ("", true),
        ] {
            assert_eq!(parse(line).is_ok(), good, "{line}");
        }
        assert_eq!("5000".parse(), Ok(Load::Net(5000)));
    }

    #[test]
    fn invalid_comparisons_are_rejected() {
        for (for_, rate) in [("1us", 1), ("49ms", 1), ("1s", 100_001)] {
            let options = parse(&format!("--compare router --for {for_}")).unwrap().compare;
            let refused = options.matrix(rate, 192);
            assert!(matches!(refused, Err(Error::Option { .. })), "{for_}, {rate}");
        }
    }
}
