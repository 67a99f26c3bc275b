//! The guard on this kernel, with packets between network namespaces.

use std::fs;
use std::net::UdpSocket;
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::net::UnixStream;
use std::sync::{Mutex, MutexGuard, PoisonError, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use libbpf_rs::libbpf_sys as sys;
use libbpf_rs::query::ProgInfoIter;
use nix::sys::socket::{setsockopt, sockopt::RcvBuf};
use onbeat_irq::names::Stat;
use onbeat_irq_core::policy::{Budget, Limit, Rank, Settings};
use onbeat_irq_guard::{Config, DropPoint, Event, Namespaces, Rule, Usage};
use onbeat_netdev::{Handle, Namespace, XdpMode, napi};
use onbeat_realtime::Profile;
use onbeat_testing::{
    AttachMethod, Feature, ForeignProgram, TemporaryDirectory, require, require_all, require_that,
};

use crate::harness::{BOUND, Flow, RECEIVER, World};
use crate::reader::{Reader, without_forks};
use crate::running::RunningGuard;

/// One test at a time: all are threads of one process, which has the sockets of all of them open, as have the
/// processes that it forks.
pub(crate) fn turn() -> Option<MutexGuard<'static, ()>> {
    static TURN: Mutex<()> = Mutex::new(());
    let features = [Feature::Root, Feature::Veth, Feature::Btf, Feature::Kernel(6, 8)];
    require_all(&features).then(|| TURN.lock().unwrap_or_else(PoisonError::into_inner))
}

/// r0's NAPI thread, if it has one.
fn napi_thread(world: &World) -> Option<u32> {
    let instances = napi::instances(&world.receiver, "r0").unwrap().expect("Linux 6.8");
    instances.iter().find_map(|instance| instance.pid)
}

pub(crate) fn has(world: &World, wanted: u32) -> bool {
    napi_thread(world)
        .and_then(Stat::of_number)
        .is_some_and(|stat| stat.realtime_priority == wanted)
}

pub(crate) fn set_fifo(pid: u32, priority: i32) {
    let parameters = libc::sched_param { sched_priority: priority };
    let policy = if priority == 0 { libc::SCHED_OTHER } else { libc::SCHED_FIFO };
    // SAFETY: `parameters` lives across the call.
    let result = unsafe { libc::sched_setscheduler(pid as i32, policy, &raw const parameters) };
    assert_eq!(result, 0, "{}", std::io::Error::last_os_error());
}

/// Before the first packet: the waiting process is found by its socket.
#[test]
fn the_napi_thread_follows_the_waiting_process() {
    let Some(_turn) = turn() else { return };
    let world = World::with_napi();
    let flow = world.flow();
    let reader = Reader::of(&flow.reader);
    let guard = RunningGuard::start(&world, |_| ());
    guard.wait_for("thread of NAPI", || has(&world, 0));
    // It changes its priority while guarded, up and down,
    for wanted in [50, 70, 20] {
        set_fifo(reader.process.pid, wanted);
        guard.wait_for(&format!("priority {wanted}"), || has(&world, wanted as u32));
    }
    flow.pass(100, 512);
    // and is killed.
    drop(reader);
    guard.wait_for("former priority", || has(&world, 0));
    guard.stop();
    // Older kernels keep the thread, which then sleeps.
    let threaded = || napi::threaded("r0").unwrap();
    assert!(!world.receiver.namespace().run_with_sysfs(threaded).unwrap());
    // As before the guard, in softirq.
    flow.pass(100, 512);
}

#[test]
fn the_priority_is_that_of_the_reading_thread() {
    let Some(_turn) = turn() else { return };
    let world = World::with_napi();
    let flow = world.flow();
    let settings = Settings { hold_ns: 0, ..Settings::default() };
    let guard = RunningGuard::start(&world, |config| config.settings = settings);
    let (done, is_done) = std::sync::mpsc::channel::<()>();
    let high = thread::spawn(move || {
        let _realtime = Profile::default().scheduled("fifo 30".parse().unwrap()).enter().unwrap();
        // Exits when the sender does.
        let _ = is_done.recv();
    });
    // No read yet: the highest thread of the process.
    guard.wait_for("priority of the highest thread", || has(&world, 30));
    guard.wait_for("priority of the reader", || {
        flow.pass(1, 100);
        has(&world, 0)
    });
    drop(done);
    high.join().unwrap();
    guard.stop();
}

