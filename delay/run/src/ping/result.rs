//! Probes as a result.

use onbeat_delay::matching::Verdict;
use onbeat_delay::probe::{OneWayDelays, Sample};
use onbeat_delay::stats::{Distribution, StampError};
use onbeat_probe::{PingConfig, PingReport};
use onbeat_report::distribution::PhaseId;
use onbeat_report::format::{count, duration_ns};
use onbeat_report::{Cell, Check, Counters, Measurement, Outcome, Recorder};
use onbeat_wire::stamp::{COVERED_LEN, ErrorEstimate};

use crate::error::Result;
use crate::options::ReportSettings;
use crate::outcome::{self, Origin};
use crate::samples::{Column, SampleFiles, SampleValue, Samples};
use crate::sink::DelaySink;

/// The delays of each probe, in the order of the table.
const PATHS: [&str; 7] = [
    "round trip",
    "round trip, from its scheduled start",
    "in the reflector",
    "application: round trip",
    "forward",
    "return",
    "application: one way",
];
const ROUND_TRIP: usize = 0;
const INTENDED: usize = 1;
const REFLECTOR: usize = 2;
const APPLICATION: usize = 3;
const THERE: usize = 4;
const BACK: usize = 5;
const APPLICATION_THERE: usize = 6;

/// Percentiles of each path.
const PERCENTILES: [(&str, f64); 3] = [("p50", 0.5), ("p99", 0.99), ("p99.9", 0.999)];

/// The columns of samples.
const COLUMNS: &[Column] = &[
    Column::number("sequence"),
    Column::number("intended_ns"),
    Column::number("sent_ns"),
    Column::maybe_number("reflector_received_ns"),
    Column::maybe_number("reflector_sent_ns"),
    Column::maybe_number("received_ns"),
    Column::maybe_number("ttl"),
    Column::maybe_number("handled_ns"),
];

/// Collects samples.
pub(super) struct ProbeResults {
    round_trips: DelaySink,
    samples: Samples,
    delays: [Distribution; PATHS.len()],
    curves: Recorder,
    phases: [PhaseId; PATHS.len()],
    /// `None`: both ends use one clock.
    one_way: Option<OneWayDelays>,
    /// Probes with implausible times: a clock was set meanwhile.
    impossible: u64,
}

impl ProbeResults {
    pub(super) fn new(one_clock: bool, files: &SampleFiles) -> Result<Self> {
        let mut curves = Recorder::new();
        Ok(Self {
            round_trips: DelaySink::new(&SampleFiles::default())?,
            samples: Samples::create(files, COLUMNS)?,
            delays: std::array::from_fn(|_| Distribution::new()),
            phases: PATHS.map(|name| curves.phase(name)),
            curves,
            one_way: (!one_clock).then(OneWayDelays::new),
            impossible: 0,
        })
    }

    pub(super) fn take(&mut self, sample: &Sample) {
        let Sample { sequence, intended_ns, sent_ns, answer } = *sample;
        self.samples.row(&[
            sequence.into(),
            intended_ns.into(),
            sent_ns.into(),
            SampleValue::maybe(answer.map(|answer| answer.reflector_received_ns)),
            SampleValue::maybe(answer.map(|answer| answer.reflector_sent_ns)),
            SampleValue::maybe(answer.map(|answer| answer.received_ns)),
            SampleValue::maybe(answer.map(|answer| answer.ttl)),
            SampleValue::maybe(answer.map(|answer| answer.handled_ns)),
        ]);
        let times = (sample.answer, sample.round_trip_ns(), sample.intended_round_trip_ns());
        let (Some(answer), Some(round_trip_ns), Some(intended_ns)) = times else {
            return self.lose(sample);
        };
        let inside_ns = answer.in_reflector_ns();
        if round_trip_ns < 0 || inside_ns < 0 {
            self.impossible += 1;
            return self.lose(sample);
        }
        self.round_trips.record(sample.sent_ns, Some(round_trip_ns), Verdict::Certain);
        self.record(ROUND_TRIP, round_trip_ns);
        self.record(INTENDED, intended_ns);
        self.record(REFLECTOR, inside_ns);
        self.record(APPLICATION, sample.application_ns().unwrap_or(-1));
        match &mut self.one_way {
            Some(one_way) => one_way.push(sample),
            None => {
                self.record(THERE, sample.there_ns().unwrap_or(-1));
                self.record(BACK, sample.back_ns().unwrap_or(-1));
                self.record(APPLICATION_THERE, sample.application_there_ns().unwrap_or(-1));
            }
        }
    }

    fn lose(&mut self, sample: &Sample) {
        self.round_trips.lose(sample.sent_ns);
        self.delays.iter_mut().for_each(Distribution::record_lost);
    }

    fn record(&mut self, path: usize, delay_ns: i64) {
        self.delays[path].record(delay_ns);
        if let Ok(delay_ns) = u64::try_from(delay_ns) {
            self.curves.record(self.phases[path], delay_ns);
        }
    }

