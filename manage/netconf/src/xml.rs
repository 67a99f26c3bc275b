//! XML: bounded parsing, and data as XML by the schema that their JSON has.

use std::fmt::Write;

use onbeat_yang::schema::{LeafType, Module, NodeKind, ROOT, SchemaNode};
use roxmltree::{Node, ParsingOptions};
use serde_json::{Map, Value};

use crate::BASE;

/// Maximum number of levels.
const DEPTH: usize = 32;

/// Maximum number of attributes of an element, with declarations of namespaces: the cost grows with their square.
const ATTRIBUTES: usize = 16;

/// Maximum number of nodes.
const NODES: u32 = 1 << 18;

/// A message that is not read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum XmlError {
    /// It is not UTF-8.
    #[error("the message is not UTF-8 text; encode it as UTF-8")]
    NotText,
    /// Elements in elements.
    #[error("the message has more than {DEPTH} levels of elements; send a flatter one")]
    TooDeep,
    /// Attributes of an element.
    #[error("an element has more than {ATTRIBUTES} attributes; remove some")]
    TooManyAttributes,
    /// It declares a document type, and may declare entities.
    #[error("the message declares a document type; remove it")]
    DocumentType,
    /// It is not XML.
    #[error("the message is not XML: {0}; correct it")]
    Syntax(String),
}

/// A parsed message.
#[derive(Debug)]
pub struct Document<'a>(roxmltree::Document<'a>);

impl<'a> Document<'a> {
    /// Parses a message.
    ///
    /// # Errors
    /// It is not XML, or exceeds a limit.
    pub fn parse(octets: &'a [u8]) -> Result<Self, XmlError> {
        let text = std::str::from_utf8(octets).map_err(|_| XmlError::NotText)?.trim();
        check_limits(text)?;
        let options =
            ParsingOptions { allow_dtd: false, nodes_limit: NODES, entity_resolver: None };
        let parsed = roxmltree::Document::parse_with_options(text, options);
        parsed.map(Document).map_err(|error| XmlError::Syntax(error.to_string()))
    }

    pub(crate) fn root(&self) -> Node<'_, 'a> {
        self.0.root_element()
    }
}

/// Checks the limits before the parser, which descends by recursion.
fn check_limits(text: &str) -> Result<(), XmlError> {
    let mut rest = text;
    let mut depth = 0usize;
    while let Some(start) = rest.find('<') {
        rest = &rest[start..];
        if let Some(length) = without_tags(rest) {
            rest = &rest[length..];
        } else if rest.starts_with("<!") {
            return Err(XmlError::DocumentType);
        } else {
            let (tag, attributes) = tag(rest);
            if attributes > ATTRIBUTES {
                return Err(XmlError::TooManyAttributes);
            }
            if tag.starts_with("</") {
                depth = depth.saturating_sub(1);
            } else if !tag.ends_with("/>") {
                depth += 1;
            }
            if depth > DEPTH {
                return Err(XmlError::TooDeep);
            }
            rest = &rest[tag.len()..];
        }
    }
    Ok(())
}

/// Number of octets of a comment, an instruction or literal text that a text starts with; `None`: none starts it. One
/// without an end is all of the text.
fn without_tags(text: &str) -> Option<usize> {
    let marks = [("<!--", "-->"), ("<![CDATA[", "]]>"), ("<?", "?>")];
    let (start, end) = marks.into_iter().find(|(start, _)| text.starts_with(start))?;
    let length = text[start.len()..].find(end);
    Some(length.map_or(text.len(), |length| start.len() + length + end.len()))
}

/// The attributes of the element `rpc`, as text of a reply.
pub(crate) fn attributes(rpc: Node<'_, '_>) -> String {
    let mut text = String::new();
    for attribute in rpc.attributes().filter(|attribute| attribute.namespace().is_none()) {
        let _ = write!(text, " {}=\"{}\"", attribute.name(), escape(attribute.value()));
    }
    text
}

/// The attributes of the element `rpc` that starts a message whose end may be missing; `None`: there is no such element
/// with a number.
pub(crate) fn start_attributes(octets: &[u8]) -> Option<String> {
    let valid = std::str::from_utf8(octets).map_or_else(|error| error.valid_up_to(), str::len);
    let mut text = std::str::from_utf8(&octets[..valid]).ok()?.trim_start();
    while let Some(length) = without_tags(text) {
        text = text[length..].trim_start();
    }
    let empty = format!("{}/>", tag(text).0.strip_suffix('>')?.trim_end_matches('/'));
    let document = Document::parse(empty.as_bytes()).ok()?;
    let is_rpc = document.root().has_tag_name((BASE, "rpc"));
    (is_rpc && document.root().has_attribute("message-id")).then(|| attributes(document.root()))
}