#[test]
fn a_guard_excludes_others_of_its_namespace_that_do_not_share_run() {
    let Some(_turn) = turn() else { return };
    let world = World::with_napi();
    let guard = RunningGuard::start(&world, |_| ());
    guard.wait_for("event", || !guard.events().is_empty());
    // As in a container on the network of the host: its directory is another one.
    let directory = TemporaryDirectory::new("guard-other");
    let restore = || onbeat_irq_guard::restore(directory.path(), false);
    let refusal = world.receiver.namespace().run(restore).unwrap().unwrap_err().to_string();
    let holder = format!("\"@onbeat/guard\" cannot be acquired: process {} (", std::process::id());
    assert!(refusal.contains(&holder), "{refusal}");
    guard.stop();
    assert_eq!(world.receiver.namespace().run(restore).unwrap().unwrap(), []);
}

/// With scans an hour apart, only what the kernel reports is found.
#[test]
fn changes_are_found_without_a_regular_scan() {
    let Some(_turn) = turn() else { return };
    let world = World::with_napi();
    let guard = RunningGuard::start(&world, |config| {
        config.interval = Duration::from_secs(3600);
        config.settings = Settings { hold_ns: 0, ..Settings::default() };
    });
    guard.wait_for("thread of NAPI", || has(&world, 0));
    // A new process, with a new socket.
    let flow = world.flow();
    let reader = Reader::of(&flow.reader);
    for wanted in [50, 70, 20] {
        set_fifo(reader.process.pid, wanted);
        guard.wait_for(&format!("priority {wanted}"), || has(&world, wanted as u32));
    }
    // Another process changes the NAPI thread,
    let thread = napi_thread(&world).unwrap();
    set_fifo(thread, 90);
    guard.wait_for("priority again", || has(&world, 20));
    let changed =
        |event: &Event| matches!(event, Event::SettingChanged { found, .. } if found == "fifo 90");
    guard.wait_for("event", || guard.events().iter().any(changed));
    // and the process exits.
    drop(reader);
    guard.wait_for("former priority", || has(&world, 0));
    guard.stop();
}

/// After RPS, another CPU processes packets at no priority: in softirq, which the kernel counts
/// (/proc/net/softnet_stat), or in a thread of the kernel (PREEMPT_RT), which is scheduled for it.
#[test]
fn no_packet_leaves_the_napi_thread_by_rps() {
    let Some(_turn) = turn().filter(|_| {
        require_that(thread::available_parallelism().is_ok_and(|cpus| cpus.get() > 1), "two CPUs")
    }) else {
        return;
    };
    let world = World::with_napi();
    let steer = |value: &str| fs::write("/sys/class/net/r0/queues/rx-0/rps_cpus", value).unwrap();
    let steers = |cpus: &str| world.receiver.namespace().run_with_sysfs(|| steer(cpus)).unwrap();
    let mask = || {
        let read = || fs::read_to_string("/sys/class/net/r0/queues/rx-0/rps_cpus").unwrap();
        let text = world.receiver.namespace().run_with_sysfs(read).unwrap();
        u64::from_str_radix(&text.trim().replace(',', ""), 16).unwrap()
    };
    let runs_of = |pid: u32| -> Option<u64> {
        let is = fs::read_to_string(format!("/proc/{pid}/comm")).ok()? == "backlog_napi/1\n";
        let status = fs::read_to_string(format!("/proc/{pid}/status")).ok().filter(|_| is)?;
        let runs = status.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"));
        runs?.trim().parse().ok()
    };
    let thread = (1..1000).find(|pid| runs_of(*pid).is_some());
    let by_cpu_1 = || -> u64 {
        if let Some(thread) = thread {
            return runs_of(thread).unwrap();
        }
        let text = fs::read_to_string("/proc/net/softnet_stat").unwrap();
        let received_rps = |line: &str| line.split(' ').nth(9).unwrap().to_owned();
        text.lines().map(|line| u64::from_str_radix(&received_rps(line), 16).unwrap()).sum()
    };
    let flow = world.flow();
    // This thread sends, so that packets arrive on CPU 0.
    let pinned = Profile::default().on_cpus("0".parse().unwrap()).enter().unwrap();
    let passed = || {
        let before = by_cpu_1();
        flow.pass(100, 100);
        by_cpu_1() - before
    };
    steers("2");
    assert!(passed() > 0, "without a guard, CPU 1 processes packets");
    let guard = RunningGuard::start(&world, |config| config.cpus = Some("0".parse().unwrap()));
    guard.wait_for("RPS off", || mask() == 0);
    assert_eq!(passed(), 0);
    // Another process sets it while the guard runs.
    for cpus in ["2", "3"] {
        steers(cpus);
        guard.wait_for("RPS off again", || mask() == 0);
        assert_eq!(passed(), 0);
    }
    let changed = |event: &&Event| matches!(event, Event::SettingChanged { .. });
    guard.wait_for("events", || guard.events().iter().filter(changed).count() == 2);
    guard.stop();
    drop(pinned);
    assert_eq!(mask(), 2);
}