    /// Adds all figures of a session; returns its round-trip times.
    pub(super) fn fill(
        mut self,
        outcome: &mut Outcome,
        config: &PingConfig,
        found: &PingReport,
        settings: &ReportSettings,
    ) -> Result<Distribution> {
        self.samples.finish()?;
        outcome.check(Check::eq("probes lost", found.counts.lost, 0_u64, ""));
        outcome.check(Check::eq("probes with implausible times", self.impossible, 0_u64, ""));
        if self.impossible > 0 {
            outcome.note(
                "the reflector's clock was set while probes were in transit: their delay is unknown",
            );
        }
        let name = "steps of this host's time of day";
        outcome.check(Check::eq(name, found.clock_steps, 0_u64, ""));
        outcome.figure("probes", probes(found));
        rate(outcome, config, found);
        let bound_ns = self.one_way.take().map(|one_way| self.compare(outcome, &one_way));
        let one_clock = bound_ns.is_none();
        if one_clock {
            let negative = self.delays[THERE].negative() + self.delays[BACK].negative();
            outcome.check(Check::eq("negative one-way delays", negative, 0_u64, ""));
            if negative > 0 || found.clock_steps > 0 {
                outcome.note(
                    "one-way delays are of two clocks, or of one that was set; omit --one-clock",
                );
            }
        }
        let significant = if one_clock { PATHS.len() } else { THERE };
        outcome.figure("delays by path", self.table(bound_ns.flatten(), settings.confidence));
        outcome
            .figure("intervals by path", self.intervals(bound_ns.flatten(), settings.confidence));
        let mut curves = self.curves.figure();
        curves.series.truncate(significant);
        outcome.figure("distribution of delays", curves);
        let stamps = (Origin::Arrival, StampError::default());
        outcome::fill(outcome, &self.round_trips, stamps, settings);
        notes(outcome, config, found);
        Ok(self.round_trips.collected.delays)
    }

    /// Compares the two clocks; returns the error bound of one-way delays, if there are any.
    fn compare(&mut self, outcome: &mut Outcome, one_way: &OneWayDelays) -> Option<f64> {
        let delays = &mut self.delays;
        let compared = one_way.compare(|delay| {
            delays[THERE].record(delay.there_ns.round() as i64);
            delays[BACK].record(delay.back_ns.round() as i64);
            delays[APPLICATION_THERE].record(delay.application_there_ns.round() as i64);
        });
        let mut table = Counters::new([
            ("start", "s"),
            ("end", "s"),
            ("skew", "ppm"),
            ("clock offset of the reflector", "ns"),
            ("±", "ns"),
        ]);
        let start_ns = compared.spans.first().map_or(0, |span| span.from_ns);
        let seconds = |time_ns: i64| Cell::from((time_ns - start_ns) as f64 / 1e9);
        for span in &compared.spans {
            table.row([
                seconds(span.from_ns),
                seconds(span.to_ns),
                Cell::from(span.skew * 1e6),
                span.offset.offset_ns.into(),
                span.offset.bound_ns.into(),
            ]);
        }
        outcome.figure("clocks", table);
        outcome.check(Check::eq("steps of the reflector's clock", compared.steps, 0_u64, ""));
        if let Some(bound_ns) = compared.bound_ns {
            outcome.note(format!(
                "one-way delays by two clocks have an error of up to {}, half of the fastest round trip; \
                 smaller values are withheld",
                duration_ns(bound_ns)
            ));
        }
        if compared.around_steps > 0 {
            outcome.note(format!(
                "without a one-way delay: {} around a step of a clock",
                count(compared.around_steps, "probe")
            ));
        }
        if compared.left_out > 0 {
            outcome.note(format!(
                "one-way delays are those of the first probes, without the last {}; --csv or --parquet writes \
                 the times of all",
                count(compared.left_out, "probe")
            ));
        }
        compared.bound_ns
    }

    fn table(&self, bound_ns: Option<f64>, confidence: f64) -> Counters {
        let mut table = Counters::new([
            ("", ""),
            ("probes", ""),
            ("shortest", "ns"),
            ("mean", "ns"),
            ("p50", "ns"),
            ("p99", "ns"),
            ("p99.9", "ns"),
            ("longest", "ns"),
            ("±", "ns"),
        ]);
        for (path, (name, delays)) in PATHS.into_iter().zip(&self.delays).enumerate() {
            let bound_ns = bound_ns.filter(|_| path >= THERE);
            let significant = |value: Option<f64>| -> Cell {
                let value = value.filter(|ns| bound_ns.is_none_or(|bound| *ns > bound));
                value.into()
            };
            let exact = |ns: u64| ns as f64;
            let percentiles = delays.percentiles();
            let quantile = |(_, share)| {
                // A percentile without an interval is withheld.
                let found = percentiles.as_ref().map(|all| all.get(share, confidence));
                let found = found.filter(|found| found.lower_ns.is_some());
                significant(found.map(|found| exact(found.value_ns)))
            };
            let [p50, p99, p99_9] = PERCENTILES.map(quantile);
            table.row([
                Cell::from(name),
                delays.count().into(),
                significant(delays.min_ns().map(exact)),
                significant(delays.mean_ns()),
                p50,
                p99,
                p99_9,
                significant(delays.max_ns().map(exact)),
                bound_ns.into(),
            ]);
        }
        table
    }

