//! Processes that try to evade their budget, or to blind the guard.

use std::cell::Cell;
use std::ffi::CStr;
use std::io::Write;
use std::net::{Ipv4Addr, SocketAddrV4, UdpSocket};
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use nix::poll::{PollFd, PollFlags, poll};
use nix::sys::signal::{Signal, kill};
use nix::sys::socket::sockopt::{RcvBuf, ReuseAddr};
use nix::sys::socket::{AddressFamily, SockFlag, SockType, SockaddrIn, bind, setsockopt, socket};
use nix::sys::wait::waitpid;
use nix::time::{ClockId, clock_gettime};
use nix::unistd::{ForkResult, Pid, fork};
use onbeat_host::settings::RestoreOutcome;
use onbeat_irq_core::charge::Process;
use onbeat_irq_core::policy::{Budget, Limit, Settings};
use onbeat_irq_guard::{Config, DropPoint, Event, Rule, Usage, run};
use onbeat_netdev::{Handle, Namespace, VethEnd};
use onbeat_testing::{Feature, TemporaryDirectory, require, require_that};

use crate::harness::{BOUND, Flow, RECEIVER, SENDER, World};
use crate::kernel::{arrive, has, set_fifo, turn};
use crate::reader::Reader;
use crate::running::RunningGuard;

/// Less than the cost of any packet.
pub(crate) const SMALL: Budget = Budget { ns_per_s: 1_000 };

fn any(budget: Budget) -> Vec<Rule> {
    vec![Rule::any(budget)]
}

pub(crate) fn possible() -> bool {
    require(Feature::Kernel(6, 6))
}

pub(crate) fn usage(guard: &RunningGuard, of: Process) -> Option<Usage> {
    guard.usage().into_iter().find(|usage| usage.process == of)
}

/// Floods a reader until its packets are dropped early.
pub(crate) fn flood_until_limited(guard: &RunningGuard, flow: &Flow, reader: &mut Reader) {
    reader.begin(u32::MAX);
    let before = usage(guard, reader.process).map_or(0, |usage| usage.dropped);
    guard.wait_for("packets dropped early", || {
        flow.send(100, 100);
        usage(guard, reader.process).is_some_and(|usage| usage.dropped > before)
    });
}

/// Waits for a packet that arrives behind all earlier ones: a stream without a reader has no limit.
pub(crate) fn wait_for_earlier_packets(world: &World) {
    let mut stream = world.stream();
    stream.writer.write_all(&[0]).unwrap();
    let mut arrival = [PollFd::new(stream.reader.as_fd(), PollFlags::POLLIN)];
    let timeout = u16::try_from(BOUND.as_millis()).unwrap();
    assert_eq!(poll(&mut arrival, timeout).unwrap(), 1, "no packet arrives");
}

/// A socket of the receiver at an address that other sockets may share.
fn shared_socket(world: &World, to: SocketAddrV4) -> UdpSocket {
    let open = || {
        let flags = SockFlag::SOCK_CLOEXEC;
        let socket = socket(AddressFamily::Inet, SockType::Datagram, flags, None).unwrap();
        setsockopt(&socket, ReuseAddr, &true).unwrap();
        bind(socket.as_raw_fd(), &SockaddrIn::from(to)).unwrap();
        UdpSocket::from(socket)
    };
    let socket = world.receiver.namespace().run(open).unwrap();
    socket.set_read_timeout(Some(BOUND)).unwrap();
    socket
}

const GROUP: Ipv4Addr = Ipv4Addr::new(239, 7, 7, 7);

