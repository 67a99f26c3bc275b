//! Delays as a result.

use onbeat_delay::correction::{CorrectedDelay, Correction};
use onbeat_delay::inflation::Inflation;
use onbeat_delay::matching::Counts;
use onbeat_delay::stats::{Distribution, Mean, Percentile, StampError, interval};
use onbeat_delay::summary::DelaySummary;
use onbeat_delay::tail;
use onbeat_report::format::{self, duration_ns};
use onbeat_report::{Cell, Check, Counters, Measurement, Outcome, TimeSeries};

use super::correction::{CORRECTED_MEAN, COUNT, DEVIATION, MEAN};
use super::options::{PacketOptions, ReportSettings};
use super::sink::DelaySink;

/// Percentiles that are reported if there are enough delays.
const PERCENTILES: [(&str, f64); 6] = [
    ("p50", 0.5),
    ("p90", 0.9),
    ("p99", 0.99),
    ("p99.9", 0.999),
    ("p99.99", 0.9999),
    ("p99.999", 0.99999),
];

/// Powers of ten: one packet in that number exceeds the reported bound.
const ONE_IN: std::ops::RangeInclusive<i32> = 4..=9;

/// The factor between the ends of an interval above which a bound is not reported.
const WIDEST: f64 = 10.0;

/// The reference of a delay.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Origin {
    /// The packet's own arrival, by one clock.
    Arrival,
    /// The fastest packet, by two clocks.
    Fastest,
}

/// A delay to remove from the measured ones.
enum Removal<'a> {
    /// That of the path without the hop.
    Path(&'a Correction),
    /// That which the observer adds.
    Observer(&'a Inflation),
}

impl Removal<'_> {
    fn percentile(&self, measured: &Percentile, confidence: f64) -> Option<CorrectedDelay> {
        match self {
            Removal::Path(correction) => correction.percentile(measured, confidence),
            Removal::Observer(inflation) => inflation.percentile(measured, confidence),
        }
    }
}

/// Adds the figures of delays.
pub(super) fn fill(
    outcome: &mut Outcome,
    sink: &DelaySink,
    stamps: (Origin, StampError),
    settings: &ReportSettings,
) {
    fill_corrected(outcome, sink, stamps, settings, None);
}

/// Adds the figures of delays, with those without the observer.
pub(super) fn fill_corrected(
    outcome: &mut Outcome,
    sink: &DelaySink,
    (origin, error): (Origin, StampError),
    settings: &ReportSettings,
    inflation: Option<&Inflation>,
) {
    let collected = &sink.collected;
    let delays = &collected.delays;
    if origin == Origin::Arrival {
        let negative = delays.negative() + collected.ambiguous.negative();
        outcome.check(Check::eq("negative delays", negative, 0_u64, ""));
        if negative > 0 {
            let most = delays.most_negative_ns().min(collected.ambiguous.most_negative_ns());
            outcome.note(format!(
                "departures are stamped up to {} before arrivals; for captures of two clocks, use \
                 --two-clocks",
                duration_ns(most.unsigned_abs() as f64)
            ));
        }
    }
    outcome.figure(COUNT, Measurement::new("", delays.count()));
    let mean = delays.mean(settings.confidence).map(|mean| error.widen_mean(mean));
    match (mean, delays.mean_ns()) {
        (Some(mean), _) => {
            let Mean { value_ns, lower_ns, upper_ns, .. } = mean;
            let figure = Measurement::new("ns", value_ns);
            let figure = figure.with_interval(lower_ns, upper_ns, settings.confidence);
            outcome.figure(MEAN, figure);
        }
        (None, Some(mean_ns)) => {
            outcome.figure(MEAN, Measurement::new("ns", mean_ns));
            outcome.note(
                "the mean is that of the recorded delays only, without an interval: too few of them are independent",
            );
        }
        (None, None) => {}
    }
    if let Some(deviation) = delays.standard_deviation_ns() {
        outcome.figure(DEVIATION, Measurement::new("ns", deviation));
    }
    if delays.clamped() > 0 {
        outcome.note(format!(
            "{} above 60 s recorded as 60 s",
            format::count(delays.clamped(), "delay")
        ));
    }
    outcome.figure("distribution", sink.curves());
    let correction = settings.correction.as_ref();
    let path = correction.map(|correction| Removal::Path(&correction.correction));
    let removal = path.or(inflation.map(Removal::Observer));
    percentiles(outcome, delays, error, (removal, settings.confidence));
    if let Some((inflation, mean)) = inflation.zip(mean) {
        let corrected = inflation.mean(&mean, settings.confidence);
        if let Some(mean) = corrected.filter(|mean| mean.significant().is_some()) {
            outcome.figure(CORRECTED_MEAN, measurement(&mean, settings.confidence));
        }
    }
    if let Some(correction) = &settings.correction {
        corrected_mean(outcome, &correction.correction, mean, settings.confidence);
        outcome.notes.extend(correction.note(&outcome.name));
        correction.input().into_iter().for_each(|input| outcome.input(input));
    }
    let error_ns = error.too_long_ns.max(error.too_short_ns) as f64;
    if delays.standard_deviation_ns().is_none_or(|spread_ns| error_ns <= spread_ns) {
        variation(outcome, collected);
        excluded(outcome, delays, settings.confidence);
        bounds(outcome, collected, error, settings.confidence);
    } else {
        outcome.note(format!(
            "withheld: variation from packet to packet, and upper bounds; the error of time stamps, {}, exceeds the \
             spread of the delays",
            duration_ns(error_ns)
        ));
    }
    over_time(outcome, collected);
}

