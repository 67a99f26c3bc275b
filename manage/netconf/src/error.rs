//! Errors of requests (RFC 6241, appendix A).

use std::collections::BTreeSet;
use std::fmt::Write;

use onbeat_yang::schema::Module;
use onbeat_yang::{Fault, Faults};

use crate::xml::escape;

/// The tag of an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ErrorTag {
    /// Another session or process changes the datastore.
    InUse,
    /// A value.
    InvalidValue,
    /// The message is too long.
    TooBig,
    /// An attribute is missing.
    MissingAttribute,
    /// An attribute has a wrong value.
    BadAttribute,
    /// An element is missing.
    MissingElement,
    /// An element has a wrong value.
    BadElement,
    /// An element is not known.
    UnknownElement,
    /// A namespace is not known.
    UnknownNamespace,
    /// This user may not.
    AccessDenied,
    /// Another session has the lock.
    LockDenied,
    /// Data to create exist.
    DataExists,
    /// Data to delete do not exist.
    DataMissing,
    /// The node has no such operation.
    OperationNotSupported,
    /// Any other cause.
    OperationFailed,
    /// The message is no XML.
    MalformedMessage,
}

impl ErrorTag {
    fn name(self) -> &'static str {
        match self {
            Self::InUse => "in-use",
            Self::InvalidValue => "invalid-value",
            Self::TooBig => "too-big",
            Self::MissingAttribute => "missing-attribute",
            Self::BadAttribute => "bad-attribute",
            Self::MissingElement => "missing-element",
            Self::BadElement => "bad-element",
            Self::UnknownElement => "unknown-element",
            Self::UnknownNamespace => "unknown-namespace",
            Self::AccessDenied => "access-denied",
            Self::LockDenied => "lock-denied",
            Self::DataExists => "data-exists",
            Self::DataMissing => "data-missing",
            Self::OperationNotSupported => "operation-not-supported",
            Self::OperationFailed => "operation-failed",
            Self::MalformedMessage => "malformed-message",
        }
    }
}

/// An error of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RpcError {
    /// Its tag.
    pub tag: ErrorTag,
    /// Cause and remedy.
    pub message: String,
    /// Instance identifier of the data, RFC 7951; empty: none.
    pub path: String,
    /// Name and content of an element of `error-info`.
    pub info: Option<(&'static str, String)>,
}

impl RpcError {
    /// An error without path.
    pub fn new(tag: ErrorTag, message: impl Into<String>) -> Self {
        Self { tag, message: message.into(), path: String::new(), info: None }
    }

    /// An error at data.
    pub fn at(tag: ErrorTag, path: &str, message: impl Into<String>) -> Self {
        Self { path: path.to_owned(), ..Self::new(tag, message) }
    }

    /// An error of an element of the request.
    pub fn element(tag: ErrorTag, name: &str, message: impl Into<String>) -> Self {
        Self { info: Some(("bad-element", name.to_owned())), ..Self::new(tag, message) }
    }

    /// Adds the element `rpc-error`.
    pub(crate) fn write(&self, to: &mut String) {
        let layer = match self.tag {
            ErrorTag::MalformedMessage | ErrorTag::MissingAttribute => "rpc",
            _ if self.path.is_empty() => "protocol",
            _ => "application",
        };
        // Writing to a String cannot fail.
        let _ = write!(
            to,
            "<rpc-error><error-type>{layer}</error-type><error-tag>{}</error-tag>\
             <error-severity>error</error-severity>",
            self.tag.name()
        );
        if !self.path.is_empty() {
            let (path, modules) = xml_path(&self.path);
            to.push_str("<error-path");
            for Module { name, namespace, .. } in modules.iter().filter_map(|m| Module::named(m)) {
                let _ = write!(to, " xmlns:{name}=\"{namespace}\"");
            }
            let _ = write!(to, ">{}</error-path>", escape(&path));
        }
        let _ =
            write!(to, "<error-message xml:lang=\"en\">{}</error-message>", escape(&self.message));
        if let Some((name, text)) = &self.info {
            let _ = write!(to, "<error-info><{name}>{}</{name}></error-info>", escape(text));
        }
        to.push_str("</rpc-error>");
    }
}

impl From<Fault> for RpcError {
    fn from(Fault { path, message, help }: Fault) -> Self {
        let path = if path.is_empty() { "/".to_owned() } else { path };
        Self::at(ErrorTag::InvalidValue, &path, format!("{message}; {help}"))
    }
}

/// The errors of all faults.
pub fn of_faults(Faults(faults): Faults) -> Vec<RpcError> {
    faults.into_iter().map(RpcError::from).collect()
}

/// Converts an instance identifier of JSON (RFC 7951, 6.11) to that of XML, where each name has a prefix, here that of
/// its module.
fn xml_path(path: &str) -> (String, BTreeSet<String>) {
    let (mut converted, mut modules) = (String::new(), BTreeSet::new());
    let (mut module, mut quoted, mut step) = (String::new(), false, String::new());
    for character in path.chars().chain(['/']) {
        match character {
            '\'' => quoted = !quoted,
            '/' if !quoted => {
                let (name, keys) = step.split_at(step.find('[').unwrap_or(step.len()));
                if let Some((own, _)) = name.split_once(':') {
                    own.clone_into(&mut module);
                    modules.insert(module.clone());
                }
                if !name.is_empty() {
                    let name = name.split_once(':').map_or(name, |(_, name)| name);
                    let keys = prefix_keys(keys, &module);
                    converted += &format!("/{module}:{name}{keys}");
                }
                step.clear();
                continue;
            }
            _ => {}
        }
        step.push(character);
    }
    (if converted.is_empty() { "/".to_owned() } else { converted }, modules)
}

/// Adds a prefix to the names of keys: `[index='1']`. Values and positions have none.
fn prefix_keys(keys: &str, module: &str) -> String {
    let (mut prefixed, mut quoted, mut starts) = (String::new(), false, false);
    for character in keys.chars() {
        if starts && character.is_ascii_alphabetic() {
            prefixed += &format!("{module}:");
        }
        if character == '\'' {
            quoted = !quoted;
        }
        starts = character == '[' && !quoted;
        prefixed.push(character);
    }
    prefixed
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_name_of_a_path_has_the_prefix_of_its_module() {
        let (path, modules) =
            xml_path("/ieee802-dot1cb-frer:frer/sequence-recovery[index='7']/port[.='a/b']");
        assert_eq!(
            path,
            "/ieee802-dot1cb-frer:frer/ieee802-dot1cb-frer:sequence-recovery[ieee802-dot1cb-frer:index='7']\
             /ieee802-dot1cb-frer:port[.='a/b']"
        );
        assert_eq!(modules.into_iter().collect::<Vec<_>>(), ["ieee802-dot1cb-frer"]);
        assert_eq!(xml_path("").0, "/");
    }
}
