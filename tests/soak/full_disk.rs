//! A full disk for all outputs: reports, samples, corrections, recordings, standard output, and the
//! directory of a node's control socket and journal. The command reports the failure and leaves no
//! partial file; a running node continues to forward.
//!
//! ```text
//!   host eth0 --- host [ a ] path1 --- eth0 path1         500 frames/s
//!                            path2 --- eth0 path2
//! ```

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use nix::mount::{MsFlags, mount};
use onbeat_delay::synthetic::Traffic;
use onbeat_lab::World;
use onbeat_wire::random::Random;

use crate::common::{
    CommandOutput, Flow, GROUP, PORTS, VLAN, build, eliminate, program, replicate, run, two_paths,
};
use crate::runs::{Runs, one_of};

const DIRECTORY: &str = "/run/onbeat/lab";
const DISK: &str = "/run/onbeat/lab/disk";
/// Capacity of the disk in octets.
const SIZE: u64 = 64 << 10;

/// Fills the disk except for `free` octets.
fn fill(free: u64) {
    let mut file = File::create(format!("{DISK}/filler")).unwrap();
    let mut left = SIZE - free;
    while left > 0 {
        // The file system needs room for itself.
        match file.write(&vec![0; left.min(4096) as usize]) {
            Ok(written) if written > 0 => left -= written as u64,
            _ => break,
        }
    }
}

fn clear() {
    for file in fs::read_dir(DISK).unwrap().flatten() {
        fs::remove_file(file.path()).unwrap();
    }
}

/// Files on the disk except the filler.
fn files() -> Vec<PathBuf> {
    let files = fs::read_dir(DISK).unwrap().flatten().map(|file| file.path());
    files.filter(|path| !path.ends_with("filler")).collect()
}

fn says_why(ran: &CommandOutput) -> bool {
    ran.err.contains("No space left on device") || ran.err.contains("no space left on device")
}

/// A command that writes one file.
fn written_file(random: &mut Random, runs: &mut Runs) {
    let [arrivals, departures] = ["in.pcap", "out.pcap"].map(|name| format!("{DIRECTORY}/{name}"));
    let output = format!("{DISK}/output");
    let matched = ["delay", "match", &arrivals, &departures, "--quiet"];
    let calibrate = ["delay", "calibrate", "match", &arrivals, &departures, "--quiet"];
    let commands: [(&[&str], &str); 4] = [
        (&matched, "--html"),
        (&matched, "--csv"),
        (&matched, "--parquet"),
        (&calibrate, "--output"),
    ];
    let (command, option) = one_of(random, &commands);
    let arguments = [command, &[*option, &output][..]].concat();
    let whole = run(&arguments);
    assert!(whole.code < 2, "{whole:?}");
    let expected = fs::read(&output).unwrap();
    let len = expected.len() as u64;
    clear();
    // A limit below its length, in most cases.
    fill(random.below(len.min(SIZE) + 8192).min(SIZE));
    let ran = run(&arguments);
    if ran.code == whole.code && ran.err == whole.err {
        let found = fs::read(&output).unwrap();
        // It contains times and loads; its end shows that it is complete.
        let whole = found.len().abs_diff(expected.len()) < 1024
            && found.ends_with(expected.last_chunk::<6>().expect("a file"));
        assert!(
            whole,
            "{arguments:?} wrote {} of {len} octets, and exits {}",
            found.len(),
            ran.code
        );
        runs.count("fits", 1);
    } else {
        assert!(matches!(ran.code, 1 | 2) && says_why(&ran), "{arguments:?}: {ran:?}");
        assert_eq!(files(), Vec::<PathBuf>::new(), "a part is left by {arguments:?}");
        runs.count("does not fit", 1);
    }
    clear();
}

/// A command whose standard output is a full disk.
fn standard_output(random: &mut Random) {
    let commands: [&[&str]; 6] = [
        &["show", "b"],
        &["show", "b", "--json"],
        &["show", "b", "--events", "--json"],
        &["man"],
        &["completions", "bash"],
        &["lab", "list"],
    ];
    let command = *one_of(random, &commands);
    fill(0);
    let mut onbeat = Command::new(program());
    onbeat.args(command).stdin(Stdio::null());
    onbeat.stdout(File::create("/dev/full").unwrap());
    let ran: CommandOutput = onbeat.output().expect("it starts").into();
    assert!(ran.code == 2 && says_why(&ran), "{command:?}: {ran:?}");
    clear();
}

