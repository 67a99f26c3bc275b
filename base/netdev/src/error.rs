//! Errors of network devices and namespaces, with interface, value and remedy.

use std::{fmt, io, time::Duration};

use nix::errno::Errno;

/// A result of this crate.
pub type Result<T> = std::result::Result<T, Error>;

/// The reason why an operation on a network device or namespace failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// An invalid name of an interface.
    #[error("{name:?} cannot name an interface: {reason}; {NAME_RULE}")]
    InvalidName {
        /// The name.
        name: String,
        /// The reason.
        reason: &'static str,
    },
    /// No such interface in the namespace.
    #[error("interface {name:?} not found; interfaces here: {}", NameList(available))]
    NotFound {
        /// The name, or `index N` for a lookup by index.
        name: String,
        /// The existing names in that namespace.
        available: Vec<String>,
    },
    /// The kernel refused.
    #[error(
        "cannot {operation} on interface {interface:?}: {} ({errno:?}){}{}",
        errno.desc(), Detail(detail), remedy(*errno)
    )]
    Kernel {
        /// The operation, including its value: `set MTU to 70000`.
        operation: String,
        /// The interface; empty if none is concerned.
        interface: String,
        /// The kernel's code.
        errno: Errno,
        /// The kernel's description (extended acknowledgment), if any.
        detail: Option<String>,
    },
    /// This kernel or this driver does not support the operation.
    #[error("{what} is not supported here: {remedy}")]
    Unsupported {
        /// The missing feature.
        what: String,
        /// The remedy.
        remedy: String,
    },
    /// A device feature did not change to the requested state.
    #[error("interface {interface:?}: feature {feature:?} cannot be turned {}: {reason}", on_off(*wanted))]
    Feature {
        /// The interface.
        interface: String,
        /// The feature, by the kernel's name.
        feature: String,
        /// The requested state.
        wanted: bool,
        /// The reason.
        reason: String,
    },
    /// A file or system call of namespaces, /proc or /sys failed.
    #[error("cannot {operation}: {source}{}", io_remedy(source))]
    Io {
        /// The operation and its object.
        operation: String,
        /// The cause.
        source: io::Error,
    },
    /// The kernel's reply could not be parsed.
    #[error("cannot {operation}: the kernel's reply is malformed: {reason}")]
    Malformed {
        /// The operation.
        operation: String,
        /// The error in the reply.
        reason: String,
    },
    /// The interface of a journal entry is not the current one.
    #[error("interface {interface:?} is not the one that was changed: {why}; {remedy}")]
    NotIdentified {
        /// Its name when it was changed.
        interface: String,
        /// The difference, or its present location.
        why: String,
        /// The remedy.
        remedy: String,
    },
    /// A condition was not met in time.
    #[error("interface {interface:?} did not become {condition} within {timeout:?}")]
    Timeout {
        /// The interface.
        interface: String,
        /// The condition.
        condition: String,
        /// The timeout.
        timeout: Duration,
    },
}

impl Error {
    /// Returns the kernel's error code, if there is one.
    #[must_use]
    pub fn errno(&self) -> Option<Errno> {
        match self {
            Error::Kernel { errno, .. } => Some(*errno),
            Error::Io { source, .. } => source.raw_os_error().map(Errno::from_raw),
            _ => None,
        }
    }

    /// Returns whether the interface does not exist.
    #[must_use]
    pub fn is_not_found(&self) -> bool {
        matches!(self, Error::NotFound { .. })
    }

    pub(crate) fn io(operation: impl Into<String>, source: impl Into<io::Error>) -> Self {
        Error::Io { operation: operation.into(), source: source.into() }
    }
}

struct NameList<'a>(&'a [String]);

impl fmt::Display for NameList<'_> {
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
        Errno::EPERM | Errno::EACCES => "; CAP_NET_ADMIN is required: run it as root",
        _ => "",
    }
}

fn io_remedy(source: &io::Error) -> &'static str {
    match source.kind() {
        io::ErrorKind::PermissionDenied => {
            "; CAP_SYS_ADMIN and CAP_NET_ADMIN are required: run it as root"
        }
        _ => "",
    }
}

fn on_off(state: bool) -> &'static str {
    if state { "on" } else { "off" }
}

/// Maximum length of an interface name, without the terminating NUL (`IFNAMSIZ - 1`).
pub const MAX_NAME: usize = libc::IFNAMSIZ - 1;

/// The requirements of [`check_name`], as a remedy.
pub const NAME_RULE: &str =
    "use 1 to 15 characters without white space, \"/\", \":\" and \"%\", and not \".\" or \"..\"";

/// Checks a name like the kernel (`dev_valid_name`), to report the reason where the kernel reports EINVAL. A
/// percent sign is refused as well: the kernel treats such a name of a new device as a template, and chooses
/// another name.
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

/// The kernel's `isspace`, which includes the no-break space of Latin-1.
fn is_space(c: u8) -> bool {
    matches!(c, b' ' | b'\t'..=b'\r' | 0xa0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_checked_like_in_the_kernel() {
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
    fn a_missing_interface_lists_the_existing_ones() {
        let error =
            Error::NotFound { name: "eth7".into(), available: vec!["eth0".into(), "eth1".into()] };
        assert_eq!(error.to_string(), "interface \"eth7\" not found; interfaces here: eth0, eth1");
    }

    #[test]
    fn a_refusal_reports_operation_interface_cause_and_remedy() {
        let error = Error::Kernel {
            operation: "set MTU to 9000".into(),
            interface: "eth0".into(),
            errno: Errno::EPERM,
            detail: None,
        };
        assert_eq!(
            error.to_string(),
            "cannot set MTU to 9000 on interface \"eth0\": Operation not permitted (EPERM); \
             CAP_NET_ADMIN is required: run it as root"
        );
    }
}
