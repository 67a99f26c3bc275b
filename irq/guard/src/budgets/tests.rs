//! Budgets on this kernel, without a guard around.

use std::io::Read;
use std::net::UdpSocket;
use std::os::fd::{AsRawFd, OwnedFd};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use libbpf_rs::{MapCore, MapFlags};
use onbeat_bpf::PlainData;
use onbeat_netdev::{Handle, Namespace};
use onbeat_testing::{Feature, require_all};

use onbeat_irq_core::policy::Budget;

use super::*;
use crate::Thread;
use crate::abi::guard_receiver;
use onbeat_irq_core::charge::{Device, Owner};
use onbeat_irq_core::policy::Rank;

/// The index of each namespace's first interface.
const LOOPBACK: u32 = 1;

/// Budgets of all processes, and a socket on the loopback of the namespace.
struct World {
    namespace: Namespace,
    walk: Walk,
    budgets: Budgets,
    socket: UdpSocket,
}

impl World {
    /// `None` if the kernel does not support budgets.
    fn new() -> Option<Self> {
        Self::with_budget_per(BudgetScope::Process)
    }

    fn with_budget_per(per: BudgetScope) -> Option<Self> {
        if !require_all(&[Feature::Root, Feature::Btf, Feature::Kernel(6, 6)]) {
            return None;
        }
        let namespace = Namespace::new().unwrap();
        let open = || {
            Handle::open().unwrap().set_up("lo").unwrap();
            UdpSocket::bind("127.0.0.1:0").unwrap()
        };
        let socket = namespace.run(open).unwrap();
        socket.connect(socket.local_addr().unwrap()).unwrap();
        socket.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        let rule = Rule { per, ..Rule::any(Budget { ns_per_s: 1_000 }) };
        let config = Config { budgets: vec![rule], ..Config::of(vec!["lo".to_owned()]) };
        let netns = namespace.inode() as u32;
        let walk = Walk::new(netns, &config).unwrap();
        let mut budgets = Budgets::new(&config, netns, &walk, 0).unwrap();
        namespace.run(|| budgets.set_devices(&[LOOPBACK], true)).unwrap().unwrap();
        Some(Self { namespace, walk, budgets, socket })
    }

    fn step(&mut self, scan: &Scan, slice: Duration) {
        let Self { walk, budgets, .. } = self;
        budgets.step(walk, scan, &TimeSlice::new(slice), 0).unwrap();
    }

    /// Ends an interval; returns the limit of this process.
    fn interval(&mut self, scan: &Scan) -> Limit {
        let Self { walk, budgets, .. } = self;
        let now_ns = budgets.last_ns + INTERVAL_NS;
        budgets.step(walk, scan, &TimeSlice::new(Duration::MAX), now_ns).unwrap();
        budgets.usage()[0].limit
    }

    /// Another socket on the loopback, connected to itself.
    fn another_socket(&self) -> UdpSocket {
        let open = || UdpSocket::bind("127.0.0.1:0").unwrap();
        let socket = self.namespace.run(open).unwrap();
        socket.connect(socket.local_addr().unwrap()).unwrap();
        socket
    }

    /// Reads a packet in a child process, which then exits.
    fn read_in_child(&self) {
        self.socket.send(&[0]).unwrap();
        let stdin = OwnedFd::from(self.socket.try_clone().unwrap());
        let mut head = Command::new("head");
        head.args(["-c", "1"]).stdin(stdin).stdout(Stdio::null());
        assert!(head.status().unwrap().success());
    }

    /// Reads a packet; returns the number that the socket has then.
    fn read(&self) -> Option<u32> {
        self.socket.send(&[0]).unwrap();
        self.socket.recv(&mut [0]).unwrap();
        self.number_of_socket()
    }

    fn number_of_socket(&self) -> Option<u32> {
        let [slots, ..] = self.walk.tables_of_budgets();
        let number = slots.lookup(&self.socket.as_raw_fd().to_ne_bytes(), MapFlags::ANY);
        let receiver = number.unwrap().map(|octets| guard_receiver::from_octets(&octets).unwrap());
        receiver.map(|receiver| receiver.number)
    }
}

fn process_of(pid: u32) -> Process {
    onbeat_irq::names::process(pid).unwrap()
}

/// A scan that includes this process, and none of its files yet.
fn partial_scan() -> Scan {
    let process = onbeat_irq::names::process(std::process::id()).unwrap();
    let waiter = WaitingThread { process, tid: process.pid };
    let thread = Thread { waiter, rank: Rank::Normal { nice: 0 }, name: "test".into(), user: 0 };
    Scan { sockets: Vec::new(), threads: vec![thread], partial: true }
}

