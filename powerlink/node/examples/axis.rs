//! A controlled node with its own process: an axis that moves to its set position.
//!
//! ```text
//!  cargo run -p onbeat-powerlink-node --example axis -- bus.toml 1 eth1
//! ```

use std::error::Error;
use std::path::Path;

use onbeat_link::Backend;
use onbeat_netdev::Namespace;
use onbeat_powerlink::cn::ControlledNode;
use onbeat_powerlink_node::{File, Runner, Station, open};
use onbeat_wire::powerlink::NodeId;

/// Steps of the position per cycle.
const SPEED: u64 = 10;

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [file, node, interface] = &arguments[..] else {
        return Err("usage: axis FILE NODE INTERFACE".into());
    };
    let (file, node) = (File::load(Path::new(file))?, NodeId(node.parse()?));
    if let Some(refusal) = file.untrusted {
        return Err(refusal.into());
    }
    let station = file.network.nodes.iter().find(|station| station.node == node);
    let station = station.ok_or("node not found in the file")?;
    let (Some(position), Some(target)) = (station.inputs.first(), station.outputs.first()) else {
        return Err("the node requires an input and an output".into());
    };
    let (position, target) = (position.object, target.object);

    let port = open(Backend::Packet, &Namespace::current()?, interface)?;
    let controlled = file.network.controlled(node, port.mac_address())?;
    let mut runner = Runner::new(port, controlled)?;
    let process = |axis: &mut ControlledNode| {
        let (at, to) = (axis.objects().number(position), axis.objects().number(target));
        let at = if at < to { (at + SPEED).min(to) } else { at.saturating_sub(SPEED).max(to) };
        let len = axis.objects().get(position).map_or(0, <[u8]>::len);
        // The value has the length of its object.
        let _ = Station::set_object(axis, position, &at.to_le_bytes()[..len]);
    };
    runner.run(process, |_| true)?;
    Ok(())
}