fn config(others: u64) -> String {
    let node = format!("[node]\ncontrol = \"{DISK}/a.sock\"\n");
    let others: String = (0..others)
        .map(|n| replicate(&format!("other{n}"), &format!("01:00:5e:00:01:{n:02x}"), VLAN))
        .collect();
    let spare = if others.is_empty() { "" } else { SPARE };
    format!("{node}{PORTS}{spare}{}{others}", replicate("axis", GROUP, VLAN))
}

/// A port of which the node creates both ends, which it records in the journal.
pub(crate) const SPARE: &str = "
[[port]]
name = \"spare\"
interface = \"spare\"
create = \"veth\"
";

/// A node whose socket and journal are on the full disk.
fn node(world: &mut World, random: &mut Random, runs: &mut Runs) {
    let free = random.below(16) * 1024;
    if random.chance(0.5) {
        // It starts on a nearly full disk, or reports why not.
        fill(free);
        world.set_config("a", config(random.below(2))).unwrap();
        match world.start("a", program()) {
            Ok(()) => {}
            Err(error) => {
                assert!(error.to_string().contains("No space left"), "{error}");
                runs.count("refused starts", 1);
            }
        }
    } else {
        world.set_config("a", config(0)).unwrap();
        world.start("a", program()).unwrap_or_else(|error| panic!("{error}"));
        let flow = Flow::start(world, ("talker", "listener"), 1, (GROUP, VLAN), 500, None);
        flow.advance(10);
        fill(free);
        let file = format!("{DIRECTORY}/a.toml");
        for others in [1, 0] {
            fs::write(&file, config(others)).unwrap();
            let ran = run(&["reload", &format!("{DISK}/a.sock")]);
            assert!(ran.code == 0 || ran.code == 2 && says_why(&ran), "{ran:?}");
            runs.count("refused reloads", u64::from(ran.code != 0));
            let shown = run(&["show", &format!("{DISK}/a.sock")]);
            assert_eq!(shown.code, 0, "{shown:?}");
        }
        flow.advance(10);
        flow.finish_whole();
    }
    let down = run(&["down", &format!("{DIRECTORY}/a.toml")]);
    let gone_before = down.code == 2 && down.err.contains("no node ");
    if !(down.code == 0 || gone_before) {
        // It may need room, and must report that.
        assert!(says_why(&down), "{down:?}");
        fs::remove_file(format!("{DISK}/filler")).unwrap();
        let down = run(&["down", &format!("{DIRECTORY}/a.toml")]);
        assert_eq!(down.code, 0, "{down:?}");
    }
    assert_eq!(files(), Vec::<PathBuf>::new(), "left behind");
    assert!(!Path::new("/sys/fs/bpf/onbeat/a").exists(), "left behind");
    let links = world.handle("a").unwrap().links().unwrap();
    let ours = |link: &&onbeat_netdev::Link| !link.xdp.is_empty() || link.name.starts_with("spare");
    assert!(!links.iter().any(|link| ours(&link)), "left behind: {links:?}");
    clear();
}

pub(crate) fn soak(runs: &mut Runs) {
    let b = format!("{PORTS}{}", eliminate("axis", GROUP, VLAN));
    let mut world = build(&two_paths("", &b));
    world.start("b", program()).unwrap_or_else(|error| panic!("{error}"));
    fs::create_dir(DISK).unwrap();
    let size = format!("size={SIZE}");
    mount(Some("tmpfs"), DISK, Some("tmpfs"), MsFlags::empty(), Some(size.as_str()))
        .expect("a tmpfs");
    let traffic = Traffic::of(1000);
    let create = |name: &str| File::create(format!("{DIRECTORY}/{name}")).unwrap();
    traffic.write(create("in.pcap"), create("out.pcap")).unwrap();
    // Control: the disk does become full.
    fill(0);
    assert!(fs::write(format!("{DISK}/more"), [1; 8192]).is_err(), "control");
    clear();
    while let Some(mut random) = runs.next() {
        written_file(&mut random, runs);
        standard_output(&mut random);
        let _ = run(&["reset", "axis", "--node", "b"]);
        node(&mut world, &mut random, runs);
    }
}
