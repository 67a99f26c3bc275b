//! `onbeat top`: rates of a node, beside those of the traffic that is sent.
//!
//! ```text
//!                     /--- path1 ---\
//!   talker --- [ a ]                 [ b ] --- listener
//!                     \--- path2 ---/
//! ```

use std::process::Stdio;

use serde_json::Value;

use crate::common::{
    Flow, GROUP, PORTS, VLAN, can_run, eliminate, program, replicate, run, show, start, two_paths,
};
use onbeat_lab::world::CutEnds;
use onbeat_testing::command;
use onbeat_wire::VlanTag;

const RATE: u64 = 2000;

/// The rates of intervals of half a second, while frames of the stream flow.
fn rates(node: &str, count: u32, flow: &Flow) -> Vec<Value> {
    let count = count.to_string();
    let mut top = command(program());
    top.args(["top", node, "--json", "--interval", "500ms", "--count", &count]);
    let mut child = top.stdout(Stdio::piped()).spawn().expect("it starts");
    while child.try_wait().expect("its exit status").is_none() {
        flow.advance(100);
    }
    let output = child.wait_with_output().expect("its output");
    assert!(output.status.success());
    let text = String::from_utf8(output.stdout).expect("text");
    text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
}

#[test]
fn rates_are_those_of_the_sender_and_troubles_those_of_the_network() {
    if !can_run() {
        return;
    }
    let configs = [replicate("axis", GROUP, VLAN), eliminate("axis", GROUP, VLAN)]
        .map(|streams| format!("{PORTS}{streams}"));
    let world = start(&two_paths(&configs[0], &configs[1]));
    let flow =
        Flow::tagged(&world, ("talker", "listener"), 1, (GROUP, VlanTag::new(VLAN)), RATE, None);
    flow.advance(500);

    for (node, copies) in [("a", 1.0), ("b", 2.0)] {
        let counted = || show(node).streams[0].members.iter().map(|m| m.input_packets).sum::<u64>();
        let before = counted();
        let intervals = rates(node, 3, &flow);
        assert_eq!(intervals.len(), 3);
        let after = counted();
        // The intervals are a part of the time between both counts, and no more.
        let sums = |of: &dyn Fn(&Value) -> f64| -> f64 {
            let part = |rates: &Value| of(rates) * rates["interval_s"].as_f64().unwrap();
            intervals.iter().map(part).sum()
        };
        let stream =
            |key: &'static str| move |rates: &Value| rates["streams"][0][key].as_f64().unwrap();
        let (input, output) = (sums(&stream("input_per_s")), sums(&stream("output_per_s")));
        let most = (after - before) as f64;
        assert!((0.1 * most..=most + 1.0).contains(&input), "{node}: {input} of {most}");
        let ratio = input / output;
        assert!((copies * 0.95..copies * 1.05).contains(&ratio), "{node}: {input} {output}");
        let rates = &intervals[0];
        assert_eq!((&rates["schema"], &rates["node"]), (&"onbeat-top/1".into(), &node.into()));
        assert_eq!(rates["number_of_streams"], 1);
        assert!(rates["streams"][0]["troubles"].as_array().unwrap().is_empty(), "{rates}");
    }

    // Without a path: its rate is 0, and the stream is in trouble.
    world.cut("path2", CutEnds::Both).expect("a cut");
    let found = (0..20).any(|_| {
        let rates = rates("b", 1, &flow).remove(0);
        let stream = &rates["streams"][0];
        stream["troubles"][0] == "path_lost"
            && rates["in_trouble"]["path_lost"] == 1
            && stream["paths"][1]["lost"] == true
            && stream["paths"][1]["input_per_s"] == 0.0
            && rates["ports"][2]["link"] == "down"
    });
    assert!(found, "a path that is cut");
    let text = run(&["top", "b", "--count", "1", "--interval", "200ms"]);
    assert_eq!((text.code, text.err.as_str()), (0, ""));
    assert!(text.out.contains("path lost") && text.out.contains("BY PATH"), "{}", text.out);
    // A search that finds nothing lists nothing, and still counts the streams.
    let none = run(&["top", "b", "--count", "1", "--stream", "no-such"]);
    assert!(none.code == 0 && none.out.contains("1 stream not listed"), "{}", none.out);
    drop(flow);
    drop(world);
    let gone = run(&["top", "b", "--count", "1"]);
    assert_eq!((gone.code, gone.out.as_str()), (2, ""));
    assert!(gone.err.contains("\"b\""), "{}", gone.err);
}
