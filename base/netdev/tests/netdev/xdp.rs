//! Properties of an XDP program on a device.

use std::{
    fs, io,
    os::fd::{AsRawFd, FromRawFd, OwnedFd},
};

use crate::common::Cable;
use onbeat_netdev::{XdpAttachment, XdpMode};
use onbeat_testing::{Feature, require_all};

const BPF_PROG_LOAD: i32 = 5;
const BPF_LINK_CREATE: i32 = 28;
const BPF_PROG_TYPE_XDP: u64 = 6;
const BPF_XDP: u64 = 37;
const XDP_FLAGS_SKB_MODE: u64 = 1 << 1;
const XDP_FLAGS_DRV_MODE: u64 = 1 << 2;

/// Calls bpf with a `union bpf_attr` as 64-bit words, zero where unused.
fn bpf(command: i32, words: &[u64]) -> io::Result<OwnedFd> {
    let mut attributes = [0_u64; 16];
    attributes[..words.len()].copy_from_slice(words);
    // SAFETY: the attributes have the stated length; the pointers in them refer to memory that the callers
    // keep alive across the call.
    let fd = unsafe {
        libc::syscall(libc::SYS_bpf, command, attributes.as_ptr(), size_of_val(&attributes))
    };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: both commands return a new descriptor without another owner.
    Ok(unsafe { OwnedFd::from_raw_fd(fd as i32) })
}

/// Two fields of 32 bit, in the order of memory.
fn pair(first: u64, second: u64) -> u64 {
    if cfg!(target_endian = "little") { first | second << 32 } else { first << 32 | second }
}

/// A program that passes every frame.
fn pass() -> OwnedFd {
    // r0 = XDP_PASS; exit
    let code: [[u8; 8]; 2] = [[0xb7, 0, 0, 0, 2, 0, 0, 0], [0x95, 0, 0, 0, 0, 0, 0, 0]];
    let code = code.map(|mut i| {
        if cfg!(target_endian = "big") {
            i[4..].reverse();
        }
        i
    });
    let license = c"Dual MIT/GPL";
    let words = [pair(BPF_PROG_TYPE_XDP, 2), code.as_ptr() as u64, license.as_ptr() as u64];
    bpf(BPF_PROG_LOAD, &words).expect("load a program")
}

fn id(program: &OwnedFd) -> u32 {
    let info = fs::read_to_string(format!("/proc/self/fdinfo/{}", program.as_raw_fd())).unwrap();
    let line = info.lines().find_map(|line| line.strip_prefix("prog_id:")).unwrap();
    line.trim().parse().unwrap()
}

#[test]
fn programs_show_with_mode_and_id() {
    if !require_all(&[Feature::Root, Feature::Veth]) {
        return;
    }
    let Cable { left, right: _right } = Cable::new();
    let index = left.index("l0").unwrap();
    let program = pass();
    let attach = |mode| {
        let fields = [pair(program.as_raw_fd() as u64, index.into()), pair(BPF_XDP, mode)];
        left.namespace().run(|| bpf(BPF_LINK_CREATE, &fields)).unwrap().unwrap()
    };
    assert_eq!(left.link("l0").unwrap().xdp, []);
    for (flag, mode) in
        [(XDP_FLAGS_DRV_MODE, XdpMode::Native), (XDP_FLAGS_SKB_MODE, XdpMode::Generic)]
    {
        let attachment = attach(flag);
        let expected = XdpAttachment { mode, program_id: id(&program) };
        let link = left.link("l0").unwrap();
        assert_eq!(link.xdp, [expected]);
        assert_eq!(link.xdp_program(), Some(expected));
        drop(attachment);
        assert_eq!(left.link("l0").unwrap().xdp_program(), None, "{mode}");
    }
}
