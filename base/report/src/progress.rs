//! A progress line for interactive users.

use std::io::{self, IsTerminal, Write};
use std::time::{Duration, Instant};

use crate::table::printable;

/// Interval of changes of the live line: shorter ones are not readable.
const LIVE_INTERVAL: Duration = Duration::from_millis(100);
/// Interval of plain lines, which are never cleared: a log stays short.
const PLAIN_INTERVAL: Duration = Duration::from_secs(10);

/// The form of progress.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Style {
    /// One line on a terminal, overwritten in place and cleared at the end.
    Live,
    /// A line every ten seconds, for a log.
    Plain,
    /// No output.
    Silent,
}

/// Progress of long work, on standard error.
pub struct Progress {
    style: Style,
    out: Box<dyn Write + Send>,
    last: Option<Instant>,
    shown: bool,
}

impl Progress {
    /// Creates progress: live if standard error is a terminal, plain otherwise, silent with the flag.
    pub fn new(silent: bool) -> Self {
        let terminal = io::stderr().is_terminal()
            && std::env::var_os("TERM").is_none_or(|term| term != "dumb");
        let style = match (silent, terminal) {
            (true, _) => Style::Silent,
            (false, true) => Style::Live,
            (false, false) => Style::Plain,
        };
        Self::to(Box::new(io::stderr()), style)
    }

    /// Creates progress for another output, in a given style.
    pub fn to(out: Box<dyn Write + Send>, style: Style) -> Self {
        Self { style, out, last: None, shown: false }
    }

    /// Shows the progress unless a text was shown recently; calls `text` only if needed.
    pub fn update(&mut self, text: impl FnOnce() -> String) {
        self.update_at(Instant::now(), text);
    }

    fn update_at(&mut self, now: Instant, text: impl FnOnce() -> String) {
        let interval = match self.style {
            Style::Live => LIVE_INTERVAL,
            Style::Plain => PLAIN_INTERVAL,
            Style::Silent => return,
        };
        if self.last.is_some_and(|last| now.saturating_duration_since(last) < interval) {
            return;
        }
        self.last = Some(now);
        let text = printable(&text());
        if self.style == Style::Live {
            // Without wrap (?7l) the terminal truncates a long line; K clears the rest of the former one.
            self.write(&format!("\r\x1b[?7l{text}\x1b[K\x1b[?7h"));
            self.shown = true;
        } else {
            self.write(&format!("{text}\n"));
        }
    }

    /// Writes a permanent line above the live line.
    pub fn line(&mut self, text: &str) {
        if self.style == Style::Silent {
            return;
        }
        self.clear();
        self.write(&format!("{}\n", printable(text)));
        if self.style == Style::Live {
            self.last = None;
        }
    }

    /// Clears the live line. Also done on drop.
    pub fn clear(&mut self) {
        if self.shown {
            self.write("\r\x1b[K");
            self.shown = false;
        }
    }

    /// Write errors of the progress line are ignored.
    fn write(&mut self, text: &str) {
        let _ = self.out.write_all(text.as_bytes()).and_then(|()| self.out.flush());
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.clear();
    }
}

impl std::fmt::Debug for Progress {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Progress").field("style", &self.style).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::{Arc, Mutex};

    #[derive(Clone, Default)]
    struct Screen(Arc<Mutex<Vec<u8>>>);

    impl Write for Screen {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().write(bytes)
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    impl Screen {
        fn progress(&self, style: Style) -> Progress {
            Progress::to(Box::new(self.clone()), style)
        }
        fn text(&self) -> String {
            String::from_utf8(self.0.lock().unwrap().clone()).unwrap()
        }
    }

    #[test]
    fn a_live_line_is_throttled_and_cleared() {
        let screen = Screen::default();
        let mut progress = screen.progress(Style::Live);
        let start = Instant::now();
        progress.update_at(start, || "one".into());
        progress.update_at(start + LIVE_INTERVAL / 2, || unreachable!("throttled"));
        progress.update_at(start + LIVE_INTERVAL, || "two\n".into());
        drop(progress);
        let text = screen.text();
        assert!(text.contains("one") && text.contains("two·"), "{text:?}");
        assert!(!text.contains('\n'), "{text:?}");
        assert!(text.ends_with("\r\x1b[K"), "{text:?}");
    }

    #[test]
    fn lines_stay() {
        let screen = Screen::default();
        let mut progress = screen.progress(Style::Live);
        progress.update(|| "working".into());
        progress.line("path 1 cut");
        drop(progress);
        assert!(screen.text().ends_with("\r\x1b[Kpath 1 cut\n"), "{:?}", screen.text());
    }

    #[test]
    fn plain_lines_are_rare_and_without_escapes() {
        let screen = Screen::default();
        let mut progress = screen.progress(Style::Plain);
        let start = Instant::now();
        for tenths in 0..=100 {
            progress.update_at(start + LIVE_INTERVAL * tenths, || format!("{tenths} done"));
        }
        drop(progress);
        assert_eq!(screen.text(), "0 done\n100 done\n");
    }

    #[test]
    fn a_line_in_a_log_repeats_no_progress() {
        let screen = Screen::default();
        let mut progress = screen.progress(Style::Plain);
        let start = Instant::now();
        progress.update_at(start, || "working".into());
        progress.line("path 1 cut");
        progress.update_at(start + LIVE_INTERVAL, || unreachable!("throttled"));
        assert_eq!(screen.text(), "working\npath 1 cut\n");
    }

    #[test]
    fn silence() {
        let screen = Screen::default();
        let mut progress = screen.progress(Style::Silent);
        progress.update(|| unreachable!("not called when silent"));
        progress.line("not shown");
        drop(progress);
        assert_eq!(screen.text(), "");
    }
}
