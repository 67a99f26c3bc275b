//! A node whose programs are run by BPF_PROG_TEST_RUN, frame by frame, under virtual time.

use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::Path;
use std::sync::Arc;

use libbpf_rs::ProgramMut;
use libbpf_rs::libbpf_sys as sys;
use onbeat_frer::dataplane::{Mode, PortSpec, ReceiveQueues};
use onbeat_frer::reading::StreamReading;
use onbeat_frer::spec::{
    Egress, Identification, Member, PortId, Recovery, Rewrite, SequenceTag, Stream, TagMatch,
    VlanMatch,
};
use onbeat_frer_xdp::{Options, PinDirectory, PinOwner, Plane};
use onbeat_testing::{Feature, require};
use onbeat_wire::MacAddress;

pub(crate) const XDP_DROP: u32 = 1;
pub(crate) const XDP_PASS: u32 = 2;
pub(crate) const XDP_REDIRECT: u32 = 4;

/// The loopback interface: nothing is sent, but a port needs an interface.
const IFINDEX: u32 = 1;

/// Loaded programs with their ports.
pub(crate) struct Node {
    pub(crate) plane: Plane,
    pub(crate) names: Vec<String>,
}

/// Returns whether programs can be loaded here; prints the missing feature if not.
pub(crate) fn can_run() -> bool {
    require(Feature::Root)
}

/// Returns the pin directory of the test node.
pub(crate) fn pins(path: &Path) -> Option<Arc<PinDirectory>> {
    Some(Arc::new(PinDirectory::create(path, &owner()).expect("a pin directory")))
}

pub(crate) fn owner() -> PinOwner {
    PinOwner::new(Path::new("/run/onbeat/test.sock"), false)
}

impl Node {
    /// Creates a node with this many ports whose tables end with it.
    pub(crate) fn new(ports: usize, max_streams: u32) -> Self {
        Self::open(
            ports,
            &Options { directory: None, max_streams, test_clock: true, count_output: false },
        )
    }

    pub(crate) fn open(ports: usize, options: &Options) -> Self {
        let mut plane = Plane::open(options).expect("a data plane");
        let names: Vec<String> = (0..ports).map(|port| format!("port{port:02}")).collect();
        for (port, name) in names.iter().enumerate() {
            let spec = PortSpec {
                name: name.clone(),
                interface: "lo".into(),
                ifindex: IFINDEX,
                mode: Mode::Native,
                // Each port is used by one thread; both kinds of counters are tested, and both of generators.
                queues: match port % 2 {
                    0 => ReceiveQueues::Single,
                    _ => ReceiveQueues::Concurrent,
                },
                running: vec![],
            };
            plane.attach_for_test(&spec).expect("programs of a port");
        }
        plane.set_test_clock(1).expect("a clock");
        Self { plane, names }
    }

    /// Sets its streams; each new or changed one starts at BEGIN.
    pub(crate) fn apply(&mut self, streams: &[Stream]) {
        for stream in streams {
            stream.validate().expect("a valid stream");
        }
        self.plane.apply(&self.names, streams).expect("supported streams");
    }

    /// Returns the program for frames received at a port.
    pub(crate) fn ingress(&self, port: usize) -> Program {
        let (ingress, _) = self.plane.programs(&self.names[port]).expect("an attached port");
        Program::of(&ingress)
    }

    /// Returns the program for replicas that leave by a port.
    pub(crate) fn egress(&self, port: usize) -> Program {
        let (_, egress) = self.plane.programs(&self.names[port]).expect("an attached port");
        Program::of(&egress)
    }

    pub(crate) fn read(&self, stream: &str) -> StreamReading {
        self.plane.read_stream(stream).expect("readable tables").expect("a stream of this name")
    }
}

/// A loaded program, callable from any thread.
pub(crate) struct Program(OwnedFd);

/// The result of a program run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Run {
    pub(crate) verdict: u32,
    /// Meta data before the frame for the next program.
    pub(crate) meta: Vec<u8>,
    pub(crate) frame: Vec<u8>,
}

impl Program {
    /// Wraps a loaded program.
    pub(crate) fn of(program: &ProgramMut<'_>) -> Self {
        Self(program.as_fd().try_clone_to_owned().expect("a descriptor"))
    }

    /// Returns the verdict on a frame.
    pub(crate) fn verdict(&self, frame: &[u8]) -> u32 {
        self.verdict_on(frame, 1)
    }

    /// Returns the verdict on the last of `times` equal frames, in immediate succession. A program that
    /// modifies the frame receives the modified frame.
    pub(crate) fn verdict_on(&self, frame: &[u8], times: u32) -> u32 {
        let mut options = sys::bpf_test_run_opts {
            sz: size_of::<sys::bpf_test_run_opts>() as sys::size_t,
            data_in: frame.as_ptr().cast(),
            data_size_in: frame.len() as u32,
            repeat: times as i32,
            ..Default::default()
        };
        self.call(&mut options);
        options.retval
    }

