//! An interface on which a program of somebody else runs: a node leaves it alone and says so, unless
//! it is told to replace it.
//!
//! ```text
//!   host eth0 --- host [ a ] path1 --- eth0 path1
//!                            path2 --- eth0 path2      the other program runs on a's path2
//! ```

mod common;

use std::fs;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::ptr;

use common::{
    Capture, FrameText, Injector, PORTS, assert_gone, can_run, one_node, port, program, replicate,
    run_in, show,
};
use libbpf_rs::libbpf_sys as sys;
use onbeat_lab::World;
use onbeat_netdev::Namespace;
use onbeat_node::control::PortMode;

const GROUP: &str = "01:00:5e:00:00:01";
const VLAN: u16 = 100;

/// Name of the other program.
const NAME: &str = "stranger";

/// How the other program is held on its interface.
#[derive(Debug, Clone, Copy)]
enum Hold {
    /// By the interface, as `ip link set dev ... xdp` does.
    Interface,
    /// By a link, as libraries do nowadays.
    Link,
}

/// A program that lets every frame pass.
#[derive(Debug)]
struct Stranger {
    id: u32,
    _program: OwnedFd,
    _link: Option<OwnedFd>,
}

fn owned(fd: i32, what: &str) -> OwnedFd {
    assert!(fd >= 0, "{what}: {}", std::io::Error::from_raw_os_error(-fd));
    // SAFETY: the kernel just gave us this descriptor.
    unsafe { OwnedFd::from_raw_fd(fd) }
}

impl Stranger {
    fn load() -> OwnedFd {
        // r0 = XDP_PASS; exit
        let instructions = [[0xb7, 0, 0, 0, 2, 0, 0, 0], [0x95, 0, 0, 0, 0, 0, 0, 0]];
        let instructions: [u64; 2] = instructions.map(u64::from_le_bytes);
        let name = std::ffi::CString::new(NAME).unwrap();
        // SAFETY: the strings and the instructions outlive the call; an instruction has 8 octets.
        owned(
            unsafe {
                sys::bpf_prog_load(
                    sys::BPF_PROG_TYPE_XDP,
                    name.as_ptr(),
                    c"GPL".as_ptr(),
                    instructions.as_ptr().cast(),
                    2,
                    ptr::null_mut(),
                )
            },
            "load a program",
        )
    }

    fn attach(world: &World, interface: &str, hold: Hold) -> Stranger {
        let handle = world.handle("a").unwrap();
        let (index, namespace): (u32, &Namespace) =
            (handle.index(interface).unwrap(), handle.namespace());
        let program = Self::load();
        let (fd, mode) = (program.as_raw_fd(), sys::XDP_FLAGS_DRV_MODE);
        let link = namespace.run(|| match hold {
            Hold::Interface => {
                // SAFETY: an open descriptor and no options.
                let code = unsafe { sys::bpf_xdp_attach(index as i32, fd, mode, ptr::null()) };
                assert_eq!(code, 0);
                None
            }
            Hold::Link => {
                let options = sys::bpf_link_create_opts {
                    sz: size_of::<sys::bpf_link_create_opts>() as sys::size_t,
                    flags: mode,
                    ..Default::default()
                };
                // SAFETY: an open descriptor, and options that outlive the call.
                let fd = unsafe { sys::bpf_link_create(fd, index as i32, sys::BPF_XDP, &options) };
                Some(owned(fd, "attach a program by a link"))
            }
        });
        let running = handle.link(interface).unwrap().xdp_program().unwrap();
        Stranger { id: running.program_id, _program: program, _link: link.unwrap() }
    }
}

/// The XDP program that runs on an interface of the node.
fn running(world: &World, interface: &str) -> Option<u32> {
    let link = world.handle("a").unwrap().link(interface).unwrap();
    link.xdp_program().map(|program| program.program_id)
}

/// `onbeat run FILE --replace`, for what can only say `run FILE`.
fn replacing() -> &'static Path {
    let path = Path::new("/run/onbeat/lab/replacing");
    let text = format!("#!/bin/sh\nexec '{}' \"$@\" --replace\n", program().display());
    fs::write(path, text).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
    path
}

fn refuse_then_replace(hold: Hold) {
    let config = format!("{PORTS}{}", replicate("axis", GROUP, VLAN));
    let mut world = World::build(&one_node(&config)).unwrap();
    let stranger = Stranger::attach(&world, "path2", hold);
    assert_eq!(running(&world, "path2"), Some(stranger.id));

    let file = "/run/onbeat/lab/own.toml";
    fs::write(file, format!("[node]\nname = \"a\"\n{config}")).unwrap();
    let refused = run_in(world.namespace("a").unwrap(), &["run", file]);
    assert_eq!((refused.code, refused.out.as_str()), (2, ""), "{refused:?}");
    for named in [NAME, "\"path2\"", "--replace", &format!("id {}", stranger.id)] {
        assert!(refused.err.contains(named), "{named} in {}", refused.err);
    }
    assert_eq!(running(&world, "path2"), Some(stranger.id), "it goes on");
    for interface in ["host", "path1"] {
        assert_eq!(running(&world, interface), None, "nothing of ours on {interface}");
    }
    for interface in ["path1", "path2"] {
        let mtu = world.handle("a").unwrap().link(interface).unwrap().mtu;
        assert_eq!(mtu, 1500, "given back on {interface}");
    }
    assert_gone("a");
    let mut stack = Capture::open(&world, "a", "path2");
    let frame = FrameText::new(GROUP, &[12], Some(7)).octets();
    Injector::open(&world, "path2", "eth0").send(&frame);
    assert_eq!(stack.wait(1, "through the other program"), [frame]);

    world.start("a", replacing()).unwrap_or_else(|error| panic!("{error}"));
    let ours = running(&world, "path2");
    assert!(ours.is_some() && ours != Some(stranger.id), "{ours:?}");
    assert!(show("a").ports.iter().all(|port| port.mode == PortMode::Native));
    assert_eq!(port(&show("a"), "path2").interface, "path2");
    let mut replicas = ["path1", "path2"].map(|host| Capture::open(&world, host, "eth0"));
    let sent = FrameText::new(GROUP, &[VLAN], None);
    Injector::open(&world, "host", "eth0").send(&sent.octets());
    for (replica, vlan) in replicas.iter_mut().zip([11, 12]) {
        let expected = FrameText { vlans: vec![vlan], r_tag: Some(0), ..sent.clone() };
        assert_eq!(replica.wait(1, "a replica"), [expected.octets()]);
    }
    world.daemon("a").unwrap().interrupt().unwrap();
    assert_eq!(running(&world, "path2"), None);
    assert_gone("a");
}

#[test]
fn a_program_of_somebody_else_is_left_alone_or_replaced_as_told() {
    if !can_run() {
        return;
    }
    refuse_then_replace(Hold::Interface);
    refuse_then_replace(Hold::Link);
}