#[test]
fn a_socket_has_the_number_of_its_reader_before_a_scan_shows_it() {
    let Some(mut world) = World::new() else { return };
    let scan = partial_scan();
    let WaitingThread { process, .. } = scan.threads[0].waiter;
    assert_eq!(world.read(), None);
    world.step(&scan, Duration::MAX);
    let assigned = world.budgets.numbers.get(process).unwrap().number;
    assert_eq!(world.read(), Some(assigned));
    // Another number, and that of all processes without one.
    assert!(world.walk.number(process, 9, false).unwrap());
    world.walk.publish_numbers(0).unwrap();
    assert_eq!(world.read(), Some(9));
    world.walk.remove_number(process.pid).unwrap();
    world.walk.publish_numbers(7).unwrap();
    assert_eq!(world.read(), Some(7));
}

/// Also if no walk over files ever completes, which other users can cause.
#[test]
fn dead_readers_are_released_while_scans_are_partial() {
    let Some(mut world) = World::new() else { return };
    let mut scan = Scan::default();
    let mut step = |world: &mut World| {
        world.walk.scan(Duration::MAX, |_| false, &mut scan).unwrap();
        scan.partial = true;
        world.step(&scan, Duration::MAX);
    };
    // This process lives.
    world.read();
    for _ in 0..3 {
        world.read_in_child();
        step(&mut world);
    }
    (0..2).for_each(|_| step(&mut world));
    let readers = &world.budgets.readers;
    assert!(readers.keys().eq(&[std::process::id()]), "{readers:?}");
}

#[test]
fn without_time_for_all_new_readers_all_processes_count() {
    let Some(mut world) = World::new() else { return };
    (0..2).for_each(|_| world.read_in_child());
    let mut scan = partial_scan();
    world.step(&scan, Duration::ZERO);
    assert!(world.budgets.any_reads);
    assert_eq!(world.budgets.processes.len(), 1);
    scan.partial = false;
    world.step(&scan, Duration::MAX);
    assert!(!world.budgets.any_reads);
    assert_eq!(world.budgets.processes.len(), 0);
}

#[test]
fn packets_count_against_the_budget_of_their_reader() {
    let (reader, opener) = (Process { pid: 1, start_ticks: 1 }, Process { pid: 2, start_ticks: 2 });
    let device = Device { netns: 7, index: 2 };
    let amount = Amount { ns: 100, packets: 1 };
    let socket = |cookie| (Cause::Socket { cookie, device }, amount);
    let mut accounts = Accounts { caused: [socket(1), socket(2)].into(), ..Accounts::default() };
    accounts.resolve(|cookie| match cookie {
        1 => Some(reader.into()),
        // Others may have it open: [`Budgets::caused_unread`] finds that.
        _ => Some(Owner { process: opener, by: Attribution::Owner }),
    });
    assert_eq!(caused(&accounts, 7), [(reader, amount)].into());
    assert_eq!(caused(&accounts, 8), HashMap::new());
}

/// A datagram socket that no process reads belongs to the only process that has it open, or to the only group.
#[test]
fn an_unread_socket_has_the_number_of_its_only_process() {
    let Some(mut world) = World::new() else { return };
    let this = std::process::id();
    let scan = |world: &World, pid| {
        let slice = TimeSlice::new(Duration::MAX);
        world.walk.scan_process(pid, &slice, |_| false).unwrap().unwrap();
        world.number_of_socket().unwrap_or(0)
    };
    let mut cat = Command::new("cat");
    assert!(world.walk.number(process_of(this), 5, false).unwrap());
    assert_eq!(scan(&world, this), 5);
    // A new one has it before any scan; one of a stream does not.
    let another = world.another_socket();
    let socket = std::mem::replace(&mut world.socket, another);
    assert_eq!(world.number_of_socket(), Some(5));
    world.socket = socket;
    cat.stdin(OwnedFd::from(world.socket.try_clone().unwrap())).stdout(Stdio::piped());
    let mut child = cat.spawn().unwrap();
    // Of the same group,
    assert!(world.walk.number(process_of(child.id()), 5, true).unwrap());
    assert_eq!((scan(&world, child.id()), scan(&world, this)), (5, 5));
    // of another one,
    assert!(world.walk.number(process_of(child.id()), 6, true).unwrap());
    assert_eq!((scan(&world, child.id()), scan(&world, this)), (0, 0));
    // and once it reads.
    world.socket.send(&[0]).unwrap();
    child.stdout.take().unwrap().read_exact(&mut [0]).unwrap();
    assert_eq!(world.number_of_socket(), Some(6));
    child.kill().unwrap();
    child.wait().unwrap();
}

