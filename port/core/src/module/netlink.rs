//! Netlink sockets of the kernel module: for requests and their replies, or for confirmations.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use nix::errno::Errno;
use nix::sys::socket::{
    AddressFamily, MsgFlags, NetlinkAddr, SockFlag, SockProtocol, SockType, bind, connect, recv,
    send, setsockopt, socket, sockopt,
};

use super::abi;
use super::message::{Attributes, Message, Messages, Request};

/// Longest message in either direction: a frame of 16 KiB and its attributes.
const ROOM: usize = 20 * 1024;
/// Receive memory for pending confirmations.
const CONFIRMATION_MEMORY: usize = 1 << 20;

/// A failed request, with the module's message.
#[derive(Debug)]
pub(super) struct Failure {
    pub(super) source: io::Error,
    pub(super) detail: String,
}

impl From<Errno> for Failure {
    fn from(errno: Errno) -> Self {
        Self { source: errno.into(), detail: "netlink failed".to_owned() }
    }
}

/// A generic netlink socket of the family.
#[derive(Debug)]
pub(super) struct Netlink {
    fd: OwnedFd,
    family: u16,
    sequence: u32,
    request: Vec<u8>,
    answer: Vec<u8>,
}

impl Netlink {
    /// Opens a socket in the calling thread's namespace. `None`: the module is not loaded, and the kernel cannot
    /// load it on demand.
    pub(super) fn open() -> Result<Option<Self>, Failure> {
        /// `GENL_ID_CTRL`, the family that resolves the others, and its command and attributes.
        const CONTROL: u16 = 16;
        const GET_FAMILY: u8 = 3;
        const FAMILY_ID: u16 = 1;
        const FAMILY_NAME: u16 = 2;
        let fd = socket(
            AddressFamily::Netlink,
            SockType::Raw,
            SockFlag::SOCK_CLOEXEC,
            SockProtocol::NetlinkGeneric,
        )?;
        for option in [libc::NETLINK_EXT_ACK, libc::NETLINK_CAP_ACK] {
            turn_on(&fd, option)?;
        }
        // More than the usual limit requires CAP_NET_ADMIN, as everything else here does.
        setsockopt(&fd, sockopt::RcvBufForce, &CONFIRMATION_MEMORY)?;
        // Port 0: the kernel chooses; the kernel's own port is 0.
        bind(fd.as_raw_fd(), &NetlinkAddr::new(0, 0))?;
        connect(fd.as_raw_fd(), &NetlinkAddr::new(0, 0))?;
        let mut netlink = Self {
            fd,
            family: CONTROL,
            sequence: 0,
            request: Vec::with_capacity(ROOM),
            answer: vec![0; ROOM],
        };
        let name = [abi::FAMILY.as_bytes(), b"\0"].concat();
        let mut family = None;
        let asked = netlink.ask(
            GET_FAMILY,
            |request| {
                request.octets(FAMILY_NAME, &name);
            },
            |attributes| family = attributes.u16(FAMILY_ID),
        );
        match asked {
            Ok(()) => {}
            Err(failure) if failure.source.raw_os_error() == Some(libc::ENOENT) => return Ok(None),
            Err(failure) => return Err(failure),
        }
        netlink.family = family.ok_or(Errno::EPROTO)?;
        Ok(Some(netlink))
    }

    /// Sends a command with the attributes that `fill` writes.
    pub(super) fn command(
        &mut self,
        command: u8,
        fill: impl FnOnce(&mut Request<'_>),
    ) -> Result<(), Failure> {
        self.ask(command, fill, |_| {})
    }

    /// Sends a command and passes the reply to a closure.
    pub(super) fn ask(
        &mut self,
        command: u8,
        fill: impl FnOnce(&mut Request<'_>),
        mut show: impl FnMut(Attributes<'_>),
    ) -> Result<(), Failure> {
        self.sequence = self.sequence.wrapping_add(1);
        let mut request =
            Request::new(&mut self.request, self.family, command, abi::VERSION, self.sequence);
        fill(&mut request);
        let message = request.finish();
        while let Err(errno) = send(self.fd.as_raw_fd(), message, MsgFlags::empty()) {
            if errno != Errno::EINTR {
                return Err(errno.into());
            }
        }
        loop {
            let len = match recv(self.fd.as_raw_fd(), &mut self.answer, MsgFlags::empty()) {
                Err(Errno::EINTR) => continue,
                result => result?,
            };
            for message in Messages(&self.answer[..len]) {
                match message {
                    // Confirmations are asynchronous; none is expected while attaching.
                    Message::Command { command: abi::CONFIRMATIONS, .. } => {}
                    Message::Command { attributes, .. } => show(attributes),
                    Message::Verdict { sequence, .. } if sequence != self.sequence => {}
                    Message::Verdict { errno: 0, .. } => return Ok(()),
                    Message::Verdict { errno, detail, .. } => {
                        let source = io::Error::from_raw_os_error(errno);
                        return Err(Failure { source, detail: detail.to_owned() });
                    }
                }
            }
        }
    }

    /// Passes pending confirmations to a closure, without waiting; returns true if there were any.
    pub(super) fn confirmations(
        &mut self,
        mut show: impl FnMut(abi::ConfirmationRecord),
    ) -> Result<bool, Failure> {
        let len = match recv(self.fd.as_raw_fd(), &mut self.answer, MsgFlags::MSG_DONTWAIT) {
            Err(Errno::EAGAIN | Errno::EINTR) => return Ok(false),
            result => result?,
        };
        let mut any = false;
        for message in Messages(&self.answer[..len]) {
            let Message::Command { command: abi::CONFIRMATIONS, attributes } = message else {
                continue;
            };
            let records = attributes.get(abi::A_CONFIRMATIONS).unwrap_or_default();
            for octets in records.chunks_exact(abi::ConfirmationRecord::LEN) {
                if let Some(octets) = octets.first_chunk() {
                    show(abi::ConfirmationRecord::read(octets));
                    any = true;
                }
            }
        }
        Ok(any)
    }
}

impl AsFd for Netlink {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

fn turn_on(fd: &OwnedFd, option: libc::c_int) -> Result<(), Errno> {
    let on: libc::c_int = 1;
    let len = size_of_val(&on) as u32;
    // SAFETY: the value has the length given and lives through the call, which only reads it.
    let result = unsafe {
        libc::setsockopt(fd.as_raw_fd(), libc::SOL_NETLINK, option, (&raw const on).cast(), len)
    };
    Errno::result(result).map(drop)
}
