//! Parameters of the application process, to which objects refer for their type, access and values.

use std::collections::{BTreeMap, BTreeSet};

use onbeat_powerlink::od::{Access, DataType};
use roxmltree::Node;

use crate::derived::{self, Definitions};
use crate::fault::Faults;
use crate::is;

/// The attributes of a parameter and its template.
#[derive(Debug, Clone, Default)]
pub(crate) struct Parameter<'a> {
    pub(crate) data_type: Option<DataType>,
    pub(crate) access: Option<Access>,
    pub(crate) default: Option<&'a str>,
    pub(crate) actual: Option<&'a str>,
    pub(crate) low: Option<&'a str>,
    pub(crate) high: Option<&'a str>,
}

/// Parameters by their `uniqueID`.
#[derive(Debug)]
pub(crate) struct Parameters<'a> {
    parameters: BTreeMap<&'a str, Parameter<'a>>,
    /// Groups of parameters. An object that consists of a group has its own type.
    groups: BTreeSet<&'a str>,
}

impl<'a> Parameters<'a> {
    /// The parameter that an object refers to; an empty one for a group.
    pub(crate) fn get(&self, reference: &str) -> Option<Parameter<'a>> {
        let group = || self.groups.contains(reference).then(Parameter::default);
        self.parameters.get(reference).cloned().or_else(group)
    }
}

/// All parameters of a file.
pub(crate) fn collect<'a>(root: Node<'a, 'a>, faults: &Faults<'_, '_>) -> Parameters<'a> {
    let named = |name: &'static str| {
        root.descendants()
            .filter(move |node| is(*node, name))
            .filter_map(|node| Some((node.attribute("uniqueID")?, node)))
    };
    let templates: BTreeMap<&str, Node<'_, '_>> = named("parameterTemplate").collect();
    let context = Context {
        definitions: derived::collect(root),
        values: named("allowedValuesTemplate").collect(),
        faults,
    };
    let groups = named("parameterGroup").map(|(id, _)| id).collect();
    let mut parameters = BTreeMap::new();
    for (id, node) in named("parameter") {
        let mut parameter = context.read(node);
        if let Some(reference) = node.attribute("templateIDRef") {
            match templates.get(reference) {
                Some(template) => parameter.complete(context.read(*template)),
                None => faults.note_attribute(
                    node,
                    "templateIDRef",
                    format!("parameterTemplate {reference:?} not found"),
                    "use the uniqueID of a template",
                ),
            }
        }
        if parameters.insert(id, parameter).is_some() {
            let what = format!("duplicate parameter {id:?}");
            faults.note_attribute(node, "uniqueID", what, "use a different ID for each");
        }
    }
    Parameters { parameters, groups }
}

/// What parameters refer to.
struct Context<'a, 'f> {
    definitions: Definitions<'a>,
    /// `allowedValuesTemplate` by `uniqueID`.
    values: BTreeMap<&'a str, Node<'a, 'a>>,
    faults: &'f Faults<'f, 'f>,
}

impl<'a> Parameter<'a> {
    /// Adds missing attributes from another parameter.
    fn complete(&mut self, other: Parameter<'a>) {
        self.data_type = self.data_type.or(other.data_type);
        self.access = self.access.or(other.access);
        self.default = self.default.or(other.default);
        self.actual = self.actual.or(other.actual);
        self.low = self.low.or(other.low);
        self.high = self.high.or(other.high);
    }
}

impl<'a> Context<'a, '_> {
    fn read(&self, node: Node<'a, '_>) -> Parameter<'a> {
        let data_type = derived::data_type(node, &self.definitions);
        let access = access(node, self.faults);
        let mut parameter = Parameter { data_type, access, ..Parameter::default() };
        for child in node.children().filter(Node::is_element) {
            let written = child.attribute("value");
            match child.tag_name().name() {
                "defaultValue" => parameter.default = written,
                "actualValue" => parameter.actual = written,
                "allowedValues" => (parameter.low, parameter.high) = self.range(child),
                _ => {}
            }
        }
        parameter
    }

    /// The limits of `allowedValues`, or of its template.
    fn range(&self, allowed: Node<'a, '_>) -> (Option<&'a str>, Option<&'a str>) {
        let Some(reference) = allowed.attribute("templateIDRef") else { return range(allowed) };
        match self.values.get(reference) {
            Some(template) if !allowed.has_children() => range(*template),
            // Both restrict the values.
            Some(_) => range(allowed),
            None => {
                self.faults.note_attribute(
                    allowed,
                    "templateIDRef",
                    format!("allowedValuesTemplate {reference:?} not found"),
                    "use the uniqueID of a template",
                );
                (None, None)
            }
        }
    }
}

/// The limits, if the permitted values are one range.
fn range<'a>(allowed: Node<'a, '_>) -> (Option<&'a str>, Option<&'a str>) {
    let mut ranges = allowed.children().filter(|child| is(*child, "range"));
    let (Some(range), None) = (ranges.next(), ranges.next()) else { return (None, None) };
    if allowed.children().any(|child| is(child, "value")) {
        // There are single values besides the range, some perhaps outside of it.
        return (None, None);
    }
    let end = |name| range.children().find(|child| is(*child, name))?.attribute("value");
    (end("minValue"), end("maxValue"))
}

/// The `access` of a parameter; process values are readable and writable.
fn access(node: Node<'_, '_>, faults: &Faults<'_, '_>) -> Option<Access> {
    let written = node.attribute("access")?;
    let access = match written {
        "const" => Access::Constant,
        "read" | "noAccess" => Access::ReadOnly,
        "write" => Access::WriteOnly,
        "readWrite" | "readWriteInput" | "readWriteOutput" => Access::ReadWrite,
        _ => {
            faults.note_attribute(
                node,
                "access",
                format!("unknown access {written:?}"),
                "use const, read, write, readWrite, readWriteInput, readWriteOutput or noAccess",
            );
            return None;
        }
    };
    Some(access)
}
