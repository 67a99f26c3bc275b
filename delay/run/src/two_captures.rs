//! Matches packets that entered a hop with packets that left it, by two captures.

use std::path::{Path, PathBuf};
use std::time::Duration;

use onbeat_delay::capture::Packet;
use onbeat_delay::clocks::{Clocks, Envelope, Point, StepCause};
use onbeat_delay::diagnosis::{Diagnosis, MatchingOptions};
use onbeat_delay::matching::{Event, Matcher, Verdict, Window};
use onbeat_delay::pairing::{
    CapturePair, PacketFilter, PairingError, Plan, Side, median_difference_ns,
};
use onbeat_delay::stats::StampError;
use onbeat_report::format::{count, duration_ns, parse_duration};
use onbeat_report::{Cell, Counters, Inputs, Progress, Run};

use super::captures::{self, Capture};
use super::command_line::CommandLine;
use super::method::{Method, MethodResult};
use super::options::{PacketOptions, ReportOptions};
use super::outcome::{self, Origin};
use super::reading::{self, Reading};
use super::requirement::{self, CaptureSource};
use super::sink::DelaySink;
use crate::error::{Error, Result};
use crate::selection;

/// Two captures, one on each side of the hop.
#[derive(Debug, Clone, clap::Args)]
pub struct MatchOptions {
    /// Packets that entered the hop
    arrivals: PathBuf,
    /// Packets that left it
    departures: PathBuf,
    /// Match captures that are stamped by two clocks: report delays relative to the fastest packet, without skew
    /// and steps of the clocks
    #[arg(long, conflicts_with = "correct")]
    two_clocks: bool,
    /// Packets that go from DEPARTURES to ARRIVALS, by pcap-filter(7): they distinguish a step of a clock from a longer path
    #[arg(long, value_name = "EXPR", requires = "two_clocks")]
    back: Option<String>,
    /// Maximum difference of clocks that are synchronized, such as by PTP over an asymmetric path: intervals contain
    /// this error
    #[arg(long, value_name = "TIME", conflicts_with = "two_clocks", value_parser = parse_duration)]
    clock_error: Option<Duration>,
    #[command(flatten)]
    packets: PacketOptions,
}

/// Packets of each capture for the comparison of their clocks.
const TO_COMPARE: u64 = 100_000;

/// Minimum mean number of delays of a bin for the error of the clocks' lines.
const DELAYS_OF_A_BIN: u64 = 64;

/// Packets of one direction of the hop.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Direction {
    /// From the capture of arrivals to that of departures.
    There,
    /// The reverse.
    Back,
}

/// How captures are read: the direction of the packets, the shift of the clock of the later capture, and the matcher's settings.
#[derive(Clone)]
struct Pass<'a> {
    direction: Direction,
    shift_ns: i64,
    window: Window,
    plan: Plan,
    matching: &'a MatchingOptions,
}

/// The estimate of two clocks.
struct TwoClocks {
    segments: Counters,
    notes: Vec<String>,
}

impl Method for MatchOptions {
    const NAME: &'static str = "match";

    fn report(&self) -> &ReportOptions {
        &self.packets.report
    }

