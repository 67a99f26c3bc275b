//! `onbeat powerlink sniff`

use std::path::{Path, PathBuf};

use onbeat_delay_run::captures;
use onbeat_link::raw::{Tap, TapOptions, Wanted};
use onbeat_netdev::{Handle, Namespace};
use onbeat_powerlink_node::Bus;
use onbeat_realtime::clock::now_ns;
use onbeat_realtime::interrupt::{self, Guard};
use onbeat_report::format::count;
use onbeat_report::{Progress, Run};
use onbeat_wire::ethernet::Header;
use onbeat_wire::powerlink::Message;
use onbeat_wire::{EtherType, Frame};

use onbeat_terminal::Shown;
use onbeat_terminal::exit::{Failure, Result};
use onbeat_terminal::output::{self, Reader};

/// How long a wait for frames takes at most: as soon is Ctrl-C noticed.
const LOOK_NS: u64 = 50_000_000;

/// Watch a bus: cycle and jitter, each node's response time, losses, states, who the nodes are
///
/// Of a capture (pcap, pcapng, gzip, zstd), or live from an interface that sees the bus: one at a hub or
/// at a mirror port. On the interface of a node, frames bypass captures: nodes whose frames cannot be
/// seen are named, and their polls are not judged.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  onbeat powerlink sniff bus.pcapng
  onbeat powerlink sniff bus.pcap --frames | head
  onbeat powerlink sniff eth1 --seconds 10 --html bus.html

Exit status: 0 no poll was lost and all frames were decoded, 1 otherwise, or frames of one direction \
cannot be captured, 2 error.")]
pub(super) struct Sniff {
    /// A capture (- for standard input), or an interface
    #[arg(value_name = "FILE|INTERFACE")]
    source: PathBuf,
    /// Print each message in a line: seconds since the first, microseconds since the one before, who to
    /// whom, what
    #[arg(long, conflicts_with = "json")]
    frames: bool,
    /// Watch an interface for so long; without it, until Ctrl-C
    #[arg(long, value_name = "NUMBER")]
    seconds: Option<f64>,
    #[command(flatten)]
    shown: Shown,
}

/// What is done with each frame.
struct View {
    bus: Bus,
    print: bool,
    first_ns: Option<u64>,
    last_ns: u64,
    /// Nobody reads what is printed.
    gone: bool,
}

impl View {
    fn new(print: bool) -> Self {
        View { bus: Bus::new(), print, first_ns: None, last_ns: 0, gone: false }
    }

    fn take(&mut self, time_ns: u64, octets: &[u8]) -> Result<()> {
        let frame = untagged(octets);
        let octets = frame.as_deref().unwrap_or(octets);
        self.bus.observe(time_ns, octets);
        if !self.print {
            return Ok(());
        }
        let Some(text) = line(octets) else { return Ok(()) };
        let first_ns = *self.first_ns.get_or_insert(time_ns);
        let since_us = time_ns.saturating_sub(self.last_ns.max(first_ns)) as f64 / 1e3;
        self.last_ns = time_ns;
        let at_s = time_ns.saturating_sub(first_ns) as f64 / 1e9;
        let printed = output::print_to_reader(&format!("{at_s:14.9} {since_us:+12.3}  {text}\n"))?;
        self.gone |= printed == Reader::Gone;
        Ok(())
    }
}

/// A frame without the VLAN tags that a switch's mirror may have put in.
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

/// A message in words; `None` of other protocols.
fn line(octets: &[u8]) -> Option<String> {
    let header = Header::new_checked(octets).ok()?;
    (header.ethertype() == EtherType::POWERLINK).then(|| match Message::parse(header.payload()) {
        Ok(message) => message.to_string(),
        Err(error) => format!("{} -> {}: {error}", header.source(), header.destination()),
    })
}

impl Sniff {
    pub(super) fn execute(self) -> Result {
        self.shown.check()?;
        let is_file = captures::is_input(&self.source) || self.source.is_file();
        if is_file && self.seconds.is_some() {
            return Err(Failure::new(
                "--seconds is for an interface; a capture is read to its end",
            ));
        }
        if self.seconds.is_some_and(|seconds| !(seconds > 0.0 && seconds < 1e9)) {
            return Err(Failure::new("--seconds: give a time above 0, such as 10"));
        }
        let run = Run::begin("powerlink-sniff");
        let mut view = View::new(self.frames);
        let mut progress = Progress::new(self.shown.quiet || self.frames);
        let by_xdp = if is_file { None } else { xdp_program(&self.source) };
        let notes = if is_file {
            read(&self.source, &mut view, &mut progress)?
        } else {
            listen(&self.source, self.seconds, &mut view, &mut progress)?
        };
        progress.clear();
        if view.gone {
            return Ok(onbeat_terminal::exit::Answer::Good);
        }
        if view.bus.frames().messages() == 0 {
            let source = self.source.display();
            return Err(Failure::new(format!(
                "{source}: there is no POWERLINK frame (EtherType 0x88ab) among {}; {}",
                view.bus.frames().foreign,
                by_xdp.unwrap_or_else(|| "is it the right port of the bus?".into()),
            )));
        }
        let mut outcome = run.finish();
        view.bus.tell(&mut outcome);
        outcome.note(view.bus.summary());
        let by_xdp = by_xdp.filter(|_| view.bus.has_hidden_nodes());
        notes.into_iter().chain(by_xdp).for_each(|note| outcome.note(note));
        self.shown.show(outcome)
    }
}

