//! `onbeat top`

mod rates;
mod screen;
mod source;
mod text;

use std::io::{self, IsTerminal};
use std::time::Duration;

use clap::builder::PossibleValuesParser;
use onbeat_realtime::interrupt;
use onbeat_report::format::parse_duration;
use onbeat_terminal::exit::{CommandResult, Failure, Result};
use onbeat_terminal::output::{self, Reader};

use rates::{Order, Rates};
use source::{Selection, Source};

/// Show live what a node does: rates of its ports and streams, streams in trouble first, and its events
///
/// IN and OUT are frames of streams received and sent per second, DISC is what recovery eliminates, LOST is what arrived on no path.
/// A node of 65,536 streams lists those in trouble, and those that a search finds. Keys on a terminal: h help, / search, s sort
/// order, p paths of a stream, n nodes of PRP, space pause, q quit.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  onbeat top
  onbeat top bridge --sort lost
  onbeat top bridge --stream 'axis-*' --count 1
  onbeat top --json | jq '.in_trouble'

Exit status: 0 success, 2 error (no daemon answers).")]
pub(crate) struct Arguments {
    /// Name of the node, or path of its control socket [default: the only running node]
    node: Option<String>,
    /// List only streams whose names contain TEXT; * and ? are wildcards
    #[arg(long, value_name = "TEXT")]
    stream: Option<String>,
    /// Sort order of streams
    #[arg(long, value_name = "ORDER", default_value = "trouble")]
    #[arg(value_parser = PossibleValuesParser::new(Order::ALL.map(Order::name)))]
    sort: String,
    /// Refresh interval
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = parse_duration)]
    interval: Duration,
    /// Exit after NUMBER intervals
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u64).range(1..))]
    count: Option<u64>,
    /// Print JSON, one object per line and interval
    #[arg(long)]
    json: bool,
}

/// Shortest interval: the node sums all streams for each.
const SHORTEST: Duration = Duration::from_millis(100);

impl Arguments {
    pub(crate) fn execute(self) -> Result {
        if self.interval < SHORTEST {
            return Err(Failure::new(format!(
                "--interval {:?}: the shortest is {SHORTEST:?}",
                self.interval
            )));
        }
        let order = Order::from_name(&self.sort).unwrap_or_default();
        let source = Source::open(self.node)?;
        let search = self.stream.unwrap_or_default();
        if !self.json && io::stdout().is_terminal() && io::stdin().is_terminal() {
            screen::run(source, (order, search), self.interval, self.count)?;
        } else {
            let selection = Selection { search, ..Selection::default() };
            print(source, &selection, order, (self.interval, self.count), self.json)?;
        }
        Ok(CommandResult::Success)
    }
}

/// Prints the rates of each interval, until a signal or a closed pipe ends it.
fn print(
    mut source: Source,
    selection: &Selection,
    order: Order,
    (interval, count): (Duration, Option<u64>),
    json: bool,
) -> Result<()> {
    let _guard = interrupt::Guard::install();
    let mut before = source.read(selection)?;
    let mut left = count;
    while left != Some(0) {
        if interrupt::pause(interval).is_err() {
            break;
        }
        let now = source.read(selection)?;
        let mut rates = Rates::between(&before, &now);
        rates.sort(order);
        let text = match json {
            true => serde_json::to_string(&rates).map_err(Failure::new)? + "\n",
            false => text::render(&rates, &now.events),
        };
        if output::print_to_reader(&text)? == Reader::Closed {
            break;
        }
        before = now;
        left = left.map(|left| left - 1);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use crate::command::{Command, parse};

    #[test]
    fn options_are_accepted_or_refused() {
        let Ok(Command::Top(top)) = parse("top bridge --stream axis --sort lost --count 2 --json")
        else {
            panic!()
        };
        assert_eq!((top.node.as_deref(), top.stream.as_deref()), (Some("bridge"), Some("axis")));
        assert_eq!((top.sort.as_str(), top.count, top.json), ("lost", Some(2), true));
        for line in ["--sort size", "--count 0", "--interval 5", "--stream"] {
            assert!(parse(&format!("top {line}")).is_err(), "{line}");
        }
        let Ok(Command::Top(top)) = parse("top --interval 10ms") else { panic!() };
        assert!(format!("{:?}", top.execute()).contains("shortest is 100ms"));
    }
}
