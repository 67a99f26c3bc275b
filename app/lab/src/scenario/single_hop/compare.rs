//! The methods held against each other, by the same packets at the same time: what each says of them, what
//! it may be off by, and whether that agrees.
//!
//! The mirror and the probe see a packet's way to the hop and from it, too. That is measured without the
//! hop ([`Hop::Nothing`]), and taken off by equation (2) of the paper; what is left is right to the spread of
//! that way. The hooks see the packet until the driver is done with it, and not when in between it left.

use std::path::PathBuf;

use onbeat_delay::correction::Correction;
use onbeat_realtime::interrupt;
use onbeat_report::{Cell as TableCell, Counters, Number, Outcome, Progress, Run};

use super::cell::{Cell, Length};
use super::matrix::{self, Matrix, Place};
use super::method::{Found, HOOKS, METHODS, MIRROR, PROBE_ONE_WAY};
use super::{Hop, Load, figures, plots};
use crate::{Error, Result, rounds};

/// Of all intervals.
const CONFIDENCE: f64 = 0.95;

/// Methods that measure the same way, and can be held against each other; the first is what the others are
/// held against.
const COMPARED: [usize; 3] = [MIRROR, HOOKS, PROBE_ONE_WAY];

/// What is compared.
#[derive(Debug, Clone)]
pub struct Options {
    /// The hops, one after the other.
    pub hops: Vec<Hop>,
    /// What they have to do beside.
    pub loads: Vec<Load>,
    /// On how many CPUs: 1, 2.
    pub cpus: Vec<u8>,
    /// Probes a second.
    pub rate: u64,
    /// Octets of a probe's frame, FCS not included; `None`: the paper's 192.
    pub size: Option<usize>,
    /// How long each is measured, in nanoseconds.
    pub for_ns: u64,
    /// The program that nodes run: `onbeat`.
    pub onbeat_bin: PathBuf,
}

impl Options {
    fn matrix(&self) -> Result<Matrix> {
        let refuse = |option, value: String, reason: &str| {
            Err(Error::Option { option, value, reason: reason.into() })
        };
        if self.hops.is_empty() || self.hops.contains(&Hop::Nothing) {
            return refuse("HOP", String::new(), "give one or more that packets wait in");
        }
        if self.loads.is_empty() || self.cpus.is_empty() {
            return refuse("load", String::new(), "give one or more loads, and numbers of CPUs");
        }
        if let Some(wrong) = self.cpus.iter().find(|number| !(1..=2).contains(*number)) {
            return refuse("cpus", wrong.to_string(), "a hop works on 1 or on 2");
        }
        if self.rate == 0 {
            return refuse("rate", "0".into(), "use at least 1");
        }
        if self.for_ns < onbeat_realtime::clock::SECOND / 20 {
            return refuse("for", format!("{} ns", self.for_ns), "use at least 50ms");
        }
        let places = Place::all()?;
        Ok(Matrix {
            hops: self.hops.clone(),
            places: self
                .cpus
                .iter()
                .map(|number| places[usize::from(number - 1)].clone())
                .collect(),
            loads: self.loads.clone(),
            length: Length {
                rate: self.rate,
                for_ns: self.for_ns,
                octets: matrix::octets(self.size)?,
            },
        })
    }
}

/// Measures, and says how far the methods agree.
///
/// While it runs, SIGINT, SIGTERM and SIGHUP end it in order.
///
/// # Errors
/// Where an option cannot be used, or the kernel or its privileges do not allow it;
/// [`Error::Interrupted`]. Whatever was made is gone then.
pub fn run(options: &Options, progress: &mut Progress) -> Result<Outcome> {
    let matrix = options.matrix()?;
    let _signals = interrupt::Guard::install();
    let run = Run::begin("delay-compare");
    let null = Matrix {
        hops: vec![Hop::Nothing],
        places: matrix.places[..1].to_vec(),
        loads: vec![Load::Idle],
        length: matrix.length,
    };
    let takes = rounds::in_words(matrix.takes_ns() + null.takes_ns());
    progress.line(&format!("this takes about {takes}"));
    let mut tell = |line: &str| progress.update(|| format!("compare: {line}"));
    let null = null.measure(&options.onbeat_bin, &mut tell)?;
    let cells = matrix.measure(&options.onbeat_bin, &mut tell)?;
    progress.clear();
    let mut outcome = run.finish();
    outcome.conditions.driver = Some("veth".into());
    fill(&mut outcome, &null, &cells, &matrix);
    Ok(outcome)
}

