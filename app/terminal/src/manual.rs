//! The manual page: one page for all commands, from their own help.

use clap::{Arg, ArgAction, Command};
use roff::{Inline, Roff, bold, italic, roman};

/// What no command's help says: terms, each with its text.
pub type Definitions<'a> = &'a [(&'a str, &'a str)];

/// The page of `program`, in roff, from the help of its commands.
#[must_use]
pub fn page(
    program: &str,
    mut command: Command,
    environment: Definitions<'_>,
    files: Definitions<'_>,
) -> String {
    command.build();
    let mut roff = Roff::new();
    roff.control("SH", ["NAME"]);
    roff.text([roman(format!("{program} - {}", text(command.get_about())))]);
    roff.control("SH", ["SYNOPSIS"]);
    let mut first = true;
    leaves(&mut command, &mut |leaf| {
        if !std::mem::take(&mut first) {
            roff.control("br", []);
        }
        usage(&mut roff, leaf);
    });
    roff.control("SH", ["DESCRIPTION"]);
    prose(&mut roff, &text(command.get_long_about()), false);
    roff.control("SH", ["COMMANDS"]);
    leaves(&mut command, &mut |leaf| section(&mut roff, leaf));
    roff.control("SH", ["OPTIONS"]);
    for argument in command.get_arguments() {
        option(&mut roff, argument);
    }
    closing(&mut roff, &command, environment, files);
    // The page of a version is the same whenever it is made: it has no date and no commit.
    let version = crate::version::VERSION;
    {
        let title = program.to_uppercase();
        format!(".TH {title} 1 \"\" \"onbeat {version}\" \"onbeat manual\"\n{}", roff.render())
    }
}

/// Calls for every command that does something, in the order of the help.
fn leaves(command: &mut Command, then: &mut dyn FnMut(&mut Command)) {
    let shown = |sub: &&mut Command| !sub.is_hide_set() && sub.get_name() != "help";
    for sub in command.get_subcommands_mut().filter(shown) {
        if sub.has_subcommands() { leaves(sub, then) } else { then(sub) }
    }
}

fn usage(roff: &mut Roff, command: &mut Command) {
    let usage = command.render_usage().to_string();
    let usage = usage.trim_start_matches("Usage:").trim();
    let name = command.get_bin_name().unwrap_or_default();
    roff.text([bold(name), roman(usage.strip_prefix(name).unwrap_or(usage))]);
}

/// A command: what it does, its options, its examples and exit status.
fn section(roff: &mut Roff, command: &mut Command) {
    roff.control("SS", [command.get_bin_name().unwrap_or_default()]);
    prose(roff, &text(command.get_long_about().or(command.get_about())), false);
    // These are the same everywhere, and told once.
    let own = |argument: &&Arg| !matches!(argument.get_id().as_str(), "help" | "verbose");
    for argument in command.get_arguments().filter(own).filter(|argument| !argument.is_hide_set()) {
        option(roff, argument);
    }
    prose(roff, &text(command.get_after_help()), true);
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

/// Paragraphs, where a line that is indented is shown as it stands. After a heading the first
/// begins without a request.
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

/// What no single command tells.
fn closing(
    roff: &mut Roff,
    command: &Command,
    environment: Definitions<'_>,
    files: Definitions<'_>,
) {
    roff.control("SH", ["EXIT STATUS"]);
    definitions(
        roff,
        &[
            ("0", "It is done."),
            ("1", "It ran and the answer is bad: frames lost, a check failed."),
            ("2", "It could not run: wrong usage, no permission, a feature that is missing."),
        ],
    );
    roff.control("SH", ["ENVIRONMENT"]);
    definitions(
        roff,
        &[
            (
                "RUST_LOG",
                "What is logged: a level (error, warn, info, debug, trace), or MODULE=LEVEL. \
                 It overrides --verbose.",
            ),
            ("NO_COLOR", "Set to anything: no colours, not even on a terminal."),
        ],
    );
    definitions(roff, environment);
    if !files.is_empty() {
        roff.control("SH", ["FILES"]);
        definitions(roff, files);
    }
    roff.control("SH", ["EXAMPLES"]);
    let help = text(command.get_after_help());
    let examples: Vec<&str> = help.lines().filter(|line| line.starts_with("  ")).collect();
    prose(roff, &examples.join("\n"), false);
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
    fn paragraphs_and_what_stands_as_it_is() {
        let mut roff = Roff::new();
        prose(&mut roff, "One.\n\nExamples:\n  a 'b'\n  .c\n\nTwo.", false);
        assert_eq!(roff.to_roff(), "One.\n.PP\nExamples:\n.EX\n  a 'b'\n  .c\n.EE\n.PP\nTwo.\n");
    }

    #[test]
    fn an_option_shows_what_it_takes() {
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
