//! Memory, descriptors and BPF maps of a node stay constant while streams are added and removed, and
//! its file is reloaded.
//!
//! ```text
//!   [ a: xdp ] right --- left [ b: packet ] right --- left [ c: xsk ] right --- left of a
//! ```

use std::fs;

use onbeat_lab::{Topology, World};
use onbeat_node::config::Backend;
use onbeat_wire::random::Random;

use crate::common::{build, program, run};
use crate::runs::Runs;

const STREAMS: &str = "/run/onbeat/lab/streams.toml";
/// Number of streams that are added and removed.
const MOST: u64 = 200;
/// Growth of the allocator that is permitted, in KiB.
const SLACK_KIB: u64 = 1024;

const NODES: [(&str, Backend); 3] =
    [("a", Backend::Xdp), ("b", Backend::Packet), ("c", Backend::Xsk)];

const PORTS: &str = "
[[port]]
name = \"left\"
interface = \"left\"
[[port]]
name = \"right\"
interface = \"right\"
mtu = 1606
";

fn streams(from: u64, number: u64) -> String {
    let group = |n: u64| format!("01:00:5e:00:{:02x}:{:02x}", n >> 8, n & 0xff);
    let stream = |n| {
        format!(
            r#"
[[stream]]
name = "s{n}"
generate = true
member = [{{ port = "left", identify = {{ type = "null", destination = "{}", vlan = 100 }} }}]
egress = [{{ port = "right", tag = "r-tag", vlan = 11 }}]
"#,
            group(n)
        )
    };
    (from..from + number).map(stream).collect()
}

/// Resources of a process.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Usage {
    pub(crate) resident_kib: u64,
    descriptors: u64,
    maps: u64,
    map_kib: u64,
}

pub(crate) fn held(pid: u32) -> Usage {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let number = |text: &str, key: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(key))?;
        line.split_whitespace().next()?.parse::<u64>().ok()
    };
    let descriptors = fs::read_dir(format!("/proc/{pid}/fd")).unwrap().count() as u64;
    let (mut maps, mut map_octets) = (0, 0);
    for file in fs::read_dir(format!("/proc/{pid}/fdinfo")).unwrap().flatten() {
        // A descriptor may have been closed meanwhile.
        let Ok(text) = fs::read_to_string(file.path()) else { continue };
        if number(&text, "map_type:").is_some() {
            maps += 1;
            map_octets += number(&text, "memlock:").unwrap_or_default();
        }
    }
    let resident_kib = number(&status, "VmRSS:").expect("its resident memory");
    Usage { resident_kib, descriptors, maps, map_kib: map_octets / 1024 }
}

type Value = fn(&Usage) -> u64;

/// The values that grew from the third quarter of the samples to the last one: before, allocators grow
/// to the needs of the largest changes.
pub(crate) fn grown(samples: &[Usage]) -> Vec<String> {
    let quarter = samples.len() / 4;
    let values: [(&str, Value, u64); 4] = [
        ("resident KiB", |held| held.resident_kib, SLACK_KIB),
        ("descriptors", |held| held.descriptors, 0),
        ("maps", |held| held.maps, 0),
        ("KiB of maps", |held| held.map_kib, 0),
    ];
    // The minimum: a connection that is not yet closed is no growth.
    let least = |samples: &[Usage], value: Value| samples.iter().map(value).min().unwrap_or(0);
    let compared = values.iter().map(|(name, value, slack)| {
        let third = least(&samples[2 * quarter..3 * quarter], *value);
        (name, third, least(&samples[3 * quarter..], *value), slack)
    });
    compared
        .filter(|(_, third, last, slack)| *last > third + *slack)
        .map(|(name, third, last, _)| format!("{name}: {third} -> {last}"))
        .collect()
}

