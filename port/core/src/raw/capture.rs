//! Captures of an interface: copies of received frames and, if requested, of sent frames, with time stamps.

use std::fmt;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;

use libc::{SOL_PACKET, SOL_SOCKET, TP_STATUS_TS_RAW_HARDWARE, sockaddr_ll, tpacket2_hdr};
use onbeat_netdev::{Handle, Namespace, PacketSocket};

use super::extent::{FrameExtent, TAG};
use super::stamping::NicStamps;
use super::{BATCH, Clock, HEADERS};
use crate::error::failed;
use crate::packet::{RingSlots, WakeReason, sleep};
use crate::{Error, Result};

/// Memory of a ring, allocated at once: 32,768 frames of 1,514 octets.
const MEMORY: usize = 64 << 20;
/// Minimum number of octets of a slot beyond the frame's own.
const AROUND: usize = 128;
/// Number of frames in a ring, whatever their length.
const FRAMES: std::ops::RangeInclusive<usize> = 64..=32_768;

/// Offset of the sender's address in a slot (`TPACKET2_HDRLEN` less its length).
const ADDRESS: usize = size_of::<tpacket2_hdr>().next_multiple_of(libc::TPACKET_ALIGNMENT);

/// The frames of a capture, and the source of their time stamps.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CaptureOptions {
    /// Also capture the frames that the interface sends.
    pub outgoing: bool,
    /// The source of time stamps.
    pub stamps: StampPolicy,
}

/// The source of time stamps.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum StampPolicy {
    /// The NIC if it can stamp every frame, else the kernel.
    #[default]
    Best,
    /// The NIC, or the capture is refused.
    Nic,
    /// The kernel.
    Kernel,
}

/// The clock of a capture's time stamps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CaptureClock {
    /// The NIC's own clock, /dev/ptpN if its number is known, when the frame passed its MAC.
    Nic(Option<u32>),
    /// CLOCK_MONOTONIC, when the kernel received the frame from the driver or passed it to the driver.
    Monotonic,
}

impl fmt::Display for CaptureClock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CaptureClock::Nic(Some(number)) => {
                write!(f, "the NIC, with its own clock (/dev/ptp{number})")
            }
            CaptureClock::Nic(None) => f.write_str("the NIC, with its own clock"),
            CaptureClock::Monotonic => {
                f.write_str("the kernel, with CLOCK_MONOTONIC, at the driver interface")
            }
        }
    }
}

/// A captured frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CapturedFrame<'a> {
    /// Its octets with VLAN tags, without FCS.
    pub octets: &'a [u8],
    /// The length on the wire: more than `octets` if the kernel or the NIC merged frames.
    pub wire_len: usize,
    /// The time at which it passed, in nanoseconds of the capture's clock. `None`: the NIC did not stamp it, or the
    /// time of day was set while it was in the ring.
    pub time_ns: Option<u64>,
    /// The interface sent it.
    pub outgoing: bool,
}

/// Copies of the frames that pass through an interface: nothing is removed from the network stack.
///
/// NIC time stamps of every frame stay enabled until the capture is dropped. **After `kill -9`** they stay enabled,
/// and a journal holds the former setting: the next capture on the interface restores it first, whatever its source
/// of time stamps.
#[derive(Debug)]
pub struct CaptureSocket {
    interface: String,
    // Unmapped before the socket is closed.
    places: RingSlots,
    next: usize,
    drops: u64,
    socket: PacketSocket,
    clock: CaptureClock,
    /// The reason why the NIC does not stamp, with [`StampPolicy::Best`].
    reason: Option<String>,
    realtime_ahead_ns: i64,
    /// The number of times that the time of day was set.
    steps: u64,
    /// NIC time stamps, enabled until this is dropped.
    _stamps: Option<NicStamps>,
}

impl CaptureSocket {
    /// Default directory of the journals of captures, with the former settings of NICs.
    pub const DIRECTORY: &str = onbeat_host::run_directory!("taps");

