//! `onbeat irq top`, `record` and `report`, on a flow between two hosts.
//!
//! ```text
//!   sender: "s0" 10.9.0.1 --------- receiver: "r0" 10.9.0.2, in a thread of NAPI
//! ```

#[allow(dead_code, reason = "it is shared with the tests of irq/tracer")]
#[path = "../../irq/tracer/tests/kernel/harness.rs"]
mod harness;

use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};

use crate::common::json::{can_validate, validate};
use crate::common::{
    CommandOutput, Flow, GROUP, PORTS, TemporaryFile, eliminate, machine, make_executable, program,
    replicate, run, two_paths,
};
use crate::prometheus::{Prometheus, dashboard_queries, has_prometheus, serve_files};
use harness::{World, possible};
use libbpf_rs::query::{MapInfoIter, ProgInfoIter};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use onbeat_irq_core::charge::{Cause, Class, Device, Verdict};
use onbeat_irq_core::recording;
use onbeat_netdev::Handle;
use onbeat_testing::TemporaryDirectory;
use onbeat_testing::documents::check_documented_keys;
use serde_json::Value;

/// A program that is stopped by SIGINT, and killed if the test fails before.
struct RunningCommand(Child);

impl RunningCommand {
    fn start(arguments: &[&str]) -> Self {
        let mut command = Command::new(program());
        command.env_remove("RUST_LOG").args(arguments);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        Self(command.spawn().expect("it starts"))
    }

    fn interrupt(&self) {
        kill(Pid::from_raw(self.0.id() as i32), Signal::SIGINT).expect("it runs");
    }

    fn end(mut self) -> CommandOutput {
        drop(self.0.stdin.take());
        let status = self.0.wait().expect("it ends");
        let read = |from: Option<&mut dyn std::io::Read>| {
            let mut text = String::new();
            if let Some(from) = from {
                from.read_to_string(&mut text).expect("text");
            }
            text
        };
        let out = read(self.0.stdout.as_mut().map(|out| out as _));
        let err = read(self.0.stderr.as_mut().map(|err| err as _));
        CommandOutput { code: status.code().unwrap_or(-1), out, err }
    }
}

