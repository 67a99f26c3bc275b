//! A process that reads little, beside all kinds of other traffic: its budget is never held against it.

use std::cell::{Cell, RefCell};
use std::io::{Read, Write};
use std::net::{SocketAddr, SocketAddrV4, TcpListener, TcpStream, UdpSocket};
use std::os::fd::{AsRawFd, OwnedFd};
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use nix::errno::Errno;
use nix::sys::signal::{Signal, kill};
use nix::sys::socket::{
    AddressFamily, SockFlag, SockType, SockaddrIn, connect, socket, sockopt::RcvBuf,
};
use nix::sys::wait::waitpid;
use nix::unistd::{ForkResult, Pid, fork};
use onbeat_irq_core::charge::Process;
use onbeat_irq_core::policy::{Budget, Limit};
use onbeat_irq_guard::{Rule, Usage};
use onbeat_netdev::XdpMode;
use onbeat_testing::{AttachMethod, ForeignProgram, Instruction, require_that};

use crate::harness::{Flow, RECEIVER, World};
use crate::hostile::{SMALL, flood_until_limited, possible, usage};
use crate::kernel::{set_fifo, turn};
use crate::reader::{Reader, without_forks};
use crate::running::RunningGuard;

/// Far more than its own packets cost, and less than a part of the others.
const BUDGET: Budget = Budget { ns_per_s: 20_000_000 };

/// Its packets beside a workload: they share polls with those of others.
const OWN: u32 = 5;

/// Runs of a workload on a machine with CPU steal, which is charged to the packet that it meets.
pub(crate) const RUNS: u32 = 3;

/// A real-time process that reads all packets of a socket, and wakes up by a timer all the time.
struct Innocent {
    pid: Pid,
    process: Process,
}

impl Innocent {
    fn start(socket: &UdpSocket) -> Self {
        let _forks = without_forks();
        let socket = socket.as_raw_fd();
        // SAFETY: the child makes system calls only, and is killed.
        match unsafe { fork() }.unwrap() {
            ForkResult::Child => loop {
                let pause = libc::timespec { tv_sec: 0, tv_nsec: 200_000 };
                let mut octet = [0_u8];
                // SAFETY: pointers to memory of this stack, with its length.
                unsafe {
                    libc::prctl(libc::PR_SET_NAME, c"innocent".as_ptr());
                    libc::recv(socket, octet.as_mut_ptr().cast(), 1, libc::MSG_DONTWAIT);
                    libc::nanosleep(&raw const pause, std::ptr::null_mut());
                }
            },
            ForkResult::Parent { child } => {
                let pid = child.as_raw().unsigned_abs();
                set_fifo(pid, 10);
                Self { pid: child, process: onbeat_irq::names::process(pid).unwrap() }
            }
        }
    }
}

impl Drop for Innocent {
    fn drop(&mut self) {
        let _ = kill(self.pid, Signal::SIGKILL);
        let _ = waitpid(self.pid, None);
    }
}

/// A guard, the innocent process `I`, and others.
pub(crate) struct Trial<I> {
    pub(crate) world: World,
    pub(crate) guard: RunningGuard,
    pub(crate) innocent: I,
    process: Process,
    own: Flow,
    greedy: RefCell<Reader>,
    flood: Flow,
    /// Packets of the innocent process that were dropped before a run was repeated.
    dropped: Cell<u64>,
}

impl Trial<Innocent> {
    fn start() -> Self {
        Self::with(|_, own| {
            let innocent = Innocent::start(&own.reader);
            let process = innocent.process;
            (innocent, process)
        })
    }
}

impl<I> Trial<I> {
    /// The process that `start` starts is named "innocent"; it can read the flow.
    pub(crate) fn with(start: impl FnOnce(&World, &Flow) -> (I, Process)) -> Self {
        let world = World::with_napi();
        let (own, flood) = (world.flow(), world.flow());
        let (innocent, process) = start(&world, &own);
        let greedy = RefCell::new(Reader::named(&flood.reader, Some(c"greedy")));
        let rule =
            |command: &str, budget| Rule { command: Some(command.to_owned()), ..Rule::any(budget) };
        let guard = RunningGuard::start(&world, |config| {
            config.budgets = vec![rule("innocent", BUDGET), rule("greedy", SMALL)];
        });
        let dropped = Cell::new(0);
        let trial = Self { world, guard, innocent, process, own, greedy, flood, dropped };
        let of_both = || [process, trial.greedy()].map(|one| usage(&trial.guard, one).is_some());
        trial.guard.wait_for("budgets", || of_both() == [true; 2]);
        trial
    }

    /// Does `work` repeatedly beside some packets of the innocent process, and asserts that it has no limit. Others keep
    /// theirs until the next workload.
    pub(crate) fn beside(&self, what: &str, times: u32, mut work: impl FnMut()) {
        let runs = if has_steal() { RUNS } else { 1 };
        for run in 1..=runs {
            let Err(usage) = self.run(times, &mut work) else { return };
            assert!(run < runs, "{what}: {usage:?}");
            eprintln!("{what}: repeated after {usage:?}");
            self.guard.wait_for("end of a limit", || self.usage().limit == Limit::None);
            self.dropped.set(self.usage().dropped);
        }
    }

    fn run(&self, times: u32, work: &mut impl FnMut()) -> Result<(), Usage> {
        for time in 0..times {
            if time % times.div_ceil(OWN) == 0 {
                self.own.send(1, 1);
            }
            work();
            self.check()?;
        }
        // Until the guard has measured: it limits another process.
        flood_until_limited(&self.guard, &self.flood, &mut self.greedy.borrow_mut());
        self.check()
    }

