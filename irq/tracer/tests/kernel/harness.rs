//! Common parts of the tests: two hosts with a cable between them, and flows over it.

use std::fs;
use std::io::Write;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::os::fd::{FromRawFd, OwnedFd};
use std::time::{Duration, Instant};

use nix::libc;
use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
use nix::unistd::Pid;
use onbeat_irq::Tracer;
use onbeat_irq::names::Stat;
use onbeat_irq_core::charge::{Accounts, Amount, Attribution, Cause, Device, Process};
use onbeat_netdev::{Ethtool, Handle, Namespace, VethEnd, napi};
use onbeat_testing::{Feature, require_all};

/// Maximum wait for a condition that normally holds at once.
pub(crate) const BOUND: Duration = Duration::from_secs(20);

pub(crate) const SENDER: Ipv4Addr = Ipv4Addr::new(10, 9, 0, 1);
pub(crate) const RECEIVER: Ipv4Addr = Ipv4Addr::new(10, 9, 0, 2);

pub(crate) fn possible() -> bool {
    require_all(&[Feature::Root, Feature::Veth, Feature::Btf, Feature::Kernel(6, 3)])
}

/// Two namespaces and a veth pair:
///
/// ```text
///   sender: "s0" 10.9.0.1 --------- receiver: "r0" 10.9.0.2
/// ```
pub(crate) struct World {
    pub(crate) sender: Handle,
    pub(crate) receiver: Handle,
}

impl World {
    /// `threaded`: whether r0 receives in a NAPI thread.
    pub(crate) fn new(threaded: bool) -> Self {
        if !threaded {
            return Self::without_napi();
        }
        let world = Self::with_napi();
        let set = || napi::set_threaded("r0", true);
        world.receiver.namespace().run_with_sysfs(set).unwrap().unwrap();
        world
    }

    /// Makes s0 receive in a NAPI thread of its own, so that answers are not processed in that of r0.
    #[allow(dead_code, reason = "only tests/programs use it")]
    pub(crate) fn thread_sender(&self) {
        Self::give_napi_to(&self.sender, "s0", &self.receiver, "r0");
        let set = || napi::set_threaded("s0", true);
        self.sender.namespace().run_with_sysfs(set).unwrap().unwrap();
    }

    /// As [`World::new`], if the ledger is [`possible`].
    pub(crate) fn if_possible(threaded: bool) -> Option<Self> {
        possible().then(|| Self::new(threaded))
    }

    /// r0 receives by NAPI, in softirq.
    pub(crate) fn with_napi() -> Self {
        let world = Self::without_napi();
        world.give_napi();
        world
    }

    fn without_napi() -> Self {
        let (sender, receiver) = (Namespace::new().unwrap(), Namespace::new().unwrap());
        let (sender, receiver) =
            (Handle::in_namespace(&sender).unwrap(), Handle::in_namespace(&receiver).unwrap());
        let far = VethEnd::new("r0").namespace(receiver.namespace());
        sender.create_veth(&VethEnd::new("s0"), &far).unwrap();
        for (handle, name, address) in [(&sender, "s0", SENDER), (&receiver, "r0", RECEIVER)] {
            // Neighbor discovery would be in the accounts.
            handle.set_ipv6(name, false).unwrap();
            handle.add_address(name, IpAddr::V4(address), 24).unwrap();
            handle.set_up(name).unwrap();
        }
        sender.wait_carrier("s0", BOUND).unwrap();
        receiver.wait_carrier("r0", BOUND).unwrap();
        Self { sender, receiver }
    }

    fn give_napi(&self) {
        Self::give_napi_to(&self.receiver, "r0", &self.sender, "s0");
    }

    /// A veth has NAPI only with GRO, and uses it only for packets that are not merged yet.
    pub(crate) fn give_napi_to(host: &Handle, name: &str, peer: &Handle, peer_name: &str) {
        let ethtool = |handle: &Handle| Ethtool::in_namespace(handle.namespace()).unwrap();
        ethtool(host).set_features(name, &[("rx-gro", true)]).unwrap();
        let features = ethtool(peer).features(peer_name).unwrap();
        let segments = |name: &str| name.starts_with("tx-") && name.ends_with("-segmentation");
        let off: Vec<_> = features
            .iter()
            .filter(|feature| segments(&feature.name) && feature.name != "tx-generic-segmentation")
            .map(|feature| (feature.name.as_str(), false))
            .collect();
        ethtool(peer).set_features(peer_name, &off).unwrap();
    }

    /// The receiving device.
    pub(crate) fn device(&self) -> Device {
        Device {
            netns: self.receiver.namespace().inode() as u32,
            index: self.receiver.index("r0").unwrap(),
        }
    }

    /// A packet socket that receives all packets of r0.
    pub(crate) fn packet_socket(&self) -> OwnedFd {
        let protocol = i32::from((libc::ETH_P_ALL as u16).to_be());
        // SAFETY: numbers only.
        let open = || unsafe { libc::socket(libc::AF_PACKET, libc::SOCK_RAW, protocol) };
        let fd = self.receiver.namespace().run(open).unwrap();
        assert!(fd >= 0, "{}", std::io::Error::last_os_error());
        // SAFETY: the kernel just returned it.
        unsafe { OwnedFd::from_raw_fd(fd) }
    }

    pub(crate) fn flow(&self) -> Flow {
        let to: SocketAddr = (RECEIVER, 0).into();
        let reader = self.receiver.namespace().run(|| UdpSocket::bind(to)).unwrap().unwrap();
        reader.set_read_timeout(Some(BOUND)).unwrap();
        let bind = || UdpSocket::bind((SENDER, 0));
        let writer = self.sender.namespace().run(bind).unwrap().unwrap();
        writer.connect(reader.local_addr().unwrap()).unwrap();
        Flow { writer, reader }
    }

