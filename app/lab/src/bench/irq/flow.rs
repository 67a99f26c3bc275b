//! Packets of a flow over a cable.

use std::io;
use std::mem::zeroed;
use std::net::{Ipv4Addr, UdpSocket};
use std::os::fd::AsRawFd;
use std::ptr;
use std::time::Duration;

use nix::sys::socket::setsockopt;
use nix::sys::socket::sockopt::{RcvBuf, UdpGroSegment, UdpGsoSegment};
use onbeat_netdev::Handle;

use super::rig::{Cable, Rig};
use crate::{Error, Result};

/// Maximum wait for a packet that was sent.
const BOUND: Duration = Duration::from_secs(10);

/// Octets of UDP in a frame of 64 octets, FCS included.
const SMALL: usize = 18;

/// Maximum number of packets of a call, which is the budget of a poll.
pub(super) const BATCH: usize = 64;

/// Octets of UDP in a segment, and segments of a datagram that GRO merges on receipt.
const SEGMENT: usize = 1400;
const SEGMENTS: usize = 46;

/// Form in which packets reach the protocols.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PacketKind {
    /// Frames of 64 octets, not merged; this number per call, at most [`BATCH`].
    Small(usize),
    /// Long frames, which GRO merges.
    Merged,
}

/// Datagrams from one host to the other.
#[derive(Debug)]
pub(super) struct Flow {
    writer: UdpSocket,
    pub(super) reader: UdpSocket,
    payload: Vec<u8>,
}

impl Flow {
    pub(super) fn new(rig: &Rig, cable: &Cable, packets: PacketKind) -> Result<Self> {
        let failed = |error: io::Error| Error::io("open a flow", error);
        let bind = |host: &Handle, address: Ipv4Addr| -> Result<UdpSocket> {
            host.namespace().run(|| UdpSocket::bind((address, 0)))?.map_err(failed)
        };
        let (writer, reader) = (bind(&rig.sender, cable.from)?, bind(&rig.receiver, cable.to)?);
        let open = || -> io::Result<()> {
            writer.connect(reader.local_addr()?)?;
            reader.set_read_timeout(Some(BOUND))?;
            // Buffers for a batch of each.
            setsockopt(&reader, RcvBuf, &(4 << 20))?;
            match packets {
                // The kernel segments it, so that a batch costs one call.
                PacketKind::Small(_) => setsockopt(&writer, UdpGsoSegment, &(SMALL as i32))?,
                PacketKind::Merged => {
                    setsockopt(&writer, UdpGsoSegment, &(SEGMENT as i32))?;
                    setsockopt(&reader, UdpGroSegment, &true)?;
                }
            }
            Ok(())
        };
        open().map_err(failed)?;
        let octets = match packets {
            PacketKind::Small(packets) => SMALL * packets,
            PacketKind::Merged => SEGMENT * SEGMENTS,
        };
        Ok(Self { writer, reader, payload: vec![0; octets] })
    }

    /// Sends a batch of small packets, or one that GRO merges; returns the octets of UDP.
    pub(super) fn send(&self) -> Result<u32> {
        let sent = self.writer.send(&self.payload);
        let sent = sent.map_err(|error| Error::io("send the packets of a flow", error))?;
        Ok(sent as u32)
    }

    /// Sends a batch of small packets, and receives them.
    pub(super) fn pass(&self) -> Result<()> {
        let mut left = self.send()? as usize;
        while left > 0 {
            let read = self.read_batch();
            let read = read.map_err(|error| Error::io("read the packets of a flow", error))?;
            left = left.saturating_sub(read);
        }
        Ok(())
    }

    /// Waits for packets and reads those that have arrived; returns the number of octets.
    fn read_batch(&self) -> io::Result<usize> {
        let mut room = [0u8; BATCH * SMALL];
        // SAFETY: mmsghdr and iovec are plain data, for which all-zero is valid.
        let mut parts: [libc::iovec; BATCH] = unsafe { zeroed() };
        // SAFETY: as above.
        let mut messages: [libc::mmsghdr; BATCH] = unsafe { zeroed() };
        for ((part, message), octets) in
            parts.iter_mut().zip(&mut messages).zip(room.chunks_mut(SMALL))
        {
            part.iov_base = octets.as_mut_ptr().cast();
            part.iov_len = octets.len();
            message.msg_hdr.msg_iov = part;
            message.msg_hdr.msg_iovlen = 1;
        }
        // SAFETY: each header points to an iovec of the given length, and each iovec to octets of its
        // own; all live through the call.
        let received = unsafe {
            libc::recvmmsg(
                self.reader.as_raw_fd(),
                messages.as_mut_ptr(),
                BATCH as libc::c_uint,
                libc::MSG_WAITFORONE,
                ptr::null_mut(),
            )
        };
        let count = usize::try_from(received).map_err(|_| io::Error::last_os_error())?;
        Ok(messages[..count].iter().map(|message| message.msg_len as usize).sum())
    }
}
