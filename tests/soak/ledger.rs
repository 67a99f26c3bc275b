//! Memory of `onbeat irq top` stays constant, and it loses nothing, beside 500 short-lived readers per second, 50,000 open
//! sockets and 201 interfaces.
//!
//! ```text
//!   namespace:  lo   a0 ---- b0   a1 ---- b1   ...   a99 ---- b99
//! ```

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, UdpSocket};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use nix::sys::resource::{Resource, getrlimit, setrlimit};
use nix::sys::signal::{Signal, kill};
use nix::sys::wait::waitpid;
use nix::unistd::{ForkResult, Pid, fork};
use onbeat_netdev::{Handle, Namespace, VethEnd};
use onbeat_testing::Feature;
use serde_json::Value;

use crate::common::{can, program};
use crate::memory::{Usage, grown, held};
use crate::runs::Runs;

/// Processes that keep sockets open, and the number of sockets of each: the limit of open files may be 20,000.
const HOLDERS: u32 = 5;
const SOCKETS: u32 = 10_000;
const PAIRS: u32 = 100;
/// In each run, at least this far apart: about 500 per second.
const READERS: u32 = 125;
const APART: Duration = Duration::from_micros(1900);

/// Sums of the printed intervals.
#[derive(Debug, Clone, Copy, Default)]
struct Sums {
    intervals: u64,
    measured_ns: u64,
    caused_ns: u64,
    unnamed_ns: u64,
    unrecorded_ns: u64,
    /// Packets charged to processes.
    packets: u64,
    /// Interval with the most processes.
    most_processes: usize,
}

impl Sums {
    fn add(&mut self, interval: &Value) {
        let number = |value: &Value| value.as_u64().expect("a number");
        let processes = interval["processes"].as_array().expect("rows");
        let others = interval["others"]["caused_ns"].as_u64().unwrap_or(0);
        let caused: u64 = processes.iter().map(|row| number(&row["caused_ns"])).sum();
        let packets: u64 = processes.iter().map(|row| number(&row["packets"])).sum();
        self.packets += packets + interval["others"]["packets"].as_u64().unwrap_or(0);
        self.intervals += 1;
        self.measured_ns += number(&interval["measured_ns"]);
        self.caused_ns += caused + others;
        self.unnamed_ns += number(&interval["unnamed_ns"]);
        self.unrecorded_ns += number(&interval["unrecorded_ns"]);
        self.most_processes = self.most_processes.max(processes.len());
    }
}

/// A process that keeps sockets open. It is killed when this is dropped.
struct Holder {
    pid: Pid,
    _control: UnixStream,
}

impl Holder {
    fn new(namespace: &Namespace, number: u32) -> Self {
        let (mut control, mut theirs) = UnixStream::pair().unwrap();
        // SAFETY: this process has no other thread.
        match unsafe { fork() }.unwrap() {
            ForkResult::Child => {
                drop(control);
                let sockets = namespace.run(|| open_sockets(number));
                let opened = match &sockets {
                    Ok(Ok(sockets)) => sockets.len() as u32,
                    _ => 0,
                };
                let _ = theirs.write_all(&opened.to_ne_bytes());
                // Until the other end is closed.
                let _ = theirs.read(&mut [0]);
                // SAFETY: the process ends without running the parent's code.
                unsafe { libc::_exit(0) }
            }
            ForkResult::Parent { child } => {
                drop(theirs);
                let mut opened = [0; 4];
                let holder = Self { pid: child, _control: control.try_clone().unwrap() };
                control.read_exact(&mut opened).unwrap();
                assert_eq!(u32::from_ne_bytes(opened), SOCKETS, "sockets of the holder");
                holder
            }
        }
    }
}

impl Drop for Holder {
    fn drop(&mut self) {
        let _ = kill(self.pid, Signal::SIGKILL);
        let _ = waitpid(self.pid, None);
    }
}

/// On an address of their own, which has enough ports.
fn open_sockets(holder: u32) -> io::Result<Vec<UdpSocket>> {
    let (_, most) = getrlimit(Resource::RLIMIT_NOFILE)?;
    setrlimit(Resource::RLIMIT_NOFILE, most, most)?;
    let address = Ipv4Addr::from(u32::from(Ipv4Addr::LOCALHOST) + 1 + holder);
    (0..SOCKETS).map(|_| UdpSocket::bind((address, 0))).collect()
}

/// A running `onbeat irq top`, whose intervals are summed.
struct Top {
    child: Child,
    sums: Arc<Mutex<Sums>>,
    reader: Option<JoinHandle<()>>,
}

