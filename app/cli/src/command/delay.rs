//! `onbeat delay`

mod calibrate;
mod echo;

use onbeat_delay_run::{
    HooksOptions, MatchOptions, Method, MirrorOptions, PingOptions, ScopeOptions,
};
use onbeat_terminal::ResultOptions;
use onbeat_terminal::exit::{Failure, Result};

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
    /// Match packets that entered a hop with packets that left it
    ///
    /// Two captures, pcap or pcapng, also compressed by gzip or zstd; one of them may be - for standard
    /// input. Both are stamped by one clock, or --two-clocks.
    #[command(after_help = "\
Examples:
  onbeat delay match in.pcap out.pcap --html delay.html
  onbeat delay match in.pcap.gz out.pcap.gz --correct null.json
  onbeat delay match a.pcap b.pcap --two-clocks --json
  onbeat delay match in.pcap out.pcap --filter udp --filter-in ip6

Exit status: 0 success, 1 negative result (too few packets match, or delays are negative; the cause is \
named), 2 error (a capture cannot be read).")]
    Match(Measurement<MatchOptions>),
    /// Match packets of both directions in one mirrored capture, or live
    ///
    /// One capture that a mirror port, or the hop itself, made of what goes in and what comes out, stamped
    /// by one clock; or an interface of this host at a mirror port, watched until Ctrl-C. What is on which side
    /// is told by the hop's own MAC addresses, by VLAN, by interface or by direction.
    #[command(after_help = "\
Examples:
  onbeat delay mirror span.pcap --mac 02:00:00:00:00:01,02:00:00:00:00:02
  onbeat delay mirror rspan.pcap --vlan 101,102 --html delay.html
  onbeat delay mirror hop.pcapng.zst --interface eth0,eth1 --json
  onbeat delay mirror eth2 --vlan 101,102 --for 60s --parquet delays.parquet

Exit status: 0 success, 1 negative result (too few packets match, or delays are negative; the cause is \
named), 2 error (the capture cannot be read, or the interface cannot be captured: CAP_NET_RAW is \
required).")]
    Mirror(Measurement<MirrorOptions>),
    /// Delay from the wire itself: two channels of an oscilloscope on 10BASE-T
    ///
    /// A waveform as Tektronix oscilloscopes export it (CSV): frames are found in its Manchester code, their
    /// FCS is checked, and those in front of the hop are matched with those behind it, to a fraction of a
    /// sample.
    #[command(after_help = "\
Examples:
  onbeat delay scope tek0001.csv
  onbeat delay scope tek0001.csv --channels CH3,CH1 --csv delays.csv

Exit status: 0 success, 1 negative result (frames had a wrong FCS, or too few match), 2 error (not a \
waveform).")]
    Scope(Measurement<ScopeOptions>),
    /// Follow every packet through this very host, stage by stage
    ///
    /// From where the driver hands a packet that came by IFACE to the kernel, to where a driver has sent it
    /// on, a process has read it, or its answer was sent. Nothing is injected, nothing is patched; what the
    /// programs cost a packet is measured and told. What the NIC and the wire take is not seen.
    #[command(after_help = "\
Examples:
  onbeat delay hooks eth0 --out eth1 --for 10s
  onbeat delay hooks eth0 --whole --for 1h --parquet night.parquet
  onbeat delay hooks eth0 --device-stamps --for 10s
  onbeat delay hooks eth0 --count 100000 --html delay.html -- udp and dst port 862

Exit status: 0 success, 1 negative result (too few packets left or were read; the cause is named), 2 \
error (root and Linux 6.3 with BTF are required).")]
    Hooks(Measurement<HooksOptions>),
    Echo(echo::Echo),
    /// Probe a path: a STAMP session sender (RFC 8762)
    ///
    /// Sends probes to a reflector - `onbeat delay echo`, or another one of STAMP or TWAMP Light - by a rate
    /// profile, and tells the round trip without the time in the reflector, the delay there and the delay
    /// back. Each probe is also counted from when it was meant to go, so that a sender that is held up hides
    /// nothing.
    #[command(after_help = "\
Examples:
  onbeat delay ping 192.0.2.1
  onbeat delay ping fe80::1%eth0 --port 4862 --rate 1000 --count 100000 --size 150
  onbeat delay ping 127.0.0.1 --port 4862 --one-clock --csv samples.csv --html ping.html
  onbeat delay ping 192.0.2.1 --profile load.profile --json
  onbeat delay ping 192.0.2.1 --key probe.key

Exit status: 0 success, 1 probes were lost or a clock was set, 2 error.")]
    Ping(Measurement<PingOptions>),
    Calibrate(calibrate::Calibrate),
    Compare(Compare),
}

impl Arguments {
    pub(crate) fn execute(self) -> Result {
        match self.command {
            Delay::Match(files) => files.execute(),
            Delay::Mirror(file) => file.execute(),
            Delay::Scope(file) => file.execute(),
            Delay::Hooks(hop) => hop.shown.run(|progress| hop.options.run(progress)),
            Delay::Echo(reflector) => reflector.execute(),
            Delay::Ping(sender) => sender.execute(),
            Delay::Calibrate(null_path) => null_path.execute(),
            Delay::Compare(moved) => moved.execute(),
        }
    }
}

/// A measurement, and what is done with its result.
#[derive(Debug, clap::Args)]
struct Measurement<O: clap::Args> {
    #[command(flatten)]
    options: O,
    #[command(flatten)]
    shown: ResultOptions,
}

impl<M: Method + clap::Args> Measurement<M> {
    fn execute(self) -> Result {
        self.shown.run(|progress| self.options.run(progress).map(|result| result.outcome))
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

#[cfg(test)]
mod tests {
    use crate::command::parse;

    #[test]
    fn sides_are_told_in_one_way() {
        for good in ["--mac 02:00:00:00:00:01", "--vlan 1,2", "--interface 0,eth1", "--direction"] {
            assert!(parse(&format!("delay mirror a.pcap {good}")).is_ok(), "{good}");
        }
        for bad in [
            "",
            "--mac 02:00",
            "--vlan 1",
            "--vlan 1,99999",
            "--interface eth0",
            "--interface eth0,",
            "--direction --vlan 1,2",
        ] {
            assert!(parse(&format!("delay mirror a.pcap {bad}")).is_err(), "{bad}");
        }
        for (line, good) in
            [("eth1 --mac 02:00:00:00:00:01 --for 1s --count 5", true), ("eth1 --count 5", false)]
        {
            assert_eq!(parse(&format!("delay mirror {line}")).is_ok(), good, "{line}");
        }
    }
}