    fn run(&self, progress: &mut Progress) -> Result<MethodResult> {
        let settings = self.packets.check()?;
        if let Some(back) = &self.back {
            selection::check("--back", back)?;
        }
        let inputs = [&self.arrivals, &self.departures].map(|path| captures::is_input(path));
        if inputs == [true, true] {
            return Err(Error::option("both captures are standard input: use at least one file"));
        }
        if self.two_clocks && inputs.contains(&true) {
            return Err(Error::option(
                "--two-clocks reads the captures more than once; use files instead of -",
            ));
        }
        let run = Run::analysis(Self::result());
        let mut sink = DelaySink::new(&self.packets.report.delays.files)?;
        let matching = self.packets.matching(self.two_clocks, None);
        let (read, clocks) = if self.two_clocks {
            let (read, clocks) =
                self.by_two_clocks(run.inputs(), &matching, &mut sink, progress)?;
            (read, Some(clocks))
        } else {
            let (window, files) = (self.packets.window(), &self.packets.report.delays.files);
            let paths = [&self.arrivals, &self.departures];
            let can_repeat = paths.into_iter().all(|path| captures::can_be_read_again(path));
            let read = reading::read(can_repeat, files, &mut sink, |plan, what, events| {
                let (direction, matching) = (Direction::There, &matching);
                let pass = Pass { direction, shift_ns: 0, window, plan, matching };
                self.feed(run.inputs(), pass, progress, what, events)
            })?;
            (read, None)
        };
        progress.clear();
        sink.finish()?;

        let mut outcome = run.finish();
        let origin = if clocks.is_some() { Origin::Fastest } else { Origin::Arrival };
        if let Some(clocks) = clocks {
            outcome.figure("clocks", clocks.segments);
            outcome.notes.extend(clocks.notes);
        }
        outcome::count(&mut outcome, &read.counts, &self.packets);
        let clock_error_ns = self.clock_error.map_or(0, |error| error.as_nanos() as u64);
        let stamp_error = read.stamp_error.with_clock_error(clock_error_ns);
        outcome::fill(&mut outcome, &sink, (origin, stamp_error), &settings);
        if clock_error_ns > 0 {
            outcome.note(format!(
                "the clocks of both captures differ by up to {}, in either direction; intervals contain this error",
                duration_ns(clock_error_ns as f64)
            ));
        }
        let matched = read.matched(&sink);
        outcome.notes.extend(read.notes);
        let [arrivals, departures] =
            [&self.arrivals, &self.departures].map(|path| path.display().to_string());
        let source = CaptureSource::Two { arrivals: &arrivals, departures: &departures };
        let two_clocks = self.two_clocks.then_some(("--two-clocks", None));
        let clock_error = self.clock_error.map(|error| format!("{}ns", error.as_nanos()));
        let command = CommandLine::new(Self::NAME, &[&arrivals, &departures])
            .given(two_clocks)
            .given(self.back.clone().map(|back| ("--back", Some(back))))
            .given(clock_error.map(|error| ("--clock-error", Some(error))))
            .given(self.packets.given());
        let matching = (&matching, read.planned);
        requirement::check_with_causes(
            &mut outcome,
            &read.diagnosis,
            &matched,
            matching,
            (source, &command),
        );
        Ok(MethodResult { outcome, delays: sink.collected.delays })
    }

    fn no_correction(&self) -> Option<&'static str> {
        self.two_clocks.then_some(
            "--two-clocks reports delays relative to the fastest packet, whose own delay is unknown",
        )
    }
}

impl MatchOptions {
    /// Reads the captures once to compare the clocks, and once to measure.
    fn by_two_clocks(
        &self,
        inputs: &Inputs,
        matching: &MatchingOptions,
        sink: &mut DelaySink,
        progress: &mut Progress,
    ) -> Result<(Reading, TwoClocks)> {
        let [mut arrivals, mut departures] = self.open(inputs, Direction::There)?;
        let recognition = self.packets.recognition();
        let apart_ns =
            median_difference_ns(&mut arrivals, &mut departures, &recognition, TO_COMPARE)
                .map_err(|error| self.broken(Direction::There, &error))?;
        let longest_ns = self.packets.longest_ns();
        // Within the captures skew shifts delays in either direction.
        let window = Window { longest_ns, lead_ns: longest_ns, ..self.packets.window() };
        let shift_ns = apart_ns.unwrap_or(0).saturating_neg();
        let pass = |direction, plan| {
            let shift_ns = if direction == Direction::There { shift_ns } else { -shift_ns };
            Pass { direction, shift_ns, window, plan, matching }
        };
        let (envelope, plan, diagnosis) =
            self.envelope(inputs, |plan| pass(Direction::There, plan), progress)?;
        let back = match &self.back {
            None => None,
            Some(_) => Some(self.envelope(inputs, |plan| pass(Direction::Back, plan), progress)?.0),
        };
        let back = back.as_ref();
        let clocks = back.map_or_else(|| envelope.clocks(), |back| envelope.clocks_against(back));
        // The fastest of several packets characterizes the path.
        let line_error_ns = envelope.coarser(DELAYS_OF_A_BIN).clocks().error_ns();
        let mut at_steps = 0_u64;
        let pass = pass(Direction::There, plan);
        let read = self.feed(inputs, pass, progress, "matching", &mut |event| {
            match (event, point(&event)) {
                (_, Some((point, verdict))) => {
                    let delay_ns = clocks.above_fastest(point).map(|ns| ns.round() as i64);
                    at_steps += u64::from(delay_ns.is_none());
                    sink.collected.equal_times += u64::from(point.delay_ns == shift_ns);
                    // The line passes through the fastest packets, to its rounding.
                    sink.record(point.time_ns, delay_ns.map(|ns| ns.max(0)), verdict);
                }
                (Event::Lost(arrival), _) => sink.lose(arrival.time_ns),
                _ => {}
            }
        })?;
        let round_trip_ns =
            back.and_then(|back| envelope.coarser(DELAYS_OF_A_BIN).round_trip_ns(back));
        if let Some(ns) = round_trip_ns.filter(|ns| *ns < 0.0) {
            return Err(Error::option(format!(
                "--back {:?}: the shortest delays of both directions add up to {}; it selects the packets that go from {} to {}: \
                 select the others, or exchange the captures",
                self.back.as_deref().unwrap_or_default(),
                duration_ns(ns),
                self.arrivals.display(),
                self.departures.display()
            )));
        }
        let mut notes = vec![match round_trip_ns {
            Some(ns) => format!(
                "two clocks: delays are relative to the fastest packet. The fastest packets of both directions take at most {} \
                 together, so its own delay is less",
                duration_ns(ns)
            ),
            None => {
                "two clocks: delays are relative to the fastest packet, whose own delay cannot be \
                     determined from packets of one direction"
                    .to_owned()
            }
        }];
        notes.extend(apart_ns.filter(|_| back.is_none()).map(|apart_ns| {
            format!(
                "the median of departure less arrival is {} at the start of both captures",
                duration_ns(apart_ns as f64)
            )
        }));
        if at_steps > 0 {
            let packets = count(at_steps, "packet");
            notes.push(format!("delay unknown: {packets} around a step of a clock or of the path"));
        }
        notes.extend(changes(&clocks));
        if line_error_ns > 0.0 {
            notes.push(format!(
                "delays may be too long by up to {}: the fastest packets of some periods are above the line of the \
                 clocks; intervals contain this error",
                duration_ns(line_error_ns)
            ));
        }
        let too_long_ns = read.stamp_error.too_long_ns + line_error_ns.ceil() as u64;
        let stamp_error = StampError { too_long_ns, ..read.stamp_error };
        let read = Reading { diagnosis, stamp_error, planned: true, ..read };
        Ok((read, TwoClocks { segments: segments(&clocks), notes }))
    }