/// Another process takes a NAPI instance out of its thread: the setting of the interface does not show that (Linux 6.17).
#[test]
fn no_napi_instance_leaves_its_thread() {
    let Some(_turn) = turn() else { return };
    let world = World::with_napi();
    let instances = napi::Instances::open(&world.receiver).unwrap().expect("Linux 6.8");
    let index = world.receiver.index("r0").unwrap();
    let modes = || -> Vec<(u32, Option<u32>)> {
        let found = instances.of(index, "r0").unwrap().expect("Linux 6.8");
        found.iter().map(|instance| (instance.id, instance.threaded)).collect()
    };
    let before = modes();
    if !require_that(before.iter().all(|(_, mode)| mode.is_some()), "NAPI modes per instance") {
        return;
    }
    // It had a mode of its own before.
    instances.set_threaded(before[0].0, 1, "r0").unwrap();
    let flow = world.flow();
    let reader = Reader::of(&flow.reader);
    set_fifo(reader.process.pid, 40);
    let guard = RunningGuard::start(&world, |_| ());
    guard.wait_for("priority", || has(&world, 40));
    for _ in 0..2 {
        instances.set_threaded(before[0].0, 0, "r0").unwrap();
        let all_threaded = || modes().iter().all(|(_, mode)| *mode == Some(1));
        guard.wait_for("thread again", || all_threaded() && has(&world, 40));
    }
    let changed = |event: &&Event| matches!(event, Event::SettingChanged { setting, .. } if setting.starts_with("napi-get r0"));
    guard.wait_for("events", || guard.events().iter().filter(changed).count() == 2);
    flow.pass(100, 512);
    guard.stop();
    assert_eq!(modes()[0], (before[0].0, Some(1)));
    assert!(modes()[1..].iter().all(|(_, mode)| *mode == Some(0)), "{:?}", modes());
}

/// The bound address decides the device that the owner waits for.
#[test]
fn a_socket_on_another_device_changes_no_priority() {
    let Some(_turn) = turn() else { return };
    let world = World::with_napi();
    world.receiver.set_up("lo").unwrap();
    let bind = |address: &str| {
        let address = format!("{address}:0");
        world.receiver.namespace().run(|| UdpSocket::bind(&*address).unwrap()).unwrap()
    };
    let elsewhere = bind("127.0.0.1");
    let there = Reader::of(&elsewhere);
    set_fifo(there.process.pid, 60);
    drop(elsewhere);
    let guard = RunningGuard::start(&world, |_| ());
    guard.wait_for("thread of NAPI", || has(&world, 0));
    let any = bind("0.0.0.0");
    let here = Reader::of(&any);
    drop(any);
    set_fifo(here.process.pid, 40);
    guard.wait_for("priority of the thread that waits for any address", || has(&world, 40));
    guard.stop();
}

/// As in a container behind a bridge or a route.
#[test]
fn sockets_of_other_namespaces_count_with_namespaces_all() {
    let Some(_turn) = turn() else { return };
    let world = World::with_napi();
    let container = Handle::in_namespace(&Namespace::new().unwrap()).unwrap();
    container.set_up("lo").unwrap();
    let waits = |handle: &Handle, address: &str, priority| {
        let address = format!("{address}:0");
        let socket = handle.namespace().run(|| UdpSocket::bind(&*address).unwrap()).unwrap();
        let reader = Reader::of(&socket);
        set_fifo(reader.process.pid, priority);
        reader
    };
    let _on_loopback = waits(&container, "127.0.0.1", 60);
    let _in_container = waits(&container, "0.0.0.0", 40);
    let _here = waits(&world.receiver, "0.0.0.0", 20);
    for (namespaces, wanted) in [(Namespaces::All, 40), (Namespaces::Own, 20)] {
        let guard = RunningGuard::start(&world, |config| config.namespaces = namespaces);
        guard.wait_for("priority", || has(&world, wanted));
        guard.stop();
    }
}

