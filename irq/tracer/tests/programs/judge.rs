//! Programs of Debian, and the accounts of a phase beside the run time of the NAPI thread.

use std::fs;
use std::net::{SocketAddr, TcpStream};
use std::os::unix::process::CommandExt;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{JoinHandle, available_parallelism};
use std::time::{Duration, Instant};

use nix::sched::{CpuSet, sched_setaffinity};
use nix::unistd::Pid;

use onbeat_irq::{Meter, Tracer};
use onbeat_irq_core::charge::{Accounts, Amount, Attribution, Cause, Class, Process};
use onbeat_netdev::Handle;
use onbeat_testing::require_that;

use crate::harness::{BOUND, World, possible};

/// These tests measure times: one at a time.
pub(crate) fn turn() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The world, the ledger and the programs of a test.
pub(crate) struct Judge {
    pub(crate) world: World,
    pub(crate) meter: Meter,
    _busy: BusyCpus,
    _turn: MutexGuard<'static, ()>,
}

/// Threads of the lowest priority on every CPU: a kernel may not report the run time of a thread that it woke on an
/// idle CPU (Linux 6.18).
struct BusyCpus(Arc<AtomicBool>, Vec<JoinHandle<()>>);

impl BusyCpus {
    fn start() -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let threads = (0..available_parallelism().unwrap().get()).map(|cpu| {
            let stop = Arc::clone(&stop);
            std::thread::spawn(move || {
                let mut one = CpuSet::new();
                one.set(cpu).unwrap();
                sched_setaffinity(Pid::from_raw(0), &one).unwrap();
                let none = libc::sched_param { sched_priority: 0 };
                // SAFETY: the parameters live through the call.
                unsafe { libc::sched_setscheduler(0, libc::SCHED_IDLE, &raw const none) };
                while !stop.load(Ordering::Relaxed) {
                    std::hint::spin_loop();
                }
            })
        });
        Self(Arc::clone(&stop), threads.collect())
    }
}

impl Drop for BusyCpus {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
        self.1.drain(..).for_each(|thread| thread.join().unwrap());
    }
}

/// The accounts of a phase, of packets that r0 received.
pub(crate) struct Phase {
    accounts: Accounts,
    /// Run time of the NAPI thread, in nanoseconds.
    ran_ns: u64,
    /// At most so much CPU steal, in nanoseconds: it is in the ledger, and not in the thread's time.
    stolen_ns: u64,
}

/// CPU steal of each tick, in nanoseconds.
const TICK_NS: u64 = 10_000_000;

/// CPU steal of all CPUs since the start of the machine, in nanoseconds.
fn stolen_ns() -> u64 {
    let times = fs::read_to_string("/proc/stat").unwrap();
    // The sum of all CPUs: user nice system idle iowait irq softirq steal.
    let steal = times.split_whitespace().nth(8).unwrap();
    steal.parse::<u64>().unwrap() * TICK_NS
}

impl Judge {
    /// `None` if this machine has no ledger, or not these programs; each with its Debian package.
    pub(crate) fn new(programs: &[(&str, &str)]) -> Option<Self> {
        let present = programs.iter().all(|(program, package)| {
            let found = ["/usr/bin", "/usr/sbin", "/bin", "/sbin"]
                .iter()
                .any(|directory| fs::exists(format!("{directory}/{program}")).unwrap_or(false));
            require_that(found, &format!("{program} (Debian package {package})"))
        });
        if !present || !possible() {
            return None;
        }
        let turn = turn();
        let world = World::new(true);
        world.thread_sender();
        let busy = BusyCpus::start();
        // The hosts have resolved each other's addresses.
        world.flow().pass(1, 64);
        let meter = Meter::new(Tracer::start().unwrap());
        Some(Self { world, meter, _busy: busy, _turn: turn })
    }

    /// Checks the accounts of [`Judge::during`], repeated while the check fails or the charged time is not the run time of
    /// the NAPI thread: interrupts of timers are in the ledger, and not in the thread's time.
    pub(crate) fn measure(&mut self, work: impl Fn(&World), check: impl Fn(&Phase)) {
        const ROUNDS: usize = 10;
        let mut shares = Vec::new();
        for round in 1..=ROUNDS {
            let phase = self.during(&work);
            let of = |ns: u64| phase.all().ns as f64 / ns as f64;
            let (least, most) = (of(phase.ran_ns + phase.stolen_ns), of(phase.ran_ns));
            if least >= 1.25 || most < 0.9 {
                shares.push((least, most));
                continue;
            }
            match catch_unwind(AssertUnwindSafe(|| check(&phase))) {
                Ok(()) => return,
                // CPU steal is charged to the packet that it meets.
                Err(_) if round < ROUNDS => println!("another round"),
                Err(failure) => resume_unwind(failure),
            }
        }
        panic!("charged, of what the thread ran, with and without CPU steal: {shares:.3?}");
    }

