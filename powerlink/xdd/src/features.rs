//! `NetworkManagement`: abilities of a device.

use std::collections::BTreeMap;

use roxmltree::Node;

use crate::is;

/// Abilities of a device by the attributes of `GeneralFeatures` and `CNFeatures`; those of a managing node are not
/// read.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Features {
    attributes: BTreeMap<String, String>,
}

impl Features {
    pub(crate) fn read(root: Node<'_, '_>) -> Self {
        let lists = root
            .descendants()
            .filter(|node| is(*node, "GeneralFeatures") || is(*node, "CNFeatures"));
        let attributes = lists.flat_map(|list| list.attributes());
        let attributes =
            attributes.map(|found| (found.name().to_owned(), found.value().trim().to_owned()));
        Features { attributes: attributes.collect() }
    }

    /// The value of an attribute as in the file.
    #[must_use]
    pub fn text(&self, attribute: &str) -> Option<&str> {
        self.attributes.get(attribute).map(String::as_str)
    }

    /// A number, if the attribute is one.
    #[must_use]
    pub fn number(&self, attribute: &str) -> Option<u64> {
        self.text(attribute)?.parse().ok()
    }

    /// A boolean, if the attribute is one.
    #[must_use]
    pub fn flag(&self, attribute: &str) -> Option<bool> {
        match self.text(attribute)? {
            "true" | "1" => Some(true),
            "false" | "0" => Some(false),
            _ => None,
        }
    }
}
