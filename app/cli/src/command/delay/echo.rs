//! `onbeat delay echo`

use std::net::IpAddr;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use onbeat_probe::{EchoConfig, EchoCounts, Reflector, read_key};
use onbeat_realtime::interrupt;
use onbeat_report::{Cell, Check, Counters, Outcome, Run};
use onbeat_wire::stamp;

use super::place::Place;
use onbeat_terminal::Shown;
use onbeat_terminal::exit::{Result, warn};
use onbeat_terminal::values::duration;

/// Answer probes: a STAMP session reflector (RFC 8762)
///
/// Answers `onbeat delay ping`, other STAMP senders and senders of TWAMP Light until Ctrl-C; with --key,
/// STAMP senders that have the key, and nobody else. Arrivals are stamped by the kernel, departures just
/// before the answer is handed over, both by CLOCK_REALTIME.
#[derive(Debug, clap::Args)]
#[command(mut_arg("quiet", |quiet| quiet.help("Do not say where it listens")))]
#[command(after_help = "\
Examples:
  onbeat delay echo
  onbeat delay echo --port 4862 --stateful --fifo 49
  onbeat delay echo --bind 192.0.2.1 --for 60s --json
  onbeat delay echo --key probe.key

Exit status: 0 success, 1 replies could not be sent, 2 error.")]
pub(super) struct Echo {
    /// Listen on this address only; may be given again
    #[arg(long, value_name = "ADDRESS")]
    bind: Vec<IpAddr>,
    /// The UDP port to listen on
    #[arg(long, default_value_t = stamp::PORT)]
    port: u16,
    /// Number answers by session instead of copying the sender's numbers, so that a sender sees which way
    /// probes were lost
    #[arg(long)]
    stateful: bool,
    /// Sessions that are remembered at most, with --stateful
    #[arg(long, value_name = "NUMBER", default_value_t = 4096, requires = "stateful")]
    sessions: usize,
    /// Answer only who has the key in this file, hexadecimal or raw octets (HMAC-SHA-256, RFC 8762 4.4)
    #[arg(long, value_name = "FILE")]
    key: Option<PathBuf>,
    /// Stop after this time
    #[arg(long = "for", value_name = "TIME", value_parser = duration)]
    length: Option<Duration>,
    #[command(flatten)]
    place: Place,
    #[command(flatten)]
    shown: Shown,
}

impl Echo {
    pub(super) fn execute(self) -> Result {
        self.shown.check()?;
        let default = EchoConfig::default();
        let config = EchoConfig {
            addresses: if self.bind.is_empty() { default.addresses } else { self.bind },
            port: self.port,
            sessions: self.stateful.then_some(self.sessions),
            key: self.key.as_deref().map(read_key).transpose()?,
        };
        let mut reflector = Reflector::open(&config)?;
        let _place = self.place.enter()?;
        let _signals = interrupt::Guard::install();
        if !self.shown.quiet {
            let addresses: Vec<String> =
                reflector.addresses().iter().map(ToString::to_string).collect();
            warn(format!(
                "answering {}on {}; CLOCK_REALTIME, {}",
                if config.key.is_some() { "who has the key " } else { "" },
                addresses.join(", "),
                reflector.error_estimate()
            ));
        }
        let run = Run::begin("delay-echo");
        let deadline = self.length.map(|length| Instant::now() + length);
        let over = || deadline.is_some_and(|deadline| Instant::now() >= deadline);
        reflector.run(&|| interrupt::check().is_err() || over())?;
        self.shown.show(outcome(run.finish(), &reflector.counts()))
    }
}

fn outcome(mut outcome: Outcome, counts: &EchoCounts) -> Outcome {
    outcome.check(Check::eq("answers that the kernel did not take", counts.refused, 0_u64, ""));
    let mut table = Counters::new(["datagrams", "number"]);
    for (name, number) in [
        ("received", counts.received),
        ("answered", counts.answered),
        ("too short for a test packet", counts.too_short),
        ("with a wrong HMAC, not answered", counts.unverified),
        ("already reflected, not answered", counts.reflectors),
        ("stamped by the program, not the kernel", counts.stamped_late),
        ("sessions that began", counts.sessions),
        ("sessions forgotten for want of room", counts.forgotten),
    ] {
        table.row([Cell::from(name), number.into()]);
    }
    outcome.figure("datagrams", table);
    outcome
}
