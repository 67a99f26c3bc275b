//! Reloads change what the streams of a node use, and with it the programs on its ports. A stream that does not change
//! loses and duplicates no frame.
//!
//! ```text
//!                        path1
//!                      /-------\
//!   talker eth0 --- [ a ]     [ b ] --- eth0 listener         5,000 frames/s
//!                      \-------/
//!                        path2
//! ```

use onbeat_node::config::Backend;
use onbeat_wire::random::Random;

use crate::common::{
    Flow, GROUP, PORTS, VLAN, build, eliminate, program, replicate, run_in, two_paths, wait_for,
};
use crate::runs::{Runs, one_of};

const RATE: u64 = 5000;
/// Frames between two reloads.
const BETWEEN: u64 = 40;
const RELOADS: u32 = 50;
const NODES: [&str; 2] = ["a", "b"];

/// Streams without frames. Each uses parts of the programs that "axis" does not need.
const OTHERS: [&str; 5] = [
    r#"
name = "individual"
member = [{ port = "path1", identify = { type = "source", source = "02:00:00:00:00:11", vlan = 100 }, individual = { algorithm = "match" } }]
egress = [{ port = "host", tag = "none", vlan = "remove" }]
recover = { history-length = 1024 }
"#,
    r#"
name = "active"
member = [{ port = "path1", identify = { type = "active", down = { destination = "03:00:00:00:00:01", vlan = 201 }, up = { destination = "02:00:00:00:00:02", vlan = 10, priority = 5 } } }]
egress = [{ port = "host", tag = "none" }]
"#,
    r#"
name = "ip"
generate = true
member = [{ port = "host", identify = { type = "ip", destination = "01:00:5e:01:02:03", tagged = "all", ip-destination = "239.1.2.3", protocol = "udp", destination-port = 5000 } }]
egress = [{ port = "path1", tag = "r-tag" }, { port = "path2", tag = "r-tag", priority = 3 }]
"#,
    r#"
name = "mask"
member = [{ port = "path1", identify = { type = "mask", destination-mask = "ff:ff:ff:00:00:00", destination-match = "01:1b:19:00:00:00", source-mask = "00:00:00:00:00:00", source-match = "00:00:00:00:00:00", msdu-mask = "ff ff", msdu-match = "88 f7" } }]
egress = [{ port = "path2" }]
"#,
    r#"
name = "plain"
member = [{ port = "host", identify = { type = "null", destination = "01:00:5e:00:00:77", tagged = "priority" } }]
egress = [{ port = "path1" }]
"#,
];

fn config(node: &str, random: &mut Random) -> String {
    let stream = if node == "a" { replicate } else { eliminate };
    let mut text = format!("{PORTS}{}", stream("axis", GROUP, VLAN));
    for other in OTHERS {
        if random.chance(0.3) {
            text += &format!("[[stream]]{other}");
        }
    }
    text
}

pub(crate) fn soak(runs: &mut Runs) {
    let mut world = build(&two_paths("", ""));
    world.set_backend(Some(Backend::Xdp));
    while let Some(mut random) = runs.next() {
        let random = &mut random;
        for node in NODES {
            world.set_config(node, config(node, random)).unwrap();
            world.start(node, program()).unwrap_or_else(|error| panic!("{error}"));
        }
        let ends = ("talker", "listener");
        let flow = Flow::start(&world, ends, 1, (GROUP, VLAN), RATE, None);
        flow.advance(BETWEEN);
        for _ in 0..RELOADS {
            let node = *one_of(random, &NODES);
            let text = config(node, random);
            world.daemon(node).unwrap().reload(&text).unwrap_or_else(|error| panic!("{error}"));
            let end = flow.begun() + BETWEEN;
            wait_for("more frames", || flow.begun() >= end);
        }
        runs.count("reloads", RELOADS.into());
        runs.count("frames", flow.finish_whole());
        for node in NODES {
            let down = run_in(world.namespace(node).unwrap(), &["down", node]);
            assert_eq!(down.code, 0, "{down:?}");
        }
    }
}