impl Top {
    fn start() -> Self {
        let mut command = Command::new(program());
        command.args(["irq", "top", "--json", "--interval", "1s", "--by", "command"]);
        let mut child = command.stdout(Stdio::piped()).stdin(Stdio::null()).spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let sums = Arc::new(Mutex::new(Sums::default()));
        let shared = Arc::clone(&sums);
        let reader = thread::spawn(move || {
            for line in lines {
                let interval = serde_json::from_str(&line.unwrap()).unwrap();
                shared.lock().unwrap().add(&interval);
            }
        });
        let top = Self { child, sums, reader: Some(reader) };
        assert!(top.sums_when(|sums| sums.intervals > 0).intervals > 0, "it prints no interval");
        top
    }

    /// The sums, once they are as wanted, or after a bound: an interval is printed when it is over.
    fn sums_when(&self, wanted: impl Fn(&Sums) -> bool) -> Sums {
        let deadline = Instant::now() + Duration::from_secs(20);
        loop {
            let sums = *self.sums.lock().unwrap();
            if wanted(&sums) || Instant::now() > deadline {
                return sums;
            }
            thread::sleep(Duration::from_millis(100));
        }
    }
}

impl Drop for Top {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        if let Some(reader) = self.reader.take() {
            let _ = reader.join();
        }
    }
}

fn interfaces() -> (Namespace, Handle) {
    let namespace = Namespace::new().unwrap();
    let handle = Handle::in_namespace(&namespace).unwrap();
    handle.set_up("lo").unwrap();
    for pair in 0..PAIRS {
        let names = [format!("a{pair}"), format!("b{pair}")];
        let [near, far] = names.each_ref().map(VethEnd::new);
        handle.create_veth(&near, &far).unwrap();
        for name in &names {
            handle.set_up(name).unwrap();
        }
    }
    (namespace, handle)
}

/// Sockets with one datagram each.
fn datagrams() -> io::Result<Vec<UdpSocket>> {
    let writer = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?;
    let bind = || UdpSocket::bind((Ipv4Addr::LOCALHOST, 0));
    let sockets: Vec<UdpSocket> = (0..READERS).map(|_| bind()).collect::<io::Result<_>>()?;
    for socket in &sockets {
        writer.send_to(&[0; 64], socket.local_addr()?)?;
    }
    Ok(sockets)
}

/// A program that reads one datagram and exits.
fn read_once(socket: UdpSocket) {
    let mut command = Command::new("head");
    command.args(["-c", "1"]).stdin(OwnedFd::from(socket)).stdout(Stdio::null());
    assert!(command.status().unwrap().success());
}

pub(crate) fn soak(runs: &mut Runs) {
    if !can(&[Feature::Btf, Feature::Kernel(6, 3)]) {
        runs.skip("the ledger requires Linux 6.3 with BTF");
        return;
    }
    let (namespace, handle) = interfaces();
    let holders: Vec<Holder> = (0..HOLDERS).map(|number| Holder::new(&namespace, number)).collect();
    let mut top = Top::start();
    let began = Instant::now();
    let mut samples: Vec<Usage> = Vec::new();
    let mut readers: u64 = 0;
    while runs.next().is_some() {
        let run = Instant::now();
        let sockets = namespace.run(datagrams).unwrap().unwrap();
        for (number, socket) in (0..).zip(sockets) {
            thread::sleep((APART * number).saturating_sub(run.elapsed()));
            read_once(socket);
            readers += 1;
        }
        runs.count("readers", READERS.into());
        assert!(top.child.try_wait().unwrap().is_none(), "onbeat irq top exited");
        samples.push(held(top.child.id()));
    }
    let rate = readers as f64 / began.elapsed().as_secs_f64();
    let sums = top.sums_when(|sums| sums.packets >= readers);
    drop((top, holders, handle));
    assert!(samples.len() >= 40, "{} runs are too few: raise SOAK_SECONDS", samples.len());
    let series: Vec<u64> =
        (0..20).map(|n| samples[n * (samples.len() - 1) / 19].resident_kib).collect();
    eprintln!("ledger: {rate:.0} readers/s; {:?}; resident KiB: {series:?}", samples.last());
    let Sums { caused_ns, unnamed_ns, unrecorded_ns, packets, .. } = sums;
    eprintln!("ledger: {sums:?}");
    let grown = grown(&samples);
    assert!(grown.is_empty(), "{grown:?}");
    assert!(packets >= readers, "{packets} packets charged of {readers}");
    assert_eq!(unrecorded_ns, 0, "time without room in the kernel's table");
    assert!(caused_ns > 0 && unnamed_ns * 50 <= caused_ns, "{unnamed_ns} of {caused_ns} ns");
}