    /// As [`Program::verdict_on`], for frames of an interface of this namespace, by index, and its receive queue.
    pub(crate) fn verdict_from(
        &self,
        frame: &[u8],
        times: u32,
        (ifindex, queue): (u32, u32),
    ) -> u32 {
        let received = sys::xdp_md {
            data_end: frame.len() as u32,
            ingress_ifindex: ifindex,
            rx_queue_index: queue,
            ..Default::default()
        };
        let mut options = sys::bpf_test_run_opts {
            sz: size_of::<sys::bpf_test_run_opts>() as sys::size_t,
            data_in: frame.as_ptr().cast(),
            data_size_in: frame.len() as u32,
            ctx_in: (&raw const received).cast(),
            ctx_size_in: size_of_val(&received) as u32,
            repeat: times as i32,
            ..Default::default()
        };
        self.call(&mut options);
        options.retval
    }

    /// Processes `times` equal frames that the loopback interface of this namespace received. The program must not
    /// modify them.
    pub(crate) fn forward(&self, frame: &[u8], times: u32) {
        let mut options = sys::bpf_test_run_opts {
            sz: size_of::<sys::bpf_test_run_opts>() as sys::size_t,
            data_in: frame.as_ptr().cast(),
            data_size_in: frame.len() as u32,
            repeat: times as i32,
            flags: sys::BPF_F_TEST_XDP_LIVE_FRAMES,
            ..Default::default()
        };
        self.call(&mut options);
    }

    /// Runs a frame with `meta` before it; returns the verdict, and both as they are afterwards.
    pub(crate) fn run(&self, meta: &[u8], frame: &[u8]) -> Run {
        let data = [meta, frame].concat();
        let mut out = vec![0xa5; data.len() + 64];
        let before = sys::xdp_md {
            data: meta.len() as u32,
            data_end: data.len() as u32,
            ..Default::default()
        };
        let mut after = sys::xdp_md::default();
        let mut options = sys::bpf_test_run_opts {
            sz: size_of::<sys::bpf_test_run_opts>() as sys::size_t,
            data_in: data.as_ptr().cast(),
            data_size_in: data.len() as u32,
            data_out: out.as_mut_ptr().cast(),
            data_size_out: out.len() as u32,
            ctx_in: (&raw const before).cast(),
            ctx_size_in: size_of_val(&before) as u32,
            ctx_out: (&raw mut after).cast(),
            ctx_size_out: size_of_val(&after) as u32,
            repeat: 1,
            ..Default::default()
        };
        self.call(&mut options);
        out.truncate(options.data_size_out as usize);
        let frame = out.split_off(after.data as usize);
        Run { verdict: options.retval, meta: out, frame }
    }

    fn call(&self, options: &mut sys::bpf_test_run_opts) {
        // SAFETY: the descriptor is open, and the pointers in `options` are null or reference as many octets
        // as it states, alive until the call returns.
        let error = unsafe { sys::bpf_prog_test_run_opts(self.0.as_raw_fd(), options) };
        assert_eq!(error, 0, "BPF_PROG_TEST_RUN: {}", std::io::Error::from_raw_os_error(-error));
    }
}

/// The default destination of streams of these tests.
pub(crate) const DESTINATION: MacAddress = MacAddress([2, 0, 0, 0, 0, 0x0d]);

pub(crate) fn null(vid: u16) -> Identification {
    let vlan = VlanMatch { tagged: TagMatch::Tagged, vlan: vid };
    Identification::Null { destination: DESTINATION, vlan }
}

pub(crate) fn member(port: u8, vid: u16, individual: Option<Recovery>) -> Member {
    Member { port: PortId(port), identification: null(vid), individual }
}

pub(crate) fn egress(port: u8, tag: SequenceTag) -> Egress {
    Egress { port: PortId(port), tag, rewrite: Rewrite::default() }
}

/// Returns a stream that leaves by port 0 unmodified.
pub(crate) fn stream(name: &str, members: Vec<Member>, recover: Option<Recovery>) -> Stream {
    let egress = vec![egress(0, SequenceTag::Keep)];
    Stream { name: name.into(), members, generate: false, recover, egress }
}

/// Returns a stream that numbers frames and leaves by port 0.
pub(crate) fn talker(name: &str, members: Vec<Member>) -> Stream {
    let egress = vec![egress(0, SequenceTag::RTag)];
    Stream { name: name.into(), members, generate: true, recover: None, egress }
}

/// Returns a frame of `null(vid)`, with an R-TAG if it has a number.
pub(crate) fn frame(vid: u16, number: Option<u16>) -> Vec<u8> {
    let mut octets = [&DESTINATION.0[..], &[2, 0, 0, 0, 0, 0x0a, 0x81, 0]].concat();
    octets.extend(vid.to_be_bytes());
    if let Some(number) = number {
        octets.extend([0xf1, 0xc1, 0, 0]);
        octets.extend(number.to_be_bytes());
    }
    octets.extend([0x88, 0xb5, b'd', b'a', b't', b'a']);
    octets
}

/// Returns a plane in user space with these streams only.
pub(crate) fn user_space(streams: &[Stream], ports: usize) -> onbeat_frer::plane::Plane {
    let mut plane = onbeat_frer::plane::Plane::new(ports);
    for stream in streams {
        plane.set(stream).expect("a stream without conflict");
    }
    plane
}
