//! `onbeat delay calibrate`

use std::path::PathBuf;

use clap::Arg;
use onbeat_delay_run::{MatchOptions, Method, MirrorOptions, PingOptions, ScopeOptions, calibrate};
use onbeat_terminal::exit::Result;

use super::Measurement;

/// Measure the path without the hop, for --correct
///
/// Taps, cables and capturing add delay. Remove the hop, connect its two sides, send the same traffic, and
/// measure with the same method and options as the hop. Writes the mean, which --correct subtracts (Vondrouš
/// 2016, equation 2), and the standard deviation, which --correct adds to the uncertainty. Also writes the number
/// of delays, and the conditions.
///
/// `onbeat delay hooks` needs no calibration: both measurement points are inside the host.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  onbeat delay calibrate match in.pcap null.pcap --output null.json
  onbeat delay match in.pcap out.pcap --correct null.json

Exit status: 0 the correction is written, 1 the measurement yields no correction (negative or too few \
delays), 2 error.")]
pub(super) struct CalibrateOptions {
    #[command(subcommand)]
    method: NullPathMethod,
}

/// Text after the options of each method, in place of the method's own.
macro_rules! help {
    ($example:literal) => {
        concat!(
            "Examples:\n  ",
            $example,
            "\n\nExit status: 0 the correction is written, 1 the measurement yields no correction (negative or ",
            "too few delays), 2 error."
        )
    };
}

#[derive(Debug, clap::Subcommand)]
enum NullPathMethod {
    /// Calibrate with two captures, one on each side of the removed hop
    #[command(after_help = help!("onbeat delay calibrate match in.pcap null.pcap --output null.json"))]
    Match(NullPath<MatchOptions>),
    /// Calibrate with one mirrored capture of both directions, from a file or live
    #[command(after_help = help!("onbeat delay calibrate mirror null.pcapng --interface 0,1 --output null.json"))]
    Mirror(NullPath<MirrorOptions>),
    /// Calibrate with two channels of an oscilloscope
    #[command(after_help = help!("onbeat delay calibrate scope tek0000.csv --output null.json"))]
    Scope(NullPath<ScopeOptions>),
    /// Calibrate with probes to a reflector at the other end of a cable
    #[command(after_help = help!("onbeat delay calibrate ping 192.0.2.1 --rate 1000 --output null.json"))]
    Ping(NullPath<PingOptions>),
}

/// A method on the null path: the path without the hop.
#[derive(Debug, clap::Args)]
#[command(mut_args(hide_refused))]
struct NullPath<M: clap::Args> {
    /// Write the correction, which --correct reads, to FILE
    #[arg(short, long, value_name = "FILE")]
    output: PathBuf,
    #[command(flatten)]
    method: Measurement<M>,
}

/// Options of methods that a calibration refuses: it requires uncorrected delays, by one clock.
const REFUSED: [&str; 2] = ["correct", "two_clocks"];

/// Hides an option from the help if a calibration refuses it.
fn hide_refused(option: Arg) -> Arg {
    let is_refused = REFUSED.contains(&option.get_id().as_str());
    option.hide(is_refused)
}

impl CalibrateOptions {
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

#[cfg(test)]
mod tests {
    use clap::Subcommand;

    use super::*;

    #[test]
    fn refused_options_are_hidden() {
        let command = NullPathMethod::augment_subcommands(clap::Command::new("calibrate"));
        let mut hidden = 0;
        for method in command.get_subcommands() {
            for option in method.get_arguments() {
                let is_refused = REFUSED.contains(&option.get_id().as_str());
                assert_eq!(option.is_hide_set(), is_refused, "{}: {option}", method.get_name());
                hidden += usize::from(is_refused);
            }
        }
        assert_eq!(hidden, 5, "--correct of each method, --two-clocks of match");
    }
}
