//! State changes of a running node, as lines of its progress.

use onbeat_report::{Progress, format};

use crate::{Runner, Station};

/// Maximum number of lines per second: a bus with faults must not delay the node's thread by output.
const MAX_LINES: u32 = 100;

/// The lines printed so far.
#[derive(Debug, Default)]
pub(crate) struct StateLog {
    seen: u64,
    first_ns: Option<u64>,
    second: u64,
    lines: u32,
    omitted: u64,
}

impl StateLog {
    /// Prints the events since the last call.
    pub(crate) fn print<S: Station>(&mut self, runner: &Runner<S>, progress: &mut Progress) {
        let count = runner.event_count();
        if count == self.seen {
            return;
        }
        let new = (count - self.seen) as usize;
        let recorded = runner.events().count();
        self.seen = count;
        for (at_ns, event) in runner.events().skip(recorded.saturating_sub(new)) {
            let first_ns = *self.first_ns.get_or_insert(at_ns);
            if let Some(text) = runner.station().progress(event) {
                self.line(at_ns.saturating_sub(first_ns), &text, |line| progress.line(line));
            }
        }
    }

    fn line(&mut self, at_ns: u64, text: &str, mut print: impl FnMut(&str)) {
        let second = at_ns / 1_000_000_000;
        if second != self.second {
            (self.second, self.lines) = (second, 0);
            if self.omitted > 0 {
                let omitted = format::count(std::mem::take(&mut self.omitted), "change");
                print(&format!("{omitted} not printed; the result lists the last ones"));
            }
        }
        self.lines += 1;
        if self.lines > MAX_LINES {
            self.omitted += 1;
            return;
        }
        print(&format!("{:.2} s  {text}", at_ns as f64 / 1e9));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_has_its_time_and_a_flood_is_cut() {
        let (mut log, mut lines) = (StateLog::default(), Vec::new());
        for n in 0..u64::from(MAX_LINES) + 7 {
            log.line(n * 1_000_000, "node 1: operational", |line| lines.push(line.to_owned()));
        }
        assert_eq!(lines.len(), MAX_LINES as usize);
        assert_eq!(lines[5], "0.01 s  node 1: operational");
        log.line(1_250_000_000, "node 1: reset", |line| lines.push(line.to_owned()));
        let last =
            ["7 changes not printed; the result lists the last ones", "1.25 s  node 1: reset"];
        assert_eq!(lines[MAX_LINES as usize..], last);
    }
}
