//! `onbeat bench port`

use clap::builder::PossibleValuesParser;
use onbeat_lab::bench::cyclic::Options;
use onbeat_lab::bench::port;

use super::Shown;
use super::cyclic::Cyclic;
use onbeat_terminal::exit::Result;

/// Back ends of the real-time port side by side: response delay, jitter, CPU time
///
/// A managing node asks each cycle, a controlled node answers, and the wire between them, the same
/// for all back ends, writes down when: beside what a plain libpcap program does, and beside the
/// least that can be. Idle, and under 400 processes that keep the scheduler busy, as hackbench
/// does.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  onbeat bench port
  onbeat bench port --json > port.json
  onbeat bench port --cycles 5000 --periods 1ms --html port.html
  onbeat bench port --backends packet,packet-spin,limit --load idle

As usual: 100,000 cycles in 10 rounds, of 5ms, 1ms and 250us, which takes half an hour.

Exit status: 0 all checks hold, 1 a check failed (figures do not count), 2 error (root is required).")]
pub(super) struct Port {
    #[command(flatten)]
    shown: Shown,
    /// Back ends to measure; without it, all but those that take a whole CPU (packet-spin). One
    /// that this host cannot have is a row that says why
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    #[arg(value_parser = PossibleValuesParser::new(port::backends().map(|(name, _)| name)))]
    backends: Vec<String>,
    #[command(flatten)]
    cyclic: Cyclic,
}

impl Port {
    pub(super) fn execute(self) -> Result {
        let options = self.options()?;
        self.shown.run(|progress| port::run(&options, progress))
    }

    fn options(&self) -> Result<Options> {
        self.cyclic.options(&self.backends, port::usual())
    }
}

#[cfg(test)]
mod tests {
    use crate::command::bench::{Arguments, Bench};
    use crate::command::{Command, parse};

    #[test]
    fn back_ends_are_said_by_name() {
        let line = "bench port --backends packet,xdp --cycles 200";
        let Command::Bench(Arguments { command: Bench::Port(port) }) = parse(line).unwrap() else {
            panic!("{line}")
        };
        let options = port.options().unwrap();
        assert_eq!((options.backends, options.cycles), (vec!["packet".into(), "xdp".into()], 200));
        assert!(parse("bench port --backends netmap").is_err());
    }
}
