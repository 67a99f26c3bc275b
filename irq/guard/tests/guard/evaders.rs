//! Processes of one group that evade a budget by other names, many processes and sockets, new programs and namespaces: a
//! ledger beside the guard's measures the softirq time that they cause.

use std::ffi::CStr;
use std::net::UdpSocket;
use std::os::fd::{AsRawFd, RawFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, killpg};
use nix::sys::wait::waitpid;
use nix::unistd::{ForkResult, Pid, fork};
use onbeat_irq::{Meter, Tracer};
use onbeat_irq_core::charge::Cause;
use onbeat_irq_core::policy::{Budget, Rank};
use onbeat_irq_guard::{BudgetScope, Rule};

use crate::harness::{RECEIVER, SENDER, World, this_process};
use crate::hostile::possible;
use crate::innocent::{RUNS, has_steal};
use crate::kernel::{set_fifo, turn};
use crate::reader::without_forks;
use crate::running::RunningGuard;

/// 3 % of a CPU: less than half of what the flood costs.
const BUDGET: Budget = Budget { ns_per_s: 30_000_000 };
const PACKETS_PER_MS: usize = 30;
const SECONDS: usize = 4;

/// A child that repeats `step` until it is killed, with all processes that it starts.
struct Evader(Pid);

impl Evader {
    fn start(world: &World, step: &mut (dyn FnMut() + Send)) -> Self {
        let _forks = without_forks();
        // SAFETY: the child makes system calls only, and is killed.
        let start = || match unsafe { fork() }.unwrap() {
            ForkResult::Child => {
                // SAFETY: numbers only.
                let parent = unsafe {
                    libc::setpgid(0, 0);
                    libc::getppid()
                };
                // It does not outlive a test that is killed.
                // SAFETY: no argument.
                while unsafe { libc::getppid() } == parent {
                    step();
                }
                // SAFETY: it does not return.
                unsafe { libc::_exit(0) }
            }
            ForkResult::Parent { child } => child,
        };
        let child = world.receiver.namespace().run(start).unwrap();
        // SAFETY: numbers only; the group exists before it is killed.
        unsafe { libc::setpgid(child.as_raw(), child.as_raw()) };
        Self(child)
    }
}

impl Drop for Evader {
    fn drop(&mut self) {
        let _ = killpg(self.0, Signal::SIGKILL);
        let _ = waitpid(self.0, None);
    }
}

/// Reads sockets, by system calls only.
fn read_for(ms: libc::c_int, sockets: &[RawFd]) {
    let now_ms = || {
        let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        // SAFETY: the time is on this stack.
        unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut now) };
        now.tv_sec * 1000 + now.tv_nsec / 1_000_000
    };
    let mut waiting = [libc::pollfd { fd: -1, events: libc::POLLIN, revents: 0 }; SOCKETS];
    for (entry, socket) in waiting.iter_mut().zip(sockets) {
        entry.fd = *socket;
    }
    let (end, mut room) = (now_ms() + i64::from(ms), [0_u8; 64]);
    while now_ms() < end {
        // SAFETY: pointers to memory of this stack, with its length.
        unsafe {
            libc::poll(waiting.as_mut_ptr(), sockets.len() as libc::nfds_t, ms);
            for entry in waiting.iter().filter(|entry| entry.revents != 0) {
                let into = room.as_mut_ptr().cast();
                while libc::recv(entry.fd, into, room.len(), libc::MSG_DONTWAIT) >= 0 {}
            }
        }
    }
}

/// Steps of a filter that costs many times more than a packet.
pub(crate) const FILTER_STEPS: usize = 4000;

/// Attaches a filter of this many steps to a socket, which accepts all packets.
pub(crate) fn set_filter(socket: RawFd, steps: usize) {
    let step = |code: u32, k| libc::sock_filter { code: code as u16, jt: 0, jf: 0, k };
    // The code computes, so that no compiler of the kernel leaves it out.
    let mut filter = [step(libc::BPF_ALU | libc::BPF_MUL | libc::BPF_K, 3); FILTER_STEPS];
    filter[0] = step(libc::BPF_LD | libc::BPF_W | libc::BPF_LEN, 0);
    filter[steps.max(1) - 1] = step(libc::BPF_RET | libc::BPF_K, u32::MAX);
    let program = libc::sock_fprog { len: steps as u16, filter: filter.as_mut_ptr() };
    let length = size_of_val(&program) as libc::socklen_t;
    let (level, name) = (libc::SOL_SOCKET, libc::SO_ATTACH_FILTER);
    // SAFETY: pointers to memory of this stack, with its length.
    unsafe { libc::setsockopt(socket, level, name, (&raw const program).cast(), length) };
}

/// Runs `what` in a child, and waits for it.
fn in_child(what: impl FnOnce()) {
    // SAFETY: system calls only.
    unsafe {
        match libc::fork() {
            0 => {
                what();
                libc::_exit(0)
            }
            child => libc::waitpid(child, std::ptr::null_mut(), 0),
        };
    }
}

