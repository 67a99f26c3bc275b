//! A daemon killed during a change: the next start repairs the remaining state.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};

use onbeat_frer::spec::{Recovery, Stream, VlanAction};
use onbeat_frer_xdp::Options;
use onbeat_wire::random::Random;

use super::super::restart::{VECTOR, with_private_bpffs};
use crate::harness::{Node, XDP_PASS, XDP_REDIRECT, frame, member, pins, stream, talker};

const PORTS: usize = 2;
const ROOM: u32 = 64;
const KILLS: u16 = 12;

/// The directory of the tables of the process to be killed.
const DIRECTORY: &str = "ONBEAT_TEST_CRASH_DIRECTORY";

fn open(directory: &Path) -> Node {
    let directory = pins(directory);
    Node::open(
        PORTS,
        &Options { directory, max_streams: ROOM, test_clock: true, count_output: true },
    )
}

/// A stream that never changes.
fn steady() -> Stream {
    talker("steady", vec![member(0, 10, None)])
}

/// Returns vector recovery with one of several histories.
fn vector(form: u64) -> Recovery {
    Recovery::vector([64, 128, 1024][(form / 4 % 3) as usize])
}

/// Returns one of several forms of stream number `index`.
fn form(index: u16, form: u64) -> Stream {
    let name = format!("stream{index}");
    let vid = 100 + 2 * index;
    let members = |individual| vec![member(0, vid, individual), member(1, vid + 1, individual)];
    let mut new = match form % 4 {
        0 => talker(&name, members(None)),
        1 => stream(&name, members(Some(vector(form))), Some(vector(form / 3))),
        2 => stream(&name, members(None), None),
        _ => stream(&name, vec![member(1, vid, None)], Some(vector(form))),
    };
    new.egress[0].rewrite.vlan = VlanAction::Set(1 + (form % 4_000) as u16);
    new
}

/// Changes streams until the process is killed; not a test by itself.
#[test]
fn changes_until_it_is_killed() {
    let Some(directory) = std::env::var_os(DIRECTORY) else { return };
    let mut node = open(Path::new(&directory));
    let mut random = Random::new(std::process::id().into());
    let streams: Vec<Stream> = (0..ROOM as u16 / 2).map(|index| form(index, 0)).collect();
    node.apply(&[streams, vec![steady()]].concat());
    let names = node.names.clone();
    println!("\nbegun");
    loop {
        let some = |random: &mut Random| random.below(u64::from(ROOM) / 2) as u16;
        let gone = [some(&mut random), some(&mut random)].map(|index| format!("stream{index}"));
        let new = form(some(&mut random), random.number());
        let gone: Vec<&str> = gone.iter().map(String::as_str).collect();
        node.plane.change(&names, &gone, &[new]).expect("a change within the capacity");
        println!("changed");
    }
}

#[test]
fn state_of_a_killed_daemon_is_repaired() {
    with_private_bpffs(|directory| {
        let mut random = Random::new(super::SEED);
        for kill in 0..KILLS {
            // Not by path: a separate mount namespace below another root may not have it.
            let mut child = Command::new("/proc/self/exe")
                .args(["--exact", "scale::crash::changes_until_it_is_killed", "--nocapture"])
                .env(DIRECTORY, directory)
                .stdout(Stdio::piped())
                .spawn()
                .expect("this program");
            // It continues meanwhile, so that it is killed at a random point.
            let lines = BufReader::new(child.stdout.take().expect("output of the child")).lines();
            let changes = lines.map_while(Result::ok).filter(|line| line == "changed");
            let seen = changes.take(random.between(1, 200) as usize).count();
            child.kill().expect("a running child");
            child.wait().expect("a running child");
            assert!(seen > 0, "kill {kill}: no changes");

            let mut node = open(directory);
            let streams: Vec<Stream> =
                (0..ROOM as u16 / 2).map(|index| form(index, random.number())).collect();
            node.apply(&[streams.clone(), vec![steady()]].concat());
            // The unchanged stream continues its sequence: one number after each kill.
            let ingress = [node.ingress(0), node.ingress(1)];
            let run = ingress[0].run(&[], &frame(10, None));
            assert_eq!(run.frame, frame(10, Some(kill)), "kill {kill}");
            for stream in &streams {
                let before = node.read(&stream.name);
                for (index, member) in stream.members.iter().enumerate() {
                    let onbeat_frer::spec::Identification::Null { vlan, .. } =
                        &member.identification
                    else {
                        unreachable!("no other kind")
                    };
                    let number = (!stream.generate).then_some(index as u16);
                    let octets = frame(vlan.vlan, number);
                    let verdict = ingress[usize::from(member.port.0)].verdict(&octets);
                    assert_eq!(verdict, XDP_REDIRECT, "kill {kill}: {stream:?}");
                    let counted = node.read(&stream.name).members[index].input;
                    assert_eq!(counted, before.members[index].input + 1, "kill {kill}");
                }
            }
            // Frames of removed streams match none.
            node.apply(&[steady()]);
            for vid in 100..100 + 2 * ROOM as u16 {
                for ingress in &ingress {
                    assert_eq!(ingress.verdict(&frame(vid, Some(1))), XDP_PASS, "kill {kill}");
                }
            }
        }
        // No slots leaked: the maximum number of streams still fits, one after the other.
        let mut node = open(directory);
        for name in ["full", "again"] {
            node.apply(&[]);
            let full: Vec<Stream> = (0..ROOM as u16)
                .map(|index| {
                    let vid = 1_000 + index;
                    let members = [0, 1].map(|port| member(port, vid, Some(VECTOR))).to_vec();
                    stream(&format!("{name}{index}"), members, Some(VECTOR))
                })
                .collect();
            node.apply(&full);
            let last = frame(1_000 + ROOM as u16 - 1, Some(1));
            assert_eq!(node.ingress(1).verdict(&last), XDP_REDIRECT);
        }
    });
}