    fn open(&self, inputs: &Inputs, direction: Direction) -> Result<[Capture; 2]> {
        let open = |side| captures::open(self.path(direction, side), inputs);
        Ok([open(Side::Arrivals)?, open(Side::Departures)?])
    }

    fn broken(&self, direction: Direction, error: &PairingError) -> Error {
        captures::failure(self.path(direction, error.side), &error.error)
    }

    /// The shortest delays of a direction over time, the plan by which its captures were read, and their diagnosis.
    fn envelope<'a>(
        &self,
        inputs: &Inputs,
        pass: impl Fn(Plan) -> Pass<'a>,
        progress: &mut Progress,
    ) -> Result<(Envelope, Plan, Diagnosis)> {
        let mut plan = Plan::default();
        loop {
            let mut envelope = Envelope::new();
            let pass = pass(plan.clone());
            let (direction, shift_ns) = (pass.direction, pass.shift_ns);
            let read = self.feed(inputs, pass, progress, "comparing clocks", &mut |event| {
                let Some((point, Verdict::Certain | Verdict::Ordered)) = point(&event) else {
                    return;
                };
                // By the clock of the capture of arrivals.
                let time_ns = match direction {
                    Direction::There => point.time_ns,
                    Direction::Back => point.time_ns + point.delay_ns - shift_ns,
                };
                envelope.push(Point { time_ns, ..point });
            })?;
            if direction == Direction::Back && read.counts.matched() == 0 {
                return Err(Error::option(format!(
                    "--back {:?}: no packet that passes this and the other filters is in both captures; it selects the packets that go \
                     from {} to {}",
                    self.back.as_deref().unwrap_or_default(),
                    self.departures.display(),
                    self.arrivals.display()
                )));
            }
            if plan != Plan::default() || read.diagnosis.plan == plan {
                return Ok((envelope, plan, read.diagnosis));
            }
            plan = read.diagnosis.plan;
        }
    }

    /// The path of the capture of a side.
    fn path(&self, direction: Direction, side: Side) -> &Path {
        match (direction, side) {
            (Direction::There, Side::Arrivals) | (Direction::Back, Side::Departures) => {
                &self.arrivals
            }
            _ => &self.departures,
        }
    }

    /// The filters of both sides for packets of a direction.
    fn filters(&self, direction: Direction) -> [Option<PacketFilter>; 2] {
        let expression = self.back.as_ref().map(|back| match direction {
            Direction::There => format!("not ({back})"),
            Direction::Back => back.clone(),
        });
        let [arrivals, departures] = self.packets.selection.filters(expression.as_deref());
        match direction {
            Direction::There => [arrivals, departures],
            Direction::Back => [departures, arrivals],
        }
    }

    /// Reads both captures completely.
    fn feed(
        &self,
        inputs: &Inputs,
        pass: Pass<'_>,
        progress: &mut Progress,
        what: &str,
        mut events: &mut dyn FnMut(Event<()>),
    ) -> Result<Reading> {
        let Pass { direction, shift_ns, window, plan, matching } = pass;
        let recognition = self.packets.recognition();
        let [arrivals, departures] = self.open(inputs, direction)?;
        let window = window.with_disorder(plan.disorder_ns);
        let mut pair =
            CapturePair::new(arrivals, departures, shift_ns, recognition, |_: &Packet<'_>| ())
                .filtered(self.filters(direction))
                .planned(plan);
        let mut matcher = Matcher::new(window);
        while pair
            .feed(captures::BATCH, &mut matcher, &mut events)
            .map_err(|error| self.broken(direction, &error))?
        {
            progress.update(|| {
                let packets =
                    pair.tally(Side::Arrivals).packets + pair.tally(Side::Departures).packets;
                captures::progress(what, packets, pair.position())
            });
        }
        matcher.finish(&mut events);
        let mut notes = Vec::new();
        for side in [Side::Arrivals, Side::Departures] {
            let name = self.path(direction, side).display().to_string();
            let (tally, cut_off) = (pair.tally(side), pair.cut_off(side));
            notes.extend(captures::notes(
                &name,
                tally,
                cut_off,
                (pair.without_time(side), pair.dropped(side)),
                &recognition,
            ));
        }
        Ok(Reading::new(*matcher.counts(), &pair.evidence(), matching, notes))
    }
}

