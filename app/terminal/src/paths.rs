//! Files of a command line: no output may be an input or another output. Checked for every command before it
//! starts.

use std::any::TypeId;
use std::collections::BTreeSet;
use std::io;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};

use clap::{Arg, ArgMatches, Command};
use onbeat_host::output::Target;

use crate::exit::{Failure, Result};

/// The arguments that name files to write.
const OUTPUTS: [&str; 5] = ["csv", "html", "output", "parquet", "textfile"];

/// A file of the command line.
struct NamedFile {
    /// The option, or the name of the positional argument.
    label: String,
    /// The label and the value.
    full: String,
    target: Target,
}

/// Refuses to overwrite an input, and to write two outputs to one file. Devices and pipes can be given
/// several times.
pub fn check(command: &Command, matches: &ArgMatches) -> Result<()> {
    let (mut inputs, mut outputs) = (Vec::new(), Vec::new());
    let mut level = Some((command, matches));
    while let Some((command, matches)) = level {
        for argument in command.get_arguments().filter(|argument| names_file(argument)) {
            let values = matches.try_get_raw(argument.get_id().as_str()).ok().flatten();
            for path in values.into_iter().flatten().map(Path::new) {
                if is_output(argument) {
                    outputs.extend(NamedFile::new(argument, path, Target::of(path)));
                } else {
                    inputs.extend(NamedFile::new(argument, path, input(path)));
                }
            }
        }
        level = matches
            .subcommand()
            .and_then(|(name, matches)| Some((command.find_subcommand(name)?, matches)));
    }
    let label = "standard output".to_owned();
    let printed = Target::of_open(io::stdout().as_fd());
    outputs.extend(printed.map(|target| NamedFile { full: label.clone(), label, target }));
    for (place, output) in outputs.iter().enumerate() {
        let same = |other: &&NamedFile| other.target.is_same_file(&output.target);
        let NamedFile { full, .. } = output;
        if let Some(NamedFile { label, .. }) = inputs.iter().find(same) {
            return Err(Failure::new(format!(
                "{full}: the command also reads this file ({label}), and would overwrite it; use another \
                 file"
            )));
        }
        let clash = |other: &&NamedFile| !other.target.append || !output.target.append;
        if let Some(NamedFile { label, .. }) = outputs[..place].iter().filter(clash).find(same) {
            return Err(Failure::new(format!(
                "{full}: {label} is also written to this file, and each would overwrite the other; use another \
                 file"
            )));
        }
    }
    Ok(())
}

impl NamedFile {
    fn new(argument: &Arg, path: &Path, target: Option<Target>) -> Option<Self> {
        let label = match argument.get_long() {
            Some(long) => format!("--{long}"),
            None => argument.to_string(),
        };
        Some(NamedFile { full: format!("{label} {path:?}"), label, target: target? })
    }
}

/// The file that a command would read; `None` if it does not exist, as for the name of an interface.
fn input(path: &Path) -> Option<Target> {
    match path.as_os_str() == "-" {
        true => Target::of_open(io::stdin().as_fd()),
        false => Target::of(path).filter(Target::exists),
    }
}

fn is_output(argument: &Arg) -> bool {
    OUTPUTS.contains(&argument.get_id().as_str())
}

/// Whether the values of an argument are, or may be, paths.
fn names_file(argument: &Arg) -> bool {
    let names = argument.get_value_names().unwrap_or_default();
    argument.get_value_parser().type_id() == TypeId::of::<PathBuf>()
        || names.iter().any(|name| name.split('|').any(|part| part == "FILE"))
}

/// The arguments of a command and its subcommands that name files; true for outputs. For tests that classify
/// each new argument.
#[must_use]
pub fn arguments(command: &Command) -> BTreeSet<(bool, String)> {
    let own = command.get_arguments().filter(|argument| names_file(argument));
    let own = own.map(|argument| (is_output(argument), argument.get_id().to_string()));
    own.chain(command.get_subcommands().flat_map(arguments)).collect()
}
