//! Reports on violations for analysis.

use std::fmt::Write;
use std::io::BufWriter;
use std::path::{Path, PathBuf};

use onbeat_host::output;

use super::check::Violation;
use super::pcapng;
use super::trial::Trial;
use crate::{Error, Result};

/// Maximum number of frames of a violation that are described one by one.
const FRAMES: usize = 12;

/// Describes a violation: rule, node, time, frames, and the previous step of the schedule.
pub(super) fn violation(trial: &Trial, violation: &Violation) -> String {
    let mut text = format!("network {:#x}: {violation}", trial.plan.seed);
    let begin = trial.captured.frames.first().map_or(0, |frame| frame.at);
    let since = |at: u64| at.saturating_sub(begin) as f64 / 1e9;
    // Writing to a String cannot fail.
    if violation.at != 0 {
        let _ = write!(text, "; at {:.6} s", since(violation.at));
        if let Some((number, step)) = trial.step_at(violation.at) {
            let _ = write!(text, ", after step {number} ({})", step.action);
        }
    }
    for index in violation.frames.iter().take(FRAMES) {
        let frame = &trial.captured.frames[*index];
        let way = if frame.entering { "into" } else { "out of" };
        let node = &trial.plan.nodes[frame.point.node];
        let _ = write!(
            text,
            "\n    {:.6} s {way} {}:{}: {:?}",
            since(frame.at),
            node.name,
            node.ports[frame.point.port].name,
            frame.what
        );
    }
    text
}

/// Writes captures, schedule and violations of a network to a directory of their own.
pub(super) fn keep(under: &Path, seed: u64, trial: &Trial) -> Result<PathBuf> {
    let directory = under.join(format!("seed-{seed}-network-{:016x}", trial.plan.seed));
    let failed = |path: &Path| {
        let path = path.display().to_string();
        move |error| Error::io(format!("write {path}"), error)
    };
    let path = directory.join("all.pcapng");
    let file = output::create_with_directories(&path).map_err(failed(&path))?;
    let name = |point: super::capture::Point| {
        let node = &trial.plan.nodes[point.node];
        format!("{}:{}", node.name, node.ports[point.port].name)
    };
    pcapng::write(&mut BufWriter::new(file), &trial.captured, name).map_err(failed(&path))?;
    let path = directory.join("story.txt");
    output::write(&path, story(trial)).map_err(failed(&path))?;
    Ok(directory)
}

fn story(trial: &Trial) -> String {
    let mut text = String::new();
    let begin = trial.captured.frames.first().map_or(0, |frame| frame.at);
    for found in &trial.verdict.violations {
        let _ = writeln!(text, "{}", violation(trial, found));
    }
    let _ = writeln!(text, "\nSchedule: start and end, in s");
    for (number, span) in &trial.log.done {
        let seconds = |at: u64| at.saturating_sub(begin) as f64 / 1e9;
        let (from, to) = (seconds(span.from), seconds(span.to));
        let _ = writeln!(text, "{number:4} {from:10.6} {to:10.6} {}", trial.steps[*number].action);
    }
    for (number, node) in trial.plan.nodes.iter().enumerate() {
        let functions: Vec<_> =
            trial.plan.streams.iter().map(|stream| stream.functions[number].clone()).collect();
        let _ = writeln!(text, "\nNode {}\n", node.name);
        text.push_str(&super::config::text(&trial.plan, number, &functions));
    }
    text
}
