//! `onbeat doctor --json` of a node: its defects.

use serde_json::Value;

use super::{Draft, Fault, text};

/// Reads the findings of one node; those that must be corrected become remarks.
pub(super) fn read(draft: &mut Draft, findings: &Value, owner: &str) -> Result<(), Fault> {
    let node = draft.node(owner);
    for finding in findings.as_array().into_iter().flatten() {
        if text(finding, "level") != Some("bad") {
            continue;
        }
        let part = |key| text(finding, key).unwrap_or_default();
        let interface =
            text(finding, "interface").map_or(String::new(), |name| format!("{name}, "));
        draft.nodes[node].remarks.push(format!(
            "doctor: {interface}{}: {}; {}",
            part("what"),
            part("value"),
            part("remedy")
        ));
    }
    Ok(())
}
