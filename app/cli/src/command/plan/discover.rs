//! `onbeat plan discover`

use std::path::{Path, PathBuf};

use onbeat_plan::import::Draft;
use onbeat_terminal::exit::{CommandResult, Failure, Result};
use onbeat_terminal::output;

/// Largest file, in octets.
const LONGEST: u64 = 64 << 20;

/// Write a net.toml from topologies, LLDP neighbors and requirements of streams
///
/// The format of each file is found from its content. `lldpcli -f json show neighbors` and `onbeat doctor --json` describe
/// a node. Its name is that of the file (r1.lldp.json), also if its neighbors report another. Topologies are GraphML,
/// NetJSON NetworkGraph, node-link JSON of networkx, or JSON of RFC 8345. Requirements of streams are JSON of IEEE 802.1Qdj. All files describe one network. The
/// result is a draft: complete hosts, speeds, delays and streams, and plan it.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  onbeat plan discover outputs/*.json -o net.toml
  onbeat plan discover topology.graphml streams.json

Exit status: 0 success; 2 error (a file cannot be used, or the output cannot be written).")]
pub(super) struct Discover {
    /// Files of one network
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Write to this new file [default: standard output]
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
}

impl Discover {
    pub(super) fn execute(self) -> Result {
        if let Some(path) = self.output.as_deref().filter(|path| path.exists()) {
            return Err(Failure::new(format!(
                "--output: {} exists; use a new file, and compare both",
                path.display()
            )));
        }
        let files = self.files.iter().map(|path| read(path)).collect::<Result<Vec<_>>>()?;
        let text = Draft::read(&files)?.to_string();
        match &self.output {
            None => output::print(&text)?,
            Some(path) => onbeat_host::output::write(path, &text).map_err(|error| {
                Failure::new(format!("--output: {} cannot be written: {error}", path.display()))
            })?,
        }
        Ok(CommandResult::Success)
    }
}

/// Reads a file; returns its text and name.
fn read(path: &Path) -> Result<(String, String)> {
    let name = path.display().to_string();
    let text = onbeat_host::file::read_text(path, LONGEST)
        .map_err(|error| Failure::new(format!("{name} cannot be read: {error}")))?;
    Ok((text, name))
}
