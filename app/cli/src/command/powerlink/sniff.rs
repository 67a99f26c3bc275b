//! `onbeat powerlink sniff`

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use onbeat_delay_run::captures;
use onbeat_powerlink_node::{Sniffer, capture_bypass};
use onbeat_report::format::count;
use onbeat_report::{Input, Inputs, Progress, Run};

use onbeat_terminal::ResultOptions;
use onbeat_terminal::exit::{CommandResult, Failure, Result};
use onbeat_terminal::output::{self, Reader};

/// Analyze a bus: cycle, jitter, response times, losses, states, identities
///
/// Reads a capture (pcap or pcapng, optionally compressed by gzip or zstd), or captures live on an interface at a
/// hub or mirror port. On the interface of a node, some frames bypass captures: the output names nodes whose
/// frames cannot be captured, and does not evaluate their polls.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  onbeat powerlink sniff bus.pcapng
  onbeat powerlink sniff bus.pcap --frames | head
  onbeat powerlink sniff eth1 --seconds 10 --html bus.html

Exit status: 0 no poll was lost and all frames were decoded, 1 otherwise, or if frames of one direction \
cannot be captured, 2 error.")]
pub(super) struct SniffOptions {
    /// Capture file (- for standard input) or interface
    #[arg(value_name = "FILE|INTERFACE")]
    source: PathBuf,
    /// Print one line per message: seconds since the first, microseconds since the previous, source and
    /// destination, content
    #[arg(long, conflicts_with = "json")]
    frames: bool,
    /// Capture for NUMBER seconds [default: until Ctrl-C]
    #[arg(long, value_name = "NUMBER")]
    seconds: Option<f64>,
    #[command(flatten)]
    shown: ResultOptions,
}

impl SniffOptions {
    pub(super) fn execute(self) -> Result {
        self.shown.check()?;
        let is_file = captures::is_input(&self.source) || self.source.is_file();
        if is_file && self.seconds.is_some() {
            return Err(Failure::new(
                "--seconds applies to interfaces; a capture file is read completely",
            ));
        }
        if self.seconds.is_some_and(|seconds| !(seconds > 0.0 && seconds < 1e9)) {
            return Err(Failure::new("--seconds: use a time above 0, such as 10"));
        }
        let run = if is_file {
            Run::analysis("powerlink-sniff")
        } else {
            let run = Run::begin("powerlink-sniff");
            run.inputs().add(Input::interface(&self.source));
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
            return Ok(CommandResult::Success);
        }
        self.shown.show(sniffer.finish(run, &self.source, notes, bypass)?)
    }
}

/// Reads a capture; returns notes for the result.
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
            "truncated in the capture: {}; their content may be incomplete",
            count(cut, "frame")
        ));
    }
    if capture.cut_off() {
        notes.push(
            "the capture ends within a packet: it is truncated, or still being written".to_owned(),
        );
    }
    Ok(notes)
}

#[cfg(test)]
mod tests {
    use crate::command::{Command, parse};

    #[test]
    fn frames_and_json_exclude_each_other() {
        assert!(matches!(parse("powerlink sniff a.pcap --frames"), Ok(Command::Powerlink(_))));
        assert!(parse("powerlink sniff a.pcap --frames --json").is_err());
        assert!(parse("powerlink sniff").is_err());
    }
}
