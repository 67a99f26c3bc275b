//! The commands, in the order of the help.

mod delay;
mod doctor;
mod down;
mod irq;
pub(crate) mod laboratory;
mod man;
mod metrics;
mod plan;
mod powerlink;
mod protect;
mod reload;
mod reset;
mod restored;
mod run;
mod show;
mod stream;
mod top;
mod yang;

use clap::Subcommand;
use tracing::Level;

use onbeat_terminal::completions::Completions;
use onbeat_terminal::exit::Result;

/// A command of `onbeat`.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    Doctor(doctor::Arguments),
    Protect(protect::Arguments),
    Run(run::Arguments),
    Show(show::Arguments),
    Top(top::Arguments),
    Metrics(metrics::Arguments),
    Reset(reset::Arguments),
    Stream(stream::Arguments),
    Reload(reload::Arguments),
    Down(down::Arguments),
    Plan(plan::Arguments),
    Yang(yang::Arguments),
    Irq(irq::Arguments),
    Delay(Box<delay::Arguments>),
    Powerlink(powerlink::Arguments),
    #[command(flatten)]
    Laboratory(laboratory::Laboratory),
    /// Print shell completions
    ///
    /// The script calls onbeat for each word, to complete interfaces, running nodes and their streams as
    /// well. Nodes and streams require permission to read control sockets.
    #[command(after_help = "\
Examples:
  onbeat completions bash > /etc/bash_completion.d/onbeat

Exit status: 0 success, 2 error (the shell is not supported).")]
    Completions(Completions),
    Man(man::Arguments),
}

impl Command {
    /// Log level without `-v`: info for the daemon, warnings for other commands.
    pub(crate) fn log_level(&self) -> Level {
        match self {
            Command::Run(_) => Level::INFO,
            _ => Level::WARN,
        }
    }

    /// Executes the command. `verbose` is the number of `--verbose` flags, for the laboratory; `program`
    /// defines the whole command line.
    pub(crate) fn execute(self, verbose: u8, program: impl FnOnce() -> clap::Command) -> Result {
        match self {
            Command::Doctor(arguments) => arguments.execute(),
            Command::Protect(arguments) => arguments.execute(),
            Command::Run(arguments) => arguments.execute(),
            Command::Show(arguments) => arguments.execute(),
            Command::Top(arguments) => arguments.execute(),
            Command::Metrics(arguments) => arguments.execute(),
            Command::Reset(arguments) => arguments.execute(),
            Command::Stream(arguments) => arguments.execute(),
            Command::Reload(arguments) => arguments.execute(),
            Command::Down(arguments) => arguments.execute(),
            Command::Plan(arguments) => arguments.execute(),
            Command::Yang(arguments) => arguments.execute(),
            Command::Irq(arguments) => arguments.execute(),
            Command::Delay(arguments) => arguments.execute(),
            Command::Powerlink(arguments) => arguments.execute(),
            Command::Laboratory(arguments) => arguments.execute(verbose),
            Command::Completions(completions) => completions.execute(),
            Command::Man(arguments) => arguments.execute(program()),
        }
    }
}

/// Parses a command line for a test.
#[cfg(test)]
pub(crate) fn parse(line: &str) -> std::result::Result<Command, clap::Error> {
    onbeat_terminal::program::parse(line)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use onbeat_testing::documents::check_command_lines;

    /// A test of the laboratory parses the laboratory's command lines.
    #[test]
    fn every_documented_command_line_parses() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let checked = check_command_lines(
            &root,
            |command| !["lab", "bench", "load", "fleet"].contains(&command),
            |words| {
                let parsed = onbeat_terminal::program::command_line::<super::Command>()
                    .version("1")
                    .try_get_matches_from(words);
                parsed.map(drop).map_err(|error| (format!("{:?}", error.kind()), error.to_string()))
            },
        );
        assert!(checked > 50, "{checked} lines were found");
    }
}
