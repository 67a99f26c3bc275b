//! A JSON document of YANG data (RFC 7951), read member by member. Every fault has the path of its leaf.

use std::cell::RefCell;
use std::fmt;

use serde_json::{Map, Value};

/// A fault of a document.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    /// Instance identifier of the leaf, RFC 7951.
    pub path: String,
    /// What is wrong, with the value.
    pub message: String,
    /// The remedy.
    pub help: String,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let path = if self.path.is_empty() { "/" } else { &self.path };
        write!(f, "{path}: {}; {}", self.message, self.help)
    }
}

/// All faults of a document, one a line.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}", self.0.iter().map(Fault::to_string).collect::<Vec<_>>().join("\n"))]
pub struct Faults(pub Vec<Fault>);

/// Maximum number of faults that are collected.
const MOST: usize = 100;

/// Faults found so far.
#[derive(Debug, Default)]
pub(crate) struct FaultList(RefCell<Vec<Fault>>);

impl FaultList {
    pub(crate) fn note(&self, path: &str, message: impl Into<String>, help: impl Into<String>) {
        let mut faults = self.0.borrow_mut();
        if faults.len() < MOST {
            faults.push(Fault {
                path: path.to_owned(),
                message: message.into(),
                help: help.into(),
            });
        }
    }

    pub(crate) fn into_faults(self) -> Vec<Fault> {
        self.0.into_inner()
    }

    pub(crate) fn count(&self) -> usize {
        self.0.borrow().len()
    }
}

/// A value of a document.
#[derive(Debug, Clone)]
pub(crate) struct Node<'a> {
    value: &'a Value,
    pub(crate) path: String,
    module: &'static str,
    faults: &'a FaultList,
}

impl<'a> Node<'a> {
    pub(crate) fn root(value: &'a Value, faults: &'a FaultList) -> Self {
        Self { value, path: String::new(), module: "", faults }
    }

    pub(crate) fn fault(&self, message: impl Into<String>, help: impl Into<String>) {
        self.faults.note(&self.path, message, help);
    }

    fn wrong_type(&self, expected: &str) {
        let found = match self.value {
            Value::Null => "null".to_owned(),
            Value::Object(_) => "an object".to_owned(),
            Value::Array(_) => "an array".to_owned(),
            value => value.to_string(),
        };
        self.fault(format!("{found} is not {expected}"), format!("write {expected}"));
    }

    /// A container, or an entry of a list.
    pub(crate) fn object(&self) -> Option<Object<'a>> {
        match self.value {
            Value::Object(members) => {
                let object = Object { node: self.clone(), members, taken: Vec::new() };
                Some(object)
            }
            _ => {
                self.wrong_type("an object");
                None
            }
        }
    }

    /// The entries of a list, each with its keys in the path, or with its place if a key is missing.
    pub(crate) fn list(&self, keys: &[&str]) -> Vec<Node<'a>> {
        let entry = |(place, value): (usize, &'a Value)| {
            let predicate: Option<String> = keys
                .iter()
                .map(|key| {
                    let value =
                        value.get(key).or_else(|| value.get(format!("{}:{key}", self.module)))?;
                    let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
                    Some(format!("[{key}='{text}']"))
                })
                .collect();
            let predicate = predicate.unwrap_or_else(|| format!("[{}]", place + 1));
            Node { value, path: format!("{}{predicate}", self.path), ..self.clone() }
        };
        self.array().iter().enumerate().map(entry).collect()
    }

    /// The values of a leaf-list, without repetition.
    pub(crate) fn leaf_list<T: PartialEq>(
        &self,
        read: impl Fn(&Node<'a>) -> Option<T>,
    ) -> Vec<(T, Node<'a>)> {
        let mut values: Vec<(T, Node<'a>)> = Vec::new();
        for value in self.array() {
            let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
            let node = Node { value, path: format!("{}[.='{text}']", self.path), ..self.clone() };
            let Some(value) = read(&node) else { continue };
            if values.iter().any(|(known, _)| *known == value) {
                node.fault("the value is listed twice", "list it once");
            } else {
                values.push((value, node));
            }
        }
        values
    }

    fn array(&self) -> &'a [Value] {
        match self.value {
            Value::Array(values) => values,
            _ => {
                self.wrong_type("an array");
                &[]
            }
        }
    }

    pub(crate) fn text(&self) -> Option<&'a str> {
        let text = self.value.as_str();
        if text.is_none() {
            self.wrong_type("a string");
        }
        text
    }

    pub(crate) fn flag(&self) -> Option<bool> {
        let flag = self.value.as_bool();
        if flag.is_none() {
            self.wrong_type("true or false");
        }
        flag
    }

    pub(crate) fn is_zero(&self) -> bool {
        self.value.as_u64() == Some(0)
    }

    /// A number of at most 32 bits.
    pub(crate) fn number<T>(&self, range: std::ops::RangeInclusive<T>) -> Option<T>
    where
        T: Copy + TryFrom<u64> + PartialOrd + fmt::Display,
    {
        let number = self.value.as_u64().and_then(|number| T::try_from(number).ok());
        let number = number.filter(|number| range.contains(number));
        if number.is_none() {
            self.wrong_type(&format!("a number from {} to {}", range.start(), range.end()));
        }
        number
    }

    /// The value of a word.
    pub(crate) fn choice<T: Copy>(&self, words: &[(&str, T)]) -> Option<T> {
        let text = self.text()?;
        let chosen = words.iter().find(|(word, _)| *word == text);
        if chosen.is_none() {
            let known: Vec<&str> = words.iter().map(|(word, _)| *word).collect();
            self.fault(format!("unknown value {text:?}"), format!("use {}", known.join(", ")));
        }
        chosen.map(|(_, value)| *value)
    }
}

/// A container, or an entry of a list.
#[derive(Debug)]
pub(crate) struct Object<'a> {
    pub(crate) node: Node<'a>,
    members: &'a Map<String, Value>,
    taken: Vec<&'a str>,
}

impl<'a> Object<'a> {
    /// A member of the module of this object.
    pub(crate) fn take(&mut self, name: &str) -> Option<Node<'a>> {
        self.take_of(self.node.module, name)
    }

    /// A member of a module. Its name has the prefix of the module, unless the module is that of the object.
    pub(crate) fn take_of(&mut self, module: &'static str, name: &str) -> Option<Node<'a>> {
        let full = format!("{module}:{name}");
        let same = module == self.node.module;
        let found = self.members.get_key_value(&full);
        let plain = self.members.get_key_value(name).filter(|_| same);
        for (key, _) in [found, plain].into_iter().flatten() {
            self.taken.push(key);
        }
        let (_, value) = found.or(plain)?;
        let step = if same { name } else { &full };
        Some(Node {
            value,
            module,
            path: format!("{}/{step}", self.node.path),
            ..self.node.clone()
        })
    }

    /// A member that must exist.
    pub(crate) fn require(&mut self, name: &str, example: &str) -> Option<Node<'a>> {
        let found = self.take(name);
        if found.is_none() {
            self.node.faults.note(
                &format!("{}/{name}", self.node.path),
                "the leaf is missing",
                format!("add it, such as {example}"),
            );
        }
        found
    }

    pub(crate) fn fault(&self, message: impl Into<String>, help: impl Into<String>) {
        self.node.fault(message, help);
    }

    /// Refuses all other members.
    pub(crate) fn finish(self) {
        for name in self.members.keys().filter(|name| !self.taken.contains(&name.as_str())) {
            self.node.faults.note(
                &format!("{}/{name}", self.node.path),
                "the node cannot set this",
                "remove it",
            );
        }
    }
}