#[test]
fn a_removed_device_leaves_nothing() {
    let Some(_turn) = turn() else { return };
    let world = World::with_napi();
    let guard = RunningGuard::start(&world, |_| ());
    guard.wait_for("thread of NAPI", || napi_thread(&world).is_some());
    world.sender.delete("s0").unwrap();
    let vanished = |event: &Event| matches!(event, Event::InterfaceMissing { .. });
    guard.wait_for("event", || guard.events().iter().any(vanished));
    guard.stop();
}

/// This many sockets of this process, at the receiver; `None` if the limit on open files is lower.
pub(crate) fn many_sockets(world: &World, count: usize) -> Option<Vec<UdpSocket>> {
    use nix::sys::resource::{Resource, getrlimit, setrlimit};
    let files = count as u64 + 1000;
    let (soft, hard) = getrlimit(Resource::RLIMIT_NOFILE).unwrap();
    if soft < files {
        // Root can raise the hard limit, too.
        let _ = setrlimit(Resource::RLIMIT_NOFILE, files, hard.max(files));
    }
    let room = getrlimit(Resource::RLIMIT_NOFILE).unwrap().0 >= files;
    let open = || (0..count).map(|_| UdpSocket::bind("0.0.0.0:0").unwrap()).collect();
    onbeat_testing::require_that(room, &format!("{files} open files (ulimit -n)"))
        .then(|| world.receiver.namespace().run(open).unwrap())
}

/// 10,000 sockets of a process.
#[test]
fn many_sockets_are_one_waiting_thread() {
    let Some(_turn) = turn() else { return };
    let world = World::with_napi();
    let Some(sockets) = many_sockets(&world, 10_000) else { return };
    let reader = Reader::of(&sockets[0]);
    set_fifo(reader.process.pid, 33);
    let guard = RunningGuard::start(&world, |_| ());
    guard.wait_for("priority", || has(&world, 33));
    drop(sockets);
    guard.stop();
}

/// Sends packets, one after another, until one arrives: all earlier packets have left the queues.
pub(crate) fn arrive(flow: &Flow) {
    let deadline = Instant::now() + BOUND;
    flow.reader.set_read_timeout(Some(Duration::from_millis(100))).unwrap();
    flow.send(1, 1);
    while flow.reader.recv(&mut [0; 1]).is_err() {
        assert!(Instant::now() < deadline, "no packet arrives");
        flow.send(1, 1);
    }
    flow.reader.set_read_timeout(Some(BOUND)).unwrap();
}

/// Packets above a process's budget are dropped early; packets for others are not.
#[test]
fn packets_above_a_budget_are_dropped_at_tc_ingress_and_counted() {
    drops_early(DropPoint::Tc, "guard_ingress");
}

#[test]
fn packets_above_a_budget_are_dropped_in_the_driver_and_counted() {
    drops_early(DropPoint::Xdp, "guard_xdp");
}

/// The programs of r0, in the driver and at tc ingress, by their ids. Interfaces of other namespaces may
/// have its index.
fn attached(world: &World) -> Vec<u32> {
    let index = world.receiver.index("r0").unwrap() as i32;
    let query = || {
        let (mut driver, mut ingress) = (0, [0; 16]);
        // SAFETY: a number, and room for one.
        let code = unsafe { sys::bpf_xdp_query_id(index, 0, &raw mut driver) };
        assert_eq!(code, 0);
        let mut options = sys::bpf_prog_query_opts {
            sz: size_of::<sys::bpf_prog_query_opts>() as sys::size_t,
            prog_ids: ingress.as_mut_ptr(),
            __bindgen_anon_1: sys::bpf_prog_query_opts__bindgen_ty_1 {
                count: ingress.len() as u32,
            },
            ..Default::default()
        };
        // SAFETY: options with room for as many ids as they say, which outlives the call.
        let code =
            unsafe { sys::bpf_prog_query_opts(index, sys::BPF_TCX_INGRESS, &raw mut options) };
        assert_eq!(code, 0);
        ingress.into_iter().chain([driver]).filter(|id| *id != 0).collect()
    };
    world.receiver.namespace().run(query).unwrap()
}

