//! Completions of a command line for shells.
//!
//! The script that a shell loads calls the program with the words typed so far. Options come from the
//! installed program, values such as names of interfaces from the host.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};

use clap::{Arg, Command, ValueHint};
use clap_complete::engine::{
    ArgValueCompleter, CompletionCandidate, PathCompleter, ValueCompleter,
};
use clap_complete::env::Shells;
use clap_complete::{CompleteEnv, Shell};

use crate::exit::{CommandResult, Failure, Result};
use crate::output;

/// The script sets this variable to the name of the shell; the program then only completes words.
const VARIABLE: &str = "ONBEAT_COMPLETE";

/// The program that the script completes and calls.
const PROGRAM: &str = "onbeat";

/// As a file of `$fpath`, the script is the function of the first completion, and must complete as well.
const ZSH_FIRST: &str = "\
if [[ $funcstack[1] == _onbeat ]]; then
    _clap_dynamic_completer_onbeat \"$@\"
fi
";

/// Options of `onbeat completions`.
#[derive(Debug, clap::Args)]
pub struct Completions {
    /// Shell to print completions for
    pub shell: Shell,
}

/// Changes of the bash script: no expansion of patterns in candidates, and candidates with characters that are
/// special to a shell are file names, which readline quotes.
const BASH_QUOTING: [(&str, &str); 2] = [
    ("    local IFS=", "    local - 2>/dev/null && set -f\n    local IFS="),
    (
        "    elif [[ $_CLAP_COMPLETE_SPACE",
        "    elif [[ \"${COMPREPLY[*]}\" == *[!-[:alnum:]_.:=,/@%+$'\\v']* ]]; then\n        \
         compopt -o filenames\n    elif [[ $_CLAP_COMPLETE_SPACE",
    ),
];

impl Completions {
    /// Prints the script.
    ///
    /// # Errors
    /// Standard output.
    pub fn execute(self) -> Result {
        output::print(&script(self.shell)?)?;
        Ok(CommandResult::Success)
    }
}

/// The script that a shell loads.
fn script(shell: Shell) -> std::result::Result<String, Failure> {
    let mut script = Vec::new();
    let name = shell.to_string();
    let shells = Shells::builtins();
    let completer = shells.completer(&name).expect("clap accepts only shells with a completer");
    completer
        .write_registration(VARIABLE, PROGRAM, PROGRAM, PROGRAM, &mut script)
        .map_err(Failure::new)?;
    let script = String::from_utf8_lossy(&script).into_owned();
    match shell {
        Shell::Zsh => Ok(script + ZSH_FIRST),
        Shell::Bash => quoting(&script),
        _ => Ok(script),
    }
}

/// The bash script with quoted candidates: bash inserts others as they are, and another user may have given
/// a file a name with a command in it.
fn quoting(script: &str) -> std::result::Result<String, Failure> {
    let mut script = script.to_owned();
    for (text, instead) in BASH_QUOTING {
        if !script.contains(text) {
            return Err(Failure::new(format!("the bash script of clap_complete has no {text:?}")));
        }
        script = script.replacen(text, instead, 1);
    }
    Ok(script)
}

/// A list of the values that an argument can have on this host.
pub type Values = fn() -> Vec<String>;

/// The words to complete, if a shell requests completions: `PROGRAM -- WORD...`. Without "--" the variable is
/// set by mistake.
#[must_use]
pub fn requested() -> Option<impl Iterator<Item = OsString>> {
    let mut words = std::env::args_os().skip(1);
    let is_requested = std::env::var_os(VARIABLE).is_some();
    (is_requested && words.next().is_some_and(|word| word == "--")).then_some(words)
}

/// Completes the words of the command line and exits, if a shell requests completions.
pub fn complete(program: impl Fn() -> Command, values: fn(&Arg) -> Option<Values>) {
    if requested().is_none() {
        return;
    }
    let program = || with_values(program(), values);
    CompleteEnv::with_factory(program).var(VARIABLE).complete();
}

fn with_values(command: Command, values: fn(&Arg) -> Option<Values>) -> Command {
    let command = command.mut_args(|argument| match values(&argument) {
        Some(list) => {
            let paths = argument.get_value_hint() == ValueHint::AnyPath;
            let complete = move |current: &OsStr| {
                let mut candidates = matching(list(), current);
                if paths {
                    candidates.extend(PathCompleter::any().complete(current));
                }
                candidates
            };
            argument.add(ArgValueCompleter::new(complete))
        }
        None => argument,
    });
    command.mut_subcommands(|sub| with_values(sub, values))
}