/// A process over its budget joins the group, or binds to the port, of another one: the limit of the first must
/// not drop the packets of the second.
fn other_processes_keep_their_packets(drop_at: DropPoint, to: Ipv4Addr) {
    const PACKETS: u32 = 200;
    let Some(_turn) = turn().filter(|_| possible()) else { return };
    let world = World::with_napi();
    let innocent = shared_socket(&world, SocketAddrV4::new(Ipv4Addr::UNSPECIFIED, 0));
    setsockopt(&innocent, RcvBuf, &(4 << 20)).unwrap();
    let port = innocent.local_addr().unwrap().port();
    let any = SocketAddrV4::new(Ipv4Addr::UNSPECIFIED, port);
    let evil = shared_socket(&world, any);
    for socket in [&innocent, &evil] {
        socket.join_multicast_v4(&GROUP, &RECEIVER).unwrap();
    }
    let mut reader = Reader::named(&evil, Some(NAME));
    let bind = || UdpSocket::bind((SENDER, 0)).unwrap();
    let writer = world.sender.namespace().run(bind).unwrap();
    writer.set_broadcast(true).unwrap();
    writer.connect((RECEIVER, port)).unwrap();
    let rule = Rule { command: Some(WRITTEN.to_owned()), ..Rule::any(SMALL) };
    let guard = RunningGuard::start(&world, |config| {
        config.budgets = vec![rule];
        config.drop_at = drop_at;
    });
    guard.wait_for("budget", || usage(&guard, reader.process).is_some());
    let unicast = Flow { writer, reader: evil };
    flood_until_limited(&guard, &unicast, &mut reader);
    let dropped = || usage(&guard, reader.process).unwrap().dropped;
    unicast.writer.connect((to, port)).unwrap();
    let shared = Flow { reader: innocent, ..unicast };
    // After the flood there may be no room for the first packets.
    arrive(&shared);
    shared.pass(PACKETS, 100);
    // The limit still applies to its own packets.
    shared.writer.connect((RECEIVER, port)).unwrap();
    let before = dropped();
    guard.wait_for("packets dropped early", || {
        shared.send(100, 100);
        dropped() > before
    });
    guard.stop();
}

#[test]
fn a_limit_drops_no_multicast_packet_of_another_process() {
    other_processes_keep_their_packets(DropPoint::Tc, GROUP);
    other_processes_keep_their_packets(DropPoint::Xdp, GROUP);
}

#[test]
fn a_limit_drops_no_broadcast_packet_of_another_process() {
    other_processes_keep_their_packets(DropPoint::Tc, Ipv4Addr::BROADCAST);
    other_processes_keep_their_packets(DropPoint::Tc, Ipv4Addr::new(10, 9, 0, 255));
}

/// A socket that is bound to any address matches all packets to its port, also those for other hosts.
#[test]
fn a_limit_drops_no_forwarded_packet() {
    let Some(_turn) = turn().filter(|_| possible()) else { return };
    let world = World::with_napi();
    let behind = Handle::in_namespace(&Namespace::new().unwrap()).unwrap();
    let far = VethEnd::new("b0").namespace(behind.namespace());
    world.receiver.create_veth(&VethEnd::new("r1"), &far).unwrap();
    let [router, host] = [1, 2].map(|last| Ipv4Addr::new(10, 9, 1, last));
    for (handle, name, address) in [(&world.receiver, "r1", router), (&behind, "b0", host)] {
        handle.add_address(name, address.into(), 24).unwrap();
        handle.set_up(name).unwrap();
    }
    let forward = || std::fs::write("/proc/sys/net/ipv4/ip_forward", "1").unwrap();
    world.receiver.namespace().run(forward).unwrap();
    world.sender.add_route("s0", host.into(), 32, RECEIVER.into()).unwrap();
    // The return route, for hosts that verify the source address.
    behind.add_route("b0", Ipv4Addr::new(10, 9, 0, 0).into(), 24, router.into()).unwrap();
    let evil = shared_socket(&world, SocketAddrV4::new(Ipv4Addr::UNSPECIFIED, 0));
    let port = evil.local_addr().unwrap().port();
    let innocent = behind.namespace().run(|| UdpSocket::bind((host, port)).unwrap()).unwrap();
    innocent.set_read_timeout(Some(BOUND)).unwrap();
    setsockopt(&innocent, RcvBuf, &(4 << 20)).unwrap();
    let mut reader = Reader::of(&evil);
    let writer = world.sender.namespace().run(|| UdpSocket::bind((SENDER, 0)).unwrap()).unwrap();
    writer.connect((RECEIVER, port)).unwrap();
    let guard = RunningGuard::start(&world, |config| config.budgets = any(SMALL));
    guard.wait_for("budget", || usage(&guard, reader.process).is_some());
    let flow = Flow { writer, reader: evil };
    flood_until_limited(&guard, &flow, &mut reader);
    flow.writer.connect((host, port)).unwrap();
    let forwarded = Flow { reader: innocent, ..flow };
    arrive(&forwarded);
    forwarded.pass(200, 100);
    guard.stop();
}

/// Not text, with a line feed and an escape sequence of a terminal.
const NAME: &CStr = c"\xff\xfe\x1b[2J\n";
const WRITTEN: &str = "\\xff\\xfe\\x1b[2J\\x0a";