/// Returns a match as a point of the delays over time.
fn point(event: &Event<()>) -> Option<(Point, Verdict)> {
    let Event::Matched { arrival, departure, verdict } = event else { return None };
    let delay_ns = departure.time_ns.saturating_sub(arrival.time_ns);
    Some((Point { time_ns: arrival.time_ns, delay_ns }, *verdict))
}

/// The start of the first segment, in nanoseconds.
fn start_ns(clocks: &Clocks) -> i64 {
    clocks.segments().first().map_or(0, |segment| segment.from_ns)
}

/// Notes of the changes of the shortest delays: with size, time and cause, or with each cause that is possible.
fn changes(clocks: &Clocks) -> Vec<String> {
    let since = |time_ns: i64| duration_ns((time_ns - start_ns(clocks)) as f64);
    let queues = clocks.queues().iter().map(|queue| {
        let reading = match queue.cause {
            StepCause::Path => "The other direction has no change",
            _ => "Two steps of a clock in opposite directions would look the same",
        };
        format!(
            "standing queue: all delays rose by {}, for {} from {} after the start, and returned. {reading}",
            duration_ns(queue.size_ns),
            duration_ns((queue.to_ns - queue.from_ns) as f64),
            since(queue.from_ns)
        )
    });
    let steps = clocks.steps().iter().map(|step| {
        let (size, at) = (duration_ns(step.size_ns.abs()), since(step.at_ns));
        let (direction, other) =
            if step.size_ns < 0.0 { ("back", "shorter") } else { ("ahead", "longer") };
        match step.cause {
            StepCause::Clock => format!(
                "step of a clock: {size} {direction}, {at} after the start. The other direction has it in the opposite sense"
            ),
            StepCause::Path => format!(
                "change of the path: all delays are {other} by {size} from {at} after the start. The other direction has no \
                 change"
            ),
            StepCause::Unknown => format!(
                "step of {size} {direction}, {at} after the start. If it is a change of the path, all later delays are {other} \
                 by this time"
            ),
        }
    });
    queues.chain(steps).collect()
}

/// The segments of the clocks between steps.
fn segments(clocks: &Clocks) -> Counters {
    let mut table = Counters::new([
        ("start", "s"),
        ("end", "s"),
        ("skew", "ppm"),
        ("maximum error", "ns"),
        ("delays", ""),
    ]);
    let start_ns = start_ns(clocks);
    let seconds = |time_ns: i64| Cell::from(time_ns.saturating_sub(start_ns) as f64 / 1e9);
    for segment in clocks.segments() {
        table.row([
            seconds(segment.from_ns),
            seconds(segment.to_ns),
            Cell::from(segment.line.skew * 1e6),
            segment.residual_ns.into(),
            segment.count.into(),
        ]);
    }
    table
}