/// They start and exit between two scans, one after another.
#[test]
fn the_time_of_exited_children_counts_against_their_group() {
    let Some(mut world) = World::with_budget_per(BudgetScope::Rule) else { return };
    let scan = partial_scan();
    world.read();
    world.step(&scan, Duration::MAX);
    // Its own time is over.
    while world.interval(&scan) != Limit::None {}
    for _ in 0..5 {
        world.read_in_child();
    }
    assert_ne!(world.interval(&scan), Limit::None);
    // While it has a limit, the group keeps its number without any process.
    let number = world.budgets.numbers.get(scan.threads[0].waiter.process).unwrap().number;
    world.read_in_child();
    let empty = Scan::default();
    world.budgets.step(&mut world.walk, &empty, &TimeSlice::new(Duration::MAX), 0).unwrap();
    assert!(world.budgets.processes.is_empty());
    assert!(world.budgets.meters.contains_key(&number));
}

/// It has another name than its parent, and so no rule.
#[test]
fn a_child_without_a_rule_does_not_keep_the_number_of_its_parent() {
    let Some(mut world) = World::with_budget_per(BudgetScope::Rule) else { return };
    let scan = partial_scan();
    let WaitingThread { process, .. } = scan.threads[0].waiter;
    world.budgets.rules[0].command = Some(describe(process).unwrap().command.to_string());
    world.read();
    world.step(&scan, Duration::MAX);
    let assigned = world.budgets.numbers.get(process).unwrap().number;
    let mut cat = Command::new("cat");
    cat.stdin(OwnedFd::from(world.socket.try_clone().unwrap())).stdout(Stdio::piped());
    let mut child = cat.spawn().unwrap();
    let pid = child.id();
    let mut output = child.stdout.take().unwrap();
    let mut read_by_child = |world: &World| {
        world.socket.send(&[0]).unwrap();
        output.read_exact(&mut [0]).unwrap();
        world.number_of_socket()
    };
    let number_of_child = |world: &World| {
        let [.., numbers] = world.walk.tables_of_budgets();
        numbers.lookup(&pid.to_ne_bytes(), MapFlags::ANY).unwrap()
    };
    assert_eq!(read_by_child(&world), Some(assigned));
    assert!(number_of_child(&world).is_some());
    let mut scan = Scan::default();
    world.walk.scan(Duration::MAX, |_| false, &mut scan).unwrap();
    world.step(&scan, Duration::MAX);
    assert_eq!(number_of_child(&world), None);
    // Its socket has no limit once it is scanned, for which the next read is enough.
    world.walk.changed_processes().unwrap();
    read_by_child(&world);
    assert!(world.walk.changed_processes().unwrap().contains(&pid));
    world.walk.scan_process(pid, &TimeSlice::new(Duration::MAX), |_| false).unwrap();
    assert_eq!(world.number_of_socket(), Some(0));
    child.kill().unwrap();
    child.wait().unwrap();
}

/// The process of a number has exited, and another one has its limit: sockets of the first are not limited.
#[test]
fn a_limit_is_for_sockets_of_its_number_only() {
    const PACKETS: u32 = 50;
    const NUMBER: u32 = 5;
    let Some(mut world) = World::new() else { return };
    let World { budgets: Budgets { limiter, .. }, .. } = &mut world;
    limiter.set_addresses(["127.0.0.1".parse().unwrap()].into_iter()).unwrap();
    let [slots, ..] = world.walk.tables_of_budgets();
    let receiver = guard_receiver { number: NUMBER, pid: 4_000_001 };
    let key = world.socket.as_raw_fd().to_ne_bytes();
    slots.update(&key, receiver.octets(), MapFlags::ANY).unwrap();
    let received_with = |number| {
        world.budgets.limiter.set_budget(number, Budget { ns_per_s: 1_000 });
        world.budgets.limiter.start_limit(number, 1_000);
        for _ in 0..PACKETS {
            let _ = world.socket.send(&[0]);
        }
        world.socket.set_nonblocking(true).unwrap();
        (0..).take_while(|_| world.socket.recv(&mut [0]).is_ok()).count() as u32
    };
    assert_eq!(received_with(NUMBER + Limiter::SLOTS), PACKETS);
    assert!(received_with(NUMBER) < PACKETS / 2);
}