    /// Opens an interface of `namespace`, for frames of up to its MTU. If a killed process left an earlier capture,
    /// its settings are restored first.
    ///
    /// # Errors
    /// The interface does not exist; CAP_NET_RAW is missing, or CAP_NET_ADMIN for NIC time stamps; the NIC cannot
    /// stamp; or sent frames are requested, which it stamps only on request of the sender.
    pub fn open(
        namespace: &Namespace,
        interface: &str,
        options: CaptureOptions,
        directory: &Path,
    ) -> Result<Self> {
        let link = Handle::in_namespace(namespace)?.link(interface)?;
        if let Err(error) = NicStamps::restore(namespace, interface, directory) {
            tracing::warn!(
                "interface {interface:?}: cannot restore the time stamps of its NIC: {error}"
            );
        }
        let (clock, stamps, reason) = match options.stamps {
            StampPolicy::Kernel => (CaptureClock::Monotonic, None, None),
            wanted => match enable_stamps(namespace, interface, options, directory) {
                Ok(stamps) => (CaptureClock::Nic(stamps.clock()), Some(stamps), None),
                Err(error) if wanted == StampPolicy::Nic => return Err(error),
                Err(error) => (CaptureClock::Monotonic, None, Some(error.to_string())),
            },
        };
        let longest = HEADERS + link.mtu as usize;
        let frames = MEMORY / (AROUND + longest).next_power_of_two();
        let open = || -> io::Result<_> {
            let socket = PacketSocket::open(link.index)?;
            socket.set(SOL_PACKET, libc::PACKET_IGNORE_OUTGOING, i32::from(!options.outgoing))?;
            let frames = frames.clamp(*FRAMES.start(), *FRAMES.end());
            let places = RingSlots::new(&socket, frames, longest, TAG)?;
            let mut stamps = libc::SOF_TIMESTAMPING_SOFTWARE | libc::SOF_TIMESTAMPING_RX_SOFTWARE;
            if clock != CaptureClock::Monotonic {
                stamps |= libc::SOF_TIMESTAMPING_RAW_HARDWARE | libc::SOF_TIMESTAMPING_RX_HARDWARE;
                let hardware = libc::SOF_TIMESTAMPING_RAW_HARDWARE;
                socket.set(SOL_PACKET, libc::PACKET_TIMESTAMP, hardware)?;
            }
            // Without it the kernel would stamp a frame only when it copies it.
            socket.set(SOL_SOCKET, libc::SO_TIMESTAMPING, stamps)?;
            socket.promiscuous()?;
            socket.bind(libc::ETH_P_ALL as u16)?;
            Ok((socket, places))
        };
        let opened = namespace.run(open)?;
        let (socket, places) =
            opened.map_err(failed(interface, "open a packet socket (requires CAP_NET_RAW)"))?;
        Ok(Self {
            interface: interface.to_owned(),
            places,
            next: 0,
            drops: 0,
            socket,
            clock,
            reason,
            realtime_ahead_ns: Clock::read().realtime_ahead_ns(),
            steps: 0,
            _stamps: stamps,
        })
    }

    /// The clock of the time stamps.
    #[must_use]
    pub fn clock(&self) -> CaptureClock {
        self.clock
    }

    /// The reason why the NIC does not stamp, with [`StampPolicy::Best`].
    #[must_use]
    pub fn nic_unavailable_reason(&self) -> Option<&str> {
        self.reason.as_deref()
    }

