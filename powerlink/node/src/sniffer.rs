//! Observes a bus by its frames: of a capture, or live.

use std::ops::ControlFlow;
use std::path::Path;

use onbeat_link::raw::{CaptureOptions, CaptureSocket, StampPolicy};
use onbeat_netdev::{Handle, Namespace};
use onbeat_realtime::clock::now_ns;
use onbeat_realtime::interrupt::{self, Guard};
use onbeat_report::format::count;
use onbeat_report::{Outcome, Progress, Run};
use onbeat_wire::ethernet::Header;
use onbeat_wire::powerlink::Message;
use onbeat_wire::{EtherType, Frame};

use crate::Bus;

/// Maximum length of a wait for frames: the delay before Ctrl-C is noticed.
const MAX_WAIT_NS: u64 = 50_000_000;

/// Observes a bus, and prints each of its messages if requested.
#[derive(Debug)]
pub struct Sniffer {
    bus: Bus,
    lines: bool,
    first_ns: Option<u64>,
    last_ns: u64,
}

/// Errors of observing a bus.
#[derive(Debug, thiserror::Error)]
pub enum SniffError {
    /// There was no frame of the bus.
    #[error("{source_name}: no POWERLINK frame (EtherType 0x88ab) among {foreign}; {remedy}")]
    NoFrame {
        /// The capture or the interface.
        source_name: String,
        /// Frames of other protocols.
        foreign: u64,
        /// The remedy.
        remedy: String,
    },
    /// The interface.
    #[error("{name}: not a capture file, and {source}")]
    Open {
        /// Its name.
        name: String,
        /// The cause.
        source: onbeat_link::Error,
    },
    /// The capture socket, or the namespace of this process.
    #[error(transparent)]
    Capture(#[from] onbeat_link::Error),
}

impl Sniffer {
    /// No frame yet.
    #[must_use]
    pub fn new(lines: bool) -> Self {
        Sniffer { bus: Bus::new(), lines, first_ns: None, last_ns: 0 }
    }

    /// Adds a frame. With lines, returns its message, seconds since the first one and microseconds since the
    /// previous one.
    pub fn take(&mut self, time_ns: u64, octets: &[u8]) -> Option<String> {
        let frame = untagged(octets);
        let octets = frame.as_deref().unwrap_or(octets);
        self.bus.observe(time_ns, octets);
        let text = self.lines.then(|| line(octets))??;
        let first_ns = *self.first_ns.get_or_insert(time_ns);
        let since_us = time_ns.saturating_sub(self.last_ns.max(first_ns)) as f64 / 1e3;
        self.last_ns = time_ns;
        let at_s = time_ns.saturating_sub(first_ns) as f64 / 1e9;
        Some(format!("{at_s:14.9} {since_us:+12.3}  {text}\n"))
    }

    /// Observes an interface for some time, until the process is interrupted, or until `print` of a line fails;
    /// returns notes on the result.
    ///
    /// # Errors
    /// [`SniffError`], and those of `print`.
    pub fn listen<E: From<SniffError>>(
        &mut self,
        name: &str,
        seconds: Option<f64>,
        progress: &mut Progress,
        mut print: impl FnMut(&str) -> Result<ControlFlow<()>, E>,
    ) -> Result<Vec<String>, E> {
        let mut capture = open(name)?;
        let _signals = Guard::install();
        let end_ns = seconds.map_or(u64::MAX, |seconds| now_ns() + (seconds * 1e9) as u64);
        let mut without_time = 0_u64;
        while interrupt::check().is_ok() && now_ns() < end_ns {
            let timeout_ns = MAX_WAIT_NS.min(end_ns.saturating_sub(now_ns()));
            capture.wait(timeout_ns).map_err(SniffError::from)?;
            let mut printed = Ok(ControlFlow::Continue(()));
            capture.take(|frame| match frame.time_ns {
                None => without_time += 1,
                Some(time_ns) if matches!(printed, Ok(ControlFlow::Continue(()))) => {
                    if let Some(line) = self.take(time_ns, frame.octets) {
                        printed = print(&line);
                    }
                }
                Some(_) => {}
            });
            if printed?.is_break() {
                break;
            }
            progress.update(|| format!("{name}: {}; Ctrl-C stops it", self.bus.summary()));
        }
        let missed = capture.drops().map_err(SniffError::from)? + without_time;
        let missed = (missed > 0).then(|| count(missed, "frame"));
        let note = |missed| format!("{missed} missed: this host was too slow to receive them");
        Ok(missed.into_iter().map(note).collect())
    }

