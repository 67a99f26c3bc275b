//! The part of the modules' schema that a node has: names, keys and types of all nodes that are read or written.

use serde_json::{Map, Value};

use crate::{FRER, INTERFACES, MASK_AND_MATCH, STREAM_IDENTIFICATION};

/// A module.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Module {
    /// Its name.
    pub name: &'static str,
    /// Its XML namespace.
    pub namespace: &'static str,
    /// Its revision.
    pub revision: &'static str,
    /// Whether the node implements it; otherwise it uses its types alone.
    pub is_implemented: bool,
}

/// The modules, with those that they import.
pub const MODULES: [Module; 13] = {
    const fn module(
        name: &'static str,
        namespace: &'static str,
        revision: &'static str,
        is_implemented: bool,
    ) -> Module {
        Module { name, namespace, revision, is_implemented }
    }
    [
        module(INTERFACES, "urn:ietf:params:xml:ns:yang:ietf-interfaces", "2018-02-20", true),
        module(
            STREAM_IDENTIFICATION,
            "urn:ieee:std:802.1Q:yang:ieee802-dot1cb-stream-identification",
            "2021-12-08",
            true,
        ),
        module(
            MASK_AND_MATCH,
            "urn:ieee:std:802.1CB:yang:ieee802-dot1cb-mask-and-match",
            "2021-12-09",
            true,
        ),
        module(FRER, "urn:ieee:std:802.1Q:yang:ieee802-dot1cb-frer", "2025-11-12", true),
        // Identities are only known to those who implement their module.
        module("iana-if-type", "urn:ietf:params:xml:ns:yang:iana-if-type", "2014-05-08", true),
        module(
            "ieee802-dot1cb-stream-identification-types",
            "urn:ieee:std:802.1Q:yang:ieee802-dot1cb-stream-identification-types",
            "2021-12-08",
            false,
        ),
        module(
            "ieee802-dot1cb-frer-types",
            "urn:ieee:std:802.1Q:yang:ieee802-dot1cb-frer-types",
            "2021-12-08",
            false,
        ),
        module(
            "ieee802-dot1q-types",
            "urn:ieee:std:802.1Q:yang:ieee802-dot1q-types",
            "2023-10-26",
            false,
        ),
        module("ieee802-types", "urn:ieee:std:802.1Q:yang:ieee802-types", "2023-10-22", false),
        module(
            "ietf-yang-types",
            "urn:ietf:params:xml:ns:yang:ietf-yang-types",
            "2013-07-15",
            false,
        ),
        module(
            "ietf-inet-types",
            "urn:ietf:params:xml:ns:yang:ietf-inet-types",
            "2013-07-15",
            false,
        ),
        module(
            "ietf-datastores",
            "urn:ietf:params:xml:ns:yang:ietf-datastores",
            "2018-02-14",
            false,
        ),
        module(YANG_LIBRARY, "urn:ietf:params:xml:ns:yang:ietf-yang-library", "2019-01-04", true),
    ]
};

/// Module of the YANG library (RFC 8525).
pub const YANG_LIBRARY: &str = "ietf-yang-library";

/// A node of the schema.
#[derive(Debug)]
pub struct SchemaNode {
    /// Its name.
    pub name: &'static str,
    /// Its module; `None`: that of its parent.
    pub module: Option<&'static str>,
    /// Its kind.
    pub kind: NodeKind,
}