/// Whether r0 has a program of this name, in the driver or at tc ingress.
fn has_program(world: &World, name: &str) -> bool {
    let attached = attached(world);
    ProgInfoIter::default()
        .any(|program| program.name.to_str() == Some(name) && attached.contains(&program.id))
}

/// An interface has one XDP program: if there is another one, the guard uses tc ingress.
#[test]
fn with_another_xdp_program_packets_are_dropped_at_tc_ingress() {
    let Some(_turn) = turn().filter(|_| require(Feature::Kernel(6, 6))) else { return };
    let world = World::with_napi();
    for hold in [AttachMethod::Link, AttachMethod::Interface] {
        let other = ForeignProgram::attach(&world.receiver, "r0", hold, XdpMode::Native);
        let guard = RunningGuard::start(&world, |config: &mut Config| {
            let budget = Budget { ns_per_s: 10_000 };
            config.budgets = vec![Rule::any(budget)];
            config.drop_at = DropPoint::Xdp;
        });
        guard.wait_for("program at tc ingress", || has_program(&world, "guard_ingress"));
        assert!(!has_program(&world, "guard_xdp"));
        guard.stop();
        // A process that lists programs, as bpftool does, holds one for a moment.
        let deadline = Instant::now() + BOUND;
        while has_program(&world, "guard_ingress") {
            assert!(Instant::now() < deadline, "the program stays behind the guard");
            thread::yield_now();
        }
        other.detach(&world.receiver);
    }
}

fn drops_early(drop_at: DropPoint, program: &str) {
    let Some(_turn) = turn().filter(|_| require(Feature::Kernel(6, 6))) else { return };
    let world = World::with_napi();
    let (greedy, modest) = (world.flow(), world.flow());
    let mut reader = Reader::of(&greedy.reader);
    // A child of this thread has its name; this process has that of the program.
    let name = |pid| fs::read_to_string(format!("/proc/{pid}/comm")).unwrap().trim().to_owned();
    let greedy_name = name(reader.process.pid);
    assert_ne!(greedy_name, name(std::process::id()));
    setsockopt(&modest.reader, RcvBuf, &(4 << 20)).unwrap();
    let guard = RunningGuard::start(&world, |config| {
        let (command, budget) = (Some(greedy_name), Budget { ns_per_s: 10_000 });
        config.budgets = vec![Rule { command, ..Rule::any(budget) }];
        config.drop_at = drop_at;
    });
    guard.wait_for("process with a budget", || guard.usage().len() == 1);
    let dropped = || guard.usage().iter().map(|usage| usage.dropped).sum::<u64>();
    // Its packets cost far more than 10 us per second.
    reader.begin(u32::MAX);
    guard.wait_for("packets dropped early", || {
        greedy.send(100, 100);
        dropped() > 0
    });
    assert!(has_program(&world, program));
    let usage = guard.usage();
    assert_eq!(usage[0].process, reader.process);
    assert!(matches!(usage[0].limit, Limit::PacketsPerSecond(_)), "{usage:?}");
    // After so long a flood there may be no room for the first.
    arrive(&modest);
    modest.pass(1000, 100);
    guard.stop();
    // Without the guard no packet is dropped: new packets arrive.
    drop(reader);
    while greedy.reader.set_nonblocking(true).is_ok() && greedy.reader.recv(&mut [0; 1]).is_ok() {}
    greedy.reader.set_nonblocking(false).unwrap();
    greedy.pass(100, 100);
}

