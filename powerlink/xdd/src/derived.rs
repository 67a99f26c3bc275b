//! Data types that an application process defines (`dataTypeList`).

use std::collections::BTreeMap;

use onbeat_powerlink::od::DataType;
use roxmltree::Node;

use crate::{is, value};

/// Definitions by their `uniqueID`.
pub(crate) type Definitions<'a> = BTreeMap<&'a str, Node<'a, 'a>>;

/// Longest chain of references. A longer one, or a circle, has no type.
const CHAIN: usize = 16;

/// All definitions of a file.
pub(crate) fn collect<'a>(root: Node<'a, 'a>) -> Definitions<'a> {
    let lists = root.descendants().filter(|node| is(*node, "dataTypeList"));
    let definitions = lists.flat_map(|list| list.children());
    definitions.filter_map(|node| Some((node.attribute("uniqueID")?, node))).collect()
}

/// The type of a parameter or a definition by its elements: a simple type, or a reference to a definition.
pub(crate) fn data_type(node: Node<'_, '_>, definitions: &Definitions<'_>) -> Option<DataType> {
    resolve(node, definitions, CHAIN)
}

fn resolve(node: Node<'_, '_>, definitions: &Definitions<'_>, chain: usize) -> Option<DataType> {
    let mut elements = node.children().filter(Node::is_element);
    elements.find_map(|element| {
        if let Some(simple) = value::simple_type(element.tag_name().name()) {
            return Some(simple);
        }
        if !is(element, "dataTypeIDRef") {
            return None;
        }
        let definition = definitions.get(element.attribute("uniqueIDRef")?)?;
        match definition.tag_name().name() {
            // Their members are octets of one value.
            "array" | "struct" => Some(DataType::Domain),
            "enum" => {
                let simple = resolve(*definition, definitions, 0);
                let bits = definition.attribute("size").unwrap_or("1").trim().parse::<u8>().ok()?;
                simple.or(matches!(bits, 1..=64).then(|| DataType::Unsigned(bits.div_ceil(8))))
            }
            _ => resolve(*definition, definitions, chain.checked_sub(1)?),
        }
    })
}
