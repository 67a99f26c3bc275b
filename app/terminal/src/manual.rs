//! Manual pages generated from the help of commands: one per command, and an overview.
//!
//! clap_mangen generates such pages as well, but joins the lines of examples.

use std::io::Write;
use std::path::PathBuf;

use clap::{Arg, ArgAction, Command};
use onbeat_host::output as file;
use roff::{Inline, Roff, bold, italic, roman};

use crate::exit::{CommandResult, Failure, Result};
use crate::output;

/// Options of `onbeat man`.
#[derive(Debug, clap::Args)]
pub struct Manual {
    /// Write each page to a file in DIRECTORY [default: print all pages to standard output]
    #[arg(value_name = "DIRECTORY")]
    pub directory: Option<PathBuf>,
}

impl Manual {
    /// Prints or writes pages.
    ///
    /// # Errors
    /// Standard output, or a file that cannot be written.
    pub fn execute(self, pages: &[Page]) -> Result {
        let Some(directory) = self.directory else {
            output::print(&pages.iter().map(|page| page.text.as_str()).collect::<String>())?;
            return Ok(CommandResult::Success);
        };
        for page in pages {
            let path = directory.join(format!("{}.1", page.name));
            file::create_with_directories(&path)
                .and_then(|mut file| file.write_all(page.text.as_bytes()))
                .map_err(|error| Failure::new(format!("{path:?} cannot be written: {error}")))?;
        }
        Ok(CommandResult::Success)
    }
}

/// Terms and their definitions, for sections that no command's help contains.
pub type Definitions<'a> = &'a [(&'a str, &'a str)];

/// A page of section 1.
#[derive(Debug)]
pub struct Page {
    /// Its name, such as `onbeat-run`.
    pub name: String,
    /// Its source, in roff.
    pub text: String,
}

/// Pages for the commands of a program, except those in `elsewhere`, whose pages another program has.
#[must_use]
pub fn pages(mut program: Command, elsewhere: &[&str]) -> Vec<Page> {
    program.build();
    let own = |sub: &&mut Command| is_shown(sub) && !elsewhere.contains(&sub.get_name());
    program.get_subcommands_mut().filter(own).map(page).collect()
}

fn is_shown(command: &Command) -> bool {
    !command.is_hide_set() && command.get_name() != "help"
}

/// The name of a page, made of the words of its command.
fn page_name(command: &Command) -> String {
    command.get_bin_name().unwrap_or(command.get_name()).replace(' ', "-")
}

/// The page of a program: its commands, global options, environment and files.
#[must_use]
pub fn overview(
    mut program: Command,
    environment: Definitions<'_>,
    files: Definitions<'_>,
) -> Page {
    program.build();
    let program = &program;
    let mut roff = Roff::new();
    let name = head(&mut roff, program);
    roff.text([bold(&name), roman(" [OPTIONS] "), italic("COMMAND"), roman(" ...")]);
    roff.control("SH", ["DESCRIPTION"]);
    prose(&mut roff, &text(program.get_long_about()), false);
    roff.control("SH", ["COMMANDS"]);
    for command in program.get_subcommands().filter(|sub| is_shown(sub)) {
        roff.control("TP", []).text([bold(page_name(command)), roman("(1)")]);
        roff.text([roman(text(command.get_about()))]);
    }
    roff.control("SH", ["OPTIONS"]);
    for argument in program.get_arguments() {
        option(&mut roff, argument);
    }
    roff.control("SH", ["ENVIRONMENT"]);
    definitions(
        &mut roff,
        &[
            (
                "RUST_LOG",
                "Log level (error, warn, info, debug, trace), or MODULE=LEVEL. Overrides --verbose.",
            ),
            ("NO_COLOR", "If set and not empty, disables colors."),
        ],
    );
    definitions(&mut roff, environment);
    if !files.is_empty() {
        roff.control("SH", ["FILES"]);
        definitions(&mut roff, files);
    }
    after_help(&mut roff, program);
    finish(&roff, name)
}

fn page(command: &mut Command) -> Page {
    let mut roff = Roff::new();
    let name = head(&mut roff, command);
    let mut first = true;
    leaves(command, &mut |leaf| {
        if !std::mem::take(&mut first) {
            roff.control("br", []);
        }
        usage(&mut roff, leaf);
    });
    roff.control("SH", ["DESCRIPTION"]);
    prose(&mut roff, &text(command.get_long_about().or(command.get_about())), false);
    if command.has_subcommands() {
        roff.control("SH", ["COMMANDS"]);
        leaves(command, &mut |leaf| {
            roff.control("SS", [leaf.get_bin_name().unwrap_or_default()]);
            prose(&mut roff, &text(leaf.get_long_about().or(leaf.get_about())), false);
            options(&mut roff, leaf);
            prose(&mut roff, &text(leaf.get_after_help()), true);
        });
        roff.control("SH", ["OPTIONS"]);
    } else {
        roff.control("SH", ["OPTIONS"]);
        options(&mut roff, command);
        roff.control("PP", []);
    }
    roff.text([roman("See onbeat(1) for the options of all commands, such as --verbose.")]);
    after_help(&mut roff, command);
    roff.control("SH", ["SEE ALSO"]);
    roff.text([bold("onbeat"), roman("(1)")]);
    finish(&roff, name)
}