    /// Waits until all sent packets are received.
    pub(crate) fn wait_idle(&self) {
        self.thread_ns();
    }

    /// r0's NAPI thread.
    pub(crate) fn thread(&self) -> u32 {
        let instances = napi::instances(&self.receiver, "r0").unwrap().expect("Linux 6.8");
        instances.iter().find_map(|instance| instance.pid).expect("a NAPI thread")
    }

    /// Runs a closure while r0's NAPI thread cannot run: on its CPU, before all other threads there. Packets
    /// that arrive meanwhile belong to one poll.
    pub(crate) fn with_thread_blocked(&self, what: impl FnOnce() + Send) {
        let thread = Pid::from_raw(self.thread() as i32);
        let this = Pid::from_raw(0);
        let held = || {
            let allowed = sched_getaffinity(this).unwrap();
            let cpu = (0..CpuSet::count()).find(|cpu| allowed.is_set(*cpu).unwrap()).unwrap();
            let mut one = CpuSet::new();
            one.set(cpu).unwrap();
            sched_setaffinity(this, &one).unwrap();
            sched_setaffinity(thread, &one).unwrap();
            let first = libc::sched_param { sched_priority: 1 };
            // SAFETY: the parameters live through the call.
            let code = unsafe { libc::sched_setscheduler(0, libc::SCHED_FIFO, &raw const first) };
            assert_eq!(code, 0, "{}", std::io::Error::last_os_error());
            what();
        };
        std::thread::scope(|scope| scope.spawn(held).join()).unwrap();
    }

    /// Run time of r0's NAPI thread, in nanoseconds, once it is idle.
    pub(crate) fn thread_ns(&self) -> u64 {
        let pid = self.thread();
        let read = || {
            let text = fs::read_to_string(format!("/proc/{pid}/schedstat")).unwrap();
            text.split_whitespace().next().unwrap().parse::<u64>().unwrap()
        };
        let sleeps = || Stat::of_number(pid).unwrap().is_asleep();
        let deadline = Instant::now() + BOUND;
        while !sleeps() {
            assert!(Instant::now() < deadline, "the thread of r0 does not become idle");
            std::thread::yield_now();
        }
        read()
    }
}

/// A UDP flow.
pub(crate) struct Flow {
    pub(crate) writer: UdpSocket,
    pub(crate) reader: UdpSocket,
}

/// A TCP connection.
pub(crate) struct Stream {
    pub(crate) writer: TcpStream,
    pub(crate) reader: TcpStream,
}

impl World {
    pub(crate) fn stream(&self) -> Stream {
        let to: SocketAddr = (RECEIVER, 0).into();
        let listener = self.receiver.namespace().run(|| TcpListener::bind(to)).unwrap().unwrap();
        let to = listener.local_addr().unwrap();
        let writer = self.sender.namespace().run(|| TcpStream::connect(to)).unwrap().unwrap();
        Stream { writer, reader: listener.accept().unwrap().0 }
    }
}

impl Flow {
    /// Sends packets, a few at a time, and reads each.
    pub(crate) fn pass(&self, packets: u32, octets: usize) {
        const AT_ONCE: u32 = 32;
        let mut left = packets;
        while left > 0 {
            let now = left.min(AT_ONCE);
            self.send(now, octets);
            self.read(now);
            left -= now;
        }
    }

    pub(crate) fn send(&self, packets: u32, octets: usize) {
        let payload = vec![0; octets];
        (0..packets).for_each(|_| assert_eq!(self.writer.send(&payload).unwrap(), octets));
    }

    pub(crate) fn read(&self, packets: u32) {
        let mut room = [0; 2048];
        for _ in 0..packets {
            self.reader.recv(&mut room).unwrap();
        }
    }
}

impl Stream {
    pub(crate) fn send(&mut self, octets: usize) {
        self.writer.write_all(&vec![0; octets]).unwrap();
    }
}

/// The process of the tests.
pub(crate) fn this_process() -> Process {
    process(std::process::id())
}

/// A process as the ledger names it.
pub(crate) fn process(pid: u32) -> Process {
    onbeat_irq::names::process(pid).expect("a live process")
}

/// The accounts of all CPUs together, with each socket's time charged to its owner.
pub(crate) fn total(tracer: &Tracer) -> Accounts {
    let mut total = Accounts::default();
    tracer.accounts().unwrap().iter().for_each(|cpu| total.add(cpu));
    total.resolve(|cookie| tracer.owner(cookie));
    total
}

/// The time and packets that a process caused by packets of a device.
pub(crate) fn caused(accounts: &Accounts, process: Process, device: Device) -> Amount {
    let mut sum = Amount::default();
    for by in Attribution::ALL {
        let cause = Cause::Process { process, device, by };
        sum.add(accounts.caused.get(&cause).copied().unwrap_or_default());
    }
    sum
}

/// Nothing is missing in the accounts of a tracer that has stopped, except softirqs in progress: other tests
/// receive packets meanwhile.
pub(crate) fn assert_balanced(accounts: &Accounts) {
    // Both sides of a longer run were updated.
    const UNDER_WAY_NS: u64 = 100_000;
    let cpus = std::thread::available_parallelism().unwrap().get() as u64;
    let (missing, measured) = (accounts.imbalance_ns(), accounts.measured_ns);
    let allowed = cpus * UNDER_WAY_NS + measured / 100;
    assert!(missing <= allowed, "{missing} of {measured} ns; {allowed} may be");
}
