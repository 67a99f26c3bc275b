//! Data planes in the kernel that run without their daemons.

use std::path::Path;

use onbeat_frer_xdp::PinDirectory;

use super::Server;
use crate::config::{PINS, default_pin, is_name};

/// The nodes with control sockets in this directory whose data planes run without their daemons, in order. Empty
/// if this process cannot read pins.
pub(super) fn nodes(directory: &Path) -> Vec<String> {
    let pins = PinDirectory::open(Path::new(PINS)).ok().flatten();
    let names = pins.and_then(|pins| pins.entries().ok()).unwrap_or_default();
    let orphan = |name: String| node(&directory.join(format!("{name}.sock")));
    let mut nodes: Vec<String> = names.into_iter().filter_map(orphan).collect();
    nodes.sort();
    nodes
}

/// The node with this control socket, if its data plane runs without its daemon. A node that sets another pin
/// directory is not found.
pub(super) fn node(control: &Path) -> Option<String> {
    let name = control.file_name()?.to_str()?.strip_suffix(".sock").filter(|name| is_name(name))?;
    let pins = PinDirectory::open(&default_pin(name)).ok()??;
    let owner = pins.attached_by().ok()??;
    let is_orphan = owner == control && matches!(Server::holder(control), Ok(None));
    is_orphan.then(|| name.to_owned())
}
