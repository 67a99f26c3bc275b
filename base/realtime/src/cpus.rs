//! Sets of CPUs in the notation of the kernel: `0-1,4`.

use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::Error;

/// A set of CPUs, by number. Its text has the notation of the kernel's lists: `0-1,4`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct CpuSet(BTreeSet<u16>);

impl CpuSet {
    /// Number of CPUs in a mask of the system calls used here (`CPU_SETSIZE`).
    pub const MAX: u16 = libc::CPU_SETSIZE as u16;

    /// Returns the CPUs, ascending.
    pub fn iter(&self) -> impl Iterator<Item = u16> {
        self.0.iter().copied()
    }

    /// Returns whether the set is empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns whether the set contains all CPUs of `other`.
    #[must_use]
    pub fn contains_all(&self, other: &CpuSet) -> bool {
        other.0.is_subset(&self.0)
    }
}

impl FromIterator<u16> for CpuSet {
    fn from_iter<I: IntoIterator<Item = u16>>(cpus: I) -> Self {
        Self(cpus.into_iter().collect())
    }
}

impl FromStr for CpuSet {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let wrong = |why| Error::CpuList { text: text.to_owned(), why };
        let number = |digits: &str| match digits.parse::<u16>() {
            // Rust accepts a sign, the kernel does not.
            Ok(_) if !digits.bytes().all(|octet| octet.is_ascii_digit()) => {
                Err(wrong("only digits, \"-\" and \",\" are allowed"))
            }
            Ok(cpu) if cpu < Self::MAX => Ok(cpu),
            Ok(_) => Err(wrong("the highest CPU number is 1023")),
            Err(_) => Err(wrong("a number is missing or too large")),
        };
        let mut cpus = BTreeSet::new();
        for part in text.trim().split(',') {
            let (first, last) = part.split_once('-').unwrap_or((part, part));
            let (first, last) = (number(first)?, number(last)?);
            if first > last {
                return Err(wrong("a range ends before it starts"));
            }
            cpus.extend(first..=last);
        }
        Ok(Self(cpus))
    }
}

impl fmt::Display for CpuSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut cpus = self.iter().peekable();
        let mut separator = "";
        while let Some(first) = cpus.next() {
            let mut last = first;
            while let Some(next) = cpus.next_if(|&next| next == last + 1) {
                last = next;
            }
            match last {
                _ if last == first => write!(f, "{separator}{first}")?,
                _ => write!(f, "{separator}{first}-{last}")?,
            }
            separator = ",";
        }
        Ok(())
    }
}

impl TryFrom<String> for CpuSet {
    type Error = Error;

    fn try_from(text: String) -> Result<Self, Error> {
        text.parse()
    }
}

impl From<CpuSet> for String {
    fn from(cpus: CpuSet) -> String {
        cpus.to_string()
    }
}

#[cfg(test)]
mod tests {
    use proptest::collection::btree_set;
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn lists_of_the_kernel_are_parsed() {
        for (text, cpus) in
            [("0", vec![0]), ("0-2,5\n", vec![0, 1, 2, 5]), ("7,1,1", vec![1, 7]), ("3-3", vec![3])]
        {
            assert_eq!(text.parse::<CpuSet>().unwrap().iter().collect::<Vec<_>>(), cpus, "{text}");
        }
    }

    #[test]
    fn an_invalid_list_is_refused_with_its_text() {
        for text in ["", ",", "1,", "a", "2-1", "-1", "1-", "+1", "1024", "0-70000", "1 2"] {
            let error = text.parse::<CpuSet>().unwrap_err().to_string();
            assert!(error.starts_with(&format!("{text:?} is not a list of CPUs: ")), "{error}");
        }
    }

    proptest! {
        #[test]
        fn written_lists_are_read_again(cpus in btree_set(0..CpuSet::MAX, 1..40)) {
            let set: CpuSet = cpus.into_iter().collect();
            prop_assert_eq!(set.to_string().parse::<CpuSet>().unwrap(), set);
        }
    }
}