fn fill(outcome: &mut Outcome, null: &[Cell], cells: &[Cell], matrix: &Matrix) {
    let all: Vec<&Cell> = null.iter().chain(cells).collect();
    for check in figures::checks(&all) {
        outcome.check(check);
    }
    let corrections = Corrections::of(null);
    outcome.figure("the path without a hop: what is taken off", corrections.table());
    for hop in &matrix.hops {
        let of_hop = || cells.iter().filter(|cell| cell.hop == *hop);
        let name = hop.name();
        outcome.figure(format!("{name}: agreement"), agreement(of_hop(), &corrections));
        outcome.figure(format!("{name}: as measured"), figures::delays(of_hop()));
        for (figure, drawn) in plots::of(&of_hop().collect::<Vec<_>>()) {
            outcome.figure(format!("{name}: {figure}"), drawn);
        }
    }
    outcome.figure("loads", figures::loads(cells));
    if let Some(unseen) = figures::unseen(cells) {
        outcome.figure("packets that a method did not see, at most", unseen);
    }
    let Length { rate, for_ns, octets } = matrix.length;
    outcome.note(format!(
        "each row: probes of {octets} octets, {rate} a second for {:.2} s, measured by all methods at the same \
         time, so that what one costs all of them see",
        for_ns as f64 / 1e9
    ));
    outcome.note(format!(
        "agreement: medians, each from .. to what it may be with {:.0} % confidence. Mirror and probe: less the \
         mean of the path without a hop, and off by the spread of that; what is not more than that is withheld (–). \
         Hooks: a packet left while the driver was at work, which they see the end of, so that they may be too \
         long by it. Methods agree where these overlap",
        CONFIDENCE * 100.0
    ));
    if matrix.hops.contains(&Hop::Relay) {
        outcome.note(
            "FRER relay: XDP takes packets in the driver, before the hooks' first tracepoint: they tell nothing \
             of it",
        );
    }
    outcome.note(
        "the path without a hop is measured idle; under load it takes as long where it is on other CPUs than the \
         load, and longer where not: then mirror and probe are above the hooks by that",
    );
}

/// The delay of the path without a hop, by method.
struct Corrections([Option<Correction>; METHODS.len()]);

impl Corrections {
    fn of(null: &[Cell]) -> Self {
        let found = |at: usize| null.first()?.found.get(at)?.as_ref();
        Self(std::array::from_fn(|at| Correction::of(&found(at)?.delays.delays)))
    }

