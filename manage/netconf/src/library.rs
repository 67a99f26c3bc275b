//! The YANG library (RFC 8525), and the capabilities of `hello`.

use onbeat_yang::schema::{MODULES, Module, YANG_LIBRARY};
use serde_json::{Value, json};

/// Identifier of the set of modules: it changes with them.
const CONTENT_ID: &str = "1";

/// Capabilities that are not modules.
const CAPABILITIES: [&str; 5] = [
    "urn:ietf:params:netconf:base:1.0",
    "urn:ietf:params:netconf:base:1.1",
    "urn:ietf:params:netconf:capability:writable-running:1.0",
    "urn:ietf:params:netconf:capability:rollback-on-error:1.0",
    "urn:ietf:params:netconf:capability:startup:1.0",
];

/// Capability URIs of a server.
pub(crate) fn capabilities() -> impl Iterator<Item = String> {
    let library = format!(
        "urn:ietf:params:netconf:capability:yang-library:1.1?revision=2019-01-04&content-id={CONTENT_ID}"
    );
    let monitoring =
        format!("{}?module=ietf-netconf-monitoring&revision=2010-10-04", crate::MONITORING);
    let modules = MODULES.iter().filter(|module| module.is_implemented).map(
        |Module { name, namespace, revision, .. }| {
            format!("{namespace}?module={name}&revision={revision}")
        },
    );
    let fixed = CAPABILITIES.into_iter().map(str::to_owned);
    fixed.chain([library, monitoring]).chain(modules)
}

/// The data of module ietf-yang-library, also in the form of its former version.
pub(crate) fn data() -> [(String, Value); 2] {
    let entry = |Module { name, namespace, revision, .. }: &Module| json!({ "name": name, "revision": revision, "namespace": namespace });
    let entries = |is_implemented: bool| -> Vec<Value> {
        let of_kind = MODULES.iter().filter(|module| module.is_implemented == is_implemented);
        of_kind.map(entry).collect()
    };
    let datastore = |name| json!({ "name": format!("ietf-datastores:{name}"), "schema": "node" });
    let library = json!({
        "module-set": [{
            "name": "node",
            "module": entries(true),
            "import-only-module": entries(false),
        }],
        "schema": [{ "name": "node", "module-set": ["node"] }],
        "datastore": [datastore("running"), datastore("startup"), datastore("operational")],
        "content-id": CONTENT_ID,
    });
    let with_type = |module: &Module| {
        let mut entry = entry(module);
        entry["conformance-type"] =
            json!(if module.is_implemented { "implement" } else { "import" });
        entry
    };
    let state = json!({
        "module-set-id": CONTENT_ID,
        "module": MODULES.iter().map(with_type).collect::<Vec<_>>(),
    });
    [
        (format!("{YANG_LIBRARY}:yang-library"), library),
        (format!("{YANG_LIBRARY}:modules-state"), state),
    ]
}
