//! The manual page: one page for all commands, from their own help.

use clap::{Arg, ArgAction, Command, CommandFactory};
use onbeat_host::RUN;
use roff::{Inline, Roff, bold, italic, roman};

use crate::args::Arguments;

/// The page, in roff.
pub(crate) fn page() -> String {
    let mut command = Arguments::command();
    command.build();
    let mut roff = Roff::new();
    roff.control("SH", ["NAME"]);
    roff.text([roman(format!("onbeat - {}", text(command.get_about())))]);
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
    closing(&mut roff, &command);
    // The page of a version is the same whenever it is made: it has no date.
    let version = command.get_version().unwrap_or_default();
    format!(".TH ONBEAT 1 \"\" \"onbeat {version}\" \"onbeat manual\"\n{}", roff.render())
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
fn closing(roff: &mut Roff, command: &Command) {
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
            (
                "NOTIFY_SOCKET, WATCHDOG_USEC, JOURNAL_STREAM",
                "Set by systemd: run tells it when it is ready and that it lives, and logs as the \
                 journal has it.",
            ),
        ],
    );
    roff.control("SH", ["FILES"]);
    let in_run = |name: &str| format!("{RUN}/{name}");
    definitions(
        roff,
        &[
            ("/etc/onbeat/NAME.toml", "The configuration that the service onbeat@NAME runs."),
            (&in_run("NAME.sock"), "The control socket of a running node."),
            (&in_run("NAME.sock.node-journal"), "Settings of interfaces that down restores."),
            (
                &in_run("interfaces"),
                "Locks on interfaces: one program at a time opens one for itself.",
            ),
            (
                &in_run("cpus"),
                "Locks on CPUs: one experiment with real-time tasks at a time uses one.",
            ),
            (
                "/sys/fs/bpf/onbeat/NAME",
                "The programs and tables of a node. They outlive the program that made them.",
            ),
        ],
    );
    roff.control("SH", ["EXAMPLES"]);
    let help = text(command.get_after_help());
    let examples: Vec<&str> = help.lines().filter(|line| line.starts_with("  ")).collect();
    prose(roff, &examples.join("\n"), false);
}

fn definitions(roff: &mut Roff, definitions: &[(&str, &str)]) {
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

    #[test]
    fn all_commands_are_told_and_the_hidden_are_not() {
        let page = page();
        for command in [
            "doctor",
            "run",
            "show",
            "reset",
            "reload",
            "down",
            "lab run",
            "bench frer",
            "bench port",
        ] {
            assert!(page.contains(&format!(".SS \"onbeat {command}\"\n")), "{command}\n{page}");
        }
        assert!(!page.contains(".SS \"onbeat man\"") && !page.contains(".SS \"onbeat help"));
    }
}