/// Five other processes have 10,000 sockets each. A process that starts to wait, or changes its priority, is found by a scan of
/// it alone.
#[test]
fn many_sockets_of_others_do_not_delay_a_change() {
    let Some(_turn) = turn() else { return };
    let world = World::with_napi();
    let Some(sockets) = many_sockets(&world, 10_000) else { return };
    // Each has all of them open.
    let others: Vec<_> = {
        let _forks = without_forks();
        (0..5).map(|_| Reader::of_all(&sockets[0])).collect()
    };
    drop(sockets);
    let flow = world.flow();
    let guard = RunningGuard::start(&world, |config| {
        // No scan of all follows the first one.
        config.interval = Duration::from_secs(3600);
        config.settings = Settings { hold_ns: 0, ..Settings::default() };
    });
    guard.wait_for("thread of NAPI", || has(&world, 0));
    let reader = Reader::of(&flow.reader);
    for wanted in [50, 70, 20] {
        let changed = Instant::now();
        set_fifo(reader.process.pid, wanted);
        guard.wait_for(&format!("priority {wanted}"), || has(&world, wanted as u32));
        eprintln!("priority {wanted} after {:?}", changed.elapsed());
    }
    drop((reader, others));
    guard.wait_for("former priority", || has(&world, 0));
    guard.stop();
}

/// It reports priorities and limits, and changes neither.
#[test]
fn a_preview_follows_changes_and_makes_none() {
    let Some(_turn) = turn().filter(|_| require(Feature::Kernel(6, 6))) else { return };
    let world = World::with_napi();
    let flow = world.flow();
    let mut reader = Reader::named(&flow.reader, Some(c"previewed"));
    let process = reader.process;
    let mut config = Config::of(vec!["r0".to_owned()]);
    config.budgets = vec![Rule::any(Budget { ns_per_s: 10_000 })];
    let (stop, stops) = UnixStream::pair().unwrap();
    let reports = Mutex::new((Vec::new(), Vec::new()));
    let (started, starts) = mpsc::channel();
    thread::scope(|scope| {
        let (config, stops, reports) = (&config, &stops, &reports);
        let receiver = world.receiver.namespace();
        let watch = move || {
            let mut report = |events: &[Event], usage: &[Usage]| {
                let mut reports = reports.lock().unwrap();
                reports.0.extend_from_slice(events);
                reports.1 = usage.to_vec();
                // The test may have failed.
                let _ = started.send(());
            };
            let watch = || onbeat_irq_guard::watch(config, stops.as_fd(), &mut report).unwrap();
            receiver.run(watch).unwrap();
        };
        let watching = scope.spawn(watch);
        // Ends it also if the test fails.
        let stop = stop;
        // A slow machine needs long to load the programs.
        starts.recv().expect("a first step");
        let wait_for = |what: &str, condition: &mut dyn FnMut() -> bool| {
            let deadline = Instant::now() + BOUND;
            while !condition() {
                assert!(!watching.is_finished(), "it has ended: {what}");
                assert!(Instant::now() < deadline, "no {what}: {:?}", reports.lock().unwrap());
                thread::yield_now();
            }
        };
        let usage = || reports.lock().unwrap().1.iter().find(|one| one.process == process).cloned();
        wait_for("budget", &mut || usage().is_some());
        set_fifo(process.pid, 40);
        let raised = |event: &Event| {
            matches!(event, Event::PriorityChanged { to: Rank::Realtime { priority: 40 }, .. })
        };
        wait_for("priority", &mut || reports.lock().unwrap().0.iter().any(raised));
        assert_eq!(napi_thread(&world), None);
        reader.begin(u32::MAX);
        wait_for("limit", &mut || {
            flow.send(10, 100);
            usage().is_some_and(|usage| usage.limit != Limit::None)
        });
        assert!(!has_program(&world, "guard_ingress"));
        assert_eq!(usage().unwrap().dropped, 0);
        drop(stop);
    });
}

/// A process with a socket and a budget, one with neither, and none.
#[test]
fn a_decision_is_explained() {
    let Some(_turn) = turn() else { return };
    let world = World::with_napi();
    let flow = world.flow();
    let reader = Reader::named(&flow.reader, Some(c"explained"));
    set_fifo(reader.process.pid, 40);
    let mut config = Config::of(vec!["r0".to_owned()]);
    let budget = Budget { ns_per_s: 2_000_000 };
    let rule = |command: &str| Rule { command: Some(command.into()), ..Rule::any(budget) };
    config.budgets = vec![rule("another"), rule("explained")];
    let explain = |pid| {
        let explain = || onbeat_irq_guard::explain(&config, pid);
        world.receiver.namespace().run(explain).unwrap()
    };
    let about = explain(reader.process.pid).unwrap();
    assert_eq!((about.command.as_str(), about.budget), ("explained", Some(2)));
    assert_eq!(about.budget_ns_per_s, Some(2_000_000));
    let [interface] = &about.interfaces[..] else { panic!("{about:?}") };
    assert_eq!(interface.waiting.len(), 1, "{about:?}");
    assert_eq!(interface.waiting[0].priority, "real-time 40");
    assert!(interface.napi_threads.is_empty(), "{about:?}");
    let by = interface.by.as_ref().expect("a decision");
    assert_eq!((by.pid, interface.to.as_deref()), (reader.process.pid, Some("real-time 40")));
    let about = explain(1).unwrap();
    assert_eq!((about.budget, about.interfaces[0].waiting.len()), (None, 0), "{about:?}");
    assert!(explain(u32::MAX).unwrap_err().to_string().contains("no process"));
}

