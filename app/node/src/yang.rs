//! A node as JSON of IEEE YANG modules.

use std::collections::BTreeMap;

use onbeat_frer_xdp::compile::LONGEST_MSDU_MASK;
use onbeat_yang::Interface;
pub use onbeat_yang::{Document, Faults};
use serde_json::Value;

use crate::config::{Backend, Config, PortConfig};

/// Longest mask of the MSDU that the standard permits (9.1.6, 802.1CBdb).
const LONGEST_MASK: u16 = 1984;

/// The interfaces of ports.
fn interfaces(ports: &[PortConfig]) -> Vec<Interface> {
    let interface = |port: &PortConfig| Interface {
        name: port.attached_interface(),
        longest_mask: match port.backend {
            Backend::Xdp => LONGEST_MSDU_MASK,
            Backend::Packet | Backend::Xsk => LONGEST_MASK,
        },
    };
    ports.iter().map(interface).collect()
}

/// Returns the configuration of a file, and each part that YANG cannot express.
pub fn configuration(config: &Config) -> (Value, Vec<String>) {
    let (document, mut lost) =
        onbeat_yang::configuration(&interfaces(&config.ports), &config.streams);
    if config.prp.is_some() {
        lost.push("protocol = \"prp\"".to_owned());
    }
    lost.extend(config.wildcards.iter().map(|wildcard| format!("wildcard {:?}", wildcard.name)));
    let draining = config.draining_streams().map(|name| format!("stream {name:?}: draining"));
    lost.extend(draining);
    (document, lost)
}

/// Reads the streams of a document, which a node with its interfaces could run.
///
/// # Errors
/// Each leaf that is wrong, or that no node can set.
pub fn check(document: &Value) -> Result<Document, Faults> {
    onbeat_yang::streams(document, None, &BTreeMap::new())
}