/// Another process had its id, and another interface receives the packets.
#[test]
fn time_counts_for_the_process_with_a_number_and_on_guarded_interfaces() {
    const NUMBER: u32 = 5;
    let Some(mut world) = World::new() else { return };
    let this = process_of(std::process::id());
    let before = Process { start_ticks: this.start_ticks - 1, ..this };
    for (process, devices, counts) in
        [(before, &[LOOPBACK][..], false), (this, &[], false), (this, &[LOOPBACK], true)]
    {
        assert!(world.walk.number(process, NUMBER, false).unwrap());
        let World { namespace, budgets, .. } = &mut world;
        namespace.run(|| budgets.set_devices(devices, true)).unwrap().unwrap();
        budgets.limiter.set_budget(NUMBER, Budget { ns_per_s: 1_000_000_000 });
        // The ledger charges the time of a softirq when it ends.
        for _ in 0..3 {
            assert_eq!(world.read(), Some(NUMBER));
        }
        let count = world.budgets.limiter.count(NUMBER).unwrap();
        assert_eq!(count.spent_ns > 0, counts, "{process:?}, {devices:?}: {count:?}");
    }
}

/// The account starts with packets that cost nothing.
#[test]
fn packets_cost_a_limit_what_the_ledger_charges() {
    const NUMBER: u32 = 5;
    let Some(mut world) = World::new() else { return };
    assert!(world.walk.number(process_of(std::process::id()), NUMBER, false).unwrap());
    assert_eq!(world.read(), Some(NUMBER));
    let World { budgets: Budgets { limiter, .. }, .. } = &mut world;
    limiter.set_addresses(["127.0.0.1".parse().unwrap()].into_iter()).unwrap();
    limiter.set_budget(NUMBER, Budget { ns_per_s: 10_000_000 });
    limiter.start_limit(NUMBER, 1);
    let limiter = &world.budgets.limiter;
    let deadline = Instant::now() + Duration::from_secs(20);
    while limiter.count(NUMBER).unwrap().dropped == 0 {
        assert!(Instant::now() < deadline, "{:?}", limiter.count(NUMBER).unwrap());
        let _ = world.socket.send(&[0]);
    }
    let count = limiter.count(NUMBER).unwrap();
    assert!(count.ns_per_packet > 100, "{count:?}");
}

/// One process receives ten packets for each one of the other.
#[test]
fn members_of_a_group_share_its_limit_equally() {
    const NUMBER: u32 = 5;
    const PACKETS_PER_S: f64 = 500.0;
    /// Credit at the start, of the group and of each member.
    const BURSTS: f64 = 30.0;
    const GREEDY: u32 = 4_000_001;
    const MODEST: u32 = 4_000_002;
    let Some(mut world) = World::new() else { return };
    let World { budgets: Budgets { limiter, .. }, .. } = &mut world;
    limiter.set_addresses(["127.0.0.1".parse().unwrap()].into_iter()).unwrap();
    // Packets keep their assumed cost.
    limiter.charge_devices(&[]).unwrap();
    limiter.set_budget(NUMBER, Budget { ns_per_s: PACKETS_PER_S as u64 * 1_000 });
    limiter.start_limit(NUMBER, 1_000);
    let start = Instant::now();
    let sockets = [GREEDY, MODEST].map(|pid| {
        assert!(world.walk.number(Process { pid, start_ticks: 0 }, NUMBER, true).unwrap());
        let socket = world.another_socket();
        let [slots, ..] = world.walk.tables_of_budgets();
        let receiver = guard_receiver { number: NUMBER, pid };
        let key = socket.as_raw_fd().to_ne_bytes();
        slots.update(&key, receiver.octets(), MapFlags::ANY).unwrap();
        socket.set_nonblocking(true).unwrap();
        socket
    });
    let [mut greedy, mut modest] = [0_u64; 2];
    while greedy + modest < 200 {
        for (socket, packets, passed) in
            [(&sockets[0], 10, &mut greedy), (&sockets[1], 1, &mut modest)]
        {
            for _ in 0..packets {
                // An error: the packet was dropped.
                let _ = socket.send(&[0]);
                *passed += u64::from(socket.recv(&mut [0]).is_ok());
            }
        }
    }
    assert!(modest * 4 >= greedy, "{modest} and {greedy}");
    let count = world.budgets.limiter.count(NUMBER).unwrap();
    let most = start.elapsed().as_secs_f64() * PACKETS_PER_S + BURSTS;
    assert!(count.passed as f64 <= most, "{count:?}, of {most}");
    assert!(count.dropped > 0);
    // Some may still be in a queue.
    let deadline = Instant::now() + Duration::from_secs(20);
    let mut received = greedy + modest;
    while received < count.passed {
        assert!(Instant::now() < deadline, "{received} of {count:?}");
        received += sockets.iter().filter(|socket| socket.recv(&mut [0]).is_ok()).count() as u64;
    }
    assert_eq!(received, count.passed);
}
