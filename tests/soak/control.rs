//! Hostile clients of the control socket: invalid, truncated and endless requests, any number of
//! connections, clients that do not read. Commands are always answered, and no frame is lost.
//!
//! ```text
//!                        path1
//!                      /-------\
//!   talker eth0 --- [ a ]     [ b ] --- eth0 listener         1,000 frames/s
//!                      \-------/
//!                        path2
//! ```

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use onbeat_lab::World;
use onbeat_netdev::Namespace;
use onbeat_wire::random::Random;

use crate::common::process::Process;
use crate::common::{Flow, GROUP, PORTS, VLAN, eliminate, replicate, start, two_paths};
use crate::runs::{Runs, one_of};

const SOCKET: &str = "/run/onbeat/a.sock";
/// Maximum response time of a command.
const ANSWER: Duration = Duration::from_secs(20);
/// Maximum number of open hostile connections.
const OPEN: usize = 60;

fn connect() -> Option<UnixStream> {
    // The queue of the socket may be full: such a client gives up.
    let stream = UnixStream::connect(SOCKET).ok()?;
    stream.set_write_timeout(Some(Duration::from_millis(200))).unwrap();
    stream.set_read_timeout(Some(Duration::from_millis(200))).unwrap();
    Some(stream)
}

fn request(random: &mut Random) -> Vec<u8> {
    let known: [&[u8]; 10] = [
        b"{\"request\":\"ping\"}\n",
        b"{\"request\":\"show\"}\n",
        b"{\"request\":\"events\",\"wait\":true}\n",
        b"{\"request\":\"events\",\"since\":{\"number\":18446744073709551615},\"wait\":true}\n",
        b"{\"request\":\"events\",\"since\":{\"time\":\"2026\"}}\n",
        b"{\"request\":\"reset\",\"stream\":\"nothing\"}\n",
        b"{\"request\":\"add_streams\",\"text\":\"[[stream]]\",\"file\":\"x\"}\n",
        b"{\"request\":\"remove_streams\",\"streams\":[\"nothing\",\"\"]}\n",
        b"{\"request\":\"reload\"}\n",
        b"[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[\n",
    ];
    let mut octets = one_of(random, &known).to_vec();
    match random.below(6) {
        // A truncated request.
        0 => octets.truncate(random.below(octets.len() as u64) as usize),
        // A modified request.
        1 => {
            let at = random.below(octets.len() as u64) as usize;
            octets[at] = random.number() as u8;
        }
        2 => octets = (0..random.below(4096)).map(|_| random.number() as u8).collect(),
        // A line without an end.
        3 => octets = vec![b'a' + random.below(26) as u8; 1 << random.below(22)],
        4 => octets = b"[".repeat(1 << random.below(19)),
        _ => {}
    }
    octets
}

/// Runs one client, which stays in `open` or closes.
fn client(random: &mut Random, open: &mut Vec<UnixStream>) {
    let Some(mut stream) = connect() else { return };
    for _ in 0..random.below(4) {
        // The node may close a connection with an invalid request.
        let _ = stream.write_all(&request(random));
    }
    if random.chance(0.3) {
        let _ = stream.read(&mut [0; 4096]);
    }
    if random.chance(0.7) {
        open.push(stream);
    }
    if open.len() > OPEN {
        open.drain(..random.below(OPEN as u64) as usize);
    }
}

/// Whether a command is answered in time.
fn answered(namespace: &Namespace, arguments: &[&str]) -> bool {
    let mut process = Process::start(namespace, arguments);
    process.wait(ANSWER).is_some_and(|status| status.success())
}

pub(crate) fn soak(runs: &mut Runs) {
    let a = format!("{PORTS}{}", replicate("axis", GROUP, VLAN));
    let b = format!("{PORTS}{}", eliminate("axis", GROUP, VLAN));
    let mut world: World = start(&two_paths(&a, &b));
    let flow = Flow::start(&world, ("talker", "listener"), 1, (GROUP, VLAN), 1000, None);
    flow.advance(10);
    let mut open = Vec::new();
    let mut longest = Duration::ZERO;
    while let Some(mut random) = runs.next() {
        for _ in 0..random.below(80) {
            client(&mut random, &mut open);
            runs.count("hostile clients", 1);
        }
        let namespace = world.namespace("a").unwrap();
        let command: &[&str] = match random.below(4) {
            0 => &["show", "a", "--json"],
            1 => &["reload", "a"],
            2 => &["reset", "spare", "--node", "a"],
            _ => &["show", "a"],
        };
        let before = Instant::now();
        // There is no stream "spare": the response is a refusal.
        let refused = command[0] == "reset";
        let ok = if refused {
            Process::start(namespace, command).code("onbeat reset") == 2
        } else {
            answered(namespace, command)
        };
        longest = longest.max(before.elapsed());
        assert!(ok, "not answered beside {} connections: onbeat {command:?}", open.len());
    }
    eprintln!("control: longest answer {} ms", longest.as_millis());
    drop(open);
    flow.advance(10);
    runs.count("frames", flow.finish_whole());
    // Control: without the daemon no command is answered.
    world.daemon("a").unwrap().kill().unwrap();
    assert!(!answered(world.namespace("a").unwrap(), &["show", "a"]), "control");
}