/// Control: growth of each value is detected.
fn control() {
    let flat = Usage { resident_kib: 10_000, descriptors: 20, maps: 10, map_kib: 3000 };
    let series = |grow: fn(&mut Usage, u64)| {
        let mut samples = vec![flat; 100];
        samples.iter_mut().enumerate().for_each(|(n, held)| grow(held, n as u64));
        grown(&samples).len()
    };
    assert_eq!(series(|_, _| ()), 0);
    assert_eq!(series(|held, n| held.resident_kib += 60 * n), 1, "control");
    assert_eq!(series(|held, n| held.descriptors += n / 10), 1, "control");
    assert_eq!(series(|held, n| held.maps += n / 10), 1, "control");
    assert_eq!(series(|held, n| held.map_kib += n), 1, "control");
}

fn onbeat(arguments: &[&str]) {
    let ran = run(arguments);
    assert_eq!(ran.code, 0, "{ran:?}");
}

/// Adds, changes and removes streams, and reloads the file; the node is then as before.
fn churn(world: &mut World, node: &str, random: &mut Random) {
    for _ in 0..3 {
        let (from, number) = (1 + random.below(MOST), 1 + random.below(MOST));
        fs::write(STREAMS, streams(from, number)).unwrap();
        onbeat(&["stream", "add", STREAMS, "--node", node]);
        if random.chance(0.5) {
            let changed = streams(from, number).replace("vlan = 11", "vlan = 13");
            fs::write(STREAMS, changed).unwrap();
            onbeat(&["stream", "change", STREAMS, "--node", node]);
        }
        let names: Vec<String> = (from..from + number).map(|n| format!("s{n}")).collect();
        let names = names.iter().map(String::as_str);
        onbeat(&["stream", "remove", "--node", node].into_iter().chain(names).collect::<Vec<_>>());
    }
    let number = 1 + random.below(MOST);
    let daemon = world.daemon(node).unwrap();
    daemon.reload(&format!("{PORTS}{}", streams(0, number))).unwrap();
    daemon.reload(&file()).unwrap();
    // An invalid file changes nothing, and allocates nothing.
    let path = format!("/run/onbeat/lab/{node}.toml");
    fs::write(&path, "[[stream]]\nname = 7\n").unwrap();
    assert_eq!(run(&["reload", node]).code, 2);
    fs::write(&path, file()).unwrap();
}

fn file() -> String {
    format!("{PORTS}{}", streams(0, 1))
}

pub(crate) fn soak(runs: &mut Runs) {
    control();
    let mut network = Topology::default();
    for (column, (node, _)) in NODES.iter().enumerate() {
        network.node(node, column as u16, 0, file());
    }
    for ends in [("a", "b"), ("b", "c"), ("c", "a")] {
        let ends = [format!("{}:right", ends.0), format!("{}:left", ends.1)];
        network.link(&ends[0], &ends[0], &ends[1]);
    }
    let mut world = build(&network);
    for (node, backend) in NODES {
        world.set_backend(Some(backend));
        world.start(node, program()).unwrap_or_else(|error| panic!("{error}"));
    }
    let mut samples = NODES.map(|_| Vec::new());
    while let Some(mut random) = runs.next() {
        for ((node, _), samples) in NODES.iter().zip(&mut samples) {
            churn(&mut world, node, &mut random);
            samples.push(held(world.daemon(node).unwrap().pid()));
        }
    }
    for ((node, backend), samples) in NODES.iter().zip(&samples) {
        assert!(samples.len() >= 100, "{} runs are too few: raise SOAK_SECONDS", samples.len());
        // Twenty samples, evenly distributed, show whether growth continues.
        let series: Vec<_> =
            (0..20).map(|n| samples[n * (samples.len() - 1) / 19].resident_kib).collect();
        eprintln!("memory: {backend}: {:?}; resident KiB: {series:?}", samples.last());
        let grown = grown(samples);
        assert!(grown.is_empty(), "node {node}, {backend}: {grown:?}");
    }
}
