//! `onbeat delay calibrate`

use std::path::PathBuf;

use onbeat_delay_run::{MatchOptions, Method, MirrorOptions, PingOptions, ScopeOptions, calibrate};
use onbeat_terminal::exit::Result;

use super::Measurement;

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
    method: NullPathMethod,
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
enum NullPathMethod {
    /// By two captures, on either side of where the hop was
    #[command(after_help = help!("onbeat delay calibrate match in.pcap null.pcap --output null.json"))]
    Match(NullPath<MatchOptions>),
    /// By one mirrored capture, or live, of both directions
    #[command(after_help = help!("onbeat delay calibrate mirror null.pcapng --interface 0,1 --output null.json"))]
    Mirror(NullPath<MirrorOptions>),
    /// By two channels of an oscilloscope
    #[command(after_help = help!("onbeat delay calibrate scope tek0000.csv --output null.json"))]
    Scope(NullPath<ScopeOptions>),
    /// By probes, to a reflector at the other end of a cable
    #[command(after_help = help!("onbeat delay calibrate ping 192.0.2.1 --rate 1000 --output null.json"))]
    Ping(NullPath<PingOptions>),
}

/// A method on the null path.
#[derive(Debug, clap::Args)]
struct NullPath<M: clap::Args> {
    /// The file for the correction, which --correct reads
    #[arg(short, long, value_name = "FILE")]
    output: PathBuf,
    #[command(flatten)]
    method: Measurement<M>,
}

impl Calibrate {
    pub(super) fn execute(self) -> Result {
        match self.method {
            NullPathMethod::Match(null) => null.execute(),
            NullPathMethod::Mirror(null) => null.execute(),
            NullPathMethod::Scope(null) => null.execute(),
            NullPathMethod::Ping(null) => null.execute(),
        }
    }
}

impl<M: Method + clap::Args> NullPath<M> {
    fn execute(self) -> Result {
        let Measurement { options, shown } = self.method;
        shown.run(|progress| calibrate(&options, &self.output, progress))
    }
}
