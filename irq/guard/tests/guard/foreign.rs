//! Interrupts of others on the CPU of the guarded interface, each with a cause made here.

use std::collections::BTreeMap;
use std::fs;
use std::io::{Read, Write};
use std::net::{IpAddr, UdpSocket};
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::thread;

use nix::sched::{CpuSet, sched_setaffinity};
use nix::unistd::Pid;
use onbeat_irq_guard::{Event, InterruptSource};
use onbeat_netdev::VethEnd;
use onbeat_testing::require_that;

use crate::harness::World;
use crate::kernel::turn;
use crate::running::RunningGuard;

/// The guarded CPU, and that of the causes.
const GUARDED: usize = 1;
const OTHER: usize = 0;

/// A guard of one CPU, beside another interface x0 (10.8.0.2) of the same host; its peer is x1 (10.8.0.1).
fn guarded(cpu: usize) -> Option<(World, RunningGuard)> {
    if !require_that(thread::available_parallelism().unwrap().get() > 1, "two CPUs") {
        return None;
    }
    let world = World::with_napi();
    let far = VethEnd::new("x0").namespace(world.receiver.namespace());
    world.sender.create_veth(&VethEnd::new("x1"), &far).unwrap();
    for (handle, name, address) in
        [(&world.sender, "x1", [10, 8, 0, 1]), (&world.receiver, "x0", [10, 8, 0, 2])]
    {
        handle.set_ipv6(name, false).unwrap();
        handle.add_address(name, IpAddr::from(address), 24).unwrap();
        handle.set_up(name).unwrap();
    }
    let guard = RunningGuard::start(&world, |config| {
        config.cpus = Some(cpu.to_string().parse().unwrap());
    });
    guard.wait_for("start", || !guard.events().is_empty());
    Some((world, guard))
}

fn pin(cpu: usize) {
    let mut one = CpuSet::new();
    one.set(cpu).unwrap();
    sched_setaffinity(Pid::from_raw(0), &one).unwrap();
}

/// Repeats a cause on a CPU until the guard reports a source of this kind whose name starts so; returns name and
/// remedy. Other processes of this host cause interrupts, too.
fn reported(
    guard: &RunningGuard,
    cpu: usize,
    (wanted, start): (InterruptSource, &str),
    mut cause: impl FnMut() + Send,
) -> (String, String) {
    let found = || {
        guard.events().into_iter().find_map(|event| match event {
            Event::ForeignInterrupts { source, name, per_s, remedy, .. }
                if source == wanted && name.starts_with(start) =>
            {
                assert!(per_s >= 100, "{per_s}");
                Some((name, remedy))
            }
            _ => None,
        })
    };
    let pinned = || {
        pin(cpu);
        let cause = std::sync::Mutex::new(&mut cause);
        guard.wait_for("report", || {
            (cause.lock().unwrap())();
            found().is_some()
        });
    };
    thread::scope(|scope| scope.spawn(pinned).join()).unwrap();
    found().unwrap()
}

#[test]
fn wake_ups_from_another_cpu_are_reported() {
    let Some(_turn) = turn() else { return };
    let Some((_world, guard)) = guarded(GUARDED) else { return };
    let mut cat = Command::new("cat");
    cat.stdin(Stdio::piped()).stdout(Stdio::piped());
    let on_guarded = || {
        pin(GUARDED);
        Ok(())
    };
    // SAFETY: one system call.
    unsafe { cat.pre_exec(on_guarded) };
    let mut cat = cat.spawn().unwrap();
    let pid = cat.id();
    let (mut to, mut from) = (cat.stdin.take().unwrap(), cat.stdout.take().unwrap());
    let (name, remedy) = reported(&guard, OTHER, (InterruptSource::WakeUp, "cat ("), || {
        to.write_all(b"x").unwrap();
        from.read_exact(&mut [0]).unwrap();
    });
    drop(to);
    cat.wait().unwrap();
    assert_eq!(name, format!("cat ({pid})"));
    assert_eq!(remedy, format!("taskset -pc {OTHER} {pid}"));
    guard.stop();
}