/// A socket with a port that others may have as well.
fn socket_at(port: u16) -> RawFd {
    // SAFETY: pointers to memory of this stack, with its length.
    unsafe {
        let socket = libc::socket(libc::AF_INET, libc::SOCK_DGRAM, 0);
        let on: libc::c_int = 1;
        let length = size_of_val(&on) as libc::socklen_t;
        let (level, name) = (libc::SOL_SOCKET, libc::SO_REUSEPORT);
        libc::setsockopt(socket, level, name, (&raw const on).cast(), length);
        let address = libc::sockaddr_in {
            sin_family: libc::AF_INET as libc::sa_family_t,
            sin_port: port.to_be(),
            sin_addr: libc::in_addr { s_addr: 0 },
            sin_zero: [0; 8],
        };
        let length = size_of_val(&address) as libc::socklen_t;
        libc::bind(socket, (&raw const address).cast(), length);
        socket
    }
}

const SOCKETS: usize = 200;
const PROCESSES: usize = 50;

/// The means of an evasion.
#[derive(Debug, Clone, Copy)]
enum Evasion {
    None,
    Names,
    Processes,
    Sockets,
    NewSockets,
    NewProcesses,
    Programs,
    Namespaces,
    /// Packets of some intervals cost many times more than others.
    Costs,
    /// A flood in each fourth interval only.
    Pulses,
}

impl Evasion {
    const ALL: [(Self, BudgetScope); 10] = [
        (Self::None, BudgetScope::Process),
        (Self::Names, BudgetScope::Cgroup),
        (Self::Processes, BudgetScope::User),
        (Self::Sockets, BudgetScope::Process),
        (Self::NewSockets, BudgetScope::Process),
        (Self::NewProcesses, BudgetScope::Cgroup),
        (Self::Programs, BudgetScope::Rule),
        (Self::Namespaces, BudgetScope::User),
        (Self::Costs, BudgetScope::Process),
        (Self::Pulses, BudgetScope::Process),
    ];

    fn sockets(self) -> usize {
        match self {
            Self::Processes => PROCESSES,
            Self::Sockets => SOCKETS,
            _ => 1,
        }
    }

    fn start(self, world: &World, sockets: &[RawFd], port: u16) -> Vec<Evader> {
        let first = sockets[0];
        let one = |step: &mut (dyn FnMut() + Send)| vec![Evader::start(world, step)];
        match self {
            Self::None | Self::Pulses => one(&mut || read_for(1000, &[first])),
            Self::Costs => one(&mut || {
                set_filter(first, 1);
                read_for(90, &[first]);
                set_filter(first, FILTER_STEPS);
                read_for(10, &[first]);
            }),
            Self::Names => {
                let mut count = 0_u64;
                one(&mut || {
                    count += 1;
                    let name = count.to_ne_bytes().map(|octet| octet | 1);
                    // SAFETY: the name ends with a 0.
                    unsafe { libc::prctl(libc::PR_SET_NAME, [name, [0; 8]].as_ptr()) };
                    read_for(1, &[first]);
                })
            }
            Self::Processes => {
                let each =
                    |socket: &RawFd| Evader::start(world, &mut || read_for(1000, &[*socket]));
                sockets.iter().map(each).collect()
            }
            Self::Sockets => one(&mut || read_for(1000, sockets)),
            Self::NewSockets => {
                let mut last = -1;
                one(&mut || {
                    let next = socket_at(port);
                    // SAFETY: a number only.
                    unsafe { libc::close(std::mem::replace(&mut last, next)) };
                    read_for(10, &[next]);
                })
            }
            Self::NewProcesses => one(&mut || in_child(|| read_for(20, &[first]))),
            Self::Programs => {
                // The program starts itself under another name, in the same process.
                let script = c"for at in 1 2 3 4 5 6 7 8 9; do read -t 9 -N 200 || exit; done; exec -a name$RANDOM bash -c \"$0\" \"$0\"";
                one(&mut || {
                    let words = [c"bash", c"-c", script, script].map(CStr::as_ptr);
                    let [name, option, code, argument] = words;
                    let end = std::ptr::null::<libc::c_char>();
                    // SAFETY: strings of this program, and the end of the list.
                    unsafe {
                        libc::dup2(first, 0);
                        libc::execlp(name, name, option, code, argument, end);
                        libc::_exit(1)
                    }
                })
            }
            Self::Namespaces => one(&mut || {
                in_child(|| {
                    let flags = libc::CLONE_NEWNET | libc::CLONE_NEWPID | libc::CLONE_NEWCGROUP;
                    let flags = flags | libc::CLONE_NEWUSER | libc::CLONE_NEWUTS;
                    // SAFETY: numbers only.
                    unsafe { libc::unshare(flags) };
                    in_child(|| read_for(100, &[first]));
                });
            }),
        }
    }
}