    fn table(&self) -> Counters {
        let mut table = Counters::new([
            ("method", ""),
            ("mean", "ns"),
            ("standard deviation", "ns"),
            ("packets", ""),
        ]);
        for (method, correction) in METHODS.iter().zip(&self.0) {
            let Some(Correction { mean_ns, standard_deviation_ns, count }) = *correction else {
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

/// A median, and where it may be.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Estimate {
    measured_ns: f64,
    /// Without what is not the hop's; `None` where that is not more than it may be off by.
    told_ns: Option<f64>,
    from_ns: f64,
    to_ns: f64,
}

impl Estimate {
    fn of(found: &Found, correction: Option<&Correction>) -> Option<Self> {
        let median = found.delays.delays.percentile(0.5, CONFIDENCE)?;
        let measured_ns = median.value_ns as f64;
        let bound = |bound: Option<u64>| bound.map_or(measured_ns, |ns| ns as f64);
        let (lower, upper) = (bound(median.lower_ns), bound(median.upper_ns));
        Some(match correction {
            Some(correction) => {
                let reading = correction.delay(measured_ns, CONFIDENCE);
                Self {
                    measured_ns,
                    told_ns: reading.told(),
                    from_ns: lower - correction.mean_ns - reading.error_ns,
                    to_ns: upper - correction.mean_ns + reading.error_ns,
                }
            }
            None => Self {
                measured_ns,
                told_ns: Some(measured_ns),
                from_ns: lower - found.too_long_ns,
                to_ns: upper,
            },
        })
    }

    fn overlaps(&self, other: &Self) -> bool {
        self.from_ns <= other.to_ns && other.from_ns <= self.to_ns
    }
}

/// What the methods say of the same packets.
fn agreement<'a>(cells: impl Iterator<Item = &'a Cell>, corrections: &Corrections) -> Counters {
    let mut table = Counters::new([
        ("CPUs", ""),
        ("load", ""),
        ("method", ""),
        ("median, measured", "ns"),
        ("median of the hop", "ns"),
        ("from", "ns"),
        ("to", "ns"),
        ("beside the mirror's", "ns"),
        ("agrees with the mirror", ""),
    ]);
    for cell in cells {
        let estimate = |at: usize| {
            // The hooks see nothing but the hop.
            let correction = corrections.0[at].as_ref().filter(|_| at != HOOKS);
            Estimate::of(cell.found.get(at)?.as_ref()?, correction)
        };
        let mirror = estimate(COMPARED[0]);
        for at in COMPARED {
            let Some(found) = estimate(at) else { continue };
            let others = mirror.filter(|_| at != COMPARED[0]);
            let beside = others.and_then(|mirror| Some(found.told_ns? - mirror.told_ns?));
            let agrees = others.map_or("", |m| if found.overlaps(&m) { "yes" } else { "no" });
            table.row([
                TableCell::from(cell.cpus),
                cell.load.name().as_str().into(),
                METHODS[at].name().into(),
                found.measured_ns.into(),
                figures::value(found.told_ns),
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
    use super::*;
    use onbeat_delay::matching::Verdict;

    fn found(delays: impl Iterator<Item = i64>) -> Found {
        let mut found = Found::new();
        delays.enumerate().for_each(|(at, ns)| found.record(at as i64, ns, Verdict::Certain));
        found
    }

    #[test]
    fn what_is_not_the_hops_is_taken_off() {
        let mirror = found((0..1_001).map(|n| 20_000 + n));
        let correction =
            Correction { mean_ns: 8_000.0, standard_deviation_ns: 100.0, count: Some(1_000) };
        let estimate = Estimate::of(&mirror, Some(&correction)).unwrap();
        let told = estimate.told_ns.unwrap();
        assert!((told - 12_500.0).abs() < 20.0, "{estimate:?}");
        // 1.96 deviations, and what the median itself may be off by.
        assert!(estimate.from_ns < told - 196.0 && told + 196.0 < estimate.to_ns, "{estimate:?}");
        assert!(estimate.to_ns - estimate.from_ns < 600.0, "{estimate:?}");

        let mut hooks = found((0..1_001).map(|n| 12_600 + n));
        hooks.too_long_ns = 700.0;
        let hooks = Estimate::of(&hooks, None).unwrap();
        assert!(hooks.overlaps(&estimate) && estimate.overlaps(&hooks), "{hooks:?} {estimate:?}");
        let other = Estimate::of(&found((0..1_001).map(|n| 14_000 + n)), None).unwrap();
        assert!(!other.overlaps(&estimate));
    }

    #[test]
    fn what_may_be_nothing_is_withheld() {
        let correction =
            Correction { mean_ns: 8_000.0, standard_deviation_ns: 400.0, count: Some(1_000) };
        let estimate = Estimate::of(&found((0..99).map(|_| 8_700)), Some(&correction)).unwrap();
        assert_eq!(estimate.told_ns, None);
        assert!(estimate.from_ns < 0.0 && estimate.to_ns > 1_400.0, "{estimate:?}");
        assert_eq!(Estimate::of(&Found::new(), None), None);
    }

    #[test]
    fn what_cannot_be_compared_is_refused() {
        let good = Options {
            hops: vec![Hop::Router],
            loads: vec![Load::Idle],
            cpus: vec![1],
            rate: 100,
            size: None,
            for_ns: 1_000_000_000,
            onbeat_bin: PathBuf::new(),
        };
        let refused = [
            Options { hops: vec![Hop::Nothing], ..good.clone() },
            Options { loads: Vec::new(), ..good.clone() },
            Options { cpus: vec![3], ..good.clone() },
            Options { rate: 0, ..good.clone() },
            Options { for_ns: 1, ..good.clone() },
        ];
        for options in refused {
            assert!(matches!(options.matrix(), Err(Error::Option { .. })), "{options:?}");
        }
    }
}
