//! Names of processes that exited before they were read. One test of this program at a time: a child of another test
//! would have the sockets of that test until it executes a program.

use std::fs::File;
use std::io::{self, Write};
use std::net::UdpSocket;
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};

use onbeat_irq::{Meter, Tracer};
use onbeat_irq_core::view::{ProcessRow, Table};
use onbeat_testing::require_that;

use crate::control_group::Group;
use crate::harness::{SENDER, World, assert_balanced, possible};
use crate::judge::turn;

/// Starts a program of Debian that reads one datagram.
fn head(socket: OwnedFd, group: &File) -> Child {
    let mut command = Command::new("head");
    command.args(["-c", "1"]).stdin(socket).stdout(Stdio::null());
    let mut group = group.try_clone().unwrap();
    // SAFETY: the child makes one system call, with a descriptor that it has.
    unsafe { command.pre_exec(move || group.write_all(b"0")) };
    command.spawn().unwrap()
}

/// Each reads one datagram from a socket of its own and exits. Their control group is removed before the ledger is read.
#[test]
fn short_lived_readers_keep_their_names() {
    const READERS: usize = 2000;
    /// The limit of open files may be 1024.
    const AT_ONCE: usize = 100;
    const NAMED_PERCENT: u64 = 98;
    if !possible() {
        return;
    }
    let Some(group) = Group::new("readers") else {
        let _ = require_that(false, "control groups of version 2");
        return;
    };
    let _turn = turn();
    let members = File::options().write(true).open(group.0.join("cgroup.procs")).unwrap();
    let world = World::new(true);
    let flow = world.flow();
    flow.pass(1, 64);
    let to = flow.reader.local_addr().unwrap().ip();
    let bind = || (0..AT_ONCE).map(|_| UdpSocket::bind((to, 0))).collect::<io::Result<Vec<_>>>();
    let writer = world.sender.namespace().run(|| UdpSocket::bind((SENDER, 0))).unwrap().unwrap();

    let mut meter = Meter::new(Tracer::start().unwrap());
    let mut names = meter.tracer().names().unwrap();
    for _ in 0..READERS / AT_ONCE {
        let sockets = world.receiver.namespace().run(bind).unwrap().unwrap();
        for socket in sockets {
            writer.send_to(&[0; 64], socket.local_addr().unwrap()).unwrap();
            assert!(head(socket.into(), &members).wait().unwrap().success());
        }
    }
    world.wait_idle();
    meter.stop();
    let path = group.path();
    drop(group);
    let mut interval = meter.read().unwrap();
    interval.resolve(|cookie| meter.tracer().owner(cookie));
    let accounts = interval.total();
    assert_eq!(meter.tracer().losses().unwrap(), Default::default());
    let table = Table::of(&accounts, interval.length_ns(), &mut names);

    let readers: Vec<_> = table.processes.iter().filter(|row| row.packets > 0).collect();
    let is_named = |row: &&&ProcessRow| {
        row.command.as_deref() == Some("head") && row.cgroup.as_deref() == Some(&path)
    };
    let named = readers.iter().filter(is_named).count();
    assert!(
        named * 100 >= READERS * NAMED_PERCENT as usize,
        "{named} of {} readers",
        readers.len()
    );
    let user = readers.iter().find(is_named).and_then(|row| row.user.as_deref());
    assert_eq!(user, Some("root"));

    let sum = |rows: &mut dyn Iterator<Item = u64>| rows.sum::<u64>();
    let processes = sum(&mut table.processes.iter().map(|row| row.caused_ns));
    let classes = sum(&mut table.unowned.iter().map(|row| row.ns));
    assert_eq!(processes + classes, accounts.owned_ns() + accounts.unowned_ns());
    let unnamed = table.processes.iter().filter(|row| row.command.is_none());
    let nameless = sum(&mut unnamed.map(|row| row.caused_ns));
    assert!(nameless * 100 <= processes * (100 - NAMED_PERCENT), "{nameless} of {processes} ns");
    let suffered = sum(&mut table.processes.iter().map(|row| row.suffered_ns));
    let nameless = table.processes.iter().filter(|row| row.command.is_none());
    let nameless = sum(&mut nameless.map(|row| row.suffered_ns));
    assert!(nameless * 100 <= suffered * (100 - NAMED_PERCENT), "{nameless} of {suffered} ns");
    assert_balanced(&accounts);
}
