//! Drop reasons of packets by name, from the running kernel: the numbers change between releases.

use std::collections::HashMap;

use libbpf_rs::btf::Btf;
use libbpf_rs::btf::types::Enum;

/// `enum skb_drop_reason` of the kernel.
#[derive(Debug, Default)]
pub struct Reasons {
    names: HashMap<u32, String>,
}

impl Reasons {
    /// Reads the reasons from the running kernel's type information; empty if it has none.
    #[must_use]
    pub fn of_kernel() -> Self {
        let Ok(types) = Btf::from_vmlinux() else { return Self::default() };
        let Some(reasons) = types.type_by_name::<Enum<'_>>("skb_drop_reason") else {
            return Self::default();
        };
        let named = reasons.iter().filter_map(|reason| {
            let name = reason.name?.to_str()?;
            Some((u32::try_from(reason.value).ok()?, short(name)))
        });
        Self { names: named.collect() }
    }

    /// Returns the name of a reason, or its number if it has no name.
    #[must_use]
    pub fn name(&self, reason: u32) -> String {
        self.names.get(&reason).cloned().unwrap_or_else(|| format!("reason {reason}"))
    }
}

/// Converts `SKB_DROP_REASON_NO_SOCKET` to `no socket`.
fn short(name: &str) -> String {
    let name = name.strip_prefix("SKB_DROP_REASON_").unwrap_or(name);
    name.strip_prefix("SKB_").unwrap_or(name).to_lowercase().replace('_', " ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use onbeat_testing::{Feature, require_all};

    #[test]
    fn names_of_drop_reasons() {
        assert_eq!(short("SKB_DROP_REASON_NO_SOCKET"), "no socket");
        assert_eq!(short("SKB_CONSUMED"), "consumed");
        assert_eq!(Reasons::default().name(7), "reason 7");
        if require_all(&[Feature::Btf, Feature::Kernel(6, 3)]) {
            let reasons = Reasons::of_kernel();
            assert!(reasons.names.values().any(|name| name == "no socket"), "{reasons:?}");
        }
    }
}
