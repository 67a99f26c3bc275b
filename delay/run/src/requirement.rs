//! Checks if enough packets were matched for a measurement, and determines the causes if not.

use onbeat_delay::diagnosis::{Cause, Diagnosis, MatchSummary, MatchingOptions};
use onbeat_delay::pairing::Side;
use onbeat_report::format::{count, count_of, duration_ns};
use onbeat_report::{Check, Number, Outcome};

use super::command_line::CommandLine;

/// Default of the minimum number of matches of a measurement.
const MIN_MATCHED: u64 = 100;
/// The required share of the smaller side, in percent.
const SHARE_PERCENT: f64 = 50.0;

/// The minimum number of matches of a measurement that stops after `count` packets.
pub(super) fn required(min_matched: Option<u64>, count: Option<u64>) -> u64 {
    min_matched.unwrap_or_else(|| count.map_or(MIN_MATCHED, |count| count.min(MIN_MATCHED)))
}

/// Adds the checks of every measurement by packets.
pub(super) fn check(outcome: &mut Outcome, matched: u64, smaller: u64, required: u64) {
    let share = match smaller {
        0 => Number::MISSING,
        _ => Number::from(100.0 * matched as f64 / smaller as f64),
    };
    outcome.check(Check::min("packets matched", matched, required, ""));
    let name = "packets matched, share of the smaller side";
    outcome.check(Check::min(name, share, SHARE_PERCENT, "%"));
}