impl Drop for RunningCommand {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The row of the work that this process has certainly caused.
fn ours(table: &Value) -> Option<&Value> {
    let rows = table["processes"].as_array().expect("rows");
    rows.iter().find(|row| row["pid"] == std::process::id() && row["estimate"] == false)
}

#[test]
fn top_shows_the_reader_during_its_reads() {
    if !possible() {
        return;
    }
    // Flows of two parallel tests would be charged to the same process.
    machine::exclusive();
    let world = World::new(true);
    let flow = world.flow();
    let device = format!("r0@{}", world.receiver.namespace().inode());
    let mut top = RunningCommand::start(&[
        "irq",
        "top",
        "--json",
        "--interval",
        "100ms",
        "--per-cpu",
        "--device",
        &device,
        "--sort",
        "packets",
        "--by",
        "user",
    ]);
    let mut lines = BufReader::new(top.0.stdout.take().expect("a pipe")).lines();
    let mut line = || -> Value {
        let line = lines.next().expect("it continues").expect("text");
        serde_json::from_str(&line).expect(&line)
    };
    // After the first line it records.
    assert_eq!(line()["schema"], "onbeat-irq-top/1");
    let bound = std::time::Instant::now() + crate::common::BOUND;
    let table = loop {
        flow.pass(200, 512);
        let table = line();
        // The first packets belong to a socket without a known reader.
        if ours(&table).is_some_and(|row| row["packets"].as_u64() > Some(0)) {
            break table;
        }
        assert!(std::time::Instant::now() < bound, "{table}");
    };
    let row = ours(&table).expect("found");
    check_documented_keys("Interval of irq top", &table);
    check_documented_keys("Process", row);
    let groups = &table["groups"];
    let group = &groups["rows"][0];
    check_documented_keys("Groups", groups);
    check_documented_keys("Group", group);
    assert_eq!((&groups["by"], &group["name"]), (&"user".into(), &row["user"]), "{groups}");
    assert!(group["caused_ns"].as_u64() >= row["caused_ns"].as_u64(), "{groups}");
    table["unowned"]
        .as_array()
        .expect("rows")
        .iter()
        .for_each(|row| check_documented_keys("Class", row));
    let number = |name: &str| row[name].as_u64().expect(name);
    assert_eq!(row["ended"], false);
    assert!(number("caused_ns") >= 100 * number("packets"), "{row}");
    let [part] = row["parts"].as_array().expect("parts").as_slice() else { panic!("{row}") };
    assert_eq!((part["device"].as_str(), part["direction"].as_str()), (Some(&*device), Some("rx")));
    assert_eq!(part["ns"], row["caused_ns"]);
    let command = fs::read_to_string("/proc/self/comm").expect("/proc");
    assert_eq!(row["command"], command.trim_end());
    // No other device is listed, and each CPU is separate.
    for row in table["unowned"].as_array().expect("rows") {
        assert!([&row["device"], &row["to"]].contains(&&Value::from(device.as_str())), "{row}");
    }
    let of_cpus = table["cpus"].as_array().expect("CPUs").iter();
    let packets: u64 =
        of_cpus.filter_map(ours).map(|row| row["packets"].as_u64().expect("a number")).sum();
    assert_eq!(packets, number("packets"));
    top.interrupt();
    drop(lines);
    let ran = top.end();
    assert_eq!((ran.code, ran.err.as_str()), (0, ""));
}

/// A Prometheus reads the sums as those of node_exporter, and has data for each query of the dashboard.
#[test]
fn top_keeps_sums_for_prometheus() {
    if !possible() || !has_prometheus() {
        return;
    }
    machine::exclusive();
    let world = World::new(true);
    let flow = world.flow();
    let directory = TemporaryDirectory::new("irq-metrics");
    let file = directory.file("irq.prom");
    let textfile = file.to_str().expect("text");
    let arguments =
        ["irq", "top", "--textfile", textfile, "--interval", "200ms", "--by", "command"];
    let top = RunningCommand::start(&arguments);
    let command = fs::read_to_string("/proc/self/comm").expect("/proc");
    let packets = || {
        let series =
            format!("onbeat_irq_packets_total{{by=\"command\",group=\"{}\"}} ", command.trim_end());
        let text = fs::read_to_string(&file).unwrap_or_default();
        text.lines().find_map(|line| line.strip_prefix(&series)?.parse::<u64>().ok()).unwrap_or(0)
    };
    // The first packets belong to a socket without a known reader.
    crate::common::wait_for("packets of this process", || {
        flow.pass(100, 512);
        packets() > 0
    });
    let before = packets();
    flow.pass(500, 512);
    crate::common::wait_for("all packets", || packets() >= before + 500);
    let prometheus = Prometheus::start("prometheus-irq", serve_files(vec![file.clone()]));
    for query in dashboard_queries("onbeat-irq.json") {
        crate::common::wait_for(&format!("data of {query}"), || {
            flow.pass(10, 512);
            !prometheus.query(&query).is_empty()
        });
    }
    assert!(prometheus.query("ALERTS{alertname!=\"OnbeatMetricsGone\"}").is_empty());
    top.interrupt();
    let ran = top.end();
    assert_eq!((ran.code, ran.out.as_str(), ran.err.as_str()), (0, "", ""));
    assert_eq!(fs::read_dir(directory.path()).expect("it exists").count(), 1);
}

/// Existing programs and tables of ledgers, including those of other processes.
fn objects() -> BTreeSet<(&'static str, u32)> {
    let programs = ProgInfoIter::default()
        .filter(|program| program.name.to_string_lossy().starts_with("on_"))
        .map(|program| ("program", program.id));
    let tables = MapInfoIter::default()
        .filter(|table| ["cpus", "rows", "owners"].iter().any(|name| table.name == *name))
        .map(|table| ("table", table.id));
    programs.chain(tables).collect()
}

#[test]
fn a_killed_top_leaves_no_bpf_objects() {
    if !possible() {
        return;
    }
    machine::exclusive();
    let before = objects();
    let mut top = RunningCommand::start(&["irq", "top", "--json", "--interval", "50ms"]);
    let mut line = String::new();
    BufReader::new(top.0.stdout.take().expect("a pipe")).read_line(&mut line).expect("text");
    let ours: BTreeSet<_> = objects().difference(&before).copied().collect();
    assert!(ours.len() >= 15, "{ours:?}");
    drop(top);
    crate::common::wait_for("programs and tables are removed", || {
        objects().intersection(&ours).next().is_none()
    });
}

#[test]
fn top_prints_lines_without_a_terminal() {
    if !possible() {
        return;
    }
    let ran = run(&["irq", "top", "--interval", "50ms", "--count", "2", "--per-cpu"]);
    assert_eq!((ran.code, ran.err.as_str()), (0, ""));
    assert_eq!(ran.out.matches(" of one CPU: on processes' time ").count() % 2, 0, "{}", ran.out);
    for expected in ["PID  COMMAND", "FOR NO PROCESS", "\nCPU 0: softirqs "] {
        assert_eq!(ran.out.matches(expected).count() % 2, 0, "{expected}: {}", ran.out);
        assert!(ran.out.contains(expected), "{expected}: {}", ran.out);
    }
    assert!(!ran.out.contains('\x1b'));
}

#[test]
fn the_run_of_a_command_is_recorded_and_reported() {
    if !possible() || !can_validate() {
        return;
    }
    // Flows of two parallel tests would be charged to the same process.
    machine::exclusive();
    let (file, page) = (TemporaryFile::new("flow.irq"), TemporaryFile::new("flow.html"));
    let world = World::new(true);
    let flow = world.flow();
    flow.pass(10, 512);
    // The command exits at the end of its standard input.
    let record = RunningCommand::start(&["irq", "record", "-o", file.name(), "--", "cat"]);
    crate::common::wait_for("the recording starts", || {
        fs::metadata(file.path()).is_ok_and(|f| f.len() > 0)
    });
    const PACKETS: u32 = 20_000;
    flow.pass(PACKETS, 512);
    world.wait_idle();
    let ran = record.end();
    assert_eq!((ran.code, ran.err.as_str()), (0, ""));

    let ran = run(&["irq", "report", file.name(), "--json", "--html", page.name()]);
    assert_eq!((ran.code, ran.err.as_str()), (0, ""), "{}", ran.out);
    validate(&ran.out);
    let result: Value = serde_json::from_str(&ran.out).expect("JSON");
    let share = result["figures"]["softirq time"]["value"].as_f64();
    assert!(share.is_some_and(|share| share > 0.0), "{result:#}");
    let rows = |name: &str| result["figures"][name]["rows"].as_array().expect(name).clone();
    let ours = |name: &str| {
        let pid = std::process::id().to_string();
        let found = rows(name).into_iter().find(|row| row[0] == pid.as_str());
        found.unwrap_or_else(|| panic!("{name} has no {pid}: {result:#}"))
    };
    assert_eq!(ours("caused and suffered, by process")[6], PACKETS);
    let part = ours("caused, by process, device and direction");
    let device = format!("r0@{}", world.receiver.namespace().inode());
    assert_eq!((part[2].as_str(), part[5].as_u64()), (Some(&*device), Some(PACKETS.into())));
    let times = ours("user and system time, by the kernel and corrected");
    let off = times[8].as_f64().expect("a number");
    assert_eq!(part[4].as_f64().expect("a number") - suffered(&ours), off);
    let series = result["figures"]["caused, over time"]["series"].as_array().expect("series");
    assert!(series.iter().any(|line| {
        line["name"]
            .as_str()
            .is_some_and(|name| name.starts_with(&format!("{} ", std::process::id())))
    }));
    let html = fs::read_to_string(page.path()).expect("a page");
    assert!(html.contains("<svg") && html.contains(&device));
    let text = run(&["irq", "report", file.name()]);
    assert!(text.code == 0 && text.out.contains("20,000"), "{}", text.out);

    // Folded stacks and rows by CPU have the same time.
    let time = |row: &Value, column: usize| row[column].as_u64().expect("a time");
    let caused: u64 = rows("caused, by evidence").iter().map(|row| time(row, 1)).sum();
    let folded = run(&["irq", "report", file.name(), "--folded", "--by", "command"]);
    assert_eq!((folded.code, folded.err.as_str()), (0, ""));
    let stacks = folded.out.lines().map(|line| line.rsplit_once(' ').expect(line));
    let stacks: Vec<(&str, u64)> =
        stacks.map(|(stack, ns)| (stack, ns.parse().expect("a number"))).collect();
    assert!(stacks.iter().all(|(stack, _)| stack.split(';').count() == 3), "{}", folded.out);
    assert_eq!(stacks.iter().map(|(_, ns)| ns).sum::<u64>(), caused);
    let ran = run(&["irq", "report", file.name(), "--json", "--by", "cpu"]);
    let by_cpu: Value = serde_json::from_str(&ran.out).expect(&ran.err);
    let by_cpu = by_cpu["figures"]["caused and suffered, by CPU"]["rows"].as_array().expect("rows");
    assert_eq!(by_cpu.iter().map(|row| time(row, 2)).sum::<u64>(), caused);

    // Without its last line the recording is truncated.
    let whole = fs::read_to_string(file.path()).expect("text");
    let (cut, _) = whole.trim_end().rsplit_once('\n').expect("lines");
    fs::write(file.path(), format!("{cut}\n")).expect("written");
    let ran = run(&["irq", "report", file.name()]);
    assert_eq!((ran.code, ran.out.as_str()), (2, ""));
    assert!(ran.err.contains("--partial"), "{}", ran.err);
    let ran = run(&["irq", "report", file.name(), "--partial"]);
    assert!(ran.code == 0 && ran.out.contains("was cut off"), "{}{}", ran.out, ran.err);
    // Without an interval it has no measurement.
    let (first, last) = (whole.lines().next(), whole.lines().last());
    for (lines, options) in [(vec![first], &["--partial"][..]), (vec![first, last], &[])] {
        let lines: Option<Vec<_>> = lines.into_iter().collect();
        fs::write(file.path(), lines.expect("lines").join("\n") + "\n").expect("written");
        let ran = run(&[&["irq", "report", file.name(), "--json"], options].concat());
        let result: Value = serde_json::from_str(&ran.out).expect(&ran.err);
        assert_eq!((ran.code, &result["checks"][0]["name"]), (1, &"intervals recorded".into()));
        assert_eq!(result["ok"], false);
    }
}

/// The programs of a FRER node receive all frames of a stream at the ingress port: a's from its host,
/// b's from both paths. They redirect each once, and drop the other copy.
#[test]
fn frames_of_a_data_plane_are_of_class_xdp() {
    const FRAMES: u64 = 5000;
    if !possible() || !crate::common::can_run() {
        return;
    }
    // Frames for the listener belong to this process as well.
    machine::exclusive();
    let file = TemporaryFile::new("frer.irq");
    let a = format!("{PORTS}{}", replicate("axis", GROUP, 100));
    let b = format!("{PORTS}{}", eliminate("axis", GROUP, 100));
    let world = crate::common::start(&two_paths(&a, &b));
    let record = RunningCommand::start(&["irq", "record", "-o", file.name(), "--", "cat"]);
    crate::common::wait_for("the recording starts", || {
        fs::metadata(file.path()).is_ok_and(|f| f.len() > 0)
    });
    let hosts = ("talker", "listener");
    let flow = Flow::start(&world, hosts, 1, (GROUP, 100), 20_000, Some(FRAMES));
    crate::common::wait_for("all frames arrive", || flow.sink.complete_below(1) >= FRAMES);
    assert_eq!(flow.finish_whole(), FRAMES);
    let ran = record.end();
    assert_eq!((ran.code, ran.err.as_str()), (0, ""));

    let file = BufReader::new(fs::File::open(file.path()).expect("a recording"));
    let reader = recording::Reader::open(file).expect("a recording");
    let total = recording::Summary::of(reader, false).expect("a whole recording").total();
    // Packets that were redirected, and those that were dropped without a report.
    let taken = |(node, port)| {
        let namespace = world.namespace(node).expect("a node");
        let index = Handle::in_namespace(namespace).and_then(|handle| handle.index(port));
        let device = Device { netns: namespace.inode() as u32, index: index.expect("a port") };
        let packets =
            |class| total.caused.get(&Cause::Unowned(class)).map_or(0, |amount| amount.packets);
        assert_eq!(packets(Class::Unattributed(device)), 0, "{node}:{port}: {:?}", total.caused);
        let redirected = packets(Class::XdpVerdict { device, verdict: Verdict::Redirect });
        (redirected, packets(Class::Xdp(device)))
    };
    assert_eq!(taken(("a", "host")), (FRAMES, 0), "{:?}", total.caused);
    let [first, second] = ["path1", "path2"].map(|port| taken(("b", port)));
    assert_eq!((first.0 + first.1, second.0 + second.1), (FRAMES, FRAMES), "{:?}", total.caused);
    assert_eq!(first.0 + second.0, FRAMES, "one copy of each: {:?}", total.caused);
}

fn suffered(row: &impl Fn(&str) -> Value) -> f64 {
    row("caused and suffered, by process")[5].as_f64().expect("a number")
}

#[test]
fn a_file_that_is_no_recording_is_rejected() {
    let file = TemporaryFile::with("no.irq", "hello\n");
    let ran = run(&["irq", "report", file.name()]);
    assert_eq!((ran.code, ran.out.as_str()), (2, ""));
    assert!(ran.err.contains("not a recording") && ran.err.contains(file.name()), "{}", ran.err);
    let ran = run(&["irq", "report", "/no/such/file"]);
    assert!(ran.code == 2 && ran.err.contains("/no/such/file"), "{}", ran.err);
}

#[test]
fn a_failed_or_missing_command_is_reported() {
    if !possible() {
        return;
    }
    let file = TemporaryFile::new("fails.irq");
    let record = |command| run(&["irq", "record", "-o", file.name(), "--", command]);
    let ran = record("false");
    assert_eq!(ran.code, 1, "{}", ran.err);
    assert_eq!(run(&["irq", "report", file.name()]).code, 0);
    fs::remove_file(file.path()).expect("it was written");
    let ran = record("/no/such/program");
    assert!(ran.code == 2 && ran.err.contains("/no/such/program"), "{}", ran.err);
    assert!(!file.path().exists(), "no file is left of a recording that did not start");
}

#[test]
fn a_user_without_privileges_gets_a_remedy() {
    if !possible() {
        return;
    }
    // A directory in which all users may execute it.
    let copy = TemporaryFile::new("program");
    make_executable(copy.path(), fs::read(program()).expect("the program"));
    let user = 65534;
    let output = Command::new(copy.path())
        .args(["irq", "top", "--count", "1"])
        .uid(user)
        .gid(user)
        .output()
        .expect("it starts");
    let ran: CommandOutput = output.into();
    assert_eq!((ran.code, ran.out.as_str()), (2, ""));
    assert!(ran.err.starts_with("onbeat: cannot ") && ran.err.contains("as root"), "{}", ran.err);
    assert_eq!(ran.err.lines().count(), 1, "{}", ran.err);
}