    /// Passes the oldest frames, [`BATCH`] at most, to a closure; returns their number.
    pub fn take(&mut self, mut taken: impl FnMut(CapturedFrame<'_>)) -> usize {
        let count = (0..BATCH.min(self.places.count()))
            .take_while(|ahead| self.places.is_filled(self.index(*ahead)))
            .count();
        if count == 0 {
            return 0;
        }
        // Read after the last of them: frames stamped before the time of day was set get no wrong time.
        let ahead_ns = Clock::read().realtime_ahead_ns();
        let stepped = ahead_ns != self.realtime_ahead_ns;
        self.steps += u64::from(stepped);
        self.realtime_ahead_ns = ahead_ns;
        for _ in 0..count {
            let header = self.places.header(self.next);
            let extent = FrameExtent::of(&self.places, self.next, &header);
            let by_nic = header.tp_status & TP_STATUS_TS_RAW_HARDWARE != 0;
            let time_ns = match (self.clock, by_nic) {
                (CaptureClock::Nic(_), true) => Some(extent.at_ns),
                (CaptureClock::Monotonic, false) if !stepped => {
                    u64::try_from((extent.at_ns as i64).wrapping_sub(ahead_ns)).ok()
                }
                _ => None,
            };
            let place = self.places.at(self.next);
            // SAFETY: after the header, at the next 16 octets, a slot holds the address of the frame's sender; any
            // octets are valid.
            let address = unsafe { place.add(ADDRESS).cast::<sockaddr_ll>().read() };
            // SAFETY: the octets are in the slot, as `FrameExtent::of` checked, and the kernel does not touch them
            // until it is released, when nothing refers to them any more.
            let octets = unsafe {
                std::slice::from_raw_parts(place.add(extent.start as usize), extent.len as usize)
            };
            let missing = if extent.complete { 0 } else { missing(&header, octets.len()) };
            taken(CapturedFrame {
                octets,
                wire_len: octets.len() + missing,
                time_ns,
                outgoing: address.sll_pkttype == libc::PACKET_OUTGOING,
            });
            self.places.release(self.next);
            self.next = self.index(1);
        }
        count
    }

    /// Waits for a frame for at most `timeout_ns`. Returns false if the interface went down meanwhile.
    ///
    /// # Errors
    /// A refusal of the kernel.
    pub fn wait(&self, timeout_ns: u64) -> Result<bool> {
        let waited = sleep(self.socket.as_fd(), None, None, timeout_ns);
        let woken = waited.map_err(failed(&self.interface, "wait for frames"))?;
        if woken != WakeReason::Error {
            return Ok(true);
        }
        let taken = self.socket.take_error();
        taken.map(|error| !error).map_err(failed(&self.interface, "read a socket's error"))
    }

    /// Returns the number of frames dropped by the ring since it was opened.
    ///
    /// # Errors
    /// A refusal of the kernel.
    pub fn drops(&mut self) -> Result<u64> {
        let new = self.socket.take_drops();
        self.drops += new.map_err(failed(&self.interface, "read the ring's statistics"))?;
        Ok(self.drops)
    }

    /// The number of times that the time of day was set since it was opened; frames in the ring at that time have
    /// no time stamp.
    #[must_use]
    pub fn steps(&self) -> u64 {
        self.steps
    }

    fn index(&self, ahead: usize) -> usize {
        (self.next + ahead) % self.places.count()
    }
}

/// Returns the number of octets that the slot lacks of a frame; 1 if that is unknown.
fn missing(header: &tpacket2_hdr, there: usize) -> usize {
    (header.tp_len as usize).saturating_sub(there).max(1)
}

impl AsFd for CaptureSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// Enables NIC time stamps of the frames of a capture.
fn enable_stamps(
    namespace: &Namespace,
    interface: &str,
    options: CaptureOptions,
    directory: &Path,
) -> Result<NicStamps> {
    if options.outgoing {
        return Err(Error::Netdev(onbeat_netdev::Error::Unsupported {
            what: format!("NIC time stamps of frames that others send by interface {interface:?}"),
            remedy: "let the kernel stamp both directions, or capture both by one NIC as received frames \
                     of a mirror port"
                .into(),
        }));
    }
    NicStamps::enable(namespace, interface, directory)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clocks_have_names() {
        assert!(CaptureClock::Nic(Some(3)).to_string().contains("/dev/ptp3"));
        assert!(CaptureClock::Nic(None).to_string().contains("its own clock"));
        assert!(CaptureClock::Monotonic.to_string().contains("CLOCK_MONOTONIC"));
    }

    #[test]
    fn a_truncated_frame_keeps_its_length() {
        // SAFETY: the header is plain data, for which zeros are valid.
        let mut header: tpacket2_hdr = unsafe { std::mem::zeroed() };
        header.tp_len = 3_000;
        assert_eq!(missing(&header, 1_514), 1_486);
        header.tp_len = 100;
        assert_eq!(missing(&header, 100), 1);
    }
}