/// The tag at the start of a text, and the number of its attributes.
fn tag(text: &str) -> (&str, usize) {
    let (mut quote, mut attributes) = (None, 0);
    for (at, octet) in text.bytes().enumerate() {
        match (quote, octet) {
            (None, b'>') => return (&text[..=at], attributes),
            (None, b'"' | b'\'') => quote = Some(octet),
            (None, b'=') => attributes += 1,
            (Some(open), octet) if open == octet => quote = None,
            _ => {}
        }
    }
    (text, attributes)
}

/// Text of an element or an attribute.
pub(crate) fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\t' | '\n' => escaped.push(character),
            // XML 1.0 has no other control characters.
            character if character.is_control() => escaped.push('\u{fffd}'),
            character => escaped.push(character),
        }
    }
    escaped
}

/// The data of a JSON document as XML elements, in the order of the schema: keys are first.
pub fn to_xml(data: &Value) -> String {
    let mut text = String::new();
    if let Value::Object(data) = data {
        write_members(&mut text, ROOT, data, "");
    }
    text
}

fn write_members(
    to: &mut String,
    schema: &'static [SchemaNode],
    members: &Map<String, Value>,
    module: &'static str,
) {
    for node in schema {
        let Some(value) = node.value_in(members, module) else { continue };
        match (&node.kind, value) {
            (NodeKind::List(..) | NodeKind::LeafList(_), Value::Array(values)) => {
                values.iter().for_each(|value| write_element(to, node, value, module));
            }
            _ => write_element(to, node, value, module),
        }
    }
}

fn write_element(to: &mut String, node: &'static SchemaNode, value: &Value, parent: &'static str) {
    let (name, module) = (node.name, node.module_in(parent));
    let _ = write!(to, "<{name}");
    if module != parent {
        let namespace = Module::named(module).map_or("", |module| module.namespace);
        let _ = write!(to, " xmlns=\"{namespace}\"");
    }
    match (&node.kind, value) {
        (NodeKind::Leaf(kind) | NodeKind::LeafList(kind), value) => {
            let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
            let prefix = text.split_once(':').map(|(prefix, _)| prefix);
            let of = prefix.filter(|_| *kind == LeafType::Identity).and_then(Module::named);
            if let Some(Module { name, namespace, .. }) = of {
                let _ = write!(to, " xmlns:{name}=\"{namespace}\"");
            }
            let _ = write!(to, ">{}</{name}>", escape(&text));
        }
        (_, Value::Object(members)) if !members.is_empty() => {
            to.push('>');
            write_members(to, node.nodes(), members, module);
            let _ = write!(to, "</{name}>");
        }
        _ => to.push_str("/>"),
    }
}

/// The children of an element that are elements.
pub(crate) fn elements<'a, 'i>(node: Node<'a, 'i>) -> impl Iterator<Item = Node<'a, 'i>> {
    node.children().filter(Node::is_element)
}

/// The text of an element without surrounding space.
pub(crate) fn text<'a>(node: Node<'a, '_>) -> &'a str {
    node.text().unwrap_or_default().trim()
}

/// The node of the schema that an element is.
pub(crate) fn schema_node(
    schema: &'static [SchemaNode],
    element: Node<'_, '_>,
    parent: &'static str,
) -> Option<&'static SchemaNode> {
    let module = Module::of_namespace(element.tag_name().namespace()?)?.name;
    let name = element.tag_name().name();
    schema.iter().find(|node| node.name == name && node.module_in(parent) == module)
}

/// The value of a leaf; `None`: it is not of this type.
pub(crate) fn value(kind: LeafType, element: Node<'_, '_>) -> Option<Value> {
    let text = text(element);
    match kind {
        LeafType::Text => Some(text.into()),
        LeafType::Number => text.parse::<i64>().ok().map(Value::from),
        LeafType::Flag => text.parse::<bool>().ok().map(Value::from),
        LeafType::Identity => {
            let (prefix, name) = match text.split_once(':') {
                Some((prefix, name)) => (Some(prefix), name),
                None => (None, text),
            };
            let module = Module::of_namespace(element.lookup_namespace_uri(prefix)?)?;
            Some(format!("{}:{name}", module.name).into())
        }
    }
}
