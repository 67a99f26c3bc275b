//! What loaders of BPF programs have in common.

use std::os::fd::AsFd;

use libbpf_rs::{Map, MapCore, MapFlags, Object, OpenObject};

use crate::error::Result;
use crate::statistics::Runs;

/// The table of this name.
///
/// # Panics
/// Where the object does not hold it: names are those of its source.
#[must_use]
pub fn map<'o>(object: &'o Object, name: &str) -> Map<'o> {
    object.maps().find(|map| map.name() == name).expect("the object holds it")
}

/// The table of the programs' variables, of one entry.
///
/// # Panics
/// Where the programs have none.
#[must_use]
pub fn variables(object: &Object) -> Map<'_> {
    let mut maps = object.maps();
    maps.find(|map| is(map.name(), ".bss")).expect("the programs have variables")
}

/// Sets variables that are true or false, each by its offset, and makes all others zero.
///
/// # Errors
/// Where the kernel does not let us write.
pub fn set_variables(object: &Object, values: &[(usize, bool)]) -> libbpf_rs::Result<()> {
    let map = variables(object);
    let mut all = vec![0; map.value_size() as usize];
    for (at, value) in values {
        all[*at] = (*value).into();
    }
    map.update(&0u32.to_ne_bytes(), &all, MapFlags::ANY)
}

/// Sets constants of programs that are not loaded yet, each by its offset.
///
/// # Panics
/// Where a constant lies beyond their end.
pub fn set_constants(open: &mut OpenObject, values: &[(usize, &[u8])]) {
    for mut map in open.maps_mut().filter(|map| is(map.name(), ".rodata")) {
        let all = map.initial_value_mut().expect("constants have initial values");
        for (at, value) in values {
            all[*at..][..value.len()].copy_from_slice(value);
        }
    }
}

/// What each of the programs that are loaded has taken, by name, while
/// [`Statistics`](crate::statistics::Statistics) were on.
///
/// # Errors
/// Where the kernel does not tell.
pub fn runs(object: &Object) -> Result<Vec<(String, Runs)>> {
    let loaded = object.progs().filter(|program| program.autoload());
    let named = loaded.map(|program| {
        Ok((program.name().to_string_lossy().into_owned(), Runs::of(program.as_fd())?))
    });
    named.collect()
}

/// Whether a table is such a section: libbpf puts the object's name before it.
fn is(name: &std::ffi::OsStr, section: &str) -> bool {
    name.to_string_lossy().ends_with(section)
}
