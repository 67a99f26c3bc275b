//! Bounds that keep the time to read a text proportional to its length.
//!
//! The XML reader compares each attribute of an element with all others of it, and each namespace declaration
//! with all in scope. So the numbers of both are limited. This scan parses just enough of XML to count them;
//! the reader refuses any text that the scan misinterprets.

use crate::Fault;

/// Maximum number of attributes of an element. Elements of EPSG DS 311 have up to ten.
const ATTRIBUTES: usize = 64;

/// Maximum number of namespace declarations in scope of an element. Device descriptions have two or three.
const NAMESPACES: usize = 16;

/// Checks the bounds.
///
/// # Errors
/// The first element beyond one of them.
pub(crate) fn check(text: &str) -> Result<(), Fault> {
    // For each open element: the declarations in its scope.
    let mut scopes = vec![0];
    let mut rest = text;
    while let Some(start) = rest.find('<') {
        rest = &rest[start..];
        let other = [("<!--", "-->"), ("<![CDATA[", "]]>"), ("<?", "?>")];
        let skipped = other.iter().find_map(|(begin, end)| Some((rest.strip_prefix(begin)?, end)));
        if let Some((within, end)) = skipped {
            let Some(at) = within.find(end) else { return Ok(()) };
            rest = &within[at + end.len()..];
            continue;
        }
        let Some(tag) = XmlTag::of(rest) else { return Ok(()) };
        let scope = scopes.last().copied().unwrap_or(0) + tag.namespaces;
        for (count, limit, what) in [
            (tag.attributes, ATTRIBUTES, "attributes of one element"),
            (scope, NAMESPACES, "namespaces in scope of one element"),
        ] {
            if count > limit {
                return Err(fault(text, text.len() - rest.len(), what, limit));
            }
        }
        match tag.kind {
            TagKind::Open => scopes.push(scope),
            TagKind::Close => drop(scopes.pop()),
            TagKind::Empty => {}
        }
        rest = &rest[tag.length..];
    }
    Ok(())
}

enum TagKind {
    Open,
    Close,
    Empty,
}

struct XmlTag {
    kind: TagKind,
    length: usize,
    attributes: usize,
    namespaces: usize,
}

impl XmlTag {
    /// The tag at the start of a text; `None` without an end.
    fn of(text: &str) -> Option<XmlTag> {
        let (mut quote, mut attributes, mut namespaces) = (None, 0, 0);
        let octets = text.as_bytes();
        for (at, &octet) in octets.iter().enumerate() {
            match (quote, octet) {
                (Some(open), _) if octet == open => quote = None,
                (Some(_), _) => {}
                (None, b'"' | b'\'') => quote = Some(octet),
                (None, b'=') => {
                    attributes += 1;
                    let name = text[..at].trim_end();
                    let name = name.rsplit(|c: char| c.is_ascii_whitespace()).next().unwrap_or("");
                    namespaces += usize::from(name.starts_with("xmlns"));
                    // One more than the limit is enough to refuse it: it may have no end.
                    if attributes > ATTRIBUTES {
                        return Some(XmlTag {
                            kind: TagKind::Open,
                            length: at,
                            attributes,
                            namespaces,
                        });
                    }
                }
                (None, b'>') => {
                    let kind = match (octets.get(1), octets[at - 1]) {
                        (Some(b'/'), _) => TagKind::Close,
                        (_, b'/') => TagKind::Empty,
                        _ => TagKind::Open,
                    };
                    return Some(XmlTag { kind, length: at + 1, attributes, namespaces });
                }
                (None, _) => {}
            }
        }
        None
    }
}

fn fault(text: &str, at: usize, what: &str, limit: usize) -> Fault {
    let before = &text[..at];
    let line = before.rsplit('\n').next().unwrap_or("");
    Fault {
        line: 1 + before.matches('\n').count() as u32,
        column: 1 + line.chars().count() as u32,
        what: format!("more than {limit} {what}"),
        help: "a device description is XML (EPSG DS 311)".into(),
    }
}
