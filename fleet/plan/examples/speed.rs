//! Measures planning: grids of relays with random streams between them.
//!
//! `cargo run --release -p onbeat-plan --example speed -- WIDTH HEIGHT STREAMS [MBIT_PER_S [LINK]]`
//!
//! LINK is the index of the link that is lost, otherwise it is the one that the most streams use. A ladder has height 2.

use std::cmp::Ordering;
use std::time::Instant;

use onbeat_plan::ladder::RecoverAt;
use onbeat_plan::network::{Arc, End, Host, Link, Node, Port, Stream};
use onbeat_plan::plan::{Plan, PreviousRoutes, PreviousStream};
use onbeat_plan::route::{Element, Route};
use onbeat_plan::{Network, failure, node_file};
use onbeat_wire::MacAddress;

/// Plans after the loss of the link.
const ROUNDS: usize = 5;

fn main() {
    let numbers: Vec<usize> =
        std::env::args().skip(1).map(|word| word.parse().expect("a number")).collect();
    let [width, height, streams, ref further @ ..] = numbers[..] else {
        panic!("WIDTH HEIGHT STREAMS [MBIT_PER_S [LINK]]")
    };
    let speed_mbps = further.first().map_or(1000, |speed| *speed as u32);
    let network = network(width, height, streams, speed_mbps);
    let start = Instant::now();
    let plan = Plan::new(&network, &PreviousRoutes::default());
    println!("plan: {:.3} s, memory: {}", start.elapsed().as_secs_f64(), memory());
    let refused = network.streams.len() - plan.routed().count();
    println!(
        "streams: {}, refused: {refused}, complete: {}",
        network.streams.len(),
        plan.is_complete()
    );
    let most = network
        .arcs()
        .map(|arc| onbeat_plan::report::load_percent(&network, &plan, arc))
        .fold(0.0, f64::max);
    println!("highest load: {most:.1} %");

    let start = Instant::now();
    let links = (0..network.links.len() as u32).map(Element::Link);
    let elements = links.chain((0..network.nodes.len() as u32).map(Element::Node));
    let effects = failure::effects(&network, &plan, elements);
    let cut: usize = effects.iter().map(|effect| effect.cut.len()).sum();
    println!(
        "what-if of {} elements: {:.3} s, {cut} cut",
        effects.len(),
        start.elapsed().as_secs_f64()
    );

    let without = Lost::new(&network, &plan, further.get(1).copied());
    let previous = without.previous(&network, &plan);
    let mut times = Vec::new();
    for _ in 0..ROUNDS {
        let start = Instant::now();
        let again = Plan::new(&without.network, &previous);
        times.push(start.elapsed().as_secs_f64());
        let moved = again.routed().count() - again.kept;
        let refused = again.streams.len() - again.routed().count();
        without.check(&previous, &again);
        if times.len() == ROUNDS {
            times.sort_by(f64::total_cmp);
            println!(
                "plan again without link {}: {:.4} s ({:.4} to {:.4} s), {moved} streams moved, {refused} refused",
                without.link,
                times[ROUNDS / 2],
                times[0],
                times[ROUNDS - 1]
            );
        }
    }

    let start = Instant::now();
    let octets: usize = node_file::all(&network, &plan).iter().map(|file| file.text.len()).sum();
    println!("node files: {:.3} s, {octets} octets", start.elapsed().as_secs_f64());
    println!("memory: {}", memory());
}

/// The network without a link.
struct Lost {
    network: Network,
    link: usize,
}

impl Lost {
    fn new(network: &Network, plan: &Plan, link: Option<usize>) -> Self {
        let mut users = vec![0; network.links.len()];
        for arc in plan.routed().flat_map(|(_, route)| route.arcs()) {
            users[arc.link()] += 1;
        }
        let most = (0..users.len()).max_by_key(|link| users[*link]);
        let link = link.or(most).expect("a link");
        let mut network = network.clone();
        network.links.remove(link);
        Self { network, link }
    }

    /// The routes that do not use the link, as `onbeat plan --keep` reads them.
    fn previous(&self, network: &Network, plan: &Plan) -> PreviousRoutes {
        let arc = |arc: &Arc| match arc.link().cmp(&self.link) {
            Ordering::Less => Some(*arc),
            Ordering::Equal => None,
            Ordering::Greater => Some(Arc(arc.0 - 2)),
        };
        let moved = |route: &Route| {
            let mut route = route.clone();
            for path in route.listeners.iter_mut().flat_map(|listener| &mut listener.paths) {
                *path = path.iter().map(arc).collect::<Option<_>>()?;
            }
            Some(route)
        };
        let old = |(index, route): (usize, &Route)| {
            let stream = &network.streams[index];
            let delays = plan.delays[index].clone();
            let address = stream.address;
            let old = PreviousStream { route: moved(route), delays, address, ..Default::default() };
            (stream.name.clone(), old)
        };
        plan.routed().map(old).collect()
    }

    /// Each route without the link is kept.
    fn check(&self, previous: &PreviousRoutes, again: &Plan) {
        let kept = self.network.streams.iter().zip(&again.routes).filter(|(stream, route)| {
            let old = previous.get(&stream.name).and_then(|old| old.route.as_ref());
            old.is_some() && old == route.as_ref()
        });
        let held = previous.values().filter(|old| old.route.is_some()).count();
        assert_eq!([kept.count(), again.kept], [held, held], "routes that hold are kept");
    }
}

/// The highest use of memory up to now.
fn memory() -> String {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    line.map_or("unknown", str::trim).to_owned()
}

fn network(width: usize, height: usize, streams: usize, speed_mbps: u32) -> Network {
    let node = |index: usize| Node {
        name: format!("n{index}"),
        host: Some(Host { interface: "tsn0".into(), create: true }),
        relay: true,
        bridge: None,
        forwarding_ns: 50_000,
        ports: Vec::new(),
    };
    let mut network = Network {
        nodes: (0..width * height).map(node).collect(),
        load_percent: 75,
        ..Network::default()
    };
    for index in 0..width * height {
        let right = (index % width + 1 < width).then_some(index + 1);
        let below = (index + width < width * height).then_some(index + width);
        for other in right.into_iter().chain(below) {
            let ends = [index, other].map(|node| {
                let ports = &mut network.nodes[node].ports;
                let name = format!("p{}", ports.len());
                ports.push(Port { interface: name.clone(), name, speed_mbps });
                End { node: node as u32, port: ports.len() as u32 - 1 }
            });
            let name = format!("l{}", network.links.len());
            network.links.push(Link { name, ends, speed_mbps, delay_ns: 500, groups: vec![] });
        }
    }
    let mut state = 1u64;
    let mut below = |limit: usize| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (state >> 33) as usize % limit
    };
    while network.streams.len() < streams {
        let (talker, listener) = (below(width * height), below(width * height));
        if talker == listener {
            continue;
        }
        let number = network.streams.len();
        let [a, b, c, d] = (number as u32).to_be_bytes();
        network.streams.push(Stream {
            name: format!("s{number}"),
            talker: talker as u32,
            listeners: vec![listener as u32],
            address: MacAddress([1, 0, a | 0x5e, b, c, d]),
            vlan: None,
            interval_ns: [1_000_000, 2_000_000, 4_000_000, 10_000_000][below(4)],
            size: 64 + below(192) as u32,
            paths: 2,
            max_delay_ns: None,
            recover_at: RecoverAt::Listeners,
            adds_vlan_tag: false,
        });
    }
    network
}
