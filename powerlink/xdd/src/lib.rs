//! XML device descriptions (XDD) and configurations (XDC) of Ethernet POWERLINK, EPSG DS 311: what
//! objects a device has.
//!
//! [`read`] takes the text of a file and gives the device's object dictionary, or every fault that
//! the text has, each with its place. Of a configuration it also gives the values that differ from the
//! defaults.
//!
//! What is read: `ObjectList` with `Object` and `SubObject` of the communication profile, and
//! `parameter` of the application process where an object refers to one (`uniqueIDRef`). What is not:
//! features (`NetworkManagement`), which a node tells by its objects; dynamic channels; derived data
//! types (`dataTypeIDRef`), whose objects must say their type.
#![forbid(unsafe_code)]

mod bounds;
mod fault;
mod object;
mod parameter;
mod value;

use std::collections::BTreeMap;

use onbeat_powerlink::od::{Dictionary, ObjectId};
use roxmltree::{Document, Node};

pub use fault::Fault;
use fault::Faults;

/// A device as its file describes it.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Description {
    /// What people call the device, where the file says.
    pub product: Option<String>,
    /// Its objects, with their defaults.
    pub objects: Dictionary,
    /// What the objects are called.
    pub names: BTreeMap<ObjectId, String>,
    /// Values that a configuration gives to objects (`actualValue`) and that are not their defaults, in
    /// the order of the objects.
    pub actual: Vec<(ObjectId, Vec<u8>)>,
}

/// Faults that are told of one file.
const FAULTS: usize = 50;

/// Reads the text of a file.
///
/// # Errors
/// It is no XML, no device description, an element has too many attributes or namespaces, or its objects
/// cannot be: every fault, the first fifty of them.
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
            "there is no ObjectList",
            "a device description has ISO15745Profile/ProfileBody/ApplicationLayers/ObjectList",
        );
    }
    let parameters = parameter::collect(root, &faults);
    for list in lists {
        for node in list.children().filter(|node| is(*node, "Object")) {
            object::read(node, &parameters, &faults, &mut description);
        }
    }
    let name = root.descendants().find(|node| is(*node, "productName"));
    description.product = name.and_then(|name| name.text()).map(|name| name.trim().to_owned());
    faults.judge().map(|()| description)
}

/// Whether a node is an element of this name, whatever namespace a tool gave it.
fn is(node: Node<'_, '_>, name: &str) -> bool {
    node.is_element() && node.tag_name().name() == name
}

#[cfg(test)]
mod tests;