#[test]
fn a_name_that_is_not_text_has_a_budget() {
    let Some(_turn) = turn().filter(|_| possible()) else { return };
    for command in [None, Some(WRITTEN)] {
        let world = World::with_napi();
        let flow = world.flow();
        let mut reader = Reader::named(&flow.reader, Some(NAME));
        let rule = Rule { command: command.map(str::to_owned), ..Rule::any(SMALL) };
        let guard = RunningGuard::start(&world, |config| config.budgets = vec![rule]);
        guard.wait_for("budget", || usage(&guard, reader.process).is_some());
        flood_until_limited(&guard, &flow, &mut reader);
        let usage = usage(&guard, reader.process).unwrap();
        assert_eq!(usage.command, WRITTEN);
        let json = serde_json::to_string(&usage).unwrap();
        assert!(json.contains(r#""command":"\\xff\\xfe\\x1b[2J\\x0a""#), "{json}");
        guard.stop();
    }
}

/// More processes than numbers: those beyond share a budget.
#[test]
fn processes_beyond_the_numbers_share_a_budget() {
    const PROCESSES: usize = 270;
    let Some(_turn) = turn().filter(|_| possible()) else { return };
    let world = World::with_napi();
    let flow = world.flow();
    let mut readers: Vec<Reader> = (0..PROCESSES).map(|_| Reader::of(&flow.reader)).collect();
    let guard = RunningGuard::start(&world, |config| config.budgets = any(SMALL));
    guard.wait_for("budgets", || guard.usage().len() > PROCESSES);
    let full = |event: &Event| matches!(event, Event::LimitsFull { processes: 254 });
    assert_eq!(guard.events().iter().filter(|event| full(event)).count(), 1);
    let shared = guard.usage().into_iter().filter(|usage| usage.shared);
    let shared: Vec<Process> = shared.map(|usage| usage.process).collect();
    assert_eq!(shared.len(), PROCESSES + 1 - 254);
    let greedy = readers.iter_mut().find(|reader| shared.contains(&reader.process)).unwrap();
    flood_until_limited(&guard, &flow, greedy);
    // They get their own numbers once others are free.
    let greedy = greedy.process;
    readers.retain(|reader| reader.process == greedy);
    guard.wait_for("number of its own", || usage(&guard, greedy).is_some_and(|one| !one.shared));
    guard.stop();
}

/// More processes than entries of the kernel's table: those beyond share the strictest budget, even if no
/// process has the rule of that budget.
#[test]
fn processes_beyond_the_table_share_the_strictest_budget() {
    const ROWS: u32 = 4;
    const LARGE: Budget = Budget { ns_per_s: 1_000_000_000 };
    let Some(_turn) = turn().filter(|_| possible()) else { return };
    let world = World::with_napi();
    let flow = world.flow();
    let named = |_| Reader::named(&flow.reader, Some(NAME));
    let mut readers: Vec<Reader> = (0..ROWS + 2).map(named).collect();
    let rule = |command: &str, budget| Rule { command: Some(command.into()), ..Rule::any(budget) };
    let guard = RunningGuard::start(&world, |config| {
        config.budgets = vec![rule(WRITTEN, LARGE), rule("no-process", SMALL)];
        config.process_rows = Some(ROWS);
    });
    guard.wait_for("budgets", || guard.usage().len() == readers.len());
    let (beyond, within): (Vec<_>, Vec<_>) =
        guard.usage().into_iter().partition(|usage| usage.shared);
    assert_eq!((within.len(), beyond.len()), (ROWS as usize, 2));
    assert!(within.iter().all(|usage| usage.budget == LARGE), "{within:?}");
    assert!(beyond.iter().all(|usage| usage.budget == SMALL), "{beyond:?}");
    let at = readers.iter().position(|reader| reader.process == beyond[0].process).unwrap();
    flood_until_limited(&guard, &flow, &mut readers[at]);
    let full = |event: &&Event| matches!(event, Event::TableFull { .. } | Event::LimitsFull { .. });
    let events = guard.events();
    let events: Vec<&Event> = events.iter().filter(full).collect();
    assert_eq!(events, [&Event::TableFull { processes: ROWS.into() }]);
    // It gets an entry, and the budget of its own rule, once other entries are free.
    let greedy = beyond[0].process;
    readers.retain(|reader| reader.process == greedy);
    guard.wait_for("entry", || {
        usage(&guard, greedy).is_some_and(|one| !one.shared && one.budget == LARGE)
    });
    guard.stop();
}

/// Short-lived sockets with one packet each: more rows than the ledger has.
#[test]
fn a_full_ledger_keeps_budgets_and_limits_no_other_process() {
    const ROWS: u32 = 64;
    let Some(_turn) = turn().filter(|_| possible()) else { return };
    let world = World::with_napi();
    let flow = world.flow();
    let mut reader = Reader::named(&flow.reader, Some(NAME));
    let to = flow.reader.local_addr().unwrap().ip();
    let short = |count: u32| {
        for _ in 0..count {
            let bind = || UdpSocket::bind((to, 0)).unwrap();
            let socket = world.receiver.namespace().run(bind).unwrap();
            flow.writer.send_to(&[0; 64], socket.local_addr().unwrap()).unwrap();
            // Closed before its packet arrives, it would have no row; if it was read, its process would have
            // one.
            let mut arrival = [PollFd::new(socket.as_fd(), PollFlags::POLLIN)];
            poll(&mut arrival, 1000_u16).unwrap();
        }
    };
    let guard = RunningGuard::start(&world, |config| {
        config.budgets = vec![Rule { command: Some(WRITTEN.to_owned()), ..Rule::any(SMALL) }];
        config.ledger_rows = Some(ROWS);
    });
    guard.wait_for("budget", || usage(&guard, reader.process).is_some());
    let limit = || usage(&guard, reader.process).unwrap().limit;
    let full = |event: &Event| matches!(event, Event::LedgerFull { unrecorded_ns: 1.. });
    guard.wait_for("time without room", || {
        short(ROWS);
        guard.events().iter().any(full)
    });
    // It received nothing, and its budget needs no row.
    assert_eq!(limit(), Limit::None);
    reader.begin(u32::MAX);
    guard.wait_for("packets dropped early, without room for a row", || {
        short(ROWS);
        flow.send(100, 100);
        usage(&guard, reader.process).is_some_and(|usage| usage.dropped > 0)
    });
    guard.stop();
}

/// Neither reads the socket that both have open: it is not known which one will.
#[test]
fn an_owner_that_is_only_inferred_is_never_limited() {
    let Some(_turn) = turn().filter(|_| possible()) else { return };
    let world = World::with_napi();
    let (waited_for, read) = (world.flow(), world.flow());
    let guard = RunningGuard::start(&world, |config| config.budgets = any(SMALL));
    let this = onbeat_irq::names::process(std::process::id()).unwrap();
    let mut waits = Reader::of(&waited_for.reader);
    let mut reads = Reader::of(&read.reader);
    guard.wait_for("budgets", || guard.usage().len() == 3);
    // One packet costs more than the budget.
    waits.wait();
    waited_for.send(1, 100);
    waits.finish();
    reads.begin(u32::MAX);
    let held_against = Cell::new(None);
    guard.wait_for("limit of the reader", || {
        read.send(100, 100);
        for process in [this, waits.process] {
            let usage = usage(&guard, process).expect("it lives");
            if (usage.limit, usage.caused_ns_per_s, usage.dropped) != (Limit::None, 0, 0) {
                held_against.set(Some(usage));
            }
        }
        usage(&guard, reads.process).is_some_and(|usage| usage.dropped > 0)
    });
    assert_eq!(held_against.take(), None);
    guard.stop();
}

/// Makes its readers poll the device before they wait; false: the kernel has no busy polling.
fn busy_poll(socket: &UdpSocket) -> bool {
    let us: libc::c_int = 1000;
    let length = size_of_val(&us) as libc::socklen_t;
    let (level, name) = (libc::SOL_SOCKET, libc::SO_BUSY_POLL);
    // SAFETY: the value lives through the call.
    unsafe {
        libc::setsockopt(socket.as_raw_fd(), level, name, (&raw const us).cast(), length) == 0
    }
}

/// Packets that readers of this network namespace polled from devices.
fn packets_of_busy_polls(namespace: &Namespace) -> u64 {
    let read = || std::fs::read_to_string("/proc/thread-self/net/netstat").unwrap();
    let text = namespace.run(read).unwrap();
    let mut lines = text.lines().filter_map(|line| line.strip_prefix("TcpExt: "));
    let (names, values) = (lines.next().unwrap(), lines.next().unwrap());
    let at = names.split(' ').position(|name| name == "BusyPollRxPackets").unwrap();
    values.split(' ').nth(at).unwrap().parse().unwrap()
}

/// It does the receive processing itself, in turn with the NAPI thread.
#[test]
fn a_reader_that_polls_the_device_has_its_priority_and_budget() {
    let Some(_turn) = turn().filter(|_| possible()) else { return };
    let world = World::with_napi();
    let flow = world.flow();
    if !require_that(busy_poll(&flow.reader), "busy polling (CONFIG_NET_RX_BUSY_POLL)") {
        return;
    }
    let mut reader = Reader::named(&flow.reader, Some(NAME));
    set_fifo(reader.process.pid, 40);
    let receiver = world.receiver.namespace();
    let guard = RunningGuard::start(&world, |_| ());
    guard.wait_for("priority", || has(&world, 40));
    reader.begin(u32::MAX);
    let before = packets_of_busy_polls(receiver);
    guard.wait_for("packets of busy polls", || {
        flow.send(20, 100);
        packets_of_busy_polls(receiver) > before
    });
    assert!(has(&world, 40));
    guard.stop();
    let rule = Rule { command: Some(WRITTEN.to_owned()), ..Rule::any(SMALL) };
    let guard = RunningGuard::start(&world, |config| config.budgets = vec![rule]);
    guard.wait_for("packets dropped early", || {
        flow.send(100, 100);
        usage(&guard, reader.process).is_some_and(|usage| usage.dropped > 0)
    });
    assert!(has(&world, 40));
    guard.stop();
}

/// A process of an unprivileged user that uses all available CPU time.
struct BusyProcess(Pid);

impl BusyProcess {
    fn start() -> Self {
        // SAFETY: the child makes system calls only, and is killed.
        match unsafe { fork() }.unwrap() {
            ForkResult::Child => loop {
                // SAFETY: numbers only; the test requires that user.
                if unsafe { libc::getuid() == 0 && libc::setuid(65534) != 0 } {
                    // SAFETY: it does not return.
                    unsafe { libc::_exit(1) };
                }
                for n in 0..1_000_000_u32 {
                    std::hint::black_box(n);
                }
            },
            ForkResult::Parent { child } => Self(child),
        }
    }
}

impl Drop for BusyProcess {
    fn drop(&mut self) {
        let _ = kill(self.0, Signal::SIGKILL);
        let _ = waitpid(self.0, None);
    }
}

/// The guard's thread at a report.
#[derive(Debug, Clone, Copy)]
struct ThreadState {
    at: Instant,
    cpu_time: Duration,
    policy: libc::c_int,
}

impl ThreadState {
    /// That of the calling thread.
    fn now() -> Self {
        let cpu_time = clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID).unwrap();
        // SAFETY: numbers only.
        let policy = unsafe { libc::sched_getscheduler(0) };
        Self { at: Instant::now(), cpu_time: cpu_time.into(), policy }
    }
}

/// No process can delay the guard: the pause after a scan depends on its CPU time alone, which is bounded; the thread
/// runs before all normal ones. A scan of 100,000 files uses 50 ms of CPU time and takes eight times
/// as long beside eight processes: by wall-clock time the guard requested a pause of 20 s then.
#[test]
fn busy_processes_do_not_blind_the_guard() {
    const SOCKETS: usize = 10_000;
    const INTERVAL: Duration = Duration::from_millis(100);
    let Some(_turn) = turn() else { return };
    let cpus = std::thread::available_parallelism().unwrap().get();
    let _busy: Vec<BusyProcess> = (0..8 * cpus).map(|_| BusyProcess::start()).collect();
    let world = World::with_napi();
    let Some(sockets) = crate::kernel::many_sockets(&world, SOCKETS) else { return };
    let readers: Vec<Reader> = sockets.iter().take(10).map(Reader::of).collect();
    let settings = Settings { hold_ns: 0, ..Settings::default() };
    let config = Config { interval: INTERVAL, settings, ..Config::of(vec!["r0".to_owned()]) };
    let directory = TemporaryDirectory::new("blind");
    let states = std::thread::scope(|scope| {
        // Stops the guard when dropped, also if the test fails.
        let (stop, stops) = UnixStream::pair().unwrap();
        let (config, directory) = (&config, directory.path());
        let guard = move || {
            let mut states = Vec::new();
            let mut report = |_: &[Event], _: &[Usage]| states.push(ThreadState::now());
            let restored = run(config, directory, stops.as_fd(), &mut report).unwrap();
            assert!(
                restored.iter().all(|one| one.outcome != RestoreOutcome::Failed),
                "{restored:?}"
            );
            states
        };
        let guard = world.receiver.namespace().run(|| scope.spawn(guard)).unwrap();
        for wanted in [50, 20, 70, 10, 60] {
            set_fifo(readers[0].process.pid, wanted);
            let deadline = Instant::now() + 2 * BOUND;
            while !has(&world, wanted as u32) {
                assert!(!guard.is_finished(), "the guard has exited");
                assert!(Instant::now() < deadline, "no priority {wanted}");
                std::thread::yield_now();
            }
        }
        drop(stop);
        guard.join().unwrap()
    });
    // One at its start, and one for each change.
    let [first, .., last] = states[..] else { panic!("{states:?}") };
    assert!(states[1..].iter().all(|state| state.policy == libc::SCHED_FIFO), "{states:?}");
    // Without pauses it would use all of a CPU. Tests in simulated time assert the share of 15 %: here a slice may
    // end late, as CPU steal counts as CPU time.
    let (cpu_time, time) = (last.cpu_time - first.cpu_time, last.at - first.at);
    assert!(cpu_time <= time / 2 + 2 * INTERVAL, "{cpu_time:?} of {time:?}");
}

/// A process opens another socket: it has the limit of the process before its first read, and before any scan.
#[test]
fn a_new_socket_of_a_limited_process_is_limited_at_once() {
    const PACKETS: u32 = 200;
    let Some(_turn) = turn().filter(|_| possible()) else { return };
    let world = World::with_napi();
    let guard = RunningGuard::start(&world, |config| config.budgets = any(SMALL));
    let this = onbeat_irq::names::process(std::process::id()).unwrap();
    let first = world.flow();
    let read = |flow: &Flow| {
        flow.reader.set_nonblocking(true).unwrap();
        (0..).take_while(|_| flow.reader.recv(&mut [0; 2048]).is_ok()).count() as u32
    };
    let halted = Cell::new(None);
    guard.wait_for("limit", || {
        drop(halted.take());
        first.send(10, 100);
        read(&first);
        halted.set(Some(guard.halt()));
        usage(&guard, this).is_some_and(|usage| usage.limit != Limit::None)
    });
    let second = world.flow();
    setsockopt(&second.reader, RcvBuf, &(4 << 20)).unwrap();
    second.send(PACKETS, 100);
    wait_for_earlier_packets(&world);
    assert!(read(&second) < PACKETS / 2, "its packets were not limited");
    drop(halted);
    guard.stop();
}

/// It floods a socket that it never reads.
#[test]
fn the_only_process_that_has_an_unread_socket_open_is_limited() {
    let Some(_turn) = turn().filter(|_| possible()) else { return };
    let world = World::with_napi();
    let this = onbeat_irq::names::process(std::process::id()).unwrap();
    // Opened before the guard starts, and afterwards.
    let before = world.flow();
    for is_new in [false, true] {
        let guard = RunningGuard::start(&world, |config| config.budgets = any(SMALL));
        guard.wait_for("budget", || usage(&guard, this).is_some());
        let after = world.flow();
        let flow = if is_new { &after } else { &before };
        guard.wait_for("packets dropped early", || {
            flow.send(100, 100);
            usage(&guard, this).is_some_and(|usage| usage.dropped > 0)
        });
        guard.stop();
    }
}

/// Processes have more files than a slice of a scan reads: priorities still follow, and a process whose sockets
/// are not scanned yet has its budget.
#[test]
fn too_many_files_make_a_scan_partial_and_release_no_budget() {
    const SOCKETS: usize = 10_000;
    let Some(_turn) = turn().filter(|_| possible()) else { return };
    let world = World::with_napi();
    let Some(sockets) = crate::kernel::many_sockets(&world, SOCKETS) else { return };
    let readers: Vec<Reader> = sockets.iter().take(10).map(Reader::of).collect();
    let rule = Rule { command: Some(WRITTEN.to_owned()), ..Rule::any(SMALL) };
    let guard = RunningGuard::start(&world, |config| {
        config.budgets = vec![rule];
        config.interval = Duration::from_millis(1);
    });
    let partial = |events: &[Event]| events.contains(&Event::ScanPartial);
    guard.wait_for("partial scan", || partial(&guard.events()));
    set_fifo(readers[0].process.pid, 42);
    guard.wait_for("priority", || has(&world, 42));
    let flow = world.flow();
    let mut late = Reader::named(&flow.reader, Some(NAME));
    flood_until_limited(&guard, &flow, &mut late);
    guard.stop();
}
