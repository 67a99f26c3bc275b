//! `onbeat powerlink sniff`

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use onbeat_delay_run::captures;
use onbeat_powerlink_node::{Sniffer, capture_bypass};
use onbeat_report::format::count;
use onbeat_report::{Input, Inputs, Progress, Run};

use onbeat_terminal::ResultOptions;
use onbeat_terminal::exit::{Answer, Failure, Result};
use onbeat_terminal::output::{self, Reader};

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
    shown: ResultOptions,
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
        let run = if is_file {
            Run::analysis("powerlink-sniff")
        } else {
            let run = Run::begin("powerlink-sniff");
            run.inputs().add(Input::interface(self.source.to_string_lossy()));
            run
        };
        let mut sniffer = Sniffer::new(self.frames);
        let mut progress = Progress::new(self.shown.quiet || self.frames);
        let name = self.source.to_string_lossy();
        let bypass = if is_file { None } else { capture_bypass(&name) };
        let mut reader = Reader::Open;
        let print = |line: &str| {
            reader = output::print_to_reader(line)?;
            Ok(match reader {
                Reader::Closed => ControlFlow::Break(()),
                Reader::Open => ControlFlow::Continue(()),
            })
        };
        let notes = if is_file {
            read((&self.source, run.inputs()), &mut sniffer, &mut progress, print)?
        } else {
            sniffer.listen(&name, self.seconds, &mut progress, print)?
        };
        progress.clear();
        if reader == Reader::Closed {
            return Ok(Answer::Good);
        }
        self.shown.show(sniffer.finish(run, &self.source, notes, bypass)?)
    }
}

/// Reads a capture; notes on the result.
fn read(
    (path, inputs): (&Path, &Inputs),
    sniffer: &mut Sniffer,
    progress: &mut Progress,
    mut print: impl FnMut(&str) -> Result<ControlFlow<()>>,
) -> Result<Vec<String>> {
    let mut capture = captures::open(path, inputs)?;
    let mut cut = 0_u64;
    loop {
        let position = capture.position();
        let packet = capture.next_packet().map_err(|error| captures::failure(path, error))?;
        let Some(packet) = packet else { break };
        cut += u64::from(packet.octets.len() < packet.wire_len as usize);
        progress.update(|| captures::progress("reading", packet.number, position));
        let time_ns = u64::try_from(packet.time_ns).unwrap_or_default();
        if let Some(line) = sniffer.take(time_ns, packet.octets) {
            if print(&line)?.is_break() {
                break;
            }
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

#[cfg(test)]
mod tests {
    use crate::command::{Command, parse};

    #[test]
    fn frames_are_for_people_and_json_for_programs() {
        assert!(matches!(parse("powerlink sniff a.pcap --frames"), Ok(Command::Powerlink(_))));
        assert!(parse("powerlink sniff a.pcap --frames --json").is_err());
        assert!(parse("powerlink sniff").is_err());
    }
}
