//! The commands, in the order in which help shows them.

mod delay;
mod doctor;
mod down;
mod irq;
pub(crate) mod laboratory;
mod man;
mod powerlink;
mod reload;
mod reset;
mod restored;
mod run;
mod show;
mod stream;

use clap::Subcommand;
use tracing::Level;

use onbeat_terminal::completions::Completions;
use onbeat_terminal::exit::Result;

/// What to do.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    Doctor(doctor::Arguments),
    Run(run::Arguments),
    Show(show::Arguments),
    Reset(reset::Arguments),
    Stream(stream::Arguments),
    Reload(reload::Arguments),
    Down(down::Arguments),
    Irq(irq::Arguments),
    Delay(Box<delay::Arguments>),
    Powerlink(powerlink::Arguments),
    #[command(flatten)]
    Laboratory(laboratory::Laboratory),
    /// Print completions for a shell
    ///
    /// The script that is printed calls onbeat for each word: interfaces, nodes that run and their streams
    /// are completed, too, these two for users who may read control sockets.
    #[command(after_help = "\
Examples:
  onbeat completions bash > /etc/bash_completion.d/onbeat

Exit status: 0 success, 2 error (the shell is not supported).")]
    Completions(Completions),
    Man(man::Arguments),
}

impl Command {
    /// What is logged without `-v`: a daemon tells what it does, a command only what is wrong.
    pub(crate) fn log_level(&self) -> Level {
        match self {
            Command::Run(_) => Level::INFO,
            _ => Level::WARN,
        }
    }

    /// `verbose`: how often `--verbose` stands on the command line, for the laboratory; `program`:
    /// definition of the whole command line.
    pub(crate) fn execute(self, verbose: u8, program: impl FnOnce() -> clap::Command) -> Result {
        match self {
            Command::Doctor(arguments) => arguments.execute(),
            Command::Run(arguments) => arguments.execute(),
            Command::Show(arguments) => arguments.execute(),
            Command::Reset(arguments) => arguments.execute(),
            Command::Stream(arguments) => arguments.execute(),
            Command::Reload(arguments) => arguments.execute(),
            Command::Down(arguments) => arguments.execute(),
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

    /// Those of the laboratory are parsed by its own test.
    #[test]
    fn every_documented_command_line_is_one() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let checked = check_command_lines(
            &root,
            |command| !["lab", "bench", "load"].contains(&command),
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
