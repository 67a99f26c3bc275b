//! Large numbers, and changes during the measurement.

use std::fs;
use std::net::UdpSocket;
use std::time::Instant;

use nix::sys::resource::{Resource, getrlimit, setrlimit};
use onbeat_irq::names::Names;
use onbeat_irq::{Meter, Tracer};
use onbeat_irq_core::charge::Cause;
use onbeat_irq_core::view::Table;
use onbeat_testing::require_that;

use crate::control_group::Group;
use crate::harness::{BOUND, World, assert_balanced, caused, possible, this_process, total};
use crate::reader::Reader;

/// Each with one packet, before any read, and read by this process later.
#[test]
fn ten_thousand_sockets() {
    const SOCKETS: u32 = 10_000;
    if !possible() {
        return;
    }
    let (_, most) = getrlimit(Resource::RLIMIT_NOFILE).unwrap();
    let wanted = u64::from(SOCKETS) + 1000;
    if !require_that(most >= wanted, "11,000 open files (ulimit -Hn)") {
        return;
    }
    setrlimit(Resource::RLIMIT_NOFILE, wanted.max(most.min(65536)), most).unwrap();
    let world = World::new(true);
    let flow = world.flow();
    flow.pass(1, 64);
    let to = flow.reader.local_addr().unwrap().ip();
    let bind = || {
        let sockets = (0..SOCKETS).map(|_| UdpSocket::bind((to, 0)).unwrap());
        sockets.collect::<Vec<UdpSocket>>()
    };
    let sockets = world.receiver.namespace().run(bind).unwrap();
    let writer = world.sender.namespace().run(|| UdpSocket::bind("0.0.0.0:0")).unwrap().unwrap();

    let mut tracer = Tracer::start().unwrap();
    let send = |sockets: &[UdpSocket]| {
        for socket in sockets {
            writer.send_to(&[0; 64], socket.local_addr().unwrap()).unwrap();
        }
    };
    let read = |sockets: &[UdpSocket]| {
        for socket in sockets {
            socket.set_read_timeout(Some(BOUND)).unwrap();
            socket.recv(&mut [0; 64]).unwrap();
        }
    };
    for part in sockets.chunks(100) {
        send(part);
        read(part);
        send(part);
        read(part);
    }
    tracer.stop();
    let accounts = total(&tracer);
    assert_eq!(tracer.losses().unwrap(), Default::default());
    let ours = caused(&accounts, this_process(), world.device());
    assert_eq!(ours.packets, 2 * u64::from(SOCKETS), "{} causes", accounts.caused.len());
}

/// The table has no rows of processes that have exited.
#[test]
fn rows_of_exited_processes_are_removed() {
    const PROCESSES: usize = 40;
    let Some(world) = World::if_possible(true) else { return };
    let flow = world.flow();
    let mut meter = Meter::new(Tracer::start().unwrap());
    let mut sum = onbeat_irq_core::charge::Accounts::default();
    let mut dead = Vec::new();
    for _ in 0..PROCESSES {
        let mut child = Reader::of(&flow.reader);
        for _ in 0..2 {
            child.begin(10);
            flow.send(10, 100);
            child.finish();
        }
        dead.push(child.process);
        drop(child);
        meter.read().unwrap().cpus.iter().for_each(|cpu| sum.add(cpu));
    }
    // One reading finds that nothing was added, and removes such rows.
    let deadline = Instant::now() + BOUND;
    loop {
        meter.read().unwrap().cpus.iter().for_each(|cpu| sum.add(cpu));
        let rows = meter.tracer().accounts().unwrap();
        let is_dead = |cause: &Cause| matches!(cause, Cause::Process { process, .. } if dead.contains(process));
        if !rows.iter().flat_map(|cpu| cpu.caused.keys()).any(is_dead) {
            break;
        }
        assert!(Instant::now() < deadline, "{} rows", meter.rows());
    }
    world.wait_idle();
    meter.stop();
    meter.read().unwrap().cpus.iter().for_each(|cpu| sum.add(cpu));
    sum.resolve(|cookie| meter.tracer().owner(cookie));
    // Packets that arrive before the first read belong to the process that opened the socket.
    let processes = dead.iter().copied().chain([this_process()]);
    let packets = processes.map(|process| caused(&sum, process, world.device()).packets);
    assert_eq!(packets.sum::<u64>(), 20 * PROCESSES as u64, "{:?}", sum.caused);
    assert_balanced(&sum);
}

/// It forks, gets another priority, and is moved to another control group: it stays the same row, with its
/// present names.
#[test]
fn a_process_that_changes_stays_one_row() {
    if !possible() {
        return;
    }
    let Some(group) = Group::new("moved") else {
        let _ = require_that(false, "control groups of version 2");
        return;
    };
    let world = World::new(true);
    let flow = world.flow();
    let mut child = Reader::of(&flow.reader);
    let process = child.process;
    let mut tracer = Tracer::start().unwrap();
    let mut pass = |packets| {
        child.begin(packets);
        flow.send(packets, 100);
        child.finish();
    };
    pass(1);
    pass(10);
    // SAFETY: it takes numbers only.
    assert_eq!(unsafe { libc::setpriority(libc::PRIO_PROCESS, process.pid, 5) }, 0);
    pass(10);
    fs::write(group.0.join("cgroup.procs"), process.pid.to_string()).unwrap();
    pass(10);
    // Its own child is another process, which reads nothing.
    let bystander = Reader::of(&flow.reader);
    pass(10);

    let mut names = Names::new();
    let accounts = total(&tracer);
    let table = Table::of(&accounts, 1, &mut names);
    let row = table.processes.iter().find(|row| row.pid == process.pid).unwrap();
    assert_eq!((row.packets, row.ended), (41, false));
    assert_eq!(row.cgroup, Some(group.path()));
    assert_eq!(caused(&accounts, bystander.process, world.device()).packets, 0);

    // After its exit it keeps its last name.
    drop(child);
    names.refresh();
    tracer.stop();
    let row = onbeat_irq_core::names::Names::process(&mut names, process);
    assert!(row.ended && row.description.is_some());
}
