//! The family by hand: messages as no back end writes them.

use std::os::fd::{AsRawFd, OwnedFd};

use nix::sys::socket::{
    AddressFamily, MsgFlags, NetlinkAddr, SockFlag, SockProtocol, SockType, connect, recv, send,
    socket,
};
use onbeat_netdev::Namespace;

const REQUEST: u16 = libc::NLM_F_REQUEST as u16;
pub(crate) const ACK: u16 = REQUEST | libc::NLM_F_ACK as u16;
pub(crate) const DUMP: u16 = REQUEST | libc::NLM_F_DUMP as u16;
const GET: u8 = 3;

pub(crate) struct Family {
    fd: OwnedFd,
    id: u16,
}

/// A reply: 0 or an error's number, and the commands of the messages before it.
#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) errno: i32,
    pub(crate) messages: usize,
}

impl Family {
    pub(crate) fn open(namespace: &Namespace) -> Self {
        let open = || {
            let kind = (SockType::Raw, SockFlag::SOCK_CLOEXEC, SockProtocol::NetlinkGeneric);
            let fd = socket(AddressFamily::Netlink, kind.0, kind.1, kind.2).unwrap();
            connect(fd.as_raw_fd(), &NetlinkAddr::new(0, 0)).unwrap();
            fd
        };
        let fd = namespace.run(open).unwrap();
        let mut octets = [0; 4096];
        // CTRL_CMD_GETFAMILY of GENL_ID_CTRL, by CTRL_ATTR_FAMILY_NAME.
        let name = attribute(2, b"onbeat\0");
        send(fd.as_raw_fd(), &message(16, REQUEST, 3, &name), MsgFlags::empty()).unwrap();
        let len = recv(fd.as_raw_fd(), &mut octets, MsgFlags::empty()).unwrap();
        // The name comes first, then CTRL_ATTR_FAMILY_ID.
        let id = octets[20 + name.len()..len].to_vec();
        assert_eq!(id[..4], [6, 0, 1, 0], "{:?}", &octets[..len]);
        Self { fd, id: u16::from_ne_bytes([id[4], id[5]]) }
    }

    /// Sends a command with any octets as its attributes.
    pub(crate) fn ask(&self, flags: u16, command: u8, attributes: &[u8]) -> Reply {
        let octets = message(self.id, flags, command, attributes);
        send(self.fd.as_raw_fd(), &octets, MsgFlags::empty()).unwrap();
        let mut messages = 0;
        let mut octets = [0; 65536];
        loop {
            let len = recv(self.fd.as_raw_fd(), &mut octets, MsgFlags::empty()).unwrap();
            let mut rest = &octets[..len];
            while rest.len() >= 16 {
                let number = |at: usize| u32::from_ne_bytes(rest[at..at + 4].try_into().unwrap());
                let kind = (number(4) & 0xffff) as i32;
                if kind == libc::NLMSG_ERROR || kind == libc::NLMSG_DONE {
                    return Reply { errno: -(number(16) as i32), messages };
                }
                messages += 1;
                rest = &rest[(number(0) as usize).next_multiple_of(4).min(rest.len())..];
            }
        }
    }
}

pub(crate) fn attribute(kind: u16, value: &[u8]) -> Vec<u8> {
    let mut octets = (4 + value.len() as u16).to_ne_bytes().to_vec();
    octets.extend(kind.to_ne_bytes());
    octets.extend(value);
    octets.resize(octets.len().next_multiple_of(4), 0);
    octets
}

fn message(family: u16, flags: u16, command: u8, attributes: &[u8]) -> Vec<u8> {
    let mut octets = (20 + attributes.len() as u32).to_ne_bytes().to_vec();
    octets.extend(family.to_ne_bytes());
    octets.extend(flags.to_ne_bytes());
    octets.extend([0; 8]);
    octets.extend([command, 1, 0, 0]);
    octets.extend(attributes);
    octets
}

/// Number of attachments in a namespace.
pub(crate) fn attachments(namespace: &Namespace) -> usize {
    let reply = Family::open(namespace).ask(DUMP, GET, &[]);
    assert_eq!(reply.errno, 0);
    reply.messages
}