/// Adds the counts of packets by outcome.
pub(super) fn count(outcome: &mut Outcome, counts: &Counts, options: &PacketOptions) {
    outcome.figure("packets", packets(counts));
    if counts.under_way > 0 {
        outcome.note(format!(
            "{} arrived less than {} before the end and had not departed: neither lost nor matched; --longest \
             sets the longest delay",
            format::count(counts.under_way, "packet"),
            duration_ns(options.longest.as_nanos() as f64)
        ));
    }
    if counts.crowded_out > 0 {
        outcome.note(format!(
            "{} evicted before {} had passed, because the window was full; use a shorter --longest",
            format::count(counts.crowded_out, "packet"),
            duration_ns(options.longest.as_nanos() as f64)
        ));
    }
}

fn packets(counts: &Counts) -> Counters {
    Counters::named(
        ["packets", "number"],
        [
            ("arrived", counts.arrivals),
            ("left", counts.departures),
            ("matched uniquely", counts.certain),
            ("matched by order among identical packets", counts.ordered),
            ("matched ambiguously", counts.ambiguous),
            ("lost", counts.lost),
            ("departed without an arrival", counts.unmatched),
            ("duplicated", counts.duplicates),
            ("reordered", counts.reordered),
            ("in transit at the end", counts.under_way),
            ("evicted early for lack of room", counts.crowded_out),
            ("times that a clock was set back", counts.steps_back),
        ],
    )
}

