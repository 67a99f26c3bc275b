//! Matches packets in one mirrored capture of both directions, or live.

mod live;
mod side;

use std::path::{Path, PathBuf};

use onbeat_delay::capture::{Packet, Reader};
use onbeat_delay::diagnosis::MatchingOptions;
use onbeat_delay::matching::{Event, Matcher};
use onbeat_delay::pairing::{InterfaceId, MirroredCapture as Mirrored, Plan, SideCriterion, Tally};
use onbeat_report::format::count_of;
use onbeat_report::{Input, Inputs, Progress, Run};

use self::live::LiveOptions;
use self::side::SideOptions;
use super::captures;
use super::command_line::CommandLine;
use super::method::{Method, MethodResult};
use super::options::{MIN_MATCHED_OR_COUNT, PacketOptions, ReportOptions, min_matched_help};
use super::outcome::{self, Origin};
use super::reading::{self, Reading};
use super::requirement::{self, CaptureSource};
use super::sink::DelaySink;
use crate::clock::ClockCondition;
use crate::error::Result;

/// One capture of both directions, or an interface to which both are mirrored, stamped by one clock.
#[derive(Debug, Clone, clap::Args)]
#[command(mut_arg("min_matched", |number| number.help(min_matched_help(MIN_MATCHED_OR_COUNT))))]
pub struct MirrorOptions {
    /// The capture (- for standard input), or an interface to which both directions are mirrored
    #[arg(value_name = "FILE|IFACE")]
    source: PathBuf,
    #[command(flatten)]
    side: SideOptions,
    #[command(flatten)]
    live: LiveOptions,
    #[command(flatten)]
    packets: PacketOptions,
}

/// The packets of a capture or an interface.
struct MirrorReading {
    tally: Tally,
    reading: Reading,
}

impl Method for MirrorOptions {
    const NAME: &'static str = "mirror";

    fn report(&self) -> &ReportOptions {
        &self.packets.report
    }

    fn run(&self, progress: &mut Progress) -> Result<MethodResult> {
        let sides = self.side.sides()?;
        let settings = self.packets.check()?;
        let is_file = captures::is_input(&self.source) || self.source.is_file();
        if is_file {
            self.live.refuse_for_a_file()?;
        }
        let run = if is_file {
            Run::analysis(Self::result())
        } else {
            let run = Run::begin(Self::result());
            run.inputs().add(Input::interface(&self.source));
            run
        };
        let mut sink = DelaySink::new(&self.packets.report.delays.files)?;
        let matching = self.packets.matching(false, self.live.count());
        let clock = (!is_file).then(ClockCondition::begin);
        let seen = match is_file {
            true => self.read(run.inputs(), &matching, &mut sink, progress)?,
            false => self.live.watch(self, &matching, &mut sink, progress)?,
        };
        progress.clear();
        sink.finish()?;

        let mut outcome = run.finish();
        clock.into_iter().for_each(|clock| clock.finish(&mut outcome));
        let MirrorReading { tally, reading } = seen;
        outcome::count(&mut outcome, &reading.counts, &self.packets);
        outcome::fill(&mut outcome, &sink, (Origin::Arrival, reading.stamp_error), &settings);
        if tally.other > 0 {
            let packets = count_of(tally.other, tally.packets, "packet");
            outcome.note(format!("on neither side: {packets}"));
        }
        let matched = reading.matched(&sink);
        outcome.notes.extend(reading.notes);
        let name = self.source.display().to_string();
        let source =
            if is_file { CaptureSource::Mirrored(&name) } else { CaptureSource::Live(&name) };
        let matching = (&matching, reading.planned);
        let command = CommandLine::new(Self::NAME, &[&name])
            .given([side::given(&sides)])
            .given(self.packets.given());
        requirement::check_with_causes(
            &mut outcome,
            &reading.diagnosis,
            &matched,
            matching,
            (source, &command),
        );
        Ok(MethodResult { outcome, delays: sink.collected.delays })
    }
}

impl MirrorOptions {
    /// Reads a capture to its end, and a second time if the first reading shows how more packets match.
    fn read(
        &self,
        inputs: &Inputs,
        matching: &MatchingOptions,
        sink: &mut DelaySink,
        progress: &mut Progress,
    ) -> Result<MirrorReading> {
        let can_repeat = captures::can_be_read_again(&self.source);
        let mut tally = Tally::default();
        let files = &self.packets.report.delays.files;
        let reading = reading::read(can_repeat, files, sink, |plan, what, events| {
            let seen = self.feed(inputs, (plan, matching), progress, what, events)?;
            tally = seen.tally;
            Ok(seen.reading)
        })?;
        Ok(MirrorReading { tally, reading })
    }

    /// Reads a whole capture.
    fn feed(
        &self,
        inputs: &Inputs,
        (plan, matching): (Plan, &MatchingOptions),
        progress: &mut Progress,
        what: &str,
        mut events: &mut dyn FnMut(Event<()>),
    ) -> Result<MirrorReading> {
        let (sides, recognition) = (self.side.sides()?, self.packets.recognition());
        let capture = captures::open(&self.source, inputs)?;
        let window = self.packets.window().with_disorder(plan.disorder_ns);
        let mut matcher = Matcher::new(window);
        let mut mirror = Mirrored::new(capture, sides.clone(), recognition, |_: &Packet<'_>| ())
            .filtered(self.packets.selection.filters(None))
            .planned(plan);
        let broken = |error| captures::failure(&self.source, error);
        while mirror.feed(captures::BATCH, &mut matcher, &mut events).map_err(broken)? {
            progress.update(|| {
                captures::progress(what, mirror.tally().packets, mirror.reader().position())
            });
        }
        matcher.finish(&mut events);
        let (tally, reader) = (mirror.tally(), mirror.reader());
        if let SideCriterion::Interfaces { arrivals, departures } = &sides {
            [arrivals, departures]
                .into_iter()
                .try_for_each(|id| known(id, reader, &self.source))?;
        }
        let name = self.source.display().to_string();
        let unseen = (reader.without_time(), reader.dropped());
        let notes = captures::notes(&name, &tally, reader.cut_off(), unseen, &recognition);
        let reading = Reading::new(*matcher.counts(), &mirror.evidence(), matching, notes);
        Ok(MirrorReading { tally, reading })
    }
}

/// Refuses an interface that is missing in a capture that was read to its end.
fn known<R>(id: &InterfaceId, reader: &Reader<R>, path: &Path) -> Result<()> {
    let name = |number| reader.interface_name(number);
    let numbers = 0..reader.interfaces();
    let is_there = match id {
        InterfaceId::Number(number) => numbers.contains(number),
        InterfaceId::Name(id) => numbers.clone().any(|number| name(number) == Some(id)),
    };
    if is_there {
        return Ok(());
    }
    let there = numbers.map(|number| match name(number) {
        Some(name) => format!("{number} ({name})"),
        None => number.to_string(),
    });
    let there: Vec<String> = there.collect();
    let there = match there.is_empty() {
        true => "it contains none, as only pcapng files do".to_owned(),
        false => format!("it has {}", there.join(", ")),
    };
    Err(captures::failure(path, format!("--interface: no interface {id}: {there}")))
}
