//! The same network for both implementations: a network file of onbeat, and a concise DCF of the demo managing node,
//! written here object by object from EPSG DS 301 and DS 302-4.
//!
//! ```text
//!   managing node                              controlled node
//!   A040/k  output to the k-th node --- PReq -> 6200/01
//!   A4C0/k  input from the k-th node <- PRes --- 6000/01    a node of the reference
//!                                    <- PRes --- 6000/01, 6000/02    a node of onbeat: echo of 6200/01, simulated input
//! ```

use std::fmt::Write as _;

use onbeat_powerlink::mn::concise_dcf;
use onbeat_powerlink::od::{ObjectId, id};

use super::Maker;

/// The nodes of the demo network.
pub(crate) const NODES: [u8; 3] = [1, 32, 110];
pub(crate) const CYCLE_US: u32 = 10_000;
/// A response of a process that has no CPU for a moment is in time: to a poll, and in the asynchronous phase of a reduced
/// cycle. The reference's managing node resets a node after one missing StatusResponse. With the default of both
/// implementations, 500 µs, it does so in every other boot on a virtual machine: for up to 1.7 ms a CPU takes no
/// interrupts, and threads of any priority wait for it.
const PRES_TIMEOUT_NS: u32 = 2_000_000;
/// Ten successive losses reset a node.
const LOSS_THRESHOLD: u32 = 80;
/// Date and time of the configuration (1020/1 and 2): days since 1984-01-01, ms since midnight.
const CONFIGURED: (u32, u32) = (15_303, 43_200_000);
/// PDOs of a node are at most as long as the demo's (1F98/4 and 5).
const PAYLOAD_LIMIT: u16 = 36;

/// A controlled node of a network.
#[derive(Debug, Clone, Copy)]
pub(crate) struct NodeSpec {
    pub(crate) id: u8,
    pub(crate) maker: Maker,
    /// Pattern of a node of onbeat for its input 6000/02.
    pub(crate) input: &'static str,
    /// Pattern of a managing node of onbeat for its output.
    pub(crate) output: &'static str,
}

impl NodeSpec {
    pub(crate) fn new(id: u8, maker: Maker) -> Self {
        NodeSpec { id, maker, input: "constant", output: "counter" }
    }
}

/// The longest time for a response, in a cycle with three nodes and an asynchronous phase.
fn timeout_ns(cycle_us: u32) -> u32 {
    PRES_TIMEOUT_NS.min(cycle_us * 1000 / 5)
}