/// Writes the sections up to the synopsis; returns the name of the page.
fn head(roff: &mut Roff, command: &Command) -> String {
    let name = page_name(command);
    // A path with hyphens cannot be copied.
    roff.control("nh", []);
    roff.control("SH", ["NAME"]);
    roff.text([roman(format!("{name} - {}", text(command.get_about())))]);
    roff.control("SH", ["SYNOPSIS"]);
    name
}

fn finish(roff: &Roff, name: String) -> Page {
    // Reproducible: the page contains no date and no commit.
    let version = crate::version::VERSION;
    let title = name.to_uppercase();
    let text =
        format!(".TH {title} 1 \"\" \"onbeat {version}\" \"onbeat manual\"\n{}", roff.render());
    Page { name, text }
}

/// Examples and exit status.
fn after_help(roff: &mut Roff, command: &Command) {
    for paragraph in text(command.get_after_help()).split("\n\n") {
        if let Some(examples) = paragraph.strip_prefix("Examples:\n") {
            roff.control("SH", ["EXAMPLES"]);
            prose(roff, examples, false);
        } else if let Some(status) = paragraph.strip_prefix("Exit status: ") {
            roff.control("SH", ["EXIT STATUS"]);
            prose(roff, status, false);
        } else {
            prose(roff, paragraph, true);
        }
    }
}

/// Calls `then` for the command, or for each of its leaf subcommands, in the order of the help.
fn leaves(command: &mut Command, then: &mut dyn FnMut(&mut Command)) {
    if !command.has_subcommands() {
        return then(command);
    }
    for sub in command.get_subcommands_mut().filter(|sub| is_shown(sub)) {
        leaves(sub, then);
    }
}

fn usage(roff: &mut Roff, command: &mut Command) {
    let usage = command.render_usage().to_string();
    let usage = usage.trim_start_matches("Usage:").trim();
    let name = command.get_bin_name().unwrap_or_default();
    roff.text([bold(name), roman(usage.strip_prefix(name).unwrap_or(usage))]);
}

/// The options of a command, without the global ones.
fn options(roff: &mut Roff, command: &Command) {
    let own = |argument: &&Arg| !matches!(argument.get_id().as_str(), "help" | "verbose");
    for argument in command.get_arguments().filter(own).filter(|argument| !argument.is_hide_set()) {
        option(roff, argument);
    }
}

fn option(roff: &mut Roff, argument: &Arg) {
    let mut head: Vec<Inline> = Vec::new();
    if let Some(short) = argument.get_short() {
        head.push(bold(format!("-{short}")));
    }
    if let Some(long) = argument.get_long() {
        head.extend((!head.is_empty()).then(|| roman(", ")));
        head.push(bold(format!("--{long}")));
    }
    let takes_value = matches!(argument.get_action(), ArgAction::Set | ArgAction::Append);
    if let Some(names) = argument.get_value_names().filter(|_| takes_value) {
        head.extend((!head.is_empty()).then(|| roman(" ")));
        head.push(italic(names.join(" ")));
    }
    let mut body = text(argument.get_long_help().or(argument.get_help()));
    let values = argument.get_possible_values();
    if takes_value && !values.is_empty() && !argument.is_hide_possible_values_set() {
        let names: Vec<&str> = values.iter().map(|value| value.get_name()).collect();
        body += &format!(": {}", names.join(", "));
    }
    let defaults = argument.get_default_values();
    if takes_value && !defaults.is_empty() && !argument.is_hide_default_value_set() {
        let defaults: Vec<_> = defaults.iter().map(|value| value.to_string_lossy()).collect();
        body += &format!(" (default: {})", defaults.join(", "));
    }
    roff.control("TP", []).text(head).text([roman(body)]);
}

/// Writes paragraphs; indented lines are literal. The first paragraph after a heading starts without a
/// request.
fn prose(roff: &mut Roff, text: &str, mut request: bool) {
    for paragraph in text.split("\n\n") {
        if std::mem::replace(&mut request, true) {
            roff.control("PP", []);
        }
        let mut literal = false;
        for line in paragraph.lines() {
            if line.starts_with("  ") != literal {
                literal = !literal;
                roff.control(if literal { "EX" } else { "EE" }, []);
            }
            roff.text([roman(line)]);
        }
        if literal {
            roff.control("EE", []);
        }
    }
}

fn definitions(roff: &mut Roff, definitions: Definitions<'_>) {
    for (term, text) in definitions {
        roff.control("TP", []).text([bold(*term)]).text([roman(*text)]);
    }
}

fn text(styled: Option<&clap::builder::StyledStr>) -> String {
    styled.map(ToString::to_string).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn indented_lines_are_literal() {
        let mut roff = Roff::new();
        prose(&mut roff, "One.\n\nExamples:\n  a 'b'\n  .c\n\nTwo.", false);
        assert_eq!(roff.to_roff(), "One.\n.PP\nExamples:\n.EX\n  a 'b'\n  .c\n.EE\n.PP\nTwo.\n");
    }

    #[test]
    fn an_option_shows_its_value_and_default() {
        let argument = Arg::new("rate")
            .short('r')
            .long("rate")
            .value_name("FRAMES")
            .default_value("1000")
            .action(ArgAction::Set)
            .help("Frames per second");
        let mut roff = Roff::new();
        option(&mut roff, &argument);
        assert_eq!(
            roff.to_roff(),
            ".TP\n\\fB\\-r\\fR, \\fB\\-\\-rate\\fR \\fIFRAMES\\fR\nFrames per second (default: 1000)\n"
        );
    }
}
