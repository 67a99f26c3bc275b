//! `onbeat bench powerlink`

use clap::builder::PossibleValuesParser;
use onbeat_lab::bench::cyclic::Options;
use onbeat_lab::bench::powerlink;

use super::Shown;
use super::cyclic::Cyclic;
use onbeat_terminal::exit::Result;

/// POWERLINK nodes by each back end of the port, side by side: SoC jitter, PReq to PRes
///
/// A managing and a controlled node, booted and in OPERATIONAL, on a wire that writes down when their
/// frames pass, the same for all back ends. Idle, and under 400 processes that keep the scheduler busy,
/// as hackbench does. The figure to look at is the tail of the response time where the driver answers
/// (xdp, module), beside that of a node that answers itself (packet).
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  onbeat bench powerlink
  onbeat bench powerlink --json > powerlink.json
  onbeat bench powerlink --cycles 2000 --periods 1ms --backends packet,xdp

As usual: 10,000 cycles in 5 rounds, of 5ms, 1ms and 400us, which takes ten minutes.

Exit status: 0 all checks hold, 1 a check failed (figures do not count), 2 error (root is required).")]
pub(super) struct Powerlink {
    #[command(flatten)]
    shown: Shown,
    /// Back ends to measure; without it, all. One that this host cannot have is a row that says why
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    #[arg(value_parser = PossibleValuesParser::new(powerlink::backends().map(|(name, _)| name)))]
    backends: Vec<String>,
    #[command(flatten)]
    cyclic: Cyclic,
}

impl Powerlink {
    pub(super) fn execute(self) -> Result {
        let options = self.options()?;
        self.shown.run(|progress| powerlink::run(&options, progress))
    }

    fn options(&self) -> Result<Options> {
        self.cyclic.options(&self.backends, powerlink::usual())
    }
}

#[cfg(test)]
mod tests {
    use crate::command::bench::{Arguments, Bench};
    use crate::command::{Command, parse};

    #[test]
    fn back_ends_are_said_by_name() {
        let line = "bench powerlink --backends packet,xdp --cycles 200";
        let Command::Bench(Arguments { command: Bench::Powerlink(powerlink) }) =
            parse(line).unwrap()
        else {
            panic!("{line}")
        };
        let options = powerlink.options().unwrap();
        assert_eq!((options.backends, options.cycles), (vec!["packet".into(), "xdp".into()], 200));
        assert!(parse("bench powerlink --backends netmap").is_err());
    }
}