/// The network file.
pub(crate) fn network_file(nodes: &[NodeSpec], mandatory: bool, cycle_us: u32) -> String {
    let timeout_us = timeout_ns(cycle_us) / 1000;
    let mut text = format!(
        "[network]
cycle-us = {cycle_us}
async-slot-us = {timeout_us}
loss-threshold = {LOSS_THRESHOLD}

[managing]
interface = \"plk0\"
"
    );
    for NodeSpec { id, maker, input, output } in nodes {
        let simulated = match maker {
            Maker::Onbeat => {
                format!(r#", {{ name = "speed", type = "u8", simulate = "{input}" }}"#)
            }
            Maker::Reference => String::new(),
        };
        let node = format!(
            r#"
[[node]]
id = {id}
interface = "plk0"
mandatory = {mandatory}
pres-timeout-us = {timeout_us}
input = [{{ name = "echo", type = "u8", simulate = "copy" }}{simulated}]
output = [{{ name = "lights", type = "u8", simulate = "{output}" }}]
"#
        );
        text.write_str(&node).expect("text");
    }
    text
}

/// Objects and values, in the order of their writing.
#[derive(Default)]
struct Objects(Vec<(ObjectId, Vec<u8>)>);

impl Objects {
    fn octets(&mut self, index: u16, sub: u8, octets: &[u8]) {
        self.0.push((id(index, sub), octets.to_vec()));
    }

    fn u8(&mut self, index: u16, sub: u8, value: u8) {
        self.octets(index, sub, &[value]);
    }

    fn u16(&mut self, index: u16, sub: u8, value: u16) {
        self.octets(index, sub, &value.to_le_bytes());
    }

    fn u32(&mut self, index: u16, sub: u8, value: u32) {
        self.octets(index, sub, &value.to_le_bytes());
    }

    /// A mapping: each object of an octet, with its offset in the PDO. A mapping is changed while its count is 0.
    fn mapping(&mut self, index: u16, entries: &[(ObjectId, u16)]) {
        self.u8(index, 0, 0);
        for (sub, (object, offset)) in (1..).zip(entries) {
            let value = u64::from(object.index)
                | u64::from(object.sub) << 16
                | u64::from(offset * 8) << 32
                | 8 << 48;
            self.octets(index, sub, &value.to_le_bytes());
        }
        self.u8(index, 0, entries.len() as u8);
    }

    fn concise(&self) -> Vec<u8> {
        concise_dcf(self.0.iter().map(|(object, value)| (*object, value.as_slice())))
    }
}

/// The configuration of a controlled node, written by SDO.
fn controlled(maker: Maker, cycle_us: u32) -> Vec<u8> {
    let mut objects = Objects::default();
    objects.u32(0x1006, 0, cycle_us);
    objects.u32(0x1020, 1, CONFIGURED.0);
    objects.u32(0x1020, 2, CONFIGURED.1);
    objects.u32(0x1c0b, 3, 2 * LOSS_THRESHOLD);
    objects.u32(0x1c0d, 3, 2 * LOSS_THRESHOLD);
    // Tolerance of a SoC: a cycle.
    objects.u32(0x1c14, 0, cycle_us * 1000);
    objects.u16(0x1f98, 4, PAYLOAD_LIMIT);
    objects.u16(0x1f98, 5, PAYLOAD_LIMIT);
    objects.mapping(0x1600, &[(id(0x6200, 1), 0)]);
    let inputs = [(id(0x6000, 1), 0), (id(0x6000, 2), 1)];
    objects.mapping(0x1a00, if maker == Maker::Onbeat { &inputs } else { &inputs[..1] });
    objects.concise()
}

/// The concise DCF of the demo managing node.
pub(crate) fn concise(nodes: &[NodeSpec], mandatory: bool, cycle_us: u32) -> Vec<u8> {
    let timeout_ns = timeout_ns(cycle_us);
    let mut objects = Objects::default();
    objects.u32(0x1006, 0, cycle_us);
    objects.u32(0x1c02, 3, LOSS_THRESHOLD);
    objects.u32(0x1c14, 0, cycle_us * 1000);
    objects.u32(0x1f8a, 2, timeout_ns);
    for (channel, node) in (0..).zip(nodes) {
        let NodeSpec { id: number, maker, .. } = *node;
        objects.u32(0x1c09, number, LOSS_THRESHOLD);
        objects.u32(0x1f26, number, CONFIGURED.0);
        objects.u32(0x1f27, number, CONFIGURED.1);
        objects.u32(0x1f92, number, timeout_ns);
        // The demo has a variable for each of its nodes. The input of a node of onbeat follows the echo.
        let place = NODES.iter().position(|known| *known == number).expect("a node of the demo");
        let variable = 1 + place as u8;
        objects.u8(0x1400 + channel, 1, number);
        objects.u8(0x1800 + channel, 1, number);
        let offset = u16::from(maker == Maker::Onbeat);
        objects.mapping(0x1600 + channel, &[(id(0xa4c0, variable), offset)]);
        objects.mapping(0x1a00 + channel, &[(id(0xa040, variable), 0)]);
        objects.octets(0x1f22, number, &controlled(maker, cycle_us));
    }
    for node in nodes {
        // Valid, exists, is a controlled node, is started by NMTStartNode; mandatory.
        let assignment = 0x8000_0007 | if mandatory { 8 } else { 0 };
        objects.u32(0x1f81, node.id, assignment);
    }
    objects.concise()
}
