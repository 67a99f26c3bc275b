//! XML device descriptions (XDD) and configurations (XDC) of Ethernet POWERLINK, EPSG DS 311: the objects of a
//! device. And the layout of a process image that configuration tools write ([`process_image`]).
//!
//! [`Catalog`] has the names and types of a device's objects, for people.
//!
//! [`write()`] describes a node of this implementation.
//!
//! [`read`] parses the text of a file and returns the device's object dictionary, or every error of the text
//! with its position. For a configuration it also returns the values that differ from the defaults.
//!
//! Supported: `ObjectList` with `Object` and `SubObject` of the communication profile; `parameter` of the
//! application process where an object refers to one (`uniqueIDRef`), with templates and defined data types; the
//! features of controlled nodes (`NetworkManagement`). Not supported: dynamic channels; modular devices.
#![forbid(unsafe_code)]

mod bounds;
mod catalog;
mod derived;
mod fault;
mod features;
mod names;
mod object;
mod parameter;
mod process_image;
mod value;
mod write;

use std::collections::BTreeMap;

use onbeat_powerlink::od::{Dictionary, ObjectId};
use roxmltree::{Document, Node};

pub use catalog::{Catalog, LookupError, TYPES, Value};
pub use fault::Fault;
use fault::Faults;
pub use features::Features;
pub use process_image::{ImageChannel, process_image};
pub use write::{Device, write};

/// A device description.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Description {
    /// The product name, if the file has one.
    pub product: Option<String>,
    /// Its objects, with their defaults.
    pub objects: Dictionary,
    /// Its abilities.
    pub features: Features,
    /// The names of the objects.
    pub names: BTreeMap<ObjectId, String>,
    /// The names of indices with sub-indices.
    pub records: BTreeMap<u16, String>,
    /// Values that a configuration sets (`actualValue`) and that differ from the defaults, in the order of the
    /// objects.
    pub actual: Vec<(ObjectId, Vec<u8>)>,
}

/// Maximum number of errors reported for one file.
const FAULTS: usize = 50;

/// Parses the text of a file.
///
/// # Errors
/// It is not XML, not a device description, an element has too many attributes or namespaces, or its objects
/// are invalid: every error, at most fifty.
pub fn read(text: &str) -> Result<Description, Vec<Fault>> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    bounds::check(text).map_err(|fault| vec![fault])?;
    let document = Document::parse(text).map_err(|error| vec![Fault::of_xml(&error)])?;
    let faults = Faults::new(&document);
    let mut description = Description::default();
    let root = document.root_element();
    let lists: Vec<Node<'_, '_>> =
        root.descendants().filter(|node| is(*node, "ObjectList")).collect();
    if lists.is_empty() {
        faults.note(
            root,
            "ObjectList not found",
            "add ISO15745Profile/ProfileBody/ApplicationLayers/ObjectList",
        );
    }
    let parameters = parameter::collect(root, &faults);
    for list in lists {
        for node in list.children().filter(|node| is(*node, "Object")) {
            object::read(node, &parameters, &faults, &mut description);
        }
    }
    description.features = Features::read(root);
    let name = root.descendants().find(|node| is(*node, "productName"));
    description.product = name.and_then(|name| name.text()).map(|name| name.trim().to_owned());
    faults.judge().map(|()| description)
}

/// Whether a node is an element of this name, in any namespace.
fn is(node: Node<'_, '_>, name: &str) -> bool {
    node.is_element() && node.tag_name().name() == name
}

#[cfg(test)]
mod tests;