    /// The result: the bus, its checks and these notes. `bypass`: the reason why frames of an interface may be
    /// missing ([`capture_bypass`]).
    ///
    /// # Errors
    /// [`SniffError::NoFrame`].
    pub fn finish(
        &self,
        run: Run,
        source: &Path,
        notes: Vec<String>,
        bypass: Option<String>,
    ) -> Result<Outcome, SniffError> {
        if self.bus.frames().messages() == 0 {
            return Err(SniffError::NoFrame {
                source_name: source.display().to_string(),
                foreign: self.bus.frames().foreign,
                remedy: bypass.unwrap_or_else(|| "check that this is a port of the bus".into()),
            });
        }
        let mut outcome = run.finish();
        self.bus.report(&mut outcome);
        outcome.note(self.bus.summary());
        let bypass = bypass.filter(|_| self.bus.has_hidden_nodes());
        notes.into_iter().chain(bypass).for_each(|note| outcome.note(note));
        Ok(outcome)
    }
}

fn open(name: &str) -> Result<CaptureSocket, SniffError> {
    let options = CaptureOptions { outgoing: true, stamps: StampPolicy::Kernel };
    let directory = Path::new(CaptureSocket::DIRECTORY);
    let namespace = Namespace::current().map_err(onbeat_link::Error::from)?;
    CaptureSocket::open(&namespace, name, options, directory)
        .map_err(|source| SniffError::Open { name: name.to_owned(), source })
}

/// The reason why captures on an interface may miss frames: an XDP program on it.
#[must_use]
pub fn capture_bypass(name: &str) -> Option<String> {
    let handle = Handle::in_namespace(&Namespace::current().ok()?).ok()?;
    let program = handle.link(name).ok()?.xdp_program()?;
    Some(format!(
        "{name} has an XDP program (id {}, {}): frames that it receives or transmits bypass \
         captures on {name}; observe a bridge port or a mirror port between the nodes",
        program.program_id, program.mode
    ))
}

/// Removes the VLAN tags that a switch's mirror port may have inserted.
fn untagged(octets: &[u8]) -> Option<Vec<u8>> {
    let frame = Frame::parse(octets).ok()?;
    let header = 14 + 4 * frame.vlans().count();
    if header == 14 {
        return None;
    }
    let mut plain = octets.get(..12)?.to_vec();
    plain.extend(octets.get(header - 2..)?);
    Some(plain)
}

/// A message as text; `None` for other protocols.
fn line(octets: &[u8]) -> Option<String> {
    let header = Header::new_checked(octets).ok()?;
    (header.ethertype() == EtherType::POWERLINK).then(|| match Message::parse(header.payload()) {
        Ok(message) => message.to_string(),
        Err(error) => format!("{} -> {}: {error}", header.source(), header.destination()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn vlan_tags_are_removed() {
        let mut tagged = vec![0x01, 0x11, 0x1e, 0, 0, 1, 2, 0, 0, 0, 0, 240, 0x81, 0, 0, 7];
        tagged.extend([0x88, 0xab, 1, 255, 240]);
        let plain = untagged(&tagged).expect("it has a tag");
        assert_eq!(plain[12..], [0x88, 0xab, 1, 255, 240]);
        assert_eq!(untagged(&plain), None);
        assert!(line(&plain).expect("POWERLINK").contains("is truncated"), "{:?}", line(&plain));
    }
}
