//! Configuration files of nodes, from the specification of their functions.

use std::fmt::Write;

use onbeat_wire::MacAddress;

use super::plan::{Plan, PortPeer, Stream, StreamKind};
use super::spec::{FrameHeaders, Function, Recovery};

/// The file of a node with these functions, one per stream.
pub(super) fn text(plan: &Plan, node: usize, functions: &[Option<Function>]) -> String {
    let mut text = String::new();
    for port in &plan.nodes[node].ports {
        let _ = writeln!(text, "[[port]]\nname = {0:?}\ninterface = {0:?}", port.name);
    }
    for (stream, function) in plan.streams.iter().zip(functions) {
        if let Some(function) = function {
            write_stream(&mut text, plan, node, stream, function);
        }
    }
    text
}

fn write_stream(text: &mut String, plan: &Plan, node: usize, stream: &Stream, function: &Function) {
    let ports = &plan.nodes[node].ports;
    // Writing to a String cannot fail.
    let _ = writeln!(text, "\n[[stream]]\nname = {:?}\nmember = [", stream.name);
    let last = node == plan.edge(stream.east);
    for member in &function.members {
        let port = &ports[*member];
        let headers = match port.at {
            PortPeer::Host => stream.headers,
            PortPeer::Link(link) => stream.check_headers[&link],
        };
        let identify = identification(stream, headers, last);
        let _ = write!(text, "  {{ port = {:?}, identify = {identify}", port.name);
        if let Some(timeout_ms) = function.individual_ms {
            let _ = write!(
                text,
                ", individual = {{ algorithm = \"match\", reset-timeout-ms = {timeout_ms} }}"
            );
        }
        let _ = writeln!(text, " }},");
    }
    let _ = writeln!(text, "]");
    if function.generate {
        let _ = writeln!(text, "generate = true");
    }
    if let Some(recover) = &function.recover {
        let _ = writeln!(text, "recover = {}", recovery(recover));
    }
    let _ = writeln!(text, "egress = [");
    for egress in &function.egress {
        let port = &ports[egress.port];
        let tag = match (egress.headers.numbered, function.generate) {
            (true, true) => "r-tag",
            (true, false) => "keep",
            (false, _) => "none",
        };
        let _ = write!(text, "  {{ port = {:?}, tag = {tag:?}", port.name);
        // Active identification has already rewritten the frame on ingress.
        let active = stream.kind == StreamKind::Active;
        if let Some(vlan) = egress.headers.vlan.filter(|_| !(active && last)) {
            let _ = write!(text, ", vlan = {vlan}");
        }
        if active && matches!(port.at, PortPeer::Link(_)) {
            let _ = write!(text, ", destination = \"{}\"", egress.headers.destination);
        }
        let _ = writeln!(text, " }},");
    }
    let _ = writeln!(text, "]");
}

fn identification(stream: &Stream, headers: FrameHeaders, last: bool) -> String {
    let vlan = headers.vlan.map_or(String::new(), |vlan| format!(", vlan = {vlan}"));
    let destination = headers.destination;
    match stream.kind {
        StreamKind::Active if last => {
            let up = stream.headers;
            format!(
                "{{ type = \"active\", down = {{ destination = \"{destination}\"{vlan} }}, \
                 up = {{ destination = \"{}\", vlan = {} }} }}",
                up.destination,
                up.vlan.unwrap_or_default(),
            )
        }
        StreamKind::Null | StreamKind::Active => {
            format!("{{ type = \"null\", destination = \"{destination}\"{vlan} }}")
        }
        StreamKind::Source => {
            format!("{{ type = \"source\", source = \"{}\"{vlan} }}", stream.source)
        }
        StreamKind::Ip => format!(
            "{{ type = \"ip\", destination = \"{destination}\"{vlan}, ip-destination = \"{}\", \
             protocol = \"udp\", destination-port = {UDP_PORT} }}",
            stream.group
        ),
        StreamKind::Mask => format!(
            "{{ type = \"mask\", destination-mask = \"{}\", destination-match = \"{destination}\" }}",
            MacAddress([0xff; 6])
        ),
    }
}

/// Destination port of the frames of streams identified by IP.
pub(super) const UDP_PORT: u16 = 5000;

fn recovery(recover: &Recovery) -> String {
    let algorithm = match recover.history {
        Some(length) => format!("algorithm = \"vector\", history-length = {length}"),
        None => "algorithm = \"match\"".into(),
    };
    format!(
        "{{ {algorithm}, reset-timeout-ms = {}, take-no-sequence = {} }}",
        recover.timeout_ms, recover.take_no_sequence
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use onbeat_node::config::Config;

    #[test]
    fn every_node_of_every_network_has_a_configuration() {
        for seed in 0..200 {
            let plan = Plan::draw(seed);
            for node in 0..plan.nodes.len() {
                let functions: Vec<_> =
                    plan.streams.iter().map(|stream| stream.functions[node].clone()).collect();
                let text = text(&plan, node, &functions);
                let config = Config::parse(&text, "x.toml");
                let config = config.unwrap_or_else(|error| panic!("seed {seed}: {error}\n{text}"));
                assert_eq!(config.streams.len(), functions.iter().flatten().count());
            }
        }
    }
}
