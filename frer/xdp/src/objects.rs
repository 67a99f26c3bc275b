//! The objects with the data plane's programs, and the names of their tables.

use std::collections::BTreeSet;
use std::sync::OnceLock;

use libbpf_rs::{ObjectBuilder, OpenObject};

use crate::error::{Context, Result};

pub(crate) static FRER: &[u8] = onbeat_bpf::bpf_object!("frer.bpf.o");
pub(crate) static STEER: &[u8] = onbeat_bpf::bpf_object!("steer.bpf.o");
pub(crate) static CONTROL: &[u8] = onbeat_bpf::bpf_object!("control.bpf.o");

/// A table of each instance of a program by itself.
pub(crate) const SOCKETS: &str = "sockets";

/// Whether a map of an object is a table of the node, and not the object's own.
pub(crate) fn is_table(name: &str) -> bool {
    !name.contains('.') && name != SOCKETS
}

/// Names of all tables, which are those of their pins. The object is opened once for a process.
pub(crate) fn table_names() -> Result<&'static BTreeSet<String>> {
    static NAMES: OnceLock<BTreeSet<String>> = OnceLock::new();
    if let Some(names) = NAMES.get() {
        return Ok(names);
    }
    let object = open(FRER)?;
    let names = object.maps().map(|map| map.name().to_string_lossy().into_owned());
    let names = names.filter(|name| is_table(name)).collect();
    Ok(NAMES.get_or_init(|| names))
}

/// An object that is not in the kernel yet.
pub(crate) fn open(object: &[u8]) -> Result<OpenObject> {
    ObjectBuilder::default().open_memory(object).context(|| "read an object file".to_string())
}
