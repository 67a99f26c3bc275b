//! Logging on standard error.

use std::env;
use std::fmt;
use std::io;

use onbeat_host::is_journal;
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields};
use tracing_subscriber::registry::LookupSpan;

use crate::colors;
use crate::exit::{Failure, Result};

/// Starts logging at a level. Each `-v` raises it; `RUST_LOG` overrides both.
pub fn start(level: Level, verbose: u8) -> Result<()> {
    let filter = match env::var("RUST_LOG") {
        Ok(directives) if !directives.is_empty() => {
            EnvFilter::try_new(&directives).map_err(|error| {
                Failure::new(format!(
                    "RUST_LOG={directives:?} is invalid: {error}; set it to a level \
                     (error, warn, info, debug, trace) or to MODULE=LEVEL, or unset it"
                ))
            })?
        }
        _ => EnvFilter::new(raised(level, verbose).as_str()),
    };
    let builder = tracing_subscriber::fmt().with_env_filter(filter).with_writer(io::stderr);
    if is_journal(io::stderr()) {
        builder.with_ansi(false).event_format(Journal).init();
    } else {
        builder.with_ansi(colors::enabled(&io::stderr())).with_target(false).init();
    }
    Ok(())
}

fn raised(level: Level, steps: u8) -> Level {
    const LEVELS: [Level; 4] = [Level::WARN, Level::INFO, Level::DEBUG, Level::TRACE];
    let at = LEVELS.iter().position(|&known| known == level).unwrap_or(0);
    LEVELS[(at + usize::from(steps)).min(LEVELS.len() - 1)]
}

/// Format of the journal: no time stamp, and the priority as `<N>` (sd-daemon(3)).
struct Journal;

impl<S, N> FormatEvent<S, N> for Journal
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(
        &self,
        context: &FmtContext<'_, S, N>,
        mut writer: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        let priority = match *event.metadata().level() {
            Level::ERROR => 3,
            Level::WARN => 4,
            Level::INFO => 6,
            Level::DEBUG | Level::TRACE => 7,
        };
        write!(writer, "<{priority}>")?;
        context.format_fields(writer.by_ref(), event)?;
        writeln!(writer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_v_raises_the_level_up_to_trace() {
        assert_eq!(raised(Level::WARN, 0), Level::WARN);
        assert_eq!(raised(Level::WARN, 1), Level::INFO);
        assert_eq!(raised(Level::INFO, 1), Level::DEBUG);
        assert_eq!(raised(Level::INFO, 9), Level::TRACE);
    }
}
