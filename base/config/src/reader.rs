//! Reads a TOML tree and collects all faults instead of stopping at the first.
//!
//! A getter returns `None` after it has recorded a fault, so that a reader can read all known keys, call
//! [`Table::finish`], and only then return without the values that depend on them. [`read`] reads misspelled keys
//! as the keys they resemble, so that one misspelling is one fault.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::ops::{Range, RangeInclusive};

use onbeat_wire::MacAddress;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use crate::diagnostic::{ConfigError, Diagnostic, Severity, Source, Warnings};
use crate::{suggestions, text};

/// Maximum number of recorded faults of one file, and of warnings: a file of another format has a fault in
/// each line.
const KEPT: usize = 1000;

/// The recorded faults and warnings.
#[derive(Debug, Default)]
pub struct Faults {
    found: RefCell<Vec<Diagnostic>>,
    faults: Cell<usize>,
    warnings: Cell<usize>,
    /// Keys that an earlier reading found misspelled, by their location: each is read as this key.
    corrections: BTreeMap<usize, &'static str>,
    /// The same for the misspelled keys of this reading.
    misspelled: RefCell<BTreeMap<usize, &'static str>>,
}

/// Reads the root table of a file. Repeats the reading with misspelled keys under their right names until it finds
/// no further ones: the fault of such a key is reported, without the faults that only follow from its absence.
pub fn read<T>(
    root: &Spanned<DeTable<'_>>,
    read: impl for<'a> Fn(Table<'a>, &'a Faults) -> T,
) -> (T, Faults) {
    let mut faults = Faults::default();
    loop {
        let value = read(Table::root(root, &faults), &faults);
        let misspelled = faults.misspelled.take();
        if misspelled.keys().all(|key| faults.corrections.contains_key(key)) {
            return (value, faults);
        }
        let mut corrections = faults.corrections;
        corrections.extend(misspelled);
        faults = Faults { corrections, ..Faults::default() };
    }
}

impl Faults {
    /// Records a fault: location, key, message, and remedy.
    pub fn note(
        &self,
        span: Range<usize>,
        path: &str,
        message: impl Into<String>,
        help: impl Into<String>,
    ) {
        self.push(Severity::Error, span, path, message.into(), help.into());
    }

    /// Records a warning: valid, but probably unintended.
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

    /// Returns the number of faults, without warnings.
    pub fn count(&self) -> usize {
        self.faults.get()
    }

    /// Returns the faults, if any, otherwise the warnings.
    pub fn into_result(self, source: &Source) -> Result<Warnings, ConfigError> {
        let (faulty, found) = (self.count() > 0, self.found.into_inner());
        if faulty {
            return Err(ConfigError::new(source.clone(), found));
        }
        Ok(Warnings::new(source.clone(), found))
    }
}

/// A table whose keys are read one by one.
#[derive(Debug)]
pub struct Table<'a> {
    table: &'a DeTable<'a>,
    /// Its location.
    pub span: Range<usize>,
    /// Its key path.
    pub path: String,
    known: Vec<&'static str>,
    faults: &'a Faults,
}