    /// Means and percentiles with their intervals, which include the error of two clocks.
    fn intervals(&self, bound_ns: Option<f64>, confidence: f64) -> Counters {
        let mut table = Counters::new([
            ("", ""),
            ("statistic", ""),
            ("delay", "ns"),
            ("lower bound", "ns"),
            ("upper bound", "ns"),
        ]);
        for (path, (name, delays)) in PATHS.into_iter().zip(&self.delays).enumerate() {
            let bound_ns = bound_ns.filter(|_| path >= THERE).unwrap_or(0.0);
            let mut row = |statistic: &str, value_ns: f64, lower_ns: f64, upper_ns: Option<f64>| {
                table.row([
                    Cell::from(name),
                    statistic.into(),
                    Some(value_ns).filter(|ns| *ns > bound_ns).into(),
                    (lower_ns - bound_ns).max(0.0).into(),
                    upper_ns.map(|ns| ns + bound_ns).into(),
                ]);
            };
            if let Some(mean) = delays.mean(confidence) {
                row("mean", mean.value_ns, mean.lower_ns, Some(mean.upper_ns));
            }
            let Some(percentiles) = delays.percentiles() else { continue };
            for (statistic, share) in PERCENTILES {
                let found = percentiles.get(share, confidence);
                if let Some(lower_ns) = found.lower_ns {
                    let upper_ns = found.upper_ns.map(|ns| ns as f64);
                    row(statistic, found.value_ns as f64, lower_ns as f64, upper_ns);
                }
            }
        }
        table
    }
}

fn probes(found: &PingReport) -> Counters {
    let counts = &found.counts;
    let back = found.lost_there.map(|there| counts.lost.saturating_sub(there));
    Counters::named(
        ["probes", "number"],
        [
            ("sent", counts.sent.into()),
            ("answered", counts.answered.into()),
            ("lost", counts.lost.into()),
            ("lost on the forward path", found.lost_there.into()),
            ("lost on the return path", Cell::from(back)),
            ("answered again, or too late", counts.duplicate_or_late.into()),
            ("answered after a later one", counts.reordered.into()),
            ("refused by the kernel", found.refused.into()),
            ("departures stamped by the program, not the kernel", found.stamped_late[0].into()),
            ("arrivals stamped by the program, not the kernel", found.stamped_late[1].into()),
            ("other datagrams", counts.stray.into()),
            ("datagrams with a wrong HMAC", counts.unverified.into()),
        ],
    )
}

/// Adds the intended rate, and the actual one.
fn rate(outcome: &mut Outcome, config: &PingConfig, found: &PingReport) {
    let seconds = (config.profile.duration_ns().min(found.took_ns)) as f64 / 1e9;
    if seconds > 0.0 {
        let rate = found.counts.sent as f64 / seconds;
        outcome.figure("rate", Measurement::new("packets/s", rate));
    }
}

/// The error of a clock, with a unit of its size: `±16.0 s, not synchronized`.
pub fn clock_error(estimate: ErrorEstimate) -> String {
    let error = match estimate.error_ns() {
        Some(error_ns) => format!("±{}", duration_ns(error_ns as f64)),
        None => "of unknown error".into(),
    };
    error + if estimate.synchronized { " to UTC" } else { ", not synchronized" }
}

fn notes(outcome: &mut Outcome, config: &PingConfig, found: &PingReport) {
    outcome.note(
        "round trips exclude the time in the reflector; stamps are the kernel's (CLOCK_REALTIME, converted to \
         a clock without steps), except for the reflector's departures, which it stamps itself",
    );
    outcome.note(
        "application: from the scheduled start until the reflector has handled the probe (one way), or this process \
         has the reply (round trip); includes the delays of both processes",
    );
    if let Some(estimate) = found.reflector {
        outcome.note(format!("the reflector's clock: {}", clock_error(estimate)));
    }
    if config.key.is_some() {
        outcome.note(format!(
            "the HMAC covers the first {COVERED_LEN} octets of each probe and reply, not the padding"
        ));
    }
    if found.counts.unverified > 0 {
        outcome.note(format!(
            "{} with a wrong HMAC discarded: {} has another key or none, or another host answers",
            count(found.counts.unverified, "datagram"),
            config.to
        ));
    } else if config.key.is_some() && found.counts.answered == 0 && found.unreachable == 0 {
        outcome.note(format!(
            "no probe was answered: a reflector with another key does not answer; the table of `onbeat delay echo` \
             at {} counts probes with a wrong HMAC",
            config.to
        ));
    }
    if found.unreachable > 0 {
        outcome.note(format!(
            "no STAMP reflector answered at {} ({} unreachable); start one there with `onbeat delay echo --port {}`",
            config.to,
            count(found.unreachable, "probe"),
            config.to.port()
        ));
    }
    if found.clock_steps > 0 {
        outcome.note(format!(
            "steps of this host's time of day: {}; its own time stamps do not contain them",
            found.clock_steps
        ));
    }
}
