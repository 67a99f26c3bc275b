//! `onbeat delay`

mod calibrate;
mod echo;

use onbeat_delay_run::{
    CompareOptions, HooksOptions, MatchOptions, Method, MirrorOptions, PingOptions, ScopeOptions,
};
use onbeat_terminal::ResultOptions;
use onbeat_terminal::exit::Result;

/// Measure per-hop packet delay, with confidence intervals
///
/// match and mirror compare the packets that entered a hop with those that left it. scope decodes the signal on
/// the wire. hooks traces packets inside this host. ping and echo send probes from end to end. Each value has a
/// confidence interval and an upper bound of its error. calibrate measures the delay of taps, cables and
/// capturing without the hop, which --correct subtracts. compare shows which methods agree on one device.
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
  onbeat delay compare scope.json mirror.json hooks.json

Exit status: 0 success, 1 negative result (too few packets match, a clock is wrong, probes were lost), 2 \
error.")]
pub(crate) struct Arguments {
    #[command(subcommand)]
    command: Delay,
}

#[derive(Debug, clap::Subcommand)]
enum Delay {
    /// Match packets that entered a hop with packets that left it
    ///
    /// Reads two captures: pcap or pcapng, optionally compressed by gzip or zstd. One of them may be -, for
    /// standard input. One clock must stamp both captures, unless --two-clocks is given.
    #[command(after_help = "\
Examples:
  onbeat delay match in.pcap out.pcap --html delay.html
  onbeat delay match in.pcap.gz out.pcap.gz --correct null.json
  onbeat delay match a.pcap b.pcap --two-clocks --json
  onbeat delay match in.pcap out.pcap --filter udp --filter-in ip6

Exit status: 0 success, 1 negative result (too few packets match, or delays are negative; the output \
names the cause), 2 error (a capture cannot be read).")]
    Match(Measurement<MatchOptions>),
    /// Match packets of both directions in one mirrored capture, from a file or live
    ///
    /// Reads one capture of the packets that enter and leave the hop, from a mirror port or the hop itself. One
    /// clock must stamp both sides. With an interface instead of a file, it captures until Ctrl-C. The hop's MAC
    /// addresses, VLAN ids, interfaces or directions distinguish the two sides.
    #[command(after_help = "\
Examples:
  onbeat delay mirror span.pcap --mac 02:00:00:00:00:01,02:00:00:00:00:02
  onbeat delay mirror rspan.pcap --vlan 101,102 --html delay.html
  onbeat delay mirror hop.pcapng.zst --interface eth0,eth1 --json
  onbeat delay mirror eth2 --vlan 101,102 --for 60s --parquet delays.parquet

Exit status: 0 success, 1 negative result (too few packets match, or delays are negative; the output \
names the cause), 2 error (the capture cannot be read, or the interface cannot be captured: CAP_NET_RAW \
is required).")]
    Mirror(Measurement<MirrorOptions>),
    /// Measure delay on the wire: two oscilloscope channels on 10BASE-T
    ///
    /// Reads a waveform in the CSV format of Tektronix oscilloscopes. Decodes frames from the Manchester code,
    /// and checks their FCS. Matches frames before the hop with frames after it, with a resolution below one
    /// sample.
    #[command(after_help = "\
Examples:
  onbeat delay scope tek0001.csv
  onbeat delay scope tek0001.csv --channels CH3,CH1 --csv delays.csv

Exit status: 0 success, 1 negative result (frames have a wrong FCS, or too few match), 2 error (not a \
waveform).")]
    Scope(Measurement<ScopeOptions>),
    /// Trace every packet through this host, stage by stage
    ///
    /// The delay of a packet starts when the driver of IFACE passes it to the network stack. It ends when a driver has
    /// sent the packet or its response, or a process has read it. Injects no packets and requires no patched
    /// kernel. Measures and prints the overhead of its programs per packet. Excludes the wire, and the NIC unless
    /// --device-stamps is given.
    #[command(after_help = "\
Examples:
  onbeat delay hooks eth0 --out eth1 --for 10s
  onbeat delay hooks eth0 --whole --for 1h --parquet night.parquet
  onbeat delay hooks eth0 --device-stamps --for 10s
  onbeat delay hooks eth0 --count 100000 --html delay.html -- udp and dst port 862

Exit status: 0 success, 1 negative result (too few packets were sent or read; the output names the cause), 2 \
error (root and Linux 6.3 with BTF are required).")]
    Hooks(Measurement<HooksOptions>),
    Echo(echo::Echo),
    /// Probe a path: a STAMP session sender (RFC 8762)
    ///
    /// Sends probes to a reflector (`onbeat delay echo`, or any STAMP or TWAMP Light reflector) at a constant
    /// rate or by a profile. Prints the round-trip time without the time in the reflector, and the delay of each
    /// direction. Also measures each delay from the scheduled transmission time, which includes delays of the
    /// sender (no coordinated omission).
    #[command(after_help = "\
Examples:
  onbeat delay ping 192.0.2.1
  onbeat delay ping fe80::1%eth0 --port 4862 --rate 1000 --count 100000 --size 150
  onbeat delay ping 127.0.0.1 --port 4862 --one-clock --csv samples.csv --html ping.html
  onbeat delay ping 192.0.2.1 --profile load.profile --json
  onbeat delay ping 192.0.2.1 --key probe.key

Exit status: 0 success, 1 negative result (probes were lost, or a clock was set), 2 error.")]
    Ping(Measurement<PingOptions>),
    Calibrate(calibrate::CalibrateOptions),
    /// Compare results of several methods on one device
    ///
    /// Reads results (--json) of match, mirror, scope, hooks and ping. Subtracts from each the delay of its path
    /// without the hop (--correct). Prints the delay of the hop by each method with its interval, and the methods
    /// that agree within their errors.
    #[command(after_help = "\
Examples:
  onbeat delay compare scope.json mirror.json hooks.json
  onbeat delay compare scope.json mirror.json --correct scope=17.468+-0.412us --correct null-mirror.json
  onbeat delay compare mirror.json ping.json --correct null-ping.json --html compare.html

Exit status: 0 success, 1 negative result (fewer than two results have a mean of the hop, or a measurement failed), 2 \
error.")]
    Compare(Measurement<CompareOptions>),
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
            Delay::Compare(results) => results.shown.run(|progress| results.options.run(progress)),
        }
    }
}

/// Options of a measurement and of its result.
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

#[cfg(test)]
mod tests {
    use crate::command::parse;

    #[test]
    fn exactly_one_option_distinguishes_the_sides() {
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