/// The kind of a node.
#[derive(Debug)]
pub enum NodeKind {
    /// A container.
    Container(&'static [SchemaNode]),
    /// A container that is a case of a choice: its siblings of this kind exclude it.
    Case(&'static [SchemaNode]),
    /// A list, with its keys. They are the first of its nodes.
    List(&'static [&'static str], &'static [SchemaNode]),
    /// A leaf-list.
    LeafList(LeafType),
    /// A leaf.
    Leaf(LeafType),
}

/// The type of a leaf in JSON (RFC 7951).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LeafType {
    /// A string; numbers of 64 bits, too.
    Text,
    /// A number of at most 32 bits.
    Number,
    /// A boolean.
    Flag,
    /// An identity: `module:name`.
    Identity,
}

use LeafType::{Flag, Identity, Number, Text};
use NodeKind::{Case, Container, Leaf, LeafList, List};

const fn node(name: &'static str, kind: NodeKind) -> SchemaNode {
    SchemaNode { name, module: None, kind }
}

const fn of(module: &'static str, name: &'static str, kind: NodeKind) -> SchemaNode {
    SchemaNode { name, module: Some(module), kind }
}

/// The nodes at the top.
pub const ROOT: &[SchemaNode] = &[
    of(INTERFACES, "interfaces", Container(&[node("interface", List(&["name"], INTERFACE))])),
    of(STREAM_IDENTIFICATION, "stream-identity", List(&["index"], STREAM_IDENTITY)),
    of(
        MASK_AND_MATCH,
        "per-port-msdu-mask-max-length",
        List(
            &["port-name"],
            &[node("port-name", Leaf(Text)), node("port-msdu-mask-max-length", Leaf(Number))],
        ),
    ),
    of(
        FRER,
        "frer",
        Container(&[
            node("sequence-generation", List(&["index"], SEQUENCE_GENERATION)),
            node("sequence-recovery", List(&["index"], SEQUENCE_RECOVERY)),
            node(
                "sequence-identification",
                List(&["port", "direction-out-facing"], SEQUENCE_IDENTIFICATION),
            ),
            node("stream-split", List(&["index"], STREAM_SPLIT)),
        ]),
    ),
    of(
        YANG_LIBRARY,
        "yang-library",
        Container(&[
            node("module-set", List(&["name"], MODULE_SET)),
            node(
                "schema",
                List(&["name"], &[node("name", Leaf(Text)), node("module-set", LeafList(Text))]),
            ),
            node(
                "datastore",
                List(&["name"], &[node("name", Leaf(Identity)), node("schema", Leaf(Text))]),
            ),
            node("content-id", Leaf(Text)),
        ]),
    ),
    // Of RFC 7895, with a mandatory leaf.
    of(
        YANG_LIBRARY,
        "modules-state",
        Container(&[
            node("module-set-id", Leaf(Text)),
            node(
                "module",
                List(
                    &["name", "revision"],
                    &[
                        node("name", Leaf(Text)),
                        node("revision", Leaf(Text)),
                        node("namespace", Leaf(Text)),
                        node("conformance-type", Leaf(Text)),
                    ],
                ),
            ),
        ]),
    ),
];

const MODULE: &[SchemaNode] =
    &[node("name", Leaf(Text)), node("revision", Leaf(Text)), node("namespace", Leaf(Text))];

const MODULE_SET: &[SchemaNode] = &[
    node("name", Leaf(Text)),
    node("module", List(&["name"], MODULE)),
    node("import-only-module", List(&["name", "revision"], MODULE)),
];

const INTERFACE: &[SchemaNode] = &[
    node("name", Leaf(Text)),
    node("type", Leaf(Identity)),
    node("enabled", Leaf(Flag)),
    node("admin-status", Leaf(Text)),
    node("oper-status", Leaf(Text)),
    node("if-index", Leaf(Number)),
    node(
        "statistics",
        Container(&[
            node("discontinuity-time", Leaf(Text)),
            of(
                STREAM_IDENTIFICATION,
                "stream-id",
                Container(&[
                    node("per-port-counters", Container(PACKETS)),
                    node(
                        "per-port-per-stream-counters",
                        List(&["direction-out-facing", "handle"], STREAM_PACKETS),
                    ),
                ]),
            ),
            of(
                FRER,
                "frer",
                Container(&[
                    node(
                        "per-port-counters",
                        Container(&[
                            node("rx-passed-pkts", Leaf(Text)),
                            node("rx-discarded-pkts", Leaf(Text)),
                            node("encode-errored-pkts", Leaf(Text)),
                        ]),
                    ),
                    node(
                        "per-port-per-stream-counters",
                        List(&["direction-out-facing", "handle"], STREAM_COUNTERS),
                    ),
                ]),
            ),
        ]),
    ),
];

const PACKETS: &[SchemaNode] = &[node("input-pkts", Leaf(Text)), node("output-pkts", Leaf(Text))];

const STREAM_PACKETS: &[SchemaNode] = &[
    node("direction-out-facing", Leaf(Flag)),
    node("handle", Leaf(Number)),
    node("input-pkts", Leaf(Text)),
    node("output-pkts", Leaf(Text)),
];

const STREAM_COUNTERS: &[SchemaNode] = &[
    node("direction-out-facing", Leaf(Flag)),
    node("handle", Leaf(Number)),
    node("generation-reset", Leaf(Text)),
    node("rx-out-of-order-pkts", Leaf(Text)),
    node("rx-rogue-pkts", Leaf(Text)),
    node("rx-passed-pkts", Leaf(Text)),
    node("rx-discarded-pkts", Leaf(Text)),
    node("rx-lost-pkts", Leaf(Text)),
    node("rx-tagless-pkts", Leaf(Text)),
    node("rx-resets", Leaf(Text)),
    node("rx-latent-error-resets", Leaf(Text)),
    node("encode-errored-pkts", Leaf(Text)),
];

const FACING: &[SchemaNode] =
    &[node("input-port", LeafList(Text)), node("output-port", LeafList(Text))];

const STREAM_IDENTITY: &[SchemaNode] = &[
    node("index", Leaf(Number)),
    node("handle", Leaf(Number)),
    node("in-facing", Container(FACING)),
    node("out-facing", Container(FACING)),
    of(FRER, "lan-path-id", Leaf(Number)),
    node(
        "null-stream-identification",
        Case(&[
            node("destination-mac", Leaf(Text)),
            node("tagged", Leaf(Text)),
            node("vlan", Leaf(Number)),
        ]),
    ),
    node(
        "smac-vlan-stream-identification",
        Case(&[
            node("source-mac", Leaf(Text)),
            node("tagged", Leaf(Text)),
            node("vlan", Leaf(Number)),
        ]),
    ),
    node(
        "dmac-vlan-stream-identification",
        Case(&[node("down", Container(EDIT)), node("up", Container(EDIT))]),
    ),
    node(
        "ip-stream-identification",
        Case(&[
            node("destination-mac", Leaf(Text)),
            node("tagged", Leaf(Text)),
            node("vlan", Leaf(Number)),
            node("ip-source", Leaf(Text)),
            node("ip-destination", Leaf(Text)),
            node("dscp", Leaf(Number)),
            node("next-protocol", Leaf(Text)),
            node("source-port", Leaf(Number)),
            node("destination-port", Leaf(Number)),
        ]),
    ),
    of(
        MASK_AND_MATCH,
        "mask-and-match-stream-identification",
        Case(&[
            node("destination-mac-mask", Leaf(Text)),
            node("destination-mac-match", Leaf(Text)),
            node("source-mac-mask", Leaf(Text)),
            node("source-mac-match", Leaf(Text)),
            node("msdu-mask-length", Leaf(Number)),
            node("msdu-mask", Leaf(Text)),
            node("msdu-match", Leaf(Text)),
        ]),
    ),
    node("organization-specific", Case(&[])),
];

const EDIT: &[SchemaNode] = &[
    node("destination-mac", Leaf(Text)),
    node("tagged", Leaf(Text)),
    node("vlan", Leaf(Number)),
    node("priority", Leaf(Number)),
];

const SEQUENCE_GENERATION: &[SchemaNode] = &[
    node("index", Leaf(Number)),
    node("stream", LeafList(Number)),
    node("direction-out-facing", Leaf(Flag)),
    node("reset", Leaf(Flag)),
];

const SEQUENCE_RECOVERY: &[SchemaNode] = &[
    node("index", Leaf(Number)),
    node("stream", LeafList(Number)),
    node("port", LeafList(Text)),
    node("direction-out-facing", Leaf(Flag)),
    node("reset", Leaf(Flag)),
    node(
        "algorithm",
        Container(&[
            node("vector", Case(&[])),
            node("match", Case(&[])),
            node("organization-specific", Case(&[])),
        ]),
    ),
    node("history-length", Leaf(Number)),
    node("reset-timeout", Leaf(Number)),
    node("invalid-sequence-value", Leaf(Number)),
    node("take-no-sequence", Leaf(Flag)),
    node("individual-recovery", Leaf(Flag)),
    node("latent-error-detection", Leaf(Flag)),
    node(
        "latent-error-detection-parameters",
        Container(&[
            node("difference", Leaf(Number)),
            node("period", Leaf(Number)),
            node("paths", Leaf(Number)),
            node("reset-period", Leaf(Number)),
        ]),
    ),
];

const SEQUENCE_IDENTIFICATION: &[SchemaNode] = &[
    node("port", Leaf(Text)),
    node("direction-out-facing", Leaf(Flag)),
    node("stream", LeafList(Number)),
    node("active", Leaf(Flag)),
    node(
        "encapsulation",
        Container(&[
            node("r-tag", Case(&[])),
            node("hsr-sequence-tag", Case(&[])),
            node("prp-sequence-tag", Case(&[])),
            node("organization-specific", Case(&[])),
        ]),
    ),
    node("path-id-lan-id", Leaf(Number)),
];

const STREAM_SPLIT: &[SchemaNode] = &[
    node("index", Leaf(Number)),
    node("port", Leaf(Text)),
    node("direction-out-facing", Leaf(Flag)),
    node("input-id", LeafList(Number)),
    node("output-id", LeafList(Number)),
];

impl Module {
    /// The module with this name.
    pub fn named(name: &str) -> Option<&'static Module> {
        MODULES.iter().find(|module| module.name == name)
    }

