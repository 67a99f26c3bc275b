//! Colors on a terminal.

use std::io::IsTerminal;

/// Whether to print colors: on a terminal with colors, unless NO_COLOR is set and not empty
/// (<https://no-color.org>).
pub fn enabled(output: &impl IsTerminal) -> bool {
    let set = |name| std::env::var_os(name).filter(|value| !value.is_empty());
    output.is_terminal()
        && set("NO_COLOR").is_none()
        && set("TERM").is_none_or(|term| term != "dumb")
}
