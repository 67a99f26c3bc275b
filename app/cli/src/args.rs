//! The command line as a whole.

use std::time::Duration;

use clap::{ArgAction, Parser};

use onbeat_node::config::Backend;

use crate::command::Command;

/// Deterministic Ethernet on stock Linux
///
/// onbeat keeps packets on the beat. It protects streams against link loss (IEEE 802.1CB FRER):
/// a talker's frames are numbered and sent along several paths, and the listener takes the first
/// copy of each. It needs no patched kernel, no special driver and no TSN switch.
#[derive(Debug, Parser)]
#[command(
    name = "onbeat",
    version,
    max_term_width = 100,
    after_help = "\
Examples:
  onbeat doctor eth0 eth1
  onbeat lab run link-failure
  onbeat run /etc/onbeat/bridge.toml

Exit status: 0 success, 1 negative result, 2 error."
)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    pub(crate) command: Command,
    /// Log more, on standard error; RUST_LOG overrides it
    #[arg(short, long, global = true, action = ArgAction::Count)]
    pub(crate) verbose: u8,
}

/// A data plane by its name.
pub(crate) fn backend(name: &str) -> std::result::Result<Backend, String> {
    let known = Backend::ALL.iter().find(|(known, _)| *known == name);
    known.map(|(_, backend)| *backend).ok_or_else(|| {
        let names = Backend::ALL.map(|(name, _)| name).join(", ");
        format!("there are: {names}")
    })
}

/// A time with its unit: `5ms`, `250us`, `1h`.
pub(crate) fn duration(text: &str) -> std::result::Result<Duration, String> {
    let (number, unit) =
        text.split_at(text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len()));
    let number: u32 =
        number.parse().map_err(|_| "a whole number and its unit: 250us".to_owned())?;
    let unit = match unit {
        "us" => Duration::from_micros(1),
        "ms" => Duration::from_millis(1),
        "s" => Duration::from_secs(1),
        "min" => Duration::from_secs(60),
        "h" => Duration::from_secs(3600),
        _ => return Err("a whole number of us, ms, s, min or h: 250us".into()),
    };
    Ok(unit * number)
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn definitions_do_not_contradict_each_other() {
        Arguments::command().debug_assert();
    }

    #[test]
    fn a_time_has_a_unit() {
        for (text, seconds) in [("250us", 250e-6), ("5ms", 5e-3), ("7s", 7.0), ("2min", 120.0)] {
            assert_eq!(duration(text), Ok(Duration::from_secs_f64(seconds)), "{text}");
        }
        // The longest there is is no overflow.
        let longest = duration("4294967295h").unwrap();
        assert_eq!(longest.as_secs(), u64::from(u32::MAX) * 3600);
        for text in ["", "5", "s", "1.5s", "-1s", "5m", "1d", "4294967296s"] {
            assert!(duration(text).is_err(), "{text}");
        }
    }

    #[test]
    fn verbose_stands_anywhere() {
        for line in ["onbeat -vv doctor", "onbeat doctor -vv", "onbeat doctor -v --verbose"] {
            assert_eq!(Arguments::parse_from(line.split(' ')).verbose, 2, "{line}");
        }
    }

    /// Those a user sees, with their names from the first.
    fn commands(command: &clap::Command, name: &str, to: &mut Vec<(String, clap::Command)>) {
        to.push((name.to_owned(), command.clone()));
        for sub in command.get_subcommands().filter(|sub| !sub.is_hide_set()) {
            commands(sub, &format!("{name} {}", sub.get_name()), to);
        }
    }

    #[test]
    fn every_command_shows_examples_that_parse() {
        let mut all = Vec::new();
        commands(&Arguments::command(), "onbeat", &mut all);
        assert!(all.len() > 9, "{all:?}");
        for (name, command) in all {
            let help = command.get_after_help().unwrap_or_else(|| panic!("{name}")).to_string();
            assert!(help.contains("Exit status: 0 "), "{name}: {help}");
            let examples = help.lines().filter_map(|line| line.strip_prefix("  "));
            // What stands behind a pipe or goes into a file is the shell's.
            let examples: Vec<&str> =
                examples.filter_map(|line| line.split(" | ").next()?.split(" > ").next()).collect();
            assert!(!examples.is_empty(), "{name}");
            for example in examples {
                assert!(example.starts_with("onbeat "), "{name}: {example}");
                Arguments::try_parse_from(example.split_whitespace())
                    .unwrap_or_else(|error| panic!("{name}: {example}: {error}"));
            }
        }
    }
}
