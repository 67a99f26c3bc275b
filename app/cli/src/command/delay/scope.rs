//! `onbeat delay scope`

use std::path::PathBuf;

use onbeat_delay_run::ScopeOptions;
use onbeat_terminal::Shown;
use onbeat_terminal::exit::Result;

use super::options::{MethodCommand, Options};

/// Delay from the wire itself: two channels of an oscilloscope on 10BASE-T
///
/// A waveform as Tektronix oscilloscopes export it (CSV): frames are found in its Manchester code, their
/// FCS is checked, and those in front of the hop are matched with those behind it, to a fraction of a
/// sample.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  onbeat delay scope tek0001.csv
  onbeat delay scope tek0001.csv --channels CH3,CH1 --csv delays.csv

Exit status: 0 success, 1 negative result (frames had a wrong FCS, or too few match), 2 error (not a \
waveform).")]
pub(super) struct Scope {
    /// The waveform
    file: PathBuf,
    /// The channel in front of the hop, and the one behind it; the first two of the file
    #[arg(long, value_name = "IN,OUT", value_delimiter = ',', num_args = 1)]
    channels: Vec<String>,
    #[command(flatten)]
    options: Options,
}

impl MethodCommand for Scope {
    type Options = ScopeOptions;

    fn split(self) -> Result<(ScopeOptions, Shown)> {
        let (packets, shown) = self.options.split();
        Ok((ScopeOptions { file: self.file, channels: self.channels, packets }, shown))
    }
}
