//! Reading and parsing of TOML files.

use std::path::{Path, PathBuf};

use onbeat_host::trust::UntrustedFile;
use toml::Spanned;
use toml::de::DeTable;

use crate::diagnostic::{ConfigError, Diagnostic, Severity, Source};

/// Maximum length of a configuration, in octets: 65,536 streams of 512 octets each.
pub const LONGEST: u64 = 32 << 20;

/// Maximum length of a text for which every syntax error is reported instead of the first alone: a long file
/// of another format has an error in each line.
const EVERY_ERROR: usize = 1 << 20;

/// An unusable file.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// It cannot be read, is not a regular file, or is longer than [`LONGEST`].
    #[error("configuration file {path:?} cannot be read: {source}")]
    Read {
        /// The cause.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// Another user could have written it.
    #[error(transparent)]
    Untrusted(#[from] UntrustedFile),
    /// It is not UTF-8.
    #[error("{path:?}: line {line} is not UTF-8 text; save the file as UTF-8", path = path.display())]
    NotText {
        /// The file.
        path: PathBuf,
        /// The first line that is not text.
        line: usize,
    },
    /// Its content is invalid.
    #[error(transparent)]
    Config(#[from] ConfigError),
}

/// Reads a file; returns its text, and its name for diagnostics.
///
/// # Errors
/// It cannot be read, is longer than [`LONGEST`], or is not UTF-8.
pub fn load(path: &Path) -> Result<(String, String), LoadError> {
    let read = |source| LoadError::Read { path: path.to_owned(), source };
    let octets = onbeat_host::file::read(path, LONGEST).map_err(read)?;
    let text = String::from_utf8(octets).map_err(|error| LoadError::NotText {
        path: path.to_owned(),
        line: 1 + error.as_bytes()[..error.utf8_error().valid_up_to()]
            .iter()
            .filter(|&&octet| octet == b'\n')
            .count(),
    })?;
    Ok((text, path.display().to_string()))
}

/// Parses a text.
///
/// # Errors
/// It is not TOML.
pub fn parse<'a>(text: &'a str, source: &Source) -> Result<Spanned<DeTable<'a>>, ConfigError> {
    let faults = |errors: &[toml::de::Error]| {
        ConfigError::new(source.clone(), errors.iter().map(syntax_fault).collect())
    };
    if text.len() > EVERY_ERROR {
        return DeTable::parse(text).map_err(|error| faults(&[error]));
    }
    let (root, errors) = DeTable::parse_recoverable(text);
    if errors.is_empty() { Ok(root) } else { Err(faults(&errors)) }
}

fn syntax_fault(error: &toml::de::Error) -> Diagnostic {
    let mut lines = error.message().lines();
    let message = lines.next().unwrap_or("not TOML").to_owned();
    let rest: Vec<&str> = lines.collect();
    let help = if rest.is_empty() {
        "the file must be TOML (https://toml.io)".to_owned()
    } else {
        rest.join(", ")
    };
    let span = error.span().unwrap_or(0..0);
    Diagnostic { severity: Severity::Error, span, path: String::new(), message, help }
}
