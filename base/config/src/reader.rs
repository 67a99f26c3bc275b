//! Reads a TOML tree and notes every fault instead of stopping at the first.
//!
//! A getter gives `None` after it noted what is wrong, so that a reader can take all the keys it
//! knows, call [`Table::finish`], and only then give up on what depends on them.

use std::cell::{Cell, RefCell};
use std::net::IpAddr;
use std::ops::{Range, RangeInclusive};

use onbeat_wire::MacAddress;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use crate::diagnostic::{ConfigError, Diagnostic, Severity, Source, Warnings};
use crate::{suggest, text};

/// Faults that are kept of one file, and warnings as well: a file of another format has one for each
/// line.
const KEPT: usize = 1000;

/// The faults found so far, and the warnings.
#[derive(Debug, Default)]
pub struct Faults {
    found: RefCell<Vec<Diagnostic>>,
    faults: Cell<usize>,
    warnings: Cell<usize>,
}

impl Faults {
    /// Notes a fault: where it stands, the key, what is wrong, and the way out.
    pub fn note(
        &self,
        span: Range<usize>,
        path: &str,
        message: impl Into<String>,
        help: impl Into<String>,
    ) {
        self.push(Severity::Error, span, path, message.into(), help.into());
    }

    /// Notes what is legal and hardly meant.
    pub fn warn(
        &self,
        span: Range<usize>,
        path: &str,
        message: impl Into<String>,
        help: impl Into<String>,
    ) {
        self.push(Severity::Warning, span, path, message.into(), help.into());
    }

    fn push(
        &self,
        severity: Severity,
        span: Range<usize>,
        path: &str,
        message: String,
        help: String,
    ) {
        let count = match severity {
            Severity::Error => &self.faults,
            Severity::Warning => &self.warnings,
        };
        count.set(count.get() + 1);
        let (message, help) = match count.get() {
            ..=KEPT => (message, help),
            n if n == KEPT + 1 => {
                let help = "repair these first, and check again";
                (format!("there is more than the first {KEPT}, not reported"), help.into())
            }
            _ => return,
        };
        self.found.borrow_mut().push(Diagnostic {
            severity,
            span,
            path: path.into(),
            message,
            help,
        });
    }

    /// How many faults there are; a warning is none.
    pub fn count(&self) -> usize {
        self.faults.get()
    }

    /// What was noted: faults, where there is one, and otherwise the warnings.
    pub fn judge(self, source: &Source) -> Result<Warnings, ConfigError> {
        let (faulty, found) = (self.count() > 0, self.found.into_inner());
        if faulty {
            return Err(ConfigError::new(source.clone(), found));
        }
        Ok(Warnings::new(source.clone(), found))
    }
}

/// A table whose keys are taken one by one.
#[derive(Debug)]
pub struct Table<'a> {
    table: &'a DeTable<'a>,
    /// Where it stands.
    pub span: Range<usize>,
    /// Its key path.
    pub path: String,
    known: Vec<&'static str>,
    faults: &'a Faults,
}

