//! `onbeat powerlink`

mod node;
mod sniff;

use onbeat_terminal::exit::Result;

/// Ethernet POWERLINK (EPSG DS 301) on any interface
///
/// Managing and controlled nodes from one file that describes their network, and a look at any bus.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  onbeat powerlink mn bus.toml --interface eth1
  onbeat powerlink cn bus.toml --node 1 --interface eth1
  onbeat powerlink sniff eth1 --seconds 10 --json

Exit status: 0 success, 1 the bus has faults or is not in OPERATIONAL, 2 error.")]
pub(crate) struct Arguments {
    #[command(subcommand)]
    command: Powerlink,
}

#[derive(Debug, clap::Subcommand)]
enum Powerlink {
    Mn(node::Managing),
    Cn(node::Controlled),
    Sniff(sniff::Sniff),
}

impl Arguments {
    pub(crate) fn execute(self) -> Result {
        match self.command {
            Powerlink::Mn(managing) => managing.execute(),
            Powerlink::Cn(controlled) => controlled.execute(),
            Powerlink::Sniff(sniff) => sniff.execute(),
        }
    }
}