/// Reads a capture; what is to be said of it.
fn read(path: &Path, view: &mut View, progress: &mut Progress) -> Result<Vec<String>> {
    let mut capture = captures::open(path)?;
    let mut cut = 0_u64;
    loop {
        let position = capture.position();
        let packet = capture.next_packet().map_err(|error| captures::failure(path, error))?;
        let Some(packet) = packet else { break };
        cut += u64::from(packet.octets.len() < packet.wire_len as usize);
        progress.update(|| captures::progress("reading", packet.number, position));
        view.take(u64::try_from(packet.time_ns).unwrap_or_default(), packet.octets)?;
        if view.gone {
            break;
        }
    }
    let mut notes = Vec::new();
    if cut > 0 {
        notes.push(format!(
            "captured in part: {}; their content may be cut off",
            count(cut, "frame")
        ));
    }
    if capture.cut_off() {
        notes.push("the capture ends within a packet: it was cut off, or goes on".to_owned());
    }
    Ok(notes)
}

/// Why captures on an interface may miss frames: an XDP program on it.
fn xdp_program(name: &Path) -> Option<String> {
    let name = name.to_string_lossy();
    let handle = Handle::in_namespace(&Namespace::current().ok()?).ok()?;
    let program = handle.link(&name).ok()?.xdp_program()?;
    Some(format!(
        "{name} has an XDP program (id {}, {}): frames that it receives or transmits bypass captures on \
         {name}; observe a bridge port or a mirror port between the nodes",
        program.program_id, program.mode
    ))
}

/// Listens to an interface; what is to be said of it.
fn listen(
    name: &Path,
    seconds: Option<f64>,
    view: &mut View,
    progress: &mut Progress,
) -> Result<Vec<String>> {
    let name = name.to_string_lossy();
    let options = TapOptions { outgoing: true, stamps: Wanted::Kernel };
    let mut tap = Tap::open(&Namespace::current()?, &name, options, Path::new(Tap::DIRECTORY))
        .map_err(|error| Failure::new(format!("{name}: no capture of this name, and {error}")))?;
    let _signals = Guard::install();
    let end_ns = seconds.map_or(u64::MAX, |seconds| now_ns() + (seconds * 1e9) as u64);
    let (mut without_time, mut failed) = (0_u64, None);
    while interrupt::check().is_ok() && now_ns() < end_ns && !view.gone {
        tap.wait(LOOK_NS.min(end_ns.saturating_sub(now_ns())))?;
        tap.take(|frame| match frame.time_ns {
            Some(time_ns) if failed.is_none() => failed = view.take(time_ns, frame.octets).err(),
            Some(_) => {}
            None => without_time += 1,
        });
        if let Some(failure) = failed.take() {
            return Err(failure);
        }
        progress.update(|| format!("{name}: {}; Ctrl-C ends it", view.bus.summary()));
    }
    let missed = tap.drops()? + without_time;
    let note = format!("{} missed: this host was too slow to receive them", count(missed, "frame"));
    Ok(Vec::from_iter((missed > 0).then_some(note)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::{Command, parse};

    #[test]
    fn frames_are_for_people_and_json_for_programs() {
        assert!(matches!(parse("powerlink sniff a.pcap --frames"), Ok(Command::Powerlink(_))));
        assert!(parse("powerlink sniff a.pcap --frames --json").is_err());
        assert!(parse("powerlink sniff").is_err());
    }

    #[test]
    fn tags_are_taken_out() {
        let mut tagged = vec![0x01, 0x11, 0x1e, 0, 0, 1, 2, 0, 0, 0, 0, 240, 0x81, 0, 0, 7];
        tagged.extend([0x88, 0xab, 1, 255, 240]);
        let plain = untagged(&tagged).expect("it has a tag");
        assert_eq!(plain[12..], [0x88, 0xab, 1, 255, 240]);
        assert_eq!(untagged(&plain), None);
        assert!(line(&plain).expect("POWERLINK").contains("cut off"), "{:?}", line(&plain));
    }
}