/// A socket that two processes have open, one on the loopback, one of another namespace, and none.
#[test]
fn the_decisions_on_a_socket_are_explained() {
    let Some(_turn) = turn() else { return };
    let world = World::with_napi();
    let flow = world.flow();
    let reader = Reader::named(&flow.reader, Some(c"explained"));
    set_fifo(reader.process.pid, 40);
    let receiver = world.receiver.namespace();
    world.receiver.set_up("lo").unwrap();
    let local = receiver.run(|| UdpSocket::bind("127.0.0.1:0")).unwrap().unwrap();
    let stream = world.stream();
    let mut config = Config::of(vec!["r0".to_owned()]);
    let explain = |config: &Config, name: &str| {
        let name = name.parse().unwrap();
        receiver.run(|| onbeat_irq_guard::explain_sockets(config, &name)).unwrap()
    };
    let port = flow.reader.local_addr().unwrap().port();
    let udp = format!("udp:{RECEIVER}:{port}");
    let about = explain(&config, &udp).unwrap();
    let [socket] = &about.sockets[..] else { panic!("{about:?}") };
    let this = std::process::id();
    assert_eq!(socket.processes, [this, reader.process.pid].into(), "{about:?}");
    assert_eq!((&socket.interfaces[..], &socket.reason), (&["r0".to_owned()][..], &None));
    assert!(!socket.elsewhere && socket.protocol == "udp" && socket.peer.is_none(), "{about:?}");
    let process = about.processes.iter().find(|one| one.pid == reader.process.pid).unwrap();
    assert_eq!(process.interfaces[0].waiting[0].priority, "real-time 40");
    assert_eq!(process.interfaces[0].to.as_deref(), Some("real-time 40"));
    // As the kernel names it elsewhere, and by its other names.
    let link = fs::read_link(format!("/proc/self/fd/{}", flow.reader.as_raw_fd())).unwrap();
    assert_eq!(link.to_str().unwrap(), format!("socket:[{}]", socket.inode));
    let names = [
        format!("udp:*:{port}"),
        format!("ino:{}", socket.inode),
        format!("sk:{:x}", socket.cookie),
    ];
    for name in names {
        assert_eq!(explain(&config, &name).unwrap().sockets, about.sockets, "{name}");
    }
    let device = format!("udp:{RECEIVER}%r0:{port}");
    assert!(explain(&config, &device).is_err(), "it is not bound to the device");

    let on_loopback = explain(&config, &format!("udp:{}", local.local_addr().unwrap())).unwrap();
    let reason = on_loopback.sockets[0].reason.as_deref();
    assert_eq!(reason, Some("its address belongs to lo, which is not guarded"));

    // The sender's end is in another namespace.
    let remote = format!("tcp:{}", stream.writer.local_addr().unwrap());
    let about = explain(&config, &remote).unwrap();
    let [socket] = &about.sockets[..] else { panic!("{about:?}") };
    assert!(socket.elsewhere && socket.peer == Some(stream.reader.local_addr().unwrap()));
    assert_eq!(socket.namespace, world.sender.namespace().inode() as u32);
    assert!(socket.reason.as_ref().unwrap().contains("namespaces = \"all\""), "{about:?}");
    config.namespaces = Namespaces::All;
    let about = explain(&config, &remote).unwrap();
    assert_eq!(about.sockets[0].interfaces, ["r0"], "{about:?}");

    drop(flow);
    drop(reader);
    let refusal = explain(&config, &udp).unwrap_err().to_string();
    assert!(refusal.contains(&format!("no process has a socket {udp} open")), "{refusal}");
}