    pub(crate) fn check(&self) -> Result<(), Usage> {
        let usage = self.usage();
        match (usage.limit, usage.dropped) == (Limit::None, self.dropped.get()) {
            true => Ok(()),
            false => Err(usage),
        }
    }

    fn usage(&self) -> Usage {
        usage(&self.guard, self.process).expect("it lives")
    }

    /// A process without a connection, which is limited all the time.
    pub(crate) fn greedy(&self) -> Process {
        self.greedy.borrow().process
    }
}

/// Whether this machine has lost CPU time to others since its start.
pub(crate) fn has_steal() -> bool {
    let times = std::fs::read_to_string("/proc/stat").unwrap();
    // The sum of all CPUs: user nice system idle iowait irq softirq steal.
    times.split_whitespace().nth(8) != Some("0")
}

fn listener(world: &World) -> (TcpListener, SocketAddr) {
    let bind = || TcpListener::bind((RECEIVER, 0)).unwrap();
    let listener = world.receiver.namespace().run(bind).unwrap();
    let to = listener.local_addr().unwrap();
    (listener, to)
}

/// Requests of connections that the client abandons.
pub(crate) fn abandoned_connections(world: &World, to: SocketAddr, count: u32) {
    let SocketAddr::V4(to) = to else { panic!("{to}") };
    let request = |to: SocketAddrV4| {
        let flags = SockFlag::SOCK_NONBLOCK | SockFlag::SOCK_CLOEXEC;
        let client = socket(AddressFamily::Inet, SockType::Stream, flags, None).unwrap();
        let answer = connect(client.as_raw_fd(), &SockaddrIn::from(to));
        assert!(matches!(answer, Ok(()) | Err(Errno::EINPROGRESS)), "{answer:?}");
    };
    let all = || (0..count).for_each(|_| request(to));
    world.sender.namespace().run(all).unwrap();
}

#[test]
fn no_workload_of_others_limits_an_innocent_process() {
    let Some(_turn) = turn().filter(|_| possible()) else { return };
    let trial = Trial::start();

    let (listener, to) = listener(&trial.world);
    trial.beside("connection requests", 20, || abandoned_connections(&trial.world, to, 100));
    drop(listener);

    let unread = trial.world.flow();
    trial.beside("datagrams that no process reads", 50, || unread.send(400, 100));

    let (listener, to) = self::listener(&trial.world);
    trial.beside("new connections", 400, || {
        let connect = || TcpStream::connect(to).unwrap();
        let client = trial.world.sender.namespace().run(connect).unwrap();
        drop((client, listener.accept().unwrap()));
    });

    let mut stream = trial.world.stream();
    trial.beside("small requests and answers", 2000, || {
        stream.writer.write_all(b"request").unwrap();
        stream.reader.read_exact(&mut [0; 7]).unwrap();
        stream.reader.write_all(b"answer").unwrap();
        stream.writer.read_exact(&mut [0; 6]).unwrap();
    });

    let read = trial.world.flow();
    let mut receiver = stream.reader.try_clone().unwrap();
    let sink = thread::spawn(move || std::io::copy(&mut receiver, &mut std::io::sink()));
    trial.beside("datagrams beside a stream", 50, || {
        stream.send(200_000);
        read.pass(100, 100);
    });
    drop(stream);
    sink.join().unwrap().unwrap();

    trial.beside("readers that live briefly", 40, || {
        read.send(100, 1);
        let _forks = without_forks();
        let stdin = OwnedFd::from(read.reader.try_clone().unwrap());
        let mut head = Command::new("head");
        head.args(["-c", "1"]).stdin(stdin).stdout(Stdio::null());
        assert!(head.status().unwrap().success());
        read.read(99);
    });

    let packets = trial.world.packet_socket();
    nix::sys::socket::setsockopt(&packets, RcvBuf, &(1 << 20)).unwrap();
    trial.beside("a packet socket", 50, || read.pass(200, 100));
    drop(packets);
    trial.guard.stop();
}

/// Drops frames of more than 200 octets.
const DROP_LONG_FRAMES: [Instruction; 7] = [
    // r2 = data + 200; r3 = end of data
    (0x61, 0x12, 0, 0),
    (0x61, 0x13, 4, 0),
    (0x07, 0x02, 0, 200),
    // XDP_PASS
    (0xb7, 0x00, 0, 2),
    (0x2d, 0x32, 1, 0),
    // XDP_DROP
    (0xb7, 0x00, 0, 1),
    (0x95, 0x00, 0, 0),
];

/// A flood for the socket of the process, which never receives it.
#[test]
fn frames_that_a_program_drops_in_the_driver_limit_no_process() {
    let Some(_turn) = turn().filter(|_| possible()) else { return };
    let trial = Trial::start();
    let program = ForeignProgram::attach_code(
        &trial.world.receiver,
        "r0",
        AttachMethod::Link,
        XdpMode::Native,
        &DROP_LONG_FRAMES,
    );
    trial.beside("frames dropped in the driver", 50, || trial.own.send(400, 500));
    program.detach(&trial.world.receiver);
    trial.guard.stop();
}

/// ICMP is answered by the kernel, between the packets of a reader.
#[test]
fn icmp_does_not_limit_a_reader() {
    let ping = || Command::new("ping").arg("-V").output().is_ok();
    let Some(_turn) = turn().filter(|_| possible() && require_that(ping(), "ping")) else { return };
    let trial = Trial::start();
    let mut flood = Command::new("ping");
    flood.args(["-f", "-q", "-w", "60", &RECEIVER.to_string()]).stdout(Stdio::null());
    let mut flood = trial.world.sender.namespace().start_in(&mut flood).spawn().unwrap();
    trial.beside("ICMP", 2000, || thread::sleep(Duration::from_millis(1)));
    flood.kill().unwrap();
    flood.wait().unwrap();
    trial.guard.stop();
}