/// The values that start with the word typed so far. Any privileged process may have created an interface or
/// a socket: a name that a shell could interpret as more than one word is omitted.
fn matching(values: Vec<String>, current: &OsStr) -> Vec<CompletionCandidate> {
    let current = current.to_string_lossy();
    let is_word = |value: &String| {
        !value.is_empty()
            && !value.starts_with('-')
            && value.chars().all(|c| c.is_ascii_alphanumeric() || "-_.".contains(c))
    };
    let matching = values.into_iter().filter(|value| value.starts_with(current.as_ref()));
    matching.filter(is_word).map(CompletionCandidate::new).collect()
}

/// Whether help shows this value name for an argument; `INTERFACE` is a part of `FILE|INTERFACE`.
#[must_use]
pub fn is_named(argument: &Arg, name: &str) -> bool {
    let Some(names) = argument.get_value_names() else {
        return argument.get_id().as_str().eq_ignore_ascii_case(name);
    };
    names.iter().any(|names| names.split('|').any(|part| part == name))
}

/// The arguments with lists of values, by command. For tests.
#[must_use]
pub fn arguments(
    command: &Command,
    values: fn(&Arg) -> Option<Values>,
) -> BTreeMap<String, Vec<String>> {
    let mut all = BTreeMap::new();
    let own = command.get_arguments().filter(|argument| values(argument).is_some());
    let own: Vec<String> = own.map(|argument| argument.get_id().to_string()).collect();
    if !own.is_empty() {
        all.insert(command.get_name().to_owned(), own);
    }
    for sub in command.get_subcommands() {
        for (name, arguments) in self::arguments(sub, values) {
            all.insert(format!("{} {name}", command.get_name()), arguments);
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use clap::{Args, FromArgMatches};
    use clap_complete::engine;

    use super::*;

    #[test]
    fn completions_require_a_known_shell() {
        let parse = |line: [&str; 2]| {
            let command = Completions::augment_args(Command::new("completions"));
            Completions::from_arg_matches(&command.try_get_matches_from(line)?)
        };
        assert_eq!(parse(["completions", "zsh"]).unwrap().shell.to_string(), "zsh");
        assert!(parse(["completions", "sh"]).is_err());
    }

    #[test]
    fn values_of_the_host_are_completed_by_value_name() {
        let values: fn(&Arg) -> Option<Values> = |argument| {
            is_named(argument, "INTERFACE").then_some(|| {
                ["eth0", "lo", "-v", "a;reboot", "$(reboot)", "a b", "*", ""].map(Into::into).into()
            })
        };
        let program = || {
            let named = |name| Arg::new("port").long("port").value_name(name);
            let sub = |command: &'static str, name| Command::new(command).arg(named(name));
            let program = Command::new("p").subcommand(sub("a", "FILE|INTERFACE"));
            with_values(program.subcommand(sub("b", "NAME")), values)
        };
        let completed = |words: &[&str]| -> Vec<String> {
            let words = words.iter().map(Into::into).collect::<Vec<_>>();
            let last = words.len() - 1;
            let found = engine::complete(&mut program(), words, last, None).unwrap();
            found.iter().map(|one| one.get_value().to_string_lossy().into_owned()).collect()
        };
        assert_eq!(completed(&["p", "a", "--port", ""]), ["eth0", "lo"]);
        assert_eq!(completed(&["p", "a", "--port", "e"]), ["eth0"]);
        assert_eq!(completed(&["p", "b", "--port", ""]), [] as [&str; 0]);
        let expected = BTreeMap::from([("p a".to_owned(), vec!["port".to_owned()])]);
        assert_eq!(arguments(&program(), values), expected);
    }

    /// The text that bash inserts for a candidate: readline quotes names of files.
    fn is_quoted_by_bash(candidate: &str) -> bool {
        let script = script(Shell::Bash).unwrap();
        let program =
            "onbeat() { printf %s \"$CANDIDATE\"; }\ncompopt() { printf '%s ' \"$@\"; }\n";
        let call = "COMP_WORDS=(onbeat x) COMP_CWORD=1\n_clap_complete_onbeat onbeat x onbeat\n\
                    printf '%s\\n' \"${COMPREPLY[@]}\"\n";
        let ran = std::process::Command::new("bash")
            .args(["-c", &format!("{script}{program}{call}")])
            .env("CANDIDATE", candidate)
            .current_dir("/")
            .output()
            .unwrap();
        let output = String::from_utf8(ran.stdout).unwrap();
        assert!(output.ends_with(&format!("{candidate}\n")), "{output}");
        output.contains("-o filenames")
    }

    #[test]
    fn bash_quotes_names_that_contain_commands() {
        for name in ["x$(reboot).pcap", "a;reboot", "a`reboot`", "a b", "*", "a\nb", "--html=$(a)"]
        {
            assert!(is_quoted_by_bash(name), "{name}");
        }
        for name in ["--json", "match", "--html=out.html", "eth0", "/tmp/in.pcap"] {
            assert!(!is_quoted_by_bash(name), "{name}");
        }
        assert!(quoting("complete -F f onbeat").is_err());
    }
}
