//! Errors of a file, with their positions.

use std::cell::RefCell;
use std::fmt;

use roxmltree::{Document, Node};

/// An error of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    /// Line, starting at 1.
    pub line: u32,
    /// Column, starting at 1.
    pub column: u32,
    /// The error, with the value.
    pub what: String,
    /// The remedy.
    pub help: String,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.line, self.column, self.what)
    }
}

impl std::error::Error for Fault {}

impl Fault {
    pub(crate) fn of_xml(error: &roxmltree::Error) -> Self {
        let place = error.pos();
        Fault {
            line: place.row,
            column: place.col,
            what: format!("invalid XML: {error}"),
            help: "a device description is XML (EPSG DS 311)".into(),
        }
    }
}

/// The errors found so far.
pub(crate) struct Faults<'a, 'input> {
    document: &'a Document<'input>,
    found: RefCell<Vec<Fault>>,
}

impl<'a, 'input> Faults<'a, 'input> {
    pub(crate) fn new(document: &'a Document<'input>) -> Self {
        Faults { document, found: RefCell::default() }
    }

    /// Adds an error of an element.
    pub(crate) fn note(
        &self,
        node: Node<'_, '_>,
        what: impl Into<String>,
        help: impl Into<String>,
    ) {
        self.note_at(node.range().start, what.into(), help.into());
    }

    /// Adds an error of an attribute of an element.
    pub(crate) fn note_attribute(
        &self,
        node: Node<'_, '_>,
        attribute: &str,
        what: impl Into<String>,
        help: impl Into<String>,
    ) {
        let found = node.attribute_node(attribute).map(|found| found.range().start);
        self.note_at(found.unwrap_or(node.range().start), what.into(), help.into());
    }

    fn note_at(&self, at: usize, what: String, help: String) {
        let mut found = self.found.borrow_mut();
        // Finding the line number reads the text from its start.
        if found.len() < crate::FAULTS {
            let place = self.document.text_pos_at(at);
            found.push(Fault { line: place.row, column: place.col, what, help });
        }
    }

    pub(crate) fn judge(self) -> Result<(), Vec<Fault>> {
        let found = self.found.into_inner();
        if found.is_empty() { Ok(()) } else { Err(found) }
    }
}
