//! Colors on a terminal.

use std::io::IsTerminal;

/// Whether to print colors there: on a terminal that has them, unless NO_COLOR is set
/// (<https://no-color.org>: to anything but nothing).
pub fn enabled(there: &impl IsTerminal) -> bool {
    let set = |name| std::env::var_os(name).filter(|value| !value.is_empty());
    there.is_terminal()
        && set("NO_COLOR").is_none()
        && set("TERM").is_none_or(|term| term != "dumb")
}
