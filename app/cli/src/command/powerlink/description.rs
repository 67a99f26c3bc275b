//! `onbeat powerlink xdd`

use std::path::PathBuf;
use std::time::SystemTime;

use onbeat_powerlink_node::File;
use onbeat_report::rfc3339;
use onbeat_terminal::exit::{CommandResult, Result};
use onbeat_terminal::output;
use onbeat_wire::powerlink::NodeId;

/// Write the device description (XDD) of a node
///
/// Prints the XML of EPSG DS 311 for a configuration tool: identity, objects and abilities of a node that
/// `onbeat powerlink cn` or `mn` runs.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  onbeat powerlink xdd bus.toml --node 1 > node.xdd
  onbeat powerlink xdd bus.toml > managing.xdd

Exit status: 0 success, 2 error.")]
pub(super) struct Xdd {
    /// Network file (TOML)
    file: PathBuf,
    /// Id of the controlled node in the file [default: the managing node]
    #[arg(long, value_name = "ID", value_parser = clap::value_parser!(u8).range(1..=239))]
    node: Option<u8>,
}

impl Xdd {
    pub(super) fn execute(self) -> Result {
        let file = File::load(&self.file)?;
        let name = self.node.map_or("managing.xdd".to_owned(), |node| format!("node-{node}.xdd"));
        let now = rfc3339(SystemTime::now());
        let date = now.get(..10).unwrap_or(&now);
        output::print(&file.describe(self.node.map(NodeId), &name, date)?)?;
        Ok(CommandResult::Success)
    }
}
