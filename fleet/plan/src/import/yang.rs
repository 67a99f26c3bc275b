//! JSON of the YANG modules ietf-network and ietf-network-topology (RFC 8345), with the attributes of layer 2 (RFC 8944).

use onbeat_config::text::mac_address;
use serde_json::Value;

use super::{Draft, Fault, LinkValues, fault, identifier, list, text};

/// Reads the only network with links. Two links in opposite directions between the same ports are one.
pub(super) fn read(draft: &mut Draft, networks: &Value) -> Result<(), Fault> {
    let networks = list(networks, "network");
    let with_links: Vec<&Value> =
        networks.iter().filter(|network| !list(network, LINK).is_empty()).collect();
    let network = match with_links[..] {
        [network] => network,
        [] => return Err(fault("networks", "no network has a link", "use a topology of layer 2")),
        _ => {
            let names: Vec<&str> =
                with_links.iter().filter_map(|network| text(network, "network-id")).collect();
            return Err(fault(
                "networks",
                format!("several networks have links: {}", names.join(", ")),
                "keep that of layer 2",
            ));
        }
    };
    for (position, node) in list(network, "node").iter().enumerate() {
        let id = text(node, "node-id").ok_or_else(|| {
            fault(format!("node[{position}]"), "the node has no node-id", "add node-id")
        })?;
        let index = draft.node(id);
        let attributes = node.get("ietf-l2-topology:l2-node-attributes").unwrap_or(&Value::Null);
        // Two octets of priority, and the address of the bridge.
        let bridge_ids = list(attributes, "bridge-id").iter().filter_map(Value::as_str);
        let addresses = bridge_ids.filter_map(|id| mac_address(id.get(6..)?));
        draft.nodes[index].addresses.extend(addresses);
        for point in list(node, "ietf-network-topology:termination-point") {
            let Some(id) = text(point, "tp-id") else { continue };
            let of_point = point.get("ietf-l2-topology:l2-termination-point-attributes");
            let attribute = |key| of_point.and_then(|attributes| text(attributes, key));
            draft.nodes[index].addresses.extend(attribute("mac-address").and_then(mac_address));
            if let Some(name) = attribute("interface-name") {
                draft.name_port(index, id, name);
            }
        }
    }
    for (position, link) in list(network, LINK).iter().enumerate() {
        let place = format!("link[{position}]");
        let attributes = link.get("ietf-l2-topology:l2-link-attributes");
        let attribute = |name: &str| identifier(attributes?.get(name)?);
        let values = LinkValues::read(&[("rate", 1e-3)], &[("delay", 1e3)], attribute);
        let mut ends = Vec::new();
        for (side, node, port) in
            [("source", "source-node", "source-tp"), ("destination", "dest-node", "dest-tp")]
        {
            let end = link.get(side).unwrap_or(&Value::Null);
            let name = text(end, node).ok_or_else(|| {
                fault(format!("{place}.{side}"), format!("there is no {node}"), "name a node")
            })?;
            let index = draft.index.get(name).copied().ok_or_else(|| {
                fault(
                    format!("{place}.{side}.{node}"),
                    format!("no node has the node-id {name:?}"),
                    "add the node, or correct the reference",
                )
            })?;
            let port = text(end, port).ok_or_else(|| {
                fault(
                    format!("{place}.{side}"),
                    format!("there is no {port}"),
                    "name a termination point",
                )
            })?;
            ends.push(draft.port(index, port));
        }
        let [a, b] = [ends[0].clone(), ends[1].clone()];
        if a.0 == b.0 {
            draft.remarks.push(format!("{place} leads from a node to itself, and is left out"));
            continue;
        }
        draft.link(a, b, true, values);
    }
    Ok(())
}

const LINK: &str = "ietf-network-topology:link";
