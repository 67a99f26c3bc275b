//! Duration of changes on a node with 65,536 streams, in the kernel and in user space.
//!
//! ```console
//! # cargo run --release -p onbeat-frer-xdp --example scale
//! ```
//!
//! The kernel's plane is changed while another thread runs its programs on frames of unchanged streams. The
//! plane in user space is changed between two batches of such frames, like by its forwarding thread.
//! does that forwards with it.

use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use libbpf_rs::libbpf_sys as sys;
use onbeat_frer::dataplane::{Mode, PortSpec, ReceiveQueues};
use onbeat_frer::plane::Disposition;
use onbeat_frer::spec::{PortId, Stream};
use onbeat_frer_xdp::Options;

#[path = "../tests/common/mixed_streams.rs"]
mod mixed_streams;

use mixed_streams::{PORTS, STREAMS};

/// Streams with traffic; all others change.
const STEADY: u32 = STREAMS / 10;
const CHANGES: u32 = 1_000;
const RELOADED: usize = 10_000;
/// Frames between two changes, in user space.
const BATCH: u32 = 64;

/// The measured interface of a plane.
trait Plane {
    fn change(&mut self, gone: &[&str], streams: &[Stream]);
    /// The work between two changes.
    fn between(&mut self) {}
}

struct Kernel {
    plane: onbeat_frer_xdp::Plane,
    names: Vec<String>,
}

impl Plane for Kernel {
    fn change(&mut self, gone: &[&str], streams: &[Stream]) {
        self.plane.change(&self.names, gone, streams).expect("a change within the capacity");
    }
}

struct UserSpace {
    plane: onbeat_frer::plane::Plane,
    frames: Vec<Vec<u8>>,
    next: u32,
}

impl Plane for UserSpace {
    fn change(&mut self, gone: &[&str], streams: &[Stream]) {
        self.plane.change(gone, streams).expect("a change without conflict");
    }

    fn between(&mut self) {
        for _ in 0..BATCH {
            let index = self.next % STEADY;
            self.next = self.next.wrapping_add(1);
            let port = PortId(mixed_streams::port(index) as u8);
            let fate = self.plane.frame(port, 1, &self.frames[index as usize]);
            assert!(matches!(fate, Disposition::Sent(_)), "stream {index} while others change");
        }
    }
}

fn time(work: impl FnOnce()) -> Duration {
    let begin = Instant::now();
    work();
    begin.elapsed()
}

fn print(what: &str, mut times: Vec<Duration>) {
    times.sort();
    let at = |share: usize| times[(times.len() - 1) * share / 1000].as_secs_f64() * 1e6;
    let (p50, p99, max) = (at(500), at(990), at(1000));
    println!("  {what}: p50 {p50:.0} us, p99 {p99:.0} us, max {max:.0} us");
}

fn measure(plane: &mut impl Plane, all: &[Stream]) {
    let mut times: [Vec<Duration>; 3] = Default::default();
    for number in 0..CHANGES {
        // Distributed over all streams, without repetition.
        let index = STEADY + number * 7_919 % (STREAMS - STEADY);
        let stream = mixed_streams::stream(index);
        let mut changed = stream.clone();
        changed.egress[0].rewrite.priority = Some(5);
        times[0].push(time(|| plane.change(&[], &[changed])));
        plane.between();
        times[1].push(time(|| plane.change(&[&stream.name], &[])));
        plane.between();
        times[2].push(time(|| plane.change(&[], &[stream])));
        plane.between();
    }
    for (what, times) in ["change", "remove", "add"].into_iter().zip(times) {
        print(what, times);
    }
    let mut reloaded = all[STEADY as usize..][..RELOADED].to_vec();
    reloaded.iter_mut().for_each(|stream| stream.egress[0].rewrite.priority = Some(3));
    let took = time(|| plane.change(&[], &reloaded));
    println!("  {RELOADED} streams changed at once: {:.0} ms", took.as_secs_f64() * 1e3);
}

fn kernel(all: &[Stream]) {
    println!("in the kernel (XDP)");
    let options =
        Options { directory: None, max_streams: STREAMS, test_clock: false, count_output: false };
    let mut plane = onbeat_frer_xdp::Plane::open(&options).expect("tables, as root");
    let names: Vec<String> = (0..PORTS).map(|port| format!("port{port}")).collect();
    for name in &names {
        let (name, interface) = (name.clone(), "lo".into());
        let spec = PortSpec {
            name,
            interface,
            ifindex: 1,
            mode: Mode::Native,
            queues: ReceiveQueues::Concurrent,
            running: vec![],
        };
        plane.attach_for_test(&spec).expect("programs of a port");
    }
    let took = time(|| _ = plane.apply(&names, all).expect("streams within the capacity"));
    println!("  start with {STREAMS} streams: {:.0} ms", took.as_secs_f64() * 1e3);
    let memory = plane.memory().expect("memory of the tables");
    let megabytes = memory.octets as f64 / 1e6;
    println!("  tables: {megabytes:.1} MB, {} octets per stream", memory.octets_per_stream());

    let program = |name: &String| {
        let (ingress, _) = plane.programs(name).expect("an attached port");
        ingress.as_fd().try_clone_to_owned().expect("a descriptor")
    };
    let programs: Vec<OwnedFd> = names.iter().map(program).collect();
    let ended = AtomicBool::new(false);
    let mut kernel = Kernel { plane, names };
    thread::scope(|scope| {
        scope.spawn(|| {
            let frames: Vec<_> = (0..STEADY).map(mixed_streams::frame).collect();
            while !ended.load(Ordering::Relaxed) {
                for (index, frame) in (0..STEADY).zip(&frames) {
                    run(&programs[mixed_streams::port(index)], frame);
                }
            }
        });
        measure(&mut kernel, all);
        ended.store(true, Ordering::Relaxed);
    });
}

/// Runs a program on a frame of a stream.
fn run(program: &OwnedFd, frame: &[u8]) {
    const XDP_REDIRECT: u32 = 4;
    let mut options = sys::bpf_test_run_opts {
        sz: size_of::<sys::bpf_test_run_opts>() as sys::size_t,
        data_in: frame.as_ptr().cast(),
        data_size_in: frame.len() as u32,
        repeat: 1,
        ..Default::default()
    };
    // SAFETY: the descriptor is open, and the frame, alive until the call returns, has the length in the
    // options; their other pointers are null.
    let error = unsafe { sys::bpf_prog_test_run_opts(program.as_raw_fd(), &mut options) };
    assert_eq!((error, options.retval), (0, XDP_REDIRECT), "while others change");
}

fn user_space(all: &[Stream]) {
    println!("in user space (frer::plane)");
    let mut plane = onbeat_frer::plane::Plane::new(PORTS as usize);
    let took = time(|| plane.change(&[], all).expect("streams without conflict"));
    println!("  start with {STREAMS} streams: {:.0} ms", took.as_secs_f64() * 1e3);
    let frames = (0..STEADY).map(mixed_streams::frame).collect();
    measure(&mut UserSpace { plane, frames, next: 0 }, all);
}

fn main() {
    let all: Vec<Stream> = (0..STREAMS).map(mixed_streams::stream).collect();
    kernel(&all);
    user_space(&all);
}
