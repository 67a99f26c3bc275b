//! `onbeat delay echo`

use onbeat_delay_run::{EchoOptions, clock_error};
use onbeat_terminal::ResultOptions;
use onbeat_terminal::exit::{Result, warn};

/// Reflect probes: a STAMP session reflector (RFC 8762)
///
/// Reflects the probes of `onbeat delay ping` and other STAMP or TWAMP Light senders until Ctrl-C. With
/// --key, reflects only those of STAMP senders that have the key. The kernel stamps arrivals. Departures are stamped
/// immediately before the probe is passed to the kernel. Both use CLOCK_REALTIME.
#[derive(Debug, clap::Args)]
#[command(mut_arg("quiet", |quiet| quiet.help("Do not print the addresses it listens on")))]
#[command(after_help = "\
Examples:
  onbeat delay echo
  onbeat delay echo --port 4862 --stateful --fifo 49
  onbeat delay echo --bind 192.0.2.1 --for 60s --json
  onbeat delay echo --key probe.key

Exit status: 0 success, 1 negative result (probes could not be returned), 2 error.")]
pub(super) struct Echo {
    #[command(flatten)]
    options: EchoOptions,
    #[command(flatten)]
    shown: ResultOptions,
}

impl Echo {
    pub(super) fn execute(self) -> Result {
        let (quiet, has_key) = (self.shown.quiet, self.options.has_key());
        self.shown.run(|_| {
            self.options.run(|reflector| {
                if quiet {
                    return;
                }
                let addresses: Vec<String> =
                    reflector.addresses().iter().map(ToString::to_string).collect();
                warn(format!(
                    "reflecting probes {}on {}; CLOCK_REALTIME, {}",
                    if has_key { "of senders with the key " } else { "" },
                    addresses.join(", "),
                    clock_error(reflector.error_estimate())
                ));
            })
        })
    }
}