impl<'a> Table<'a> {
    /// The file as a whole.
    pub fn root(table: &'a Spanned<DeTable<'a>>, faults: &'a Faults) -> Table<'a> {
        let (path, known) = (String::new(), Vec::new());
        Table { table: table.get_ref(), span: table.span(), path, known, faults }
    }

    /// The value of a key that may be absent.
    pub fn take(&mut self, key: &'static str) -> Option<Value<'a>> {
        self.known.push(key);
        let value = self.table.get(key)?;
        let path = if self.path.is_empty() { key.into() } else { format!("{}.{key}", self.path) };
        Some(Value { value, path, faults: self.faults })
    }

    /// The value of a key that must be there.
    pub fn require(&mut self, key: &'static str, example: &str) -> Option<Value<'a>> {
        let value = self.take(key);
        if value.is_none() {
            self.fault(format!("{key} is missing"), format!("add {key} = {example}"));
        }
        value
    }

    /// The values of an array of tables or of inline tables that may be absent.
    pub fn items(&mut self, key: &'static str) -> Vec<Value<'a>> {
        self.take(key).and_then(|value| value.array()).unwrap_or_default()
    }

    /// Whether a key stands in the file; it counts as known.
    pub fn has(&mut self, key: &'static str) -> bool {
        self.take(key).is_some()
    }

    /// A fault of the table as a whole.
    pub fn fault(&self, message: impl Into<String>, help: impl Into<String>) {
        self.faults.note(self.span.clone(), &self.path, message, help);
    }

    /// Every key that nobody asked for is a fault.
    pub fn finish(self) {
        for key in self.table.keys() {
            let written = key.get_ref().as_ref();
            if self.known.contains(&written) {
                continue;
            }
            let nearest = suggest::nearest(written, self.known.iter().copied());
            let help = match nearest {
                Some(meant) => format!("did you mean {meant}?"),
                None => format!("keys here: {}", self.known.join(", ")),
            };
            self.faults.note(key.span(), &self.path, format!("unknown key {written:?}"), help);
        }
    }
}

/// A value, with where it stands.
#[derive(Debug)]
pub struct Value<'a> {
    value: &'a Spanned<DeValue<'a>>,
    /// Its key path.
    pub path: String,
    faults: &'a Faults,
}

impl<'a> Value<'a> {
    /// Where it stands.
    pub fn span(&self) -> Range<usize> {
        self.value.span()
    }

    /// Notes a fault of this value.
    pub fn fault(&self, message: impl Into<String>, help: impl Into<String>) {
        self.faults.note(self.span(), &self.path, message, help);
    }

    /// Warns of this value.
    pub fn warn(&self, message: impl Into<String>, help: impl Into<String>) {
        self.faults.warn(self.span(), &self.path, message, help);
    }

    fn wrong_type<T>(&self, wanted: &str, help: impl Into<String>) -> Option<T> {
        let value = self.value.get_ref();
        let shown = match value {
            DeValue::String(text) => format!("{text:?}"),
            DeValue::Integer(number) => number.to_string(),
            DeValue::Float(number) => number.to_string(),
            DeValue::Boolean(flag) => flag.to_string(),
            DeValue::Datetime(time) => time.to_string(),
            DeValue::Array(_) => "an array".into(),
            DeValue::Table(_) => "a table".into(),
        };
        self.fault(format!("{shown} is not {wanted}"), help);
        None
    }

    /// Whether it is text, asked where a key takes text or a number.
    pub fn is_text(&self) -> bool {
        self.value.get_ref().is_str()
    }

    /// A text.
    pub fn text(&self) -> Option<&'a str> {
        match self.value.get_ref() {
            DeValue::String(text) => Some(text.as_ref()),
            _ => self.wrong_type("a text", "write a text in quotes"),
        }
    }

    /// True or false.
    pub fn flag(&self) -> Option<bool> {
        match self.value.get_ref() {
            DeValue::Boolean(flag) => Some(*flag),
            _ => self.wrong_type("true or false", "write true or false, without quotes"),
        }
    }

    /// A whole number within the range, as the type that holds the range.
    pub fn number<T>(&self, range: RangeInclusive<T>) -> Option<T>
    where
        T: Copy + TryFrom<i64> + Into<i64>,
    {
        let (low, high): (i64, i64) = ((*range.start()).into(), (*range.end()).into());
        let DeValue::Integer(written) = self.value.get_ref() else {
            let help = format!("write a number from {low} to {high}, without quotes");
            return self.wrong_type("a whole number", help);
        };
        let number = i64::from_str_radix(written.as_str(), written.radix()).ok();
        match number.filter(|number| (low..=high).contains(number)) {
            Some(number) => T::try_from(number).ok(),
            None => {
                self.fault(
                    format!("{written} is out of range"),
                    format!("use a whole number from {low} to {high}"),
                );
                None
            }
        }
    }

    /// One of a few words.
    pub fn choice<T: Copy>(&self, choices: &[(&str, T)]) -> Option<T> {
        let words = || choices.iter().map(|&(word, _)| word);
        let list: Vec<String> = words().map(|word| format!("{word:?}")).collect();
        let mut help = format!("use one of {}", list.join(", "));
        let DeValue::String(written) = self.value.get_ref() else {
            return self.wrong_type("a text", help);
        };
        let found = choices.iter().find(|(word, _)| word == written);
        if found.is_none() {
            if let Some(meant) = suggest::nearest(written, words()) {
                help += &format!("; did you mean {meant:?}?");
            }
            self.fault(format!("{written:?} is not known here"), help);
        }
        found.map(|&(_, value)| value)
    }

    /// Text that a function turns into a value.
    fn parsed<T>(&self, what: &str, example: &str, parse: fn(&str) -> Option<T>) -> Option<T> {
        let written = self.text()?;
        let value = parse(written);
        if value.is_none() {
            self.fault(format!("{written:?} is not {what}"), format!("write it like {example:?}"));
        }
        value
    }

    /// A MAC address.
    pub fn mac_address(&self) -> Option<MacAddress> {
        self.parsed("a MAC address", "01:00:5e:00:00:01", text::mac_address)
    }

    /// An IP address.
    pub fn ip_address(&self) -> Option<IpAddr> {
        self.parsed("an IP address", "192.0.2.1", |written| written.parse().ok())
    }

    /// Octets in hexadecimal.
    pub fn octets(&self) -> Option<Vec<u8>> {
        self.parsed("a string of octets in hexadecimal", "88 f7 00 ff", text::octets)
    }

    /// A table.
    pub fn table(&self) -> Option<Table<'a>> {
        match self.value.get_ref() {
            DeValue::Table(table) => Some(Table {
                table,
                span: self.span(),
                path: self.path.clone(),
                known: Vec::new(),
                faults: self.faults,
            }),
            _ => self.wrong_type("a table", "write { key = value, ... }"),
        }
    }

    /// The elements. Those that carry a `name` are called by it in key paths.
    pub fn array(&self) -> Option<Vec<Value<'a>>> {
        let DeValue::Array(array) = self.value.get_ref() else {
            let key = &self.path;
            return self.wrong_type(
                "an array",
                format!("write [[{key}]] for tables, {key} = [ ... ] for values"),
            );
        };
        let element = |(n, value): (usize, &'a Spanned<DeValue<'a>>)| {
            let name = value.get_ref().get("name").and_then(|name| name.get_ref().as_str());
            let index = name.map_or_else(|| n.to_string(), |name| format!("{name:?}"));
            Value { value, path: format!("{}[{index}]", self.path), faults: self.faults }
        };
        Some(array.iter().enumerate().map(element).collect())
    }
}
