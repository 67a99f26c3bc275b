//! Elements of an array: one description, and values as far as they differ from the default.

use alloc::borrow::ToOwned;
use alloc::vec::Vec;

use super::Object;

/// Values of the first elements, all of one type.
#[derive(Debug, Clone, PartialEq)]
enum Block {
    /// Values of this many octets.
    Fixed(usize, Vec<u8>),
    Variable(Vec<Vec<u8>>),
}

impl Block {
    fn new(len: Option<usize>) -> Self {
        match len {
            Some(len) => Block::Fixed(len.max(1), Vec::new()),
            None => Block::Variable(Vec::new()),
        }
    }

    fn count(&self) -> usize {
        match self {
            Block::Fixed(len, octets) => octets.len() / len,
            Block::Variable(values) => values.len(),
        }
    }

    fn get(&self, place: usize) -> Option<&[u8]> {
        match self {
            Block::Fixed(len, octets) => octets.chunks_exact(*len).nth(place),
            Block::Variable(values) => values.get(place).map(Vec::as_slice),
        }
    }

    fn push(&mut self, value: &[u8]) {
        match self {
            Block::Fixed(_, octets) => octets.extend_from_slice(value),
            Block::Variable(values) => values.push(value.to_vec()),
        }
    }

    /// Replaces a value that exists.
    fn replace(&mut self, place: usize, value: &[u8]) {
        match self {
            Block::Fixed(len, octets) => {
                let start = place * *len;
                octets[start..start + *len].copy_from_slice(value);
            }
            Block::Variable(values) => value.clone_into(&mut values[place]),
        }
    }
}

/// The elements of an array, from sub-index 1 on.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Array {
    /// The description of each.
    pub(super) element: Object,
    /// Number of elements, and the highest sub-index.
    pub(super) count: u8,
    values: Block,
    /// Defaults other than that of the description.
    defaults: Block,
}

impl Array {
    pub(super) fn new(count: u8, element: Object) -> Self {
        let len = element.data_type.fixed_len();
        Array { element, count, values: Block::new(len), defaults: Block::new(len) }
    }

    /// Whether it has an element.
    pub(super) fn has(&self, sub: u8) -> bool {
        (1..=self.count).contains(&sub)
    }

    /// The value of an element.
    pub(super) fn get(&self, sub: u8) -> &[u8] {
        self.values.get(place(sub)).unwrap_or_else(|| self.default_of(sub))
    }

    /// The default of an element.
    pub(super) fn default_of(&self, sub: u8) -> &[u8] {
        self.defaults.get(place(sub)).unwrap_or(&self.element.default)
    }

    /// Sets an element; the value has the length of its type.
    pub(super) fn set(&mut self, sub: u8, value: &[u8]) {
        let Array { element, values, defaults, .. } = self;
        for place in values.count()..=place(sub) {
            values.push(defaults.get(place).unwrap_or(&element.default));
        }
        values.replace(place(sub), value);
    }

    /// Sets the default of an element.
    pub(super) fn set_default(&mut self, sub: u8, value: &[u8]) {
        // An element without a value has the present default as its value.
        let now = self.get(sub).to_vec();
        self.set(sub, &now);
        for _ in self.defaults.count()..=place(sub) {
            self.defaults.push(&self.element.default);
        }
        self.defaults.replace(place(sub), value);
    }

    /// Restores all defaults.
    pub(super) fn restore(&mut self) {
        self.values.clone_from(&self.defaults);
    }

    /// Makes the values the defaults.
    pub(super) fn keep(&mut self) {
        self.defaults.clone_from(&self.values);
    }
}

fn place(sub: u8) -> usize {
    usize::from(sub).saturating_sub(1)
}
