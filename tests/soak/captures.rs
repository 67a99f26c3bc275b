//! Random captures of a hop that loses, duplicates and reorders packets: `onbeat delay match` finds
//! each delay to the nanosecond, compared with matcher.py, which reads them with tshark. scipy checks the statistics.

use std::fs::{self, File};
use std::io::BufWriter;
use std::process::Command;

use onbeat_delay::synthetic::Traffic;
use onbeat_lab::world::Mounts;
use onbeat_wire::random::Random;
use serde_json::Value;

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

fn judge(delays: &str, longest_us: i64, result: &str) -> CommandOutput {
    let matcher = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/soak/matcher.py");
    // That of the distribution, which has scipy.
    let mut python = Command::new("/usr/bin/python3");
    python
        .args([matcher, "in.pcap", "out.pcap", delays, &longest_us.to_string(), result])
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
        fs::write(path("result.json"), &ran.out).unwrap();
        let judged = judge("delays.csv", longest_us, "result.json");
        assert_eq!(judged.code, 0, "{traffic:?}: {}", judged.err);
        runs.count("packets", PACKETS);
        let numbers: Vec<u64> =
            judged.out.split_whitespace().map(|number| number.parse().expect("a number")).collect();
        runs.count("delays compared", numbers[0]);
        runs.count("statistics compared", numbers[1]);

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
        assert_ne!(judge("wrong.csv", longest_us, "result.json").code, 0, "control");

        // Control: a median with an error of 1 % is detected.
        let mut result: Value = serde_json::from_str(&ran.out).unwrap();
        let median = &mut result["figures"]["percentiles"]["rows"][0][1];
        *median = (1.01 * median.as_f64().expect("a median") + 2.0).into();
        fs::write(path("wrong.json"), result.to_string()).unwrap();
        assert_ne!(judge("delays.csv", longest_us, "wrong.json").code, 0, "control");
    }
}
