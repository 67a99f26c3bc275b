//! Measures planning: grids of relays with random streams between them.
//!
//! `cargo run --release -p onbeat-plan --example speed -- WIDTH HEIGHT STREAMS [MBIT_PER_S [LINK]]`
//!
//! LINK is the index of the link that is lost, otherwise it is the one that the most streams use. A ladder has height 2.

use std::time::Instant;

use onbeat_plan::ladder::RecoverAt;
use onbeat_plan::manifest::Manifest;
use onbeat_plan::network::{End, Host, Link, Node, Port, Stream};
use onbeat_plan::plan::{Plan, PreviousRoutes};
use onbeat_plan::route::Element;
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
    let (start, before) = (Instant::now(), cpu_time());
    let plan = Plan::new(&network, &PreviousRoutes::default());
    let (time, cpu) = (start.elapsed().as_secs_f64(), cpu_time() - before);
    println!("plan: {time:.3} s, CPU: {cpu:.3} s, memory: {}", memory());
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

    let start = Instant::now();
    let files = node_file::all(&network, &plan);
    let octets: usize = files.iter().map(|file| file.text.len()).sum();
    println!("node files: {:.3} s, {octets} octets", start.elapsed().as_secs_f64());
    let start = Instant::now();
    let text = serde_json::to_string(&Manifest::new(&network, &plan, &files)).expect("JSON");
    drop(files);
    println!("manifest: {:.3} s, {} octets", start.elapsed().as_secs_f64(), text.len());

    let link = further.get(1).copied().unwrap_or_else(|| busiest(&network, &plan));
    let mut without = network.clone();
    without.links.remove(link);
    let start = Instant::now();
    let manifest = Manifest::parse(&text, "manifest.json").expect("a manifest");
    let previous = manifest.previous(&without);
    println!("manifest read: {:.3} s", start.elapsed().as_secs_f64());
    let (mut times, mut cpu_times) = (Vec::new(), Vec::new());
    let mut again = None;
    for _ in 0..ROUNDS {
        let (start, before) = (Instant::now(), cpu_time());
        again = Some(Plan::new(&without, &previous));
        times.push(start.elapsed().as_secs_f64());
        cpu_times.push(cpu_time() - before);
    }
    for times in [&mut times, &mut cpu_times] {
        times.sort_by(f64::total_cmp);
    }
    let again = again.expect("a plan");
    check(&without, &previous, &again);
    let routed = again.routed().count();
    println!(
        "plan again without link {link}: {:.4} s ({:.4} to {:.4} s), CPU: {:.4} s ({:.4} to {:.4} s), \
         {} streams moved, {} refused",
        times[ROUNDS / 2],
        times[0],
        times[ROUNDS - 1],
        cpu_times[ROUNDS / 2],
        cpu_times[0],
        cpu_times[ROUNDS - 1],
        routed - again.kept,
        streams - routed
    );
    println!("memory: {}", memory());
}

/// The link that the most streams use.
fn busiest(network: &Network, plan: &Plan) -> usize {
    let mut users = vec![0; network.links.len()];
    for arc in plan.routed().flat_map(|(_, route)| route.arcs()) {
        users[arc.link()] += 1;
    }
    (0..users.len()).max_by_key(|link| users[*link]).expect("a link")
}

/// Panics unless each route that still holds is kept.
fn check(network: &Network, previous: &PreviousRoutes, again: &Plan) {
    let old = |stream: &Stream| previous.get(&stream.name).and_then(|old| old.route.as_ref());
    let pairs = network.streams.iter().map(old).zip(&again.routes);
    let kept = pairs.filter(|(old, new)| old.is_some() && *old == new.as_ref()).count();
    let held = previous.values().filter(|old| old.route.is_some()).count();
    assert_eq!([kept, again.kept], [held, held], "routes that hold are kept");
}

/// The CPU time of the process, in seconds: unlike the time, it does not contain waiting for a busy CPU.
fn cpu_time() -> f64 {
    let status = std::fs::read_to_string("/proc/self/schedstat").unwrap_or_default();
    let ns = status.split(' ').next().and_then(|ns| ns.parse::<f64>().ok());
    ns.map_or(f64::NAN, |ns| ns / 1e9)
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
