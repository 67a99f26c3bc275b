//! Two nodes with two paths between them, and a stream in each direction.
//!
//! ```text
//!                      path1
//!   talker --- a ================== b --- listener
//!                      path2
//!   there: numbered and replicated at a, recovered at b
//!   back:  numbered and replicated at b, recovered at a
//! ```

use onbeat_node::control::NodeStatus;
use onbeat_report::Check;
use onbeat_report::topology::Color;
use onbeat_wire::MacAddress;

use super::flow::{Flow, FlowResult, FlowSpec};
use super::options::FrameOptions;
use super::stage::Stage;
use crate::fault::Impairment;
use crate::{Result, Topology, World};

pub(super) const THERE: MacAddress = MacAddress([0x01, 0x00, 0x5e, 0x00, 0x00, 0x01]);
pub(super) const BACK: MacAddress = MacAddress([0x01, 0x00, 0x5e, 0x00, 0x00, 0x02]);
pub(super) const VLAN: u16 = 10;

/// Parameters that differ between scenarios.
#[derive(Debug, Clone)]
pub(super) struct TwoPaths {
    /// The `recover` table of both nodes.
    pub(super) recover: String,
    /// Impairment of the paths; `None`: plain links.
    pub(super) impairments: [Option<Impairment>; 2],
    /// Frames without a stream use path1, by a Linux bridge in each node.
    pub(super) bridged: bool,
    /// The `node` tables of a and b; empty: defaults.
    pub(super) node: [String; 2],
}

impl TwoPaths {
    /// Vector recovery with a history of a second at 1,000 frames/s: the maximum delay between paths.
    pub(super) fn vector(reset_timeout_ms: u64) -> Self {
        let recover = format!(
            "{{ algorithm = \"vector\", history-length = 1024, reset-timeout-ms = {reset_timeout_ms} }}"
        );
        Self { recover, impairments: [None, None], bridged: false, node: Default::default() }
    }

    pub(super) fn topology(&self) -> Topology {
        let both = &["there", "back"];
        let bridge: &[&str] = if self.bridged { &["host", "path1"] } else { &[] };
        let mut network = Topology::default();
        network.stream("there", Color::Blue).stream("back", Color::Orange);
        network.host("talker", 0, 0);
        let [a, b] = &self.node;
        network.node("a", 1, 0, self.config(a, "there", "back")).bridge(bridge);
        network.node("b", 2, 0, self.config(b, "back", "there")).bridge(bridge);
        network.host("listener", 3, 0);
        network.link("access", "talker:eth0", "a:host").carries(both);
        for (path, impairment) in ["path1", "path2"].into_iter().zip(self.impairments) {
            network.link(path, &format!("a:{path}"), &format!("b:{path}")).carries(both);
            if let Some(impairment) = impairment {
                network.impaired(impairment);
            }
        }
        network.link("exit", "b:host", "listener:eth0").carries(both);
        network
    }

    /// The configuration of the node that replicates stream `out` and recovers stream `home`.
    fn config(&self, node: &str, out: &str, home: &str) -> String {
        let address = |stream: &str| if stream == "there" { THERE } else { BACK };
        let (away, arriving, recover) = (address(out), address(home), &self.recover);
        // Each path has a VLAN of its own, so that the translation is tested as well. The R-TAG adds 6
        // octets to a host's frames.
        format!(
            r#"
{node}
[[port]]
name = "host"
interface = "host"
[[port]]
name = "path1"
interface = "path1"
mtu = 1506
[[port]]
name = "path2"
interface = "path2"
mtu = 1506

[[stream]]
name = "{out}"
generate = true
member = [{{ port = "host", identify = {{ type = "null", destination = "{away}", vlan = {VLAN} }} }}]
egress = [
  {{ port = "path1", tag = "r-tag", vlan = 11 }},
  {{ port = "path2", tag = "r-tag", vlan = 12 }},
]

[[stream]]
name = "{home}"
member = [
  {{ port = "path1", identify = {{ type = "null", destination = "{arriving}", vlan = 11 }} }},
  {{ port = "path2", identify = {{ type = "null", destination = "{arriving}", vlan = 12 }} }},
]
recover = {recover}
egress = [{{ port = "host", tag = "none", vlan = {VLAN} }}]
"#
        )
    }
}

/// Starts the stream in each direction.
pub(super) fn start(world: &World, frames: &FrameOptions) -> Result<Vec<Flow>> {
    let FrameOptions { rate, size } = *frames;
    let specs = [
        FlowSpec {
            name: "there",
            from: "talker",
            to: "listener",
            destination: THERE,
            vlan: VLAN,
            rate,
            size,
        },
        FlowSpec {
            name: "back",
            from: "listener",
            to: "talker",
            destination: BACK,
            vlan: VLAN,
            rate,
            size,
        },
    ];
    specs.iter().map(|spec| Flow::start(world, spec)).collect()
}

/// Checks that the nodes' counters match the frames sent and delivered. Requires that no other frames
/// of the streams have passed since the nodes started.
pub(super) fn check_counters(
    stage: &mut Stage<'_>,
    statuses: &[NodeStatus],
    flowed: &[FlowResult],
) {
    for flow in flowed {
        let find = |node: &str| {
            let status = statuses.iter().find(|status| status.node == node)?;
            status.streams.iter().find(|stream| stream.name == flow.name)
        };
        let ends = if flow.name == "there" { ("a", "b") } else { ("b", "a") };
        let (Some(talker), Some(listener)) = (find(ends.0), find(ends.1)) else {
            stage.note(format!("stream {} is missing in the nodes' counters", flow.name));
            continue;
        };
        let input = |stream: &onbeat_node::control::StreamStatus| {
            stream.members.iter().map(|member| member.input_packets).sum::<u64>()
        };
        let recovery = listener.recovery.clone().unwrap_or_default();
        let output: u64 = listener.egress.iter().map(|egress| egress.output_packets).sum();
        let name = flow.name;
        let (sent, delivered) = (flow.delivery.sent(), flow.delivery.delivered());
        stage.check(Check::eq(
            format!("{name}: counted in at node {}, of sent", ends.0),
            input(talker),
            sent,
            "frames",
        ));
        stage.check(Check::eq(
            format!("{name}: passed and discarded at node {}, of counted in", ends.1),
            recovery.counters.passed + recovery.counters.discarded,
            input(listener),
            "frames",
        ));
        stage.check(Check::eq(
            format!("{name}: passed at node {}, of delivered", ends.1),
            recovery.counters.passed,
            delivered + flow.delivery.record.duplicated(),
            "frames",
        ));
        stage.check(Check::eq(
            format!("{name}: counted out at node {}, of passed", ends.1),
            output,
            recovery.counters.passed,
            "frames",
        ));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use onbeat_node::config::Config;

    #[test]
    fn the_network_and_its_configurations_are_valid() {
        for recover in [TwoPaths::vector(500).recover, "{ algorithm = \"match\" }".into()] {
            for bridged in [false, true] {
                let network = TwoPaths {
                    recover: recover.clone(),
                    impairments: [None, Some(Impairment::default())],
                    bridged,
                    node: ["[node]\nmax-streams = 16".into(), String::new()],
                };
                let topology = network.topology().checked().unwrap();
                for node in &topology.nodes {
                    let text = node.config_text.as_deref().unwrap();
                    let config = Config::parse(text, "x.toml").unwrap();
                    assert_eq!((config.ports.len(), config.streams.len()), (3, 2));
                }
            }
        }
    }
}