/// The captures, as the user named them.
#[derive(Debug, Clone, Copy)]
pub(super) enum CaptureSource<'a> {
    /// One on each side.
    Two { arrivals: &'a str, departures: &'a str },
    /// One file of both.
    Mirrored(&'a str),
    /// An interface to which both are mirrored.
    Live(&'a str),
}

/// Adds the checks of a measurement by captures and the causes that a diagnosis found.
pub(super) fn check_with_causes(
    outcome: &mut Outcome,
    diagnosis: &Diagnosis,
    matched: &MatchSummary,
    (matching, planned): (&MatchingOptions, bool),
    (source, command): (CaptureSource<'_>, &CommandLine),
) {
    check(outcome, matched.matched, matched.smaller, matching.min_matched);
    let conclusion = diagnosis.conclude(matched, matching, planned);
    if conclusion.voiding > 0 {
        let name = "causes that make delays meaningless";
        outcome.check(Check::eq(name, conclusion.voiding, 0_u64, ""));
    }
    let command = command.remedying(&conclusion.causes);
    for cause in &conclusion.causes {
        outcome.cause(cause.name(), statement(cause, source, &command, planned));
    }
}

impl CaptureSource<'_> {
    /// The name of a side's capture; of both, without a side.
    fn name(self, side: Option<Side>) -> String {
        match (self, side) {
            (CaptureSource::Two { arrivals, .. }, Some(Side::Arrivals)) => arrivals.into(),
            (CaptureSource::Two { departures, .. }, Some(Side::Departures)) => departures.into(),
            (CaptureSource::Two { arrivals, departures }, None) => {
                format!("{arrivals} and {departures}")
            }
            (CaptureSource::Mirrored(name) | CaptureSource::Live(name), None) => name.into(),
            (CaptureSource::Mirrored(name) | CaptureSource::Live(name), Some(side)) => {
                format!("{name}: {side}")
            }
        }
    }
}

/// Formats the cause, its evidence, and the remedy; `command` remedies all causes.
fn statement(
    cause: &Cause,
    source: CaptureSource<'_>,
    command: &CommandLine,
    planned: bool,
) -> String {
    match *cause {
        Cause::Empty { side } => empty(source, side),
        Cause::NothingSelected { side, of } => match source {
            CaptureSource::Two { .. } => format!(
                "none of the {} of {} passes the filter; check --filter, --filter-in and \
                     --filter-out",
                count(of, "packet"),
                side.map_or("both sides".to_owned(), |side| format!("the {side}"))
            ),
            _ => format!(
                "none of the {} is among the {}; check --mac, --vlan, --interface or --direction, \
                     and filters",
                count(of, "packet"),
                side.map_or("arrivals or departures".to_owned(), |side| side.to_string())
            ),
        },
        Cause::Cut { side, cut, of, octets } => {
            let what = format!(
                "{}: {} captured in part (snap length)",
                source.name(side),
                count_of(cut, of, "packet")
            );
            match octets {
                Some(_) => format!("{what}; match by the first octets: {command}"),
                None => format!("{what}, too few octets to match; capture with `tcpdump -s 0`"),
            }
        }
        Cause::OneCapture { packets, of } => format!(
            "{} were captured at one point: same frames, same time stamps within the coarser resolution ({} \
             compared); capture on both sides of the hop",
            source.name(None),
            count_of(packets as u64, of as u64, "packet")
        ),
        Cause::EqualTimes { packets, of } => format!(
            "{} matched have the same time stamp on both sides, within the coarser resolution; both sides were captured \
             at one point, or the time stamps are too coarse for the hop; capture on both sides of the hop, with \
             `tcpdump --time-stamp-precision=nano`",
            count_of(packets, of, "packet")
        ),
        Cause::ConstantTimes { side } => format!(
            "{}: all packets have one time stamp; capture with a clock that runs",
            source.name(side)
        ),
        Cause::Alike { packets, of, octets } => {
            let what = format!(
                "{} matched have the contents of others that are in transit at the same time, so that \
                 the delay of one may belong to another",
                count_of(packets, of, "packet")
            );
            match octets {
                Some(octets) => format!("{what}; compare more than {octets} octets"),
                None => format!(
                    "{what}; send packets that differ, for example by a sequence number, or select some: {}",
                    command.with("--filter", Some("EXPR"))
                ),
            }
        }
        Cause::ClockStep { packets, by_ns, .. } => clock_step(packets, by_ns, source, command),
        Cause::Swapped { packets } => {
            let compared = count_of(packets as u64, packets as u64, "compared packet");
            let what = format!("{compared} went from the departures to the arrivals");
            match command.is_exchangeable() {
                true => format!("{what}; exchange the two sides: {command}"),
                false => format!("{what}; exchange the two sides, for example --vlan OUT,IN"),
            }
        }
        Cause::Translated { packets, untranslated } => format!(
            "equal without addresses and ports: {}, with them: {untranslated}; the hop translates; ignore \
             addresses and ports: {command}",
            count(packets as u64, "compared packet")
        ),
        Cause::Replies { packets } => format!(
            "replies to arrivals among the departures: {}; match them: {command}",
            count(packets as u64, "compared packet")
        ),
        Cause::NoReplies { packets } => format!(
            "--reply matches replies, and the departures are none: the hop forwarded {}; match forwarded \
             packets: {command}",
            count_of(packets as u64, packets as u64, "compared packet")
        ),
        Cause::ClocksApart { by_ns } => clocks_apart(by_ns, source, command),
        Cause::NoOverlap { gap_ns: gap_ns @ 1.. } => format!(
            "{} are of different times, {} apart, and have no packet in common; capture both sides at the same time",
            source.name(None),
            duration(gap_ns)
        ),
        Cause::NoOverlap { gap_ns } => format!(
            "{} overlap by only {}, less than half of the shorter; capture both sides at the same time",
            source.name(None),
            duration(gap_ns)
        ),
        Cause::DifferentTraffic { arrivals, departures, octets: Some(octets) } => format!(
            "{} and {} have no packet in common by their first {octets} octets, too few to find what the hop \
             changed; compare more octets, or capture with `tcpdump -s 0`",
            count(arrivals, "arrival"),
            count(departures, "departure")
        ),
        Cause::DifferentTraffic { arrivals, departures, octets: None } => format!(
            "{} and {} have no packet in common; capture the same traffic on both sides of the hop",
            count(arrivals, "arrival"),
            count(departures, "departure")
        ),
        Cause::BothDirections { forward, backward } => {
            let what = format!(
                "each side holds packets of both directions ({forward} compared go from arrivals to \
                 departures, {backward} in reverse)"
            );
            match (planned, source) {
                (true, CaptureSource::Two { arrivals, departures }) => format!(
                    "{what}; matched are those from {arrivals} to {departures}; for the others: {}; \
                     --filter-in and --filter-out select others",
                    command.exchanged()
                ),
                (true, _) => format!(
                    "{what}; matched are those from arrivals to departures; --filter-in and --filter-out \
                     select others"
                ),
                (false, _) => format!(
                    "{what}; select one: {}",
                    command.with("--filter", Some("src net NETWORK/LENGTH"))
                ),
            }
        }
        Cause::ClockSetBack { side, steps, size_ns, alone } => {
            let times = count(steps as u64, "time");
            let what = format!(
                "the clock of {} was set back {times}, by up to {}",
                source.name(side),
                duration(size_ns)
            );
            match (alone, source) {
                (true, _) => format!(
                    "{what}, that of the other capture was not; they are two clocks: {command}"
                ),
                (false, CaptureSource::Two { .. }) if !planned => {
                    format!("{what}; use files instead of pipes")
                }
                (false, _) => format!(
                    "{what}; captures are matched from step to step, and the delay of packets in transit at a step \
                     is unknown"
                ),
            }
        }
        Cause::Disorder { side, extent_ns } => {
            let what = format!(
                "{}: packets are out of order by up to {}",
                source.name(side),
                duration(extent_ns)
            );
            match (planned, source) {
                (true, _) => format!("{what}; they are matched within a window that long"),
                (false, CaptureSource::Live(_)) => {
                    format!("{what}; write a capture with `tcpdump` and match that")
                }
                (false, _) => format!("{what}; use files instead of pipes"),
            }
        }
        Cause::TooFew { matched, required } => format!(
            "{} matched, {required} required; capture for longer, or accept fewer: {}",
            count(matched, "packet"),
            command.with("--min-matched", Some(&matched.to_string()))
        ),
        Cause::FewMatched { matched, of } => format!(
            "{} of the smaller side matched, and no change of addresses, order or time \
             explains the others; the hop lost them, or they did not pass through it; select those that do: {}",
            count_of(matched, of, "packet"),
            command.with("--filter", Some("EXPR"))
        ),
    }
}

fn empty(source: CaptureSource<'_>, side: Option<Side>) -> String {
    match (source, side) {
        (CaptureSource::Two { .. }, None) => {
            "neither capture holds a packet; capture while packets pass through the hop".into()
        }
        (CaptureSource::Live(name), _) => format!(
            "no packet passed through {name}; check the mirror port, and capture while packets pass through the hop"
        ),
        _ => format!(
            "{} holds no packet; capture while packets pass through the hop",
            source.name(side)
        ),
    }
}

/// Formats the time difference of departures from arrivals.
fn apart(by_ns: i64, source: CaptureSource<'_>) -> String {
    let [arrivals, departures] =
        [Side::Arrivals, Side::Departures].map(|side| source.name(Some(side)));
    let by = duration(by_ns);
    let when = if by_ns < 0 { "before" } else { "after" };
    format!("{departures} has the same packets {by} {when} {arrivals}")
}

fn clock_step(number: u64, by_ns: i64, source: CaptureSource<'_>, command: &CommandLine) -> String {
    let what = format!(
        "{} since one packet ({}), but not before: one of their clocks was set",
        apart(by_ns, source),
        count(number, "packet")
    );
    match source {
        CaptureSource::Two { .. } => {
            format!("{what}; match them by segments between steps: {command}")
        }
        _ => format!("{what}; stamp both sides by one clock"),
    }
}

fn clocks_apart(by_ns: i64, source: CaptureSource<'_>, command: &CommandLine) -> String {
    let what = apart(by_ns, source);
    match (source, by_ns) {
        (CaptureSource::Two { .. }, ..0) => {
            format!("{what}; if they are of two clocks: {command}")
        }
        (CaptureSource::Two { .. }, _) => {
            format!(
                "{what}; if they are of two clocks: {command}; if of one, use a longer --longest"
            )
        }
        (_, ..0) => format!("{what}; stamp both sides by one clock"),
        _ => format!("{what}; use a longer --longest"),
    }
}

fn duration(ns: i64) -> String {
    duration_ns(ns.unsigned_abs() as f64)
}