#[test]
fn packets_of_another_device_are_reported() {
    let Some(_turn) = turn() else { return };
    let Some((world, guard)) = guarded(GUARDED) else { return };
    let receiver = world.receiver.namespace();
    let socket = || UdpSocket::bind("10.8.0.1:0").unwrap();
    let sender = world.sender.namespace().run(socket).unwrap();
    let send = || assert_eq!(sender.send_to(&[0; 64], "10.8.0.2:9").unwrap(), 64);
    // CPU 0 receives, and steers the packets to CPU 1.
    let queue = "/sys/class/net/x0/queues/rx-0/rps_cpus";
    receiver.run_with_sysfs(|| fs::write(queue, format!("{:x}", 1 << GUARDED))).unwrap().unwrap();
    let (name, remedy) = reported(&guard, OTHER, (InterruptSource::Rps, "x0"), send);
    assert_eq!(name, "x0", "{remedy}");
    assert!(remedy.contains("rps_cpus"), "{remedy}");
    receiver.run_with_sysfs(|| fs::write(queue, "0")).unwrap().unwrap();
    // In softirq of the CPU that sends them.
    World::give_napi_to(&world.receiver, "x0", &world.sender, "x1");
    let (name, remedy) = reported(&guard, GUARDED, (InterruptSource::Packets, "x0"), send);
    assert_eq!(name, "x0", "{remedy}");
    assert!(remedy.ends_with("echo 1 > /sys/class/net/x0/threaded"), "{remedy}");
    // Those of the guarded interface are not.
    let flow = world.flow();
    flow.pass(1000, 64);
    for event in guard.events() {
        let own = |name: &str| name.starts_with("r0") || name.contains("napi/r0");
        let Event::ForeignInterrupts { name, .. } = &event else { continue };
        assert!(!own(name), "{event:?}");
    }
    guard.stop();
}

#[test]
fn calls_from_another_cpu_are_reported() {
    let Some(_turn) = turn() else { return };
    let Some((_world, guard)) = guarded(GUARDED) else { return };
    // SAFETY: numbers only.
    let membarrier =
        |command: libc::c_int| unsafe { libc::syscall(libc::SYS_membarrier, command, 0, 0) };
    let register = libc::MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED;
    assert_eq!(membarrier(register), 0);
    let stop = std::sync::atomic::AtomicBool::new(false);
    let (name, remedy) = thread::scope(|scope| {
        let spin = || {
            pin(GUARDED);
            while !stop.load(std::sync::atomic::Ordering::Relaxed) {
                std::hint::spin_loop();
            }
        };
        scope.spawn(spin);
        let call = || assert_eq!(membarrier(libc::MEMBARRIER_CMD_PRIVATE_EXPEDITED), 0);
        let found = reported(&guard, OTHER, (InterruptSource::FunctionCall, "ipi_mb "), call);
        stop.store(true, std::sync::atomic::Ordering::Relaxed);
        found
    });
    assert!(name.contains(" by "), "{name}");
    assert!(remedy.starts_with(&format!("taskset -apc {OTHER} ")), "{remedy}");
    guard.stop();
}

/// The line of the disk, on the CPU that it has: no setting of this host is changed.
#[test]
fn interrupts_of_another_device_are_reported() {
    let Some(_turn) = turn() else { return };
    // /tmp may have no disk.
    let path = concat!(env!("CARGO_TARGET_TMPDIR"), "/foreign-line");
    let mut file = fs::File::create(path).unwrap();
    let mut write = || {
        file.write_all(&[0; 512]).unwrap();
        file.sync_all().unwrap();
    };
    let before = [OTHER, GUARDED].map(lines_of);
    (0..50).for_each(|_| write());
    let found = [OTHER, GUARDED].into_iter().find_map(|cpu| {
        let more = |(number, count): &(u32, u64)| {
            *count >= before[cpu].get(number).copied().unwrap_or(0) + 25
        };
        Some((cpu, lines_of(cpu).into_iter().find(more)?.0))
    });
    if !require_that(found.is_some(), "interrupts of a disk") {
        return;
    }
    let (cpu, number) = found.unwrap();
    let Some((_world, guard)) = guarded(cpu) else { return };
    let (name, remedy) = reported(&guard, 1 - cpu, (InterruptSource::Device, ""), write);
    assert!(name.ends_with(&format!(" (irq {number})")), "{name}");
    assert_eq!(remedy, format!("echo {} > /proc/irq/{number}/smp_affinity_list", 1 - cpu));
    guard.stop();
}

/// Interrupts of lines on a CPU, as /proc/interrupts counts them.
fn lines_of(cpu: usize) -> BTreeMap<u32, u64> {
    let text = fs::read_to_string("/proc/interrupts").unwrap();
    let counts = text.lines().filter_map(|line| {
        let (number, counts) = line.split_once(':')?;
        let count = counts.split_whitespace().nth(cpu)?.parse().ok()?;
        Some((number.trim().parse().ok()?, count))
    });
    counts.collect()
}
