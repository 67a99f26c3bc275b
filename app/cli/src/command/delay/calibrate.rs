//! `onbeat delay calibrate`

use std::path::{Path, PathBuf};

use onbeat_delay::correction::Correction;
use onbeat_delay::stats::Distribution;
use onbeat_report::{Cell, Check, Counters, Number, Outcome};

use super::method::{Measured, Method};
use super::taken::CALIBRATED;
use super::{crossed, mirrored, ping, scope};
use onbeat_terminal::exit::{Failure, Result};

/// Measure the path without the hop, to take it off (--correct)
///
/// Taps, cables and capturing have a delay of their own. Take the hop out, join what was on either side of
/// it, send what you will send through it, and measure by the method that will measure the hop, with its
/// options. What is written is the mean, which is taken off (equation (2) of the paper), and the standard
/// deviation, by which each corrected figure is less sure, with their number and the conditions.
///
/// The hooks have no such path: both their ends are in the host that they measure.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  onbeat delay calibrate match in.pcap null.pcap --output null.json
  onbeat delay match in.pcap out.pcap --correct null.json

Exit status: 0 the correction was written, 1 the measurement gives no correction (negative or too few \
delays), 2 error.")]
pub(super) struct Calibrate {
    #[command(subcommand)]
    method: By,
}

/// What stands behind the options of each method, in place of the method's own.
macro_rules! help {
    ($example:literal) => {
        concat!(
            "Examples:\n  ",
            $example,
            "\n\nExit status: 0 the correction was written, 1 the measurement gives no correction (negative or ",
            "too few delays), 2 error."
        )
    };
}

#[derive(Debug, clap::Subcommand)]
enum By {
    /// By two captures, on either side of where the hop was
    #[command(after_help = help!("onbeat delay calibrate match in.pcap null.pcap --output null.json"))]
    Match(Null<crossed::Match>),
    /// By one mirrored capture, or live, of both directions
    #[command(after_help = help!("onbeat delay calibrate mirror null.pcapng --interface 0,1 --output null.json"))]
    Mirror(Null<mirrored::Mirror>),
    /// By two channels of an oscilloscope
    #[command(after_help = help!("onbeat delay calibrate scope tek0000.csv --output null.json"))]
    Scope(Null<scope::Scope>),
    /// By probes, to a reflector at the other end of a cable
    #[command(after_help = help!("onbeat delay calibrate ping 192.0.2.1 --rate 1000 --output null.json"))]
    Ping(Null<ping::Ping>),
}

/// A method on the null path.
#[derive(Debug, clap::Args)]
struct Null<M: clap::Args> {
    /// The file for the correction, which --correct reads
    #[arg(short, long, value_name = "FILE")]
    output: PathBuf,
    #[command(flatten)]
    method: M,
}

impl Calibrate {
    pub(super) fn execute(self) -> Result {
        match self.method {
            By::Match(null) => null.execute(),
            By::Mirror(null) => null.execute(),
            By::Scope(null) => null.execute(),
            By::Ping(null) => null.execute(),
        }
    }
}

impl<M: Method + clap::Args> Null<M> {
    fn execute(self) -> Result {
        let show = self.method.show();
        if show.correct.is_some() {
            return Err(Failure::new("--correct: a correction is of delays as they were measured"));
        }
        if let Some(reason) = self.method.no_correction() {
            return Err(Failure::new(format!("no correction can be made: {reason}")));
        }
        let Measured { mut outcome, delays } = self.method.measure()?;
        outcome.name = format!("{CALIBRATED}{}", M::NAME);
        outcome.check(Check::min("delays of the null path", delays.count(), 2_u64, ""));
        match Correction::of(&delays).filter(|_| outcome.ok()) {
            Some(correction) => {
                outcome.figure("correction", table(&correction, &delays));
                write(&self.output, &outcome)?;
                outcome.note(format!("--correct {} takes it off", self.output.display()));
            }
            None => outcome.note("no correction was written, since a check failed"),
        }
        show.tell(outcome)
    }
}

/// As table 2 of the paper.
fn table(correction: &Correction, delays: &Distribution) -> Counters {
    let mut table = Counters::new([
        ("mean", "ns"),
        ("standard deviation", "ns"),
        ("median", "ns"),
        ("minimum", "ns"),
        ("maximum", "ns"),
        ("delays", ""),
    ]);
    let known = |value: Option<u64>| Cell::from(value.map_or(Number::MISSING, Number::from));
    // The confidence is of its interval, which the table has not.
    let median = delays.percentile(0.5, 0.95).map(|found| found.value_ns);
    table.row([
        Cell::from(correction.mean_ns),
        correction.standard_deviation_ns.into(),
        known(median),
        known(delays.min_ns()),
        known(delays.max_ns()),
        delays.count().into(),
    ]);
    table
}

fn write(path: &Path, outcome: &Outcome) -> Result<()> {
    let text = serde_json::to_string_pretty(outcome)? + "\n";
    onbeat_host::output::write(path, text).map_err(|error| {
        Failure::new(format!("--output: {} cannot be written: {error}", path.display()))
    })
}
