//! The XDP programs of the ports: cost of their verification, and their removal with the process.
//!
//! ```text
//!   near: "p0" --------- far: "f0"
//! ```

use std::env;
use std::io::{BufRead, BufReader, Write};
use std::process::{Command, Stdio};

use crate::common::{Cable, xdp};
use onbeat_bpf::ProgramInfo;
use onbeat_link::{Backend, Port};
use onbeat_netdev::Namespace;
use onbeat_testing::{Feature, require_all};

/// A kernel refuses more than a million instructions; a new compiler must not bring us near.
const MOST: u32 = 100_000;
/// Selects the port that a child process of this program opens.
const OPEN: &str = "ONBEAT_TEST_OPEN";

fn open(namespace: &Namespace, backend: Backend) -> Box<dyn Port> {
    onbeat_link::open(backend, namespace, "p0", xdp::options()).unwrap()
}

/// The program on the interface.
fn program(cable: &Cable) -> Option<u32> {
    cable.near.link("p0").unwrap().xdp_program().map(|program| program.program_id)
}

#[test]
fn programs_are_cheap_to_verify() {
    if !require_all(&[Feature::Root, Feature::Veth]) {
        return;
    }
    let cable = Cable::new();
    for backend in [Backend::Xsk, Backend::Xdp] {
        let _port = open(cable.near.namespace(), backend);
        let info = ProgramInfo::by_id(program(&cable).unwrap()).unwrap();
        let instructions = info.verified_instructions;
        eprintln!("{backend}: {instructions} instructions verified");
        assert!((1..MOST).contains(&instructions), "{backend}: {instructions}");
    }
}

#[test]
fn kill_9_leaves_no_program() {
    if !require_all(&[Feature::Root, Feature::Veth]) {
        return;
    }
    let cable = Cable::new();
    for backend in [Backend::Xsk, Backend::Xdp] {
        let mut command = Command::new(env::current_exe().unwrap());
        command.args(["--exact", "program::child_opens_a_port", "--nocapture", "--test-threads=1"]);
        command.env(OPEN, backend.name()).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut opener = cable.near.namespace().start_in(&mut command).spawn().unwrap();
        let lines = BufReader::new(opener.stdout.take().unwrap()).lines();
        let opened = lines.map_while(Result::ok).any(|line| line.contains("opened p0"));
        assert!(opened, "the other process did not open the port");
        assert!(program(&cable).is_some());
        opener.kill().unwrap();
        opener.wait().unwrap();
        assert_eq!(program(&cable), None);
        drop(open(cable.near.namespace(), backend));
    }
}

/// Not a test of its own: the process of [`kill_9_leaves_no_program`].
#[test]
fn child_opens_a_port() {
    let Ok(name) = env::var(OPEN) else { return };
    let _port = open(&Namespace::current().unwrap(), name.parse().unwrap());
    println!("\nopened p0");
    std::io::stdout().flush().unwrap();
    // Until it is killed, or its parent is gone.
    let _ = std::io::stdin().lines().next();
}
