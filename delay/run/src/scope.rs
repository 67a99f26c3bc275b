//! Delay measurement on the wire, with an oscilloscope.

use std::io::BufReader;
use std::path::PathBuf;

use onbeat_delay::scope::{Channel, DecodedChannel, Waveform, crossings, decode, read_csv};
use onbeat_delay::stats::StampError;
use onbeat_host::file;
use onbeat_report::{Cell, Counters, InputKind, Progress, Run};

use super::method::{Method, MethodResult};
use super::options::{PacketOptions, ReportOptions, min_matched_help};
use super::outcome::{self, Origin};
use super::requirement;
use super::sink::DelaySink;
use crate::error::{Error, Result};

/// Two channels of an oscilloscope on 10BASE-T.
#[derive(Debug, Clone, clap::Args)]
#[command(mut_arg("min_matched", |number| number.help(min_matched_help("1"))))]
pub struct ScopeOptions {
    /// Waveform, in the CSV format of Tektronix oscilloscopes
    file: PathBuf,
    /// Channels before and after the hop [default: the first two of the file]
    #[arg(long, value_name = "IN,OUT", value_delimiter = ',', num_args = 1)]
    channels: Vec<String>,
    #[command(flatten)]
    packets: PacketOptions,
}

impl Method for ScopeOptions {
    const NAME: &'static str = "scope";

    fn report(&self) -> &ReportOptions {
        &self.packets.report
    }

    fn run(&self, _: &mut Progress) -> Result<MethodResult> {
        let settings = self.packets.check()?;
        let run = Run::analysis(Self::result());
        let failed = |error: &dyn std::fmt::Display| Error::input(self.file.display(), error);
        let file = file::open_regular(&self.file).map_err(|error| failed(&error))?;
        let file = run.inputs().read(&self.file, InputKind::File, Box::new(file));
        let waveform = read_csv(BufReader::new(file)).map_err(|error| failed(&error))?;
        let channels = self.channels(&waveform)?;
        let decoded =
            channels.map(|channel| decode(&channel.volts, waveform.start_s, waveform.interval_s));
        let [arrivals, departures] = &decoded;
        let (found, counts) = crossings(
            &arrivals.frames,
            &departures.frames,
            &self.packets.recognition(),
            self.packets.longest_ns(),
        );

        let mut sink = DelaySink::new(&self.packets.report.delays.files)?;
        let mut table = Counters::new([("time", "µs"), ("delay", "ns"), ("verdict", "")]);
        for crossing in &found {
            let time_ns = (crossing.arrival_s * 1e9).round() as i64;
            sink.record(time_ns, Some(crossing.delay_ns.round() as i64), crossing.verdict);
            table.row([
                Cell::from(crossing.arrival_s * 1e6),
                crossing.delay_ns.into(),
                super::sink::name(crossing.verdict).into(),
            ]);
        }
        sink.finish()?;
        let mut outcome = run.finish();
        let wrong = decoded.iter().flat_map(|found| &found.frames).filter(|frame| !frame.fcs_right);
        outcome.check(onbeat_report::Check::eq(
            "frames with a wrong FCS",
            wrong.count() as u64,
            0_u64,
            "",
        ));
        outcome.figure("signals", signals(channels, &decoded));
        outcome::count(&mut outcome, &counts, &self.packets);
        outcome.figure("frames, one by one", table);
        outcome::fill(&mut outcome, &sink, (Origin::Arrival, StampError::default()), &settings);
        let smaller = decoded.iter().map(|found| found.frames.len() as u64).min().unwrap_or(0);
        let required = self.packets.matching(false, Some(1)).min_matched;
        requirement::check(&mut outcome, counts.measured(), smaller, required);
        outcome.note(format!(
            "the sample interval is {:.3} ns; single delays are precise to a fraction of it",
            waveform.interval_s * 1e9
        ));
        Ok(MethodResult { outcome, delays: sink.collected.delays })
    }
}

impl ScopeOptions {
    /// Returns the channels before and after the hop.
    fn channels<'a>(&self, waveform: &'a Waveform) -> Result<[&'a Channel; 2]> {
        let names = || {
            let names: Vec<&str> = waveform.channels.iter().map(|c| c.name.as_str()).collect();
            names.join(", ")
        };
        let named = |name: &String| {
            let found = waveform.channels.iter().find(|channel| channel.name == *name);
            found.ok_or_else(|| {
                Error::option(format!("--channels: no channel {name:?}; the file has {}", names()))
            })
        };
        match (self.channels.as_slice(), waveform.channels.as_slice()) {
            ([arrivals, departures], _) if arrivals == departures => Err(Error::option(format!(
                "--channels {arrivals},{departures}: the two sides are the same; use the channel after the \
                 hop second"
            ))),
            ([arrivals, departures], _) => Ok([named(arrivals)?, named(departures)?]),
            ([], [arrivals, departures, ..]) => Ok([arrivals, departures]),
            ([], _) => Err(Error::input(
                self.file.display(),
                format!("it has one channel ({}), and a delay requires two", names()),
            )),
            _ => Err(Error::option(
                "--channels: two are required, before the hop and after it: CH1,CH2",
            )),
        }
    }
}

/// The signals found on the channels.
fn signals(channels: [&Channel; 2], decoded: &[DecodedChannel; 2]) -> Counters {
    let mut table = Counters::new([
        ("channel", ""),
        ("frames", ""),
        ("wrong FCS", ""),
        ("fragments", ""),
        ("error of a frame's time", "ns"),
    ]);
    for (channel, found) in channels.iter().zip(decoded) {
        let error_ns = found.frames.iter().map(|frame| frame.error_s * 1e9).fold(0.0, f64::max);
        let wrong = found.frames.iter().filter(|frame| !frame.fcs_right).count();
        table.row([
            Cell::from(channel.name.as_str()),
            (found.frames.len() as u64).into(),
            (wrong as u64).into(),
            (found.fragments as u64).into(),
            error_ns.into(),
        ]);
    }
    table
}
