//! `onbeat down`

use std::path::Path;

use onbeat_node::run;

use crate::exit::{Answer, Failure, Result};
use crate::output;

/// Take a node away: its programs, its tables, and the interfaces it made
///
/// Whether it runs or not. What it changed on other interfaces is put back. From then on frames of
/// its streams are like all others.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  onbeat down bridge
  onbeat down /etc/onbeat/bridge.toml

Exit code: 0 nothing of it is left, 2 there is no such node or something cannot be removed.")]
pub(crate) struct Arguments {
    /// Name of the node, or its configuration file (which tells where it is pinned, where that is
    /// not the default)
    #[arg(value_name = "NODE|FILE")]
    node: String,
}

impl Arguments {
    pub(crate) fn execute(self) -> Result {
        check(&self.node).map_err(|why| Failure::new(format!("node {:?}: {why}", self.node)))?;
        run::down(&self.node)?;
        output::print(&format!("{} is down\n", self.node))?;
        Ok(Answer::Good)
    }
}

/// What is no file is a name, and goes into the path of what is removed: it must not lead elsewhere.
fn check(node: &str) -> std::result::Result<(), &'static str> {
    if Path::new(node).is_file() {
        Ok(())
    } else if node.contains('/') {
        Err("there is no such file, and the name of a node has no /")
    } else if !node.starts_with(|first: char| first.is_ascii_alphanumeric()) {
        Err("the name of a node begins with a letter or a digit")
    } else {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::check;
    use crate::command::{Command, parse};

    #[test]
    fn takes_a_node() {
        let Ok(Command::Down(down)) = parse("down bridge") else { panic!() };
        assert_eq!(down.node, "bridge");
        assert!(parse("down").is_err(), "all nodes at once are not taken down by mistake");
    }

    #[test]
    fn a_node_is_a_name_or_a_file() {
        for node in ["bridge", "a.b-c_d", "Cargo.toml", "../cli/Cargo.toml", "./Cargo.toml"] {
            assert_eq!(check(node), Ok(()), "{node}");
        }
    }

    #[test]
    fn a_name_leads_nowhere_else() {
        for node in ["..", ".", "/", "/sys", "../a", "a/b", "missing/file.toml", ""] {
            assert!(check(node).is_err(), "{node:?}");
        }
    }
}
