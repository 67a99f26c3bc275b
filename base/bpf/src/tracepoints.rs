//! The tracepoints that this kernel has, and whether programs may be attached to them.

use std::fs;

use libbpf_rs::btf::Btf;
use libbpf_rs::btf::types::{FuncProto, Ptr, Typedef};

use crate::error::{Error, Result};

/// The running kernel's tracepoints, by its type information.
#[derive(Debug)]
pub struct Tracepoints {
    types: Btf<'static>,
}

impl Tracepoints {
    /// Those of the running kernel, where each of the required is among them: its name, and what kernel
    /// has it.
    ///
    /// # Errors
    /// [`Error::NoTypes`], [`Error::NoTracepoint`]; [`Error::Kernel`] without the right to load programs.
    pub fn require(required: &[(&'static str, &'static str)]) -> Result<Self> {
        if !may_trace() {
            // What libbpf would say of it on standard error helps nobody.
            let refused = std::io::Error::from_raw_os_error(nix::libc::EPERM);
            return Err(Error::kernel("load programs for tracepoints", refused.into()));
        }
        let found = Self { types: Btf::from_vmlinux().map_err(Error::NoTypes)? };
        for (name, remedy) in required {
            if found.arguments(name).is_none() {
                return Err(Error::NoTracepoint { name, remedy });
            }
        }
        Ok(found)
    }

    /// How many arguments a tracepoint has; `None` where there is no such tracepoint.
    pub fn arguments(&self, tracepoint: &str) -> Option<usize> {
        let name = format!("btf_trace_{tracepoint}");
        let definition: Typedef<'_> = self.types.type_by_name(&name)?;
        let pointer = Ptr::try_from(definition.next_type()?).ok()?;
        let prototype = FuncProto::try_from(pointer.next_type()?).ok()?;
        // The first one is the kernel's own.
        prototype.len().checked_sub(1)
    }
}

/// Whether this process has the capabilities that it takes: CAP_BPF and CAP_PERFMON, or CAP_SYS_ADMIN.
/// Where /proc does not say, it is tried.
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
