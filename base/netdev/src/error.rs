//! What can go wrong, said with the interface, the value and the way out.

use std::{fmt, io, time::Duration};

use nix::errno::Errno;

/// A result of this crate.
pub type Result<T> = std::result::Result<T, Error>;

/// Why an operation on a network device or namespace failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A name that the kernel would not take for an interface.
    #[error("{name:?} cannot name an interface: {reason}; {NAME_RULE}")]
    InvalidName {
        /// The name.
        name: String,
        /// What is wrong with it.
        reason: &'static str,
    },
    /// No such interface in the namespace.
    #[error("interface {name:?} not found; interfaces here: {}", Listed(available))]
    NotFound {
        /// The name that was looked for; `index N` where it was looked for by index.
        name: String,
        /// The names that exist in that namespace.
        available: Vec<String>,
    },
    /// The kernel refused.
    #[error(
        "cannot {operation} on interface {interface:?}: {} ({errno:?}){}{}",
        errno.desc(), Detail(detail), remedy(*errno)
    )]
    Kernel {
        /// What was asked, its value included: `set MTU to 70000`.
        operation: String,
        /// The interface; empty where none is concerned.
        interface: String,
        /// The kernel's code.
        errno: Errno,
        /// The kernel's own sentence (extended acknowledgement), where it gave one.
        detail: Option<String>,
    },
    /// This kernel or this driver lacks what was asked for.
    #[error("{what} is not supported here: {remedy}")]
    Unsupported {
        /// What is lacking.
        what: String,
        /// What provides it.
        remedy: String,
    },
    /// A device feature did not take the state asked for.
    #[error("interface {interface:?}: feature {feature:?} cannot be turned {}: {reason}", on_off(*wanted))]
    Feature {
        /// The interface.
        interface: String,
        /// The feature, by the kernel's name.
        feature: String,
        /// The state asked for.
        wanted: bool,
        /// Why not.
        reason: String,
    },
    /// A file or system call of namespaces, /proc or /sys failed.
    #[error("cannot {operation}: {source}{}", io_remedy(source))]
    Io {
        /// What was being done, to what.
        operation: String,
        /// The cause.
        source: io::Error,
    },
    /// The kernel's answer could not be read.
    #[error("cannot {operation}: the kernel's answer is malformed: {reason}")]
    Malformed {
        /// What was being done.
        operation: String,
        /// What is wrong with the answer.
        reason: String,
    },
    /// The interface that a journal names is not the one that is here.
    #[error("interface {interface:?} is not the one that was changed: {why}; {remedy}")]
    NotIdentified {
        /// Its name when it was changed.
        interface: String,
        /// What differs, or where it is now.
        why: String,
        /// What to do.
        remedy: String,
    },
    /// A condition did not come true in time.
    #[error("interface {interface:?} did not become {condition} within {timeout:?}")]
    Timeout {
        /// The interface.
        interface: String,
        /// What was waited for.
        condition: String,
        /// For how long.
        timeout: Duration,
    },
}

impl Error {
    /// The kernel's code, where the kernel gave one.
    #[must_use]
    pub fn errno(&self) -> Option<Errno> {
        match self {
            Error::Kernel { errno, .. } => Some(*errno),
            Error::Io { source, .. } => source.raw_os_error().map(Errno::from_raw),
            _ => None,
        }
    }

    /// Whether the interface does not exist.
    #[must_use]
    pub fn is_not_found(&self) -> bool {
        matches!(self, Error::NotFound { .. })
    }

    pub(crate) fn io(operation: impl Into<String>, source: impl Into<io::Error>) -> Self {
        Error::Io { operation: operation.into(), source: source.into() }
    }
}

struct Listed<'a>(&'a [String]);

impl fmt::Display for Listed<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() { f.write_str("none") } else { f.write_str(&self.0.join(", ")) }
    }
}

struct Detail<'a>(&'a Option<String>);

impl fmt::Display for Detail<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.as_ref().map_or(Ok(()), |text| write!(f, ": {text}"))
    }
}

fn remedy(errno: Errno) -> &'static str {
    match errno {
        Errno::EPERM | Errno::EACCES => "; it needs CAP_NET_ADMIN: run as root",
        _ => "",
    }
}

fn io_remedy(source: &io::Error) -> &'static str {
    match source.kind() {
        io::ErrorKind::PermissionDenied => {
            "; it needs CAP_SYS_ADMIN and CAP_NET_ADMIN: run as root"
        }
        _ => "",
    }
}

fn on_off(state: bool) -> &'static str {
    if state { "on" } else { "off" }
}

/// Longest interface name, without the terminating NUL (`IFNAMSIZ - 1`).
pub const MAX_NAME: usize = libc::IFNAMSIZ - 1;

/// What [`check_name`] requires, as a remedy.
pub const NAME_RULE: &str =
    "use 1 to 15 characters without white space, \"/\", \":\" and \"%\", and not \".\" or \"..\"";

/// Checks a name as the kernel does (`dev_valid_name`), to report what is wrong where it reports EINVAL.
/// A percent sign is refused as well: the kernel takes the name of a new device for a template, and
/// gives the device another name.
///
/// # Errors
/// [`Error::InvalidName`].
pub fn check_name(name: &str) -> Result<()> {
    let reason = match name {
        "" => "it is empty",
        "." | ".." => "it names a directory",
        _ if name.len() > MAX_NAME => "it is longer than 15 octets",
        _ if name.bytes().any(|c| matches!(c, b'/' | b':' | 0) || is_space(c)) => {
            "it contains a slash, a colon, white space or a NUL"
        }
        _ if name.contains('%') => "it contains a percent sign, which the kernel expands",
        _ => return Ok(()),
    };
    Err(Error::InvalidName { name: name.to_owned(), reason })
}

/// The kernel's `isspace`, which counts the no-break space of Latin-1 in.
fn is_space(c: u8) -> bool {
    matches!(c, b' ' | b'\t'..=b'\r' | 0xa0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_checked_as_the_kernel_does() {
        for good in ["a", "eth0", "veth-talker.100", "0123456789abcde"] {
            assert!(check_name(good).is_ok(), "{good}");
        }
        for bad in
            ["", ".", "..", "0123456789abcdef", "a b", "a/b", "a:b", "a\nb", "a\0b", "x%d", "%"]
        {
            assert!(matches!(check_name(bad), Err(Error::InvalidName { .. })), "{bad:?}");
        }
    }

    #[test]
    fn not_found_names_the_others() {
        let error =
            Error::NotFound { name: "eth7".into(), available: vec!["eth0".into(), "eth1".into()] };
        assert_eq!(error.to_string(), "interface \"eth7\" not found; interfaces here: eth0, eth1");
    }

    #[test]
    fn a_refusal_says_what_who_why_and_the_way_out() {
        let error = Error::Kernel {
            operation: "set MTU to 9000".into(),
            interface: "eth0".into(),
            errno: Errno::EPERM,
            detail: None,
        };
        assert_eq!(
            error.to_string(),
            "cannot set MTU to 9000 on interface \"eth0\": Operation not permitted (EPERM); \
             it needs CAP_NET_ADMIN: run as root"
        );
    }
}