    /// Runs `work`, and returns the accounts of r0 during it.
    fn during(&mut self, work: impl FnOnce(&World)) -> Phase {
        let before_ns = self.world.thread_ns();
        let (mut ran_ns, mut stolen) = (0, stolen_ns());
        let mut accounts = self.accounts(|world| {
            work(world);
            ran_ns = world.thread_ns() - before_ns;
            // Steal of less than a tick is not seen.
            let unseen_ns = available_parallelism().unwrap().get() as u64 * TICK_NS;
            stolen = stolen_ns() - stolen + unseen_ns;
        });
        let device = self.world.device();
        accounts.caused.retain(|cause, _| match cause {
            Cause::Process { device: of, .. } | Cause::Socket { device: of, .. } => *of == device,
            Cause::Unowned(class) => match class {
                Class::Handshake(of)
                | Class::Connection(of)
                | Class::Icmp(of)
                | Class::Neighbor(of)
                | Class::KernelSocket(of)
                | Class::EmptyPoll(of)
                | Class::TxCompletion(of)
                | Class::Unattributed(of)
                | Class::Dropped { device: of, .. } => *of == device,
                _ => false,
            },
        });
        Phase { accounts, ran_ns, stolen_ns: stolen }
    }

    /// The accounts of all devices during `work`.
    pub(crate) fn accounts(&mut self, work: impl FnOnce(&World)) -> Accounts {
        self.meter.read().unwrap();
        work(&self.world);
        let mut interval = self.meter.read().unwrap();
        interval.resolve(|cookie| self.meter.tracer().owner(cookie));
        interval.total()
    }
}

impl Phase {
    fn sum(&self, of: impl Fn(&Cause) -> bool) -> Amount {
        let mut sum = Amount::default();
        for (cause, amount) in &self.accounts.caused {
            if of(cause) {
                sum.add(*amount);
            }
        }
        sum
    }

    /// All packets of r0.
    pub(crate) fn all(&self) -> Amount {
        self.sum(|_| true)
    }

    /// The packets that processes caused by one kind of evidence.
    pub(crate) fn by(&self, wanted: Attribution) -> Amount {
        self.sum(|cause| matches!(cause, Cause::Process { by, .. } if *by == wanted))
    }

    /// The packets of processes that `is` selects.
    pub(crate) fn of(&self, is: impl Fn(Process) -> bool) -> Amount {
        self.sum(|cause| matches!(cause, Cause::Process { process, .. } if is(*process)))
    }

    pub(crate) fn of_class(&self, is: impl Fn(Class) -> bool) -> Amount {
        self.sum(|cause| matches!(cause, Cause::Unowned(class) if is(*class)))
    }

    /// At least 95 % of the time is of a known process or a named class of the kernel, and at most 2 % is unknown.
    pub(crate) fn assert_known(&self) {
        let unknown = self.sum(|cause| match cause {
            Cause::Process { by, .. } => *by == Attribution::Estimate,
            Cause::Socket { .. } => true,
            Cause::Unowned(class) => {
                matches!(class, Class::Unattributed(_) | Class::Connection(_))
            }
        });
        let share = unknown.ns as f64 / self.all().ns as f64;
        assert!(share <= 0.02, "{:.1} % unknown: {self:?}", share * 100.0);
    }
}

impl std::fmt::Debug for Phase {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        writeln!(f, "the thread ran {} ns", self.ran_ns)?;
        for (cause, Amount { ns, packets }) in &self.accounts.caused {
            writeln!(f, "{ns:>12} ns {packets:>8} packets {cause:?}")?;
        }
        Ok(())
    }
}

/// Whether a live process has this name.
pub(crate) fn is_named(process: Process, name: &str) -> bool {
    let read = fs::read_to_string(format!("/proc/{}/comm", process.pid));
    read.is_ok_and(|comm| comm.trim_end() == name)
}

/// A program in a host's namespace, killed with this value.
pub(crate) struct Service(Child);

impl Service {
    pub(crate) fn start(host: &Handle, command: &mut Command) -> Self {
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let child = host.namespace().run(|| command.process_group(0).spawn()).unwrap().unwrap();
        Self(child)
    }

    pub(crate) fn id(&self) -> u32 {
        self.0.id()
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        use nix::sys::signal::{Signal, killpg};
        let _ = killpg(Pid::from_raw(self.0.id() as i32), Signal::SIGTERM);
        let deadline = Instant::now() + Duration::from_secs(3);
        while Instant::now() < deadline {
            if self.0.try_wait().is_ok_and(|status| status.is_some()) {
                return;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        let _ = killpg(Pid::from_raw(self.0.id() as i32), Signal::SIGKILL);
        let _ = self.0.wait();
    }
}

/// Runs a program in a host's namespace to its end.
pub(crate) fn run(host: &Handle, command: &[&str]) -> Output {
    let output = output_of(host, command);
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{command:?}: {text}");
    output
}

fn output_of(host: &Handle, command: &[&str]) -> Output {
    let (program, arguments) = command.split_first().unwrap();
    let output = host.namespace().run(|| Command::new(program).args(arguments).output());
    output.unwrap().unwrap()
}

/// Runs a program in a host's namespace until it succeeds.
pub(crate) fn wait_for_success(host: &Handle, command: &[&str]) {
    let deadline = Instant::now() + BOUND;
    while !output_of(host, command).status.success() {
        assert!(Instant::now() < deadline, "{command:?} does not succeed");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Waits until a server accepts connections.
pub(crate) fn wait_for_server(host: &Handle, address: SocketAddr) {
    let deadline = Instant::now() + BOUND;
    while host.namespace().run(|| TcpStream::connect(address)).unwrap().is_err() {
        assert!(Instant::now() < deadline, "no server at {address}");
        std::thread::sleep(Duration::from_millis(10));
    }
}
