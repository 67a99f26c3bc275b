//! `onbeat powerlink`

mod description;
mod node;
mod sdo;
mod sniff;

use onbeat_terminal::exit::Result;

/// Run POWERLINK nodes, read and write their objects, write XDDs, or analyze a bus
///
/// Runs managing and controlled nodes (EPSG DS 301) of one network file on any interface, and writes their device
/// descriptions.
/// Reads and writes objects of any node, and analyzes the traffic of any bus.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  onbeat powerlink mn bus.toml --interface eth1
  onbeat powerlink cn bus.toml --node 1 --interface eth1
  onbeat powerlink sniff eth1 --seconds 10 --json
  onbeat powerlink xdd bus.toml --node 1 > node.xdd
  onbeat powerlink sdo read 1 1008 1018/01

Exit status: 0 success, 1 negative result (the bus has faults or is not in OPERATIONAL, or \
a node aborted an access), 2 error.")]
pub(crate) struct Arguments {
    #[command(subcommand)]
    command: Powerlink,
}

#[derive(Debug, clap::Subcommand)]
enum Powerlink {
    Mn(node::ManagingNodeOptions),
    Cn(node::ControlledNodeOptions),
    Sniff(sniff::SniffOptions),
    Xdd(description::Xdd),
    Sdo(sdo::SdoOptions),
}

impl Arguments {
    pub(crate) fn execute(self) -> Result {
        match self.command {
            Powerlink::Mn(managing) => managing.execute(),
            Powerlink::Cn(controlled) => controlled.execute(),
            Powerlink::Sniff(sniff) => sniff.execute(),
            Powerlink::Xdd(xdd) => xdd.execute(),
            Powerlink::Sdo(sdo) => sdo.execute(),
        }
    }
}
