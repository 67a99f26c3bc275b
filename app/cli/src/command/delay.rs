//! `onbeat delay`

mod calibrate;
mod echo;
mod hooks;
mod mirror;
mod options;
mod ping;
mod place;
mod scope;
mod two_captures;

use onbeat_terminal::exit::{Failure, Result};
use options::MethodCommand;

/// What packets wait in one hop, with an honest error and an upper bound
///
/// From captures (match, mirror), where a packet that entered a hop is found again among those that left
/// it; from the wire itself (scope); inside this host (hooks); by probes from end to end (ping, echo). What
/// is said of delays carries the interval it lies in. What taps, cables and capturing add is measured
/// without the hop (calibrate) and taken off (--correct).
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  onbeat delay match in.pcap out.pcap
  onbeat delay mirror span.pcapng --mac 02:00:00:00:00:01 --html delay.html
  onbeat delay scope tek0001.csv
  onbeat delay hooks eth0 --out eth1 --for 10s
  onbeat delay echo --port 4862
  onbeat delay ping 192.0.2.1 --rate 1000 --for 30s
  onbeat delay calibrate match in.pcap null.pcap --output null.json

Exit status: 0 success, 1 negative result (too few packets match, clocks are at fault, probes were lost), 2 \
error.")]
pub(crate) struct Arguments {
    #[command(subcommand)]
    command: Delay,
}

#[derive(Debug, clap::Subcommand)]
enum Delay {
    Match(two_captures::Match),
    Mirror(mirror::Mirror),
    Scope(scope::Scope),
    Hooks(hooks::Hooks),
    Echo(echo::Echo),
    Ping(ping::Ping),
    Calibrate(calibrate::Calibrate),
    Compare(Compare),
}

impl Arguments {
    pub(crate) fn execute(self) -> Result {
        match self.command {
            Delay::Match(files) => files.execute(),
            Delay::Mirror(file) => file.execute(),
            Delay::Scope(file) => file.execute(),
            Delay::Hooks(hop) => hop.execute(),
            Delay::Echo(reflector) => reflector.execute(),
            Delay::Ping(sender) => sender.execute(),
            Delay::Calibrate(null_path) => null_path.execute(),
            Delay::Compare(moved) => moved.execute(),
        }
    }
}

/// Names the command that replaces this one
#[derive(Debug, clap::Args)]
#[command(hide = true, disable_help_flag = true)]
struct Compare {
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    arguments: Vec<String>,
}

impl Compare {
    fn execute(self) -> Result {
        let arguments = self.arguments.join(" ");
        Err(Failure::new(format!(
            "the methods are compared by the laboratory; run: onbeat lab run single-hop --compare {}",
            if arguments.is_empty() { "HOP,..." } else { &arguments }
        )))
    }
}
