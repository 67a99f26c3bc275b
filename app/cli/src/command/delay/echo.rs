//! `onbeat delay echo`

use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

use onbeat_delay_run::EchoOptions;
use onbeat_terminal::Shown;
use onbeat_terminal::exit::{Result, warn};
use onbeat_terminal::values::duration;
use onbeat_wire::stamp;

use super::place::Place;

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
        let options = EchoOptions {
            addresses: self.bind,
            port: self.port,
            sessions: self.stateful.then_some(self.sessions),
            key: self.key,
            length: self.length,
            scheduling: self.place.profile(),
        };
        let (quiet, has_key) = (self.shown.quiet, options.key.is_some());
        self.shown.run(|_| {
            options.run(|reflector| {
                if quiet {
                    return;
                }
                let addresses: Vec<String> =
                    reflector.addresses().iter().map(ToString::to_string).collect();
                warn(format!(
                    "answering {}on {}; CLOCK_REALTIME, {}",
                    if has_key { "who has the key " } else { "" },
                    addresses.join(", "),
                    reflector.error_estimate()
                ));
            })
        })
    }
}
