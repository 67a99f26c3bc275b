//! Random captures of a hop that loses, duplicates and reorders packets: `onbeat delay match` finds
//! each delay to the nanosecond, compared with matcher.py, which reads them with tshark.

use std::fs::{self, File};
use std::io::BufWriter;
use std::process::Command;

use onbeat_delay::synthetic::Traffic;
use onbeat_lab::world::Mounts;
use onbeat_wire::random::Random;

use crate::common::{CommandOutput, run};
use crate::runs::Runs;

const DIRECTORY: &str = "/run/onbeat/lab";
const PACKETS: u64 = 100_000;

fn traffic(random: &mut Random) -> Traffic {
    Traffic {
        frame_len: 60 + random.below(200) as usize,
        interval_ns: 1 + random.below(5000) as i64,
        delay_ns: 1 + random.below(100_000) as i64,
        reordered: random.below(30) as f64 / 100.0,
        overtaken_by: 1 + random.below(2000),
        lost: random.below(20) as f64 / 100.0,
        duplicated: random.below(10) as f64 / 100.0,
        runs: random.below(10) as f64 / 1000.0,
        seed: random.number(),
        ..Traffic::of(PACKETS)
    }
}

fn judge(delays: &str, longest_us: i64) -> CommandOutput {
    let matcher = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/soak/matcher.py");
    let mut python = Command::new("python3");
    python
        .args([matcher, "in.pcap", "out.pcap", delays, &longest_us.to_string()])
        .current_dir(DIRECTORY);
    python.output().expect("python3").into()
}

pub(crate) fn soak(runs: &mut Runs) {
    let _mounts = Mounts::enter().expect("mounts of its own");
    let path = |name: &str| format!("{DIRECTORY}/{name}");
    let create = |name: &str| BufWriter::new(File::create(path(name)).unwrap());
    while let Some(mut random) = runs.next() {
        let traffic = traffic(&mut random);
        traffic.write(create("in.pcap"), create("out.pcap")).unwrap();
        let (arrivals, departures, csv) = (path("in.pcap"), path("out.pcap"), path("delays.csv"));
        let longest_us = traffic.longest_ns() / 1000 + 1;
        let longest = format!("{longest_us}us");
        let matched = ["delay", "match", &arrivals, &departures, "--csv", &csv, "--quiet"];
        let ran = run(&[&matched[..], &["--longest", &longest, "--json"]].concat());
        assert_eq!((ran.code, ran.err.as_str()), (0, ""), "{traffic:?}");
        let judged = judge("delays.csv", longest_us);
        assert_eq!(judged.code, 0, "{traffic:?}: {}", judged.err);
        runs.count("packets", PACKETS);
        runs.count("delays compared", judged.out.trim().parse().expect("a number"));

        // Control: a delay with an error of a nanosecond is detected.
        let text = fs::read_to_string(&csv).unwrap();
        let change = |line: &str| match line.split(',').collect::<Vec<_>>()[..] {
            [arrival, delay, "certain"] => {
                let delay: i64 = delay.parse().ok()?;
                Some(format!("{arrival},{},certain", delay + 1))
            }
            _ => None,
        };
        let line = text.lines().find(|line| change(line).is_some()).expect("a certain match");
        fs::write(path("wrong.csv"), text.replacen(line, &change(line).unwrap(), 1)).unwrap();
        assert_ne!(judge("wrong.csv", longest_us).code, 0, "control");
    }
}