    /// The module with this namespace.
    pub fn of_namespace(namespace: &str) -> Option<&'static Module> {
        MODULES.iter().find(|module| module.namespace == namespace)
    }
}

impl SchemaNode {
    /// Its module, in a parent of module `parent`.
    pub fn module_in(&self, parent: &'static str) -> &'static str {
        self.module.unwrap_or(parent)
    }

    /// Its name as a member of an object of module `parent`.
    pub fn member_name(&self, parent: &str) -> String {
        match self.module {
            Some(module) if module != parent => format!("{module}:{}", self.name),
            _ => self.name.to_owned(),
        }
    }

    /// The node that a member of an object is, whose module is `parent`.
    pub fn of_member(
        nodes: &'static [SchemaNode],
        member: &str,
        parent: &str,
    ) -> Option<&'static SchemaNode> {
        let (module, name) = member.split_once(':').unwrap_or((parent, member));
        nodes.iter().find(|node| node.name == name && node.module.unwrap_or(parent) == module)
    }

    /// Its value in an object of module `parent`.
    pub fn value_in<'v>(&self, object: &'v Map<String, Value>, parent: &str) -> Option<&'v Value> {
        let plain = || object.get(&format!("{}:{}", self.module.unwrap_or(parent), self.name));
        object.get(&self.member_name(parent)).or_else(plain)
    }

    /// The nodes in it; none of a leaf.
    pub fn nodes(&self) -> &'static [SchemaNode] {
        match self.kind {
            Container(nodes) | Case(nodes) | List(_, nodes) => nodes,
            LeafList(_) | Leaf(_) => &[],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(nodes: &[SchemaNode]) {
        for node in nodes {
            if let List(keys, inner) = node.kind {
                let first: Vec<&str> =
                    inner.iter().take(keys.len()).map(|node| node.name).collect();
                assert_eq!(first, keys, "{}", node.name);
            }
            assert!(node.module.is_none_or(|module| Module::named(module).is_some()));
            check(node.nodes());
        }
    }

    #[test]
    fn keys_are_the_first_nodes_of_a_list() {
        check(ROOT);
    }
}