impl<'a> Table<'a> {
    /// Returns the root table of a file.
    fn root(table: &'a Spanned<DeTable<'a>>, faults: &'a Faults) -> Table<'a> {
        let (path, known) = (String::new(), Vec::new());
        Table { table: table.get_ref(), span: table.span(), path, known, faults }
    }

    /// Returns the value of an optional key.
    pub fn take(&mut self, key: &'static str) -> Option<Value<'a>> {
        self.known.push(key);
        let value = self.table.get(key).or_else(|| self.misspelled_as(key))?;
        let path = if self.path.is_empty() { key.into() } else { format!("{}.{key}", self.path) };
        Some(Value { value, path, faults: self.faults })
    }

    /// Returns the value of a required key.
    pub fn require(&mut self, key: &'static str, example: &str) -> Option<Value<'a>> {
        let value = self.take(key);
        if value.is_none() {
            self.fault(format!("{key} is missing"), format!("add {key} = {example}"));
        }
        value
    }

    /// Returns the values of an optional array of tables or of inline tables.
    pub fn items(&mut self, key: &'static str) -> Vec<Value<'a>> {
        self.take(key).and_then(|value| value.array()).unwrap_or_default()
    }

    /// Returns whether a key is present; it counts as known.
    pub fn has(&mut self, key: &'static str) -> bool {
        self.take(key).is_some()
    }

    /// Records a fault of the table as a whole.
    pub fn fault(&self, message: impl Into<String>, help: impl Into<String>) {
        self.faults.note(self.span.clone(), &self.path, message, help);
    }

    /// The value of the key that an earlier reading found to be a misspelling of this one.
    fn misspelled_as(&self, key: &str) -> Option<&'a Spanned<DeValue<'a>>> {
        let corrections = &self.faults.corrections;
        let is_meant = |written: &Spanned<_>| corrections.get(&written.span().start) == Some(&key);
        self.table.iter().find(|(written, _)| is_meant(written)).map(|(_, value)| value)
    }

    /// The keys that were not read, each with the known key that it resembles.
    fn unknown(&self) -> impl Iterator<Item = (Range<usize>, &'a str, Option<&'static str>)> {
        let written = self.table.keys().map(|key| (key.span(), key.get_ref().as_ref()));
        written.filter(|(_, key)| !self.known.contains(key)).map(|(span, key)| {
            let meant = suggestions::nearest(key, self.known.iter().copied());
            let absent = meant.filter(|meant| !self.table.contains_key(*meant));
            if let Some(meant) = absent {
                self.faults.misspelled.borrow_mut().insert(span.start, meant);
            }
            (span, key, meant)
        })
    }

    /// Ends the reading where an absent key decides which other keys are known.
    pub fn abandon(self) {
        self.unknown().for_each(drop);
    }

    /// Records a fault for every key that was not read.
    pub fn finish(self) {
        for (span, written, meant) in self.unknown() {
            let help = match meant {
                Some(meant) => format!("did you mean {meant}?"),
                None => format!("keys here: {}", self.known.join(", ")),
            };
            self.faults.note(span, &self.path, format!("unknown key {written:?}"), help);
        }
    }
}

/// A value with its location.
#[derive(Debug)]
pub struct Value<'a> {
    value: &'a Spanned<DeValue<'a>>,
    /// Its key path.
    pub path: String,
    faults: &'a Faults,
}

impl<'a> Value<'a> {
    /// Returns its location.
    pub fn span(&self) -> Range<usize> {
        self.value.span()
    }

    /// Records a fault of this value.
    pub fn fault(&self, message: impl Into<String>, help: impl Into<String>) {
        self.faults.note(self.span(), &self.path, message, help);
    }

    /// Whether a further fault is reported, not only counted: only then is a costly remedy of use.
    pub fn reports_faults(&self) -> bool {
        self.faults.count() < KEPT
    }

    /// Records a warning about this value.
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

    /// Returns whether it is text, for keys with text or a number.
    pub fn is_text(&self) -> bool {
        self.value.get_ref().is_str()
    }

    /// Returns a text.
    pub fn text(&self) -> Option<&'a str> {
        match self.value.get_ref() {
            DeValue::String(text) => Some(text.as_ref()),
            _ => self.wrong_type("a text", "write a text in quotes"),
        }
    }

    /// Returns true or false.
    pub fn flag(&self) -> Option<bool> {
        match self.value.get_ref() {
            DeValue::Boolean(flag) => Some(*flag),
            _ => self.wrong_type("true or false", "write true or false, without quotes"),
        }
    }

    /// Returns a whole number within the range, in the type of the range.
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

    /// Returns one of several words.
    pub fn choice<T: Copy>(&self, choices: &[(&str, T)]) -> Option<T> {
        let words = || choices.iter().map(|&(word, _)| word);
        let list: Vec<String> = words().map(|word| format!("{word:?}")).collect();
        let mut help = format!("use one of {}", list.join(", "));
        let DeValue::String(written) = self.value.get_ref() else {
            return self.wrong_type("a text", help);
        };
        let found = choices.iter().find(|(word, _)| word == written);
        if found.is_none() {
            if let Some(meant) = suggestions::nearest(written, words()) {
                help += &format!("; did you mean {meant:?}?");
            }
            self.fault(format!("unknown value {written:?}"), help);
        }
        found.map(|&(_, value)| value)
    }

    /// Returns a text converted by a function.
    fn parsed<T>(&self, what: &str, example: &str, parse: fn(&str) -> Option<T>) -> Option<T> {
        let written = self.text()?;
        let value = parse(written);
        if value.is_none() {
            self.fault(
                format!("{written:?} is not {what}"),
                format!("use a value such as {example:?}"),
            );
        }
        value
    }

    /// Returns a MAC address.
    pub fn mac_address(&self) -> Option<MacAddress> {
        self.parsed("a MAC address", "01:00:5e:00:00:01", text::mac_address)
    }

    /// Returns an IP address.
    pub fn ip_address(&self) -> Option<IpAddr> {
        self.parsed("an IP address", "192.0.2.1", |written| written.parse().ok())
    }

    /// Returns octets in hexadecimal.
    pub fn octets(&self) -> Option<Vec<u8>> {
        self.parsed("a string of octets in hexadecimal", "88 f7 00 ff", text::octets)
    }

    /// Returns a table.
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

    /// Returns the elements. Key paths contain the `name` of an element that has one.
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
