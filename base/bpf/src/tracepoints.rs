//! The tracepoints of this kernel, and the permission to attach programs to them.

use std::fs;

use libbpf_rs::btf::Btf;
use libbpf_rs::btf::types::{Func, FuncProto, Ptr, Typedef};

use crate::error::{Error, Result};

/// The running kernel's tracepoints, from its type information.
#[derive(Debug)]
pub struct Tracepoints {
    types: Btf<'static>,
}

impl Tracepoints {
    /// Returns the tracepoints of the running kernel if it has all required ones. A required one is its name,
    /// and the kernels that have it.
    ///
    /// # Errors
    /// [`Error::NoTypes`], [`Error::NoTracepoints`]; [`Error::Kernel`]: no permission to load programs.
    pub fn require(required: &[(&'static str, &'static str)]) -> Result<Self> {
        if !may_trace() {
            // Suppresses libbpf's message on standard error.
            let refused = std::io::Error::from_raw_os_error(nix::libc::EPERM);
            return Err(Error::kernel("load programs for tracepoints", refused.into()));
        }
        let found = Self { types: Btf::from_vmlinux().map_err(Error::NoTypes)? };
        let missing = required.iter().filter(|(name, _)| found.arguments(name).is_none());
        let (names, mut remedies): (Vec<_>, Vec<_>) = missing.copied().unzip();
        remedies.dedup();
        if names.is_empty() {
            return Ok(found);
        }
        Err(Error::NoTracepoints { names: names.join(", "), remedy: remedies.join(", ") })
    }

    /// Returns whether the kernel has a function of this name.
    pub fn has_function(&self, name: &str) -> bool {
        self.types.type_by_name::<Func<'_>>(name).is_some()
    }

    /// Returns the number of arguments of a tracepoint; `None`: no such tracepoint.
    pub fn arguments(&self, tracepoint: &str) -> Option<usize> {
        let name = format!("btf_trace_{tracepoint}");
        let definition: Typedef<'_> = self.types.type_by_name(&name)?;
        let pointer = Ptr::try_from(definition.next_type()?).ok()?;
        let prototype = FuncProto::try_from(pointer.next_type()?).ok()?;
        // The first one is internal to the kernel.
        prototype.len().checked_sub(1)
    }
}

/// Returns whether this process has the required capabilities: CAP_BPF and CAP_PERFMON, or CAP_SYS_ADMIN. If
/// /proc does not report them, returns true.
fn may_trace() -> bool {
    const SYS_ADMIN: u32 = 21;
    const PERFMON: u32 = 38;
    const BPF: u32 = 39;
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let effective = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    let Some(Ok(set)) = effective.map(|set| u64::from_str_radix(set.trim(), 16)) else {
        return true;
    };
    let has = |capability: u32| set & (1 << capability) != 0;
    has(SYS_ADMIN) || (has(BPF) && has(PERFMON))
}