/// Sends until `stop`, before all normal threads.
fn flood(writer: &UdpSocket, ports: &[u16], pulses: bool, stop: &AtomicBool) {
    let mut ports = ports.iter().cycle();
    set_fifo(0, 1);
    let start = Instant::now();
    while !stop.load(Ordering::Relaxed) {
        if pulses && start.elapsed().as_millis() % 400 >= 100 {
            thread::sleep(Duration::from_millis(1));
            continue;
        }
        for _ in 0..PACKETS_PER_MS {
            let to = (RECEIVER, *ports.next().expect("a port"));
            writer.send_to(&[b'a'; 20], to).unwrap();
        }
        thread::sleep(Duration::from_millis(1));
    }
}

/// A group under test: its flood, and the ledger that judges it.
struct Trial {
    world: World,
    judge: Meter,
}

impl Trial {
    /// The softirq time that all processes but this one cause by packets of the interface until a second is over, in
    /// nanoseconds per second.
    fn second(&mut self) -> u64 {
        self.judge.read().unwrap();
        thread::sleep(Duration::from_secs(1));
        let mut interval = self.judge.read().unwrap();
        interval.resolve(|cookie| self.judge.tracer().owner(cookie));
        let device = self.world.device();
        let is_of_group = |cause: &Cause| match cause {
            Cause::Process { process, device: of, .. } => (*of, *process != this_process()),
            Cause::Socket { device: of, .. } => (*of, true),
            Cause::Unowned(_) => (device, false),
        } == (device, true);
        let caused = interval.total().caused;
        let of_group = caused.iter().filter(|(cause, _)| is_of_group(cause));
        let sum: u64 = of_group.map(|(_, amount)| amount.ns).sum();
        (u128::from(sum) * 1_000_000_000 / u128::from(interval.length_ns())) as u64
    }

    /// The time of each second after the first one.
    fn run(evasion: Evasion, per: BudgetScope) -> Vec<u64> {
        let world = World::with_napi();
        let open = || -> Vec<UdpSocket> {
            (0..evasion.sockets()).map(|_| UdpSocket::bind((RECEIVER, 0)).unwrap()).collect()
        };
        let mut sockets = world.receiver.namespace().run(open).unwrap();
        let port = |socket: &UdpSocket| socket.local_addr().unwrap().port();
        let ports: Vec<u16> = sockets.iter().map(port).collect();
        let numbers: Vec<RawFd> = sockets.iter().map(AsRawFd::as_raw_fd).collect();
        if matches!(evasion, Evasion::NewSockets) {
            sockets.clear();
        }
        let evaders = evasion.start(&world, &numbers, ports[0]);
        let guard = RunningGuard::start(&world, |config| {
            config.budgets = vec![Rule { per, ..Rule::any(BUDGET) }];
            // Other processes do not reduce the flood.
            config.settings.floor = Rank::Realtime { priority: 2 };
        });
        guard.wait_for("budgets", || !guard.usage().is_empty());
        let bind = || UdpSocket::bind((SENDER, 0)).unwrap();
        let writer = world.sender.namespace().run(bind).unwrap();
        let judge = Meter::new(Tracer::start().unwrap());
        let mut trial = Self { world, judge };
        let stop = AtomicBool::new(false);
        thread::scope(|scope| {
            // Also if the test fails.
            let _stops = StopsFlood(&stop);
            let pulses = matches!(evasion, Evasion::Pulses);
            let (writer, ports, stop) = (&writer, &ports, &stop);
            scope.spawn(move || flood(writer, ports, pulses, stop));
            let first = trial.second();
            let seconds: Vec<u64> = (0..SECONDS).map(|_| trial.second()).collect();
            eprintln!("{evasion:?}, per {per:?}: {first} ns/s, then {seconds:?}");
            let usage = guard.usage();
            assert!(usage.iter().any(|one| one.dropped > 0), "{evasion:?}: {usage:?}");
            drop(evaders);
            guard.stop();
            seconds
        })
    }
}

struct StopsFlood<'a>(&'a AtomicBool);

impl Drop for StopsFlood<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// The mean of some seconds: CPU steal, and other work on the host, change the cost of packets within a second.
#[test]
#[ignore = "two minutes: make soak SOAK=evaders"]
fn each_evader_is_held_to_its_budget() {
    let Some(_turn) = turn().filter(|_| possible()) else { return };
    for (evasion, per) in Evasion::ALL {
        let is_held = |_| {
            let seconds = Trial::run(evasion, per);
            // Time that was not in demand is not saved.
            let least = if matches!(evasion, Evasion::Pulses) { 5 } else { 1 };
            let range = BUDGET.ns_per_s * 9 / 10 / least..=BUDGET.ns_per_s * 11 / 10;
            seconds.iter().all(|second| range.contains(second))
        };
        let runs = if has_steal() { RUNS } else { 1 };
        assert!((0..runs).any(is_held), "{evasion:?}, per {per:?}");
    }
}