fn percentiles(
    outcome: &mut Outcome,
    delays: &Distribution,
    error: StampError,
    (removal, confidence): (Option<Removal<'_>>, f64),
) {
    let mut columns = vec![
        ("", ""),
        ("delay", "ns"),
        ("lower bound", "ns"),
        ("upper bound", "ns"),
        ("above the shortest", "ns"),
        ("independent delays", ""),
    ];
    if removal.is_some() {
        columns.extend([
            ("corrected", "ns"),
            ("corrected, lower bound", "ns"),
            ("corrected, upper bound", "ns"),
        ]);
    }
    let mut table = Counters::new(columns);
    let (mut withheld, mut unbounded) = (Vec::new(), Vec::new());
    let percentiles = delays.percentiles();
    for (name, quantile) in PERCENTILES {
        // With fewer it would equal the longest delay.
        if delays.count() as f64 * (1.0 - quantile) < 1.0 - 1e-9 {
            continue;
        }
        let Some(percentiles) = &percentiles else { continue };
        let found = error.widen(percentiles.get(quantile, confidence));
        if found.lower_ns.is_none() {
            withheld.push(name);
        } else if found.upper_ns.is_none() {
            unbounded.push(name);
        }
        let is_known = found.lower_ns.is_some();
        let mut row: Vec<Cell> = vec![
            name.into(),
            is_known.then_some(found.value_ns).into(),
            found.lower_ns.into(),
            found.upper_ns.into(),
            delays
                .min_ns()
                .filter(|_| is_known)
                .map(|shortest_ns| found.value_ns - shortest_ns)
                .into(),
            found.effective.map(|effective| effective.min(delays.count() as f64).round()).into(),
        ];
        if let Some(removal) = &removal {
            let corrected = removal.percentile(&found, confidence);
            let corrected = corrected.filter(|corrected| corrected.significant().is_some());
            let value = |of: fn(&CorrectedDelay) -> f64| -> Cell {
                corrected.as_ref().map(of).filter(|ns| ns.is_finite()).into()
            };
            row.extend([value(|c| c.value_ns), value(|c| c.lower_ns), value(|c| c.upper_ns)]);
        }
        table.row(row);
    }
    outcome.figure("percentiles", table);
    if !withheld.is_empty() {
        outcome.note(format!(
            "withheld: {}; too few of the delays are independent for an interval; measure for longer",
            withheld.join(", ")
        ));
    }
    if !unbounded.is_empty() {
        outcome.note(format!(
            "no upper bound of {}: {} count as later than all others",
            unbounded.join(", "),
            format::count(delays.lost(), "lost packet")
        ));
    }
}

fn corrected_mean(
    outcome: &mut Outcome,
    correction: &Correction,
    mean: Option<Mean>,
    confidence: f64,
) {
    let mean = mean.map(|mean| correction.mean(&mean, confidence));
    let withheld = u64::from(mean.is_none_or(|mean| mean.significant().is_none()));
    outcome.check(Check::eq("corrected mean withheld", withheld, 0_u64, ""));
    let Some(mean) = mean else { return };
    let CorrectedDelay { value_ns, lower_ns, .. } = mean;
    match mean.significant() {
        Some(_) => outcome.figure(CORRECTED_MEAN, measurement(&mean, confidence)),
        None => outcome.note(format!(
            "the corrected mean is withheld: {} has an error of up to {}",
            duration_ns(value_ns),
            duration_ns(value_ns - lower_ns)
        )),
    }
}

fn measurement(delay: &CorrectedDelay, confidence: f64) -> Measurement {
    let figure = Measurement::new("ns", delay.value_ns);
    figure.with_interval(delay.lower_ns, delay.upper_ns, confidence)
}

fn variation(outcome: &mut Outcome, collected: &DelaySummary) {
    let variation = &collected.variation;
    let Some(mean_ns) = variation.mean_absolute_ns() else { return };
    let mut table =
        Counters::new([("", ""), ("pairs", ""), ("p50", "ns"), ("p99", "ns"), ("most", "ns")]);
    for (name, part) in [("longer", variation.longer()), ("shorter", variation.shorter())] {
        let value = |quantile| Cell::from(part.value_at(quantile));
        let most = part.max_ns().into();
        table.row([name.into(), Cell::from(part.count()), value(0.5), value(0.99), most]);
    }
    outcome.figure("from packet to packet: mean difference", Measurement::new("ns", mean_ns));
    outcome.figure("from packet to packet: delays longer or shorter than the one before", table);
}

/// Adds the share of packets whose longer delay the measurement does not exclude.
fn excluded(outcome: &mut Outcome, delays: &Distribution, confidence: f64) {
    let Some(longest_ns) = delays.max_ns() else { return };
    let longest = delays.percentile(0.99, confidence).and_then(|found| found.effective);
    let Some(effective) = longest.map(|effective| effective.min(delays.count() as f64)) else {
        return;
    };
    // One-sided: no observed packet is above the longest delay.
    let (_, share) = interval::share(0, effective as u64, 2.0 * confidence - 1.0);
    if share < 0.5 {
        outcome.note(format!(
            "not excluded: a delay above {} of one packet in {} or fewer ({:.0} % confidence)",
            duration_ns(longest_ns as f64),
            format::integer((1.0 / share) as i64),
            confidence * 100.0
        ));
    }
}

/// Adds upper bounds of shares down to one of the measured delays.
fn bounds(outcome: &mut Outcome, collected: &DelaySummary, error: StampError, confidence: f64) {
    let tail = match tail::fit(&collected.largest) {
        Ok(tail) => tail,
        Err(refusal) => {
            outcome.note(format!("no extrapolated upper bound: {refusal}"));
            return;
        }
    };
    let mut table = Counters::new([
        ("packets per exceedance", ""),
        ("exceeded delay", "ns"),
        ("lower bound", "ns"),
        ("upper bound", "ns"),
    ]);
    for power in ONE_IN {
        let packets = 10_f64.powi(power);
        if let Some(found) = tail.delay_exceeded_with(1.0 / packets, confidence) {
            let (lower_ns, upper_ns) =
                (found.lower - error.too_long_ns as f64, found.upper + error.too_short_ns as f64);
            if upper_ns > WIDEST * lower_ns {
                let number = format::integer(packets as i64);
                outcome.note(format!(
                    "upper bounds exceeded by one packet in {number} or fewer are withheld: {} leave an \
                     interval with a factor above {WIDEST} between its ends; measure for longer",
                    format::count(tail.count, "delay")
                ));
                break;
            }
            table.row([
                Cell::from(packets as u64),
                found.value.into(),
                lower_ns.into(),
                upper_ns.into(),
            ]);
        }
    }
    outcome.figure("upper bounds, extrapolated", table);
    outcome.note(format!(
        "upper bounds: a generalized Pareto tail of {} above {} (p = {:.2}; {:.0} % of \
         them are independent){}",
        format::count(tail.exceedances() as u64, "delay"),
        duration_ns(tail.threshold_ns),
        tail.p_value,
        tail.extremal_index * 100.0,
        tail.end_ns()
            .map_or(String::new(), |end| format!("; it most likely ends at {}", duration_ns(end))),
    ));
}

fn over_time(outcome: &mut Outcome, collected: &DelaySummary) {
    let points = |of: fn(&onbeat_delay::timeline::TimeBin) -> i64| {
        let bins = collected.over_time.bins();
        bins.map(|stretch| (stretch.middle_ns as f64 / 1e9, of(&stretch) as f64)).collect()
    };
    let figure = TimeSeries::continuous("ns")
        .series("longest", points(|stretch| stretch.longest_ns))
        .series("shortest", points(|stretch| stretch.shortest_ns));
    outcome.figure("delay over time", figure);
}
