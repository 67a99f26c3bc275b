//! Reads the programs' tables.

use std::os::fd::{AsFd, AsRawFd};

use libbpf_rs::libbpf_sys as sys;
use libbpf_rs::{Map, MapCore, MapFlags, num_possible_cpus};
use onbeat_bpf::PlainData;

use crate::abi::{irq_amount, irq_key};
use crate::error::{Error, Result};
use onbeat_irq_core::charge::Amount;

/// A row: its key, also as octets, and the amount that each CPU added.
pub(super) struct Row {
    pub(super) key: irq_key,
    pub(super) octets: Vec<u8>,
    pub(super) amounts: Vec<Amount>,
}

impl From<irq_amount> for Amount {
    fn from(irq_amount { ns, packets }: irq_amount) -> Self {
        Self { ns, packets }
    }
}

/// All rows of the ledger.
pub(super) fn rows(map: &Map<'_>) -> Result<Vec<Row>> {
    map.keys()
        .map(|octets| {
            let foreign = Error::Foreign { table: "rows", octets: octets.len() };
            let key = irq_key::from_octets(&octets).ok_or(foreign)?;
            let amounts = per_cpu::<irq_amount>(map, "rows", &octets)?;
            Ok(Row { key, octets, amounts: amounts.into_iter().map(Amount::from).collect() })
        })
        .collect()
}

/// The values of a key on all CPUs; empty if the key is gone.
pub(super) fn per_cpu<T: PlainData>(
    map: &Map<'_>,
    table: &'static str,
    key: &[u8],
) -> Result<Vec<T>> {
    let values = map
        .lookup_percpu(key, MapFlags::ANY)
        .map_err(|source| Error::kernel(format!("read table {table}"), source))?;
    values.unwrap_or_default().iter().map(|octets| of_cpu(table, octets)).collect()
}

fn of_cpu<T: PlainData>(table: &'static str, octets: &[u8]) -> Result<T> {
    T::from_start(octets).ok_or(Error::Foreign { table, octets: octets.len() })
}

/// Clears the octets after `T` in the values of a key on all CPUs.
pub(super) fn clear_after<T: PlainData>(
    map: &Map<'_>,
    table: &'static str,
    key: &[u8],
) -> Result<()> {
    let failed = |source| Error::kernel(format!("clear table {table}"), source);
    let mut values = map.lookup_percpu(key, MapFlags::ANY).map_err(failed)?.unwrap_or_default();
    for octets in &mut values {
        let rest = octets.get_mut(size_of::<T>()..).unwrap_or_default();
        rest.fill(0);
    }
    map.update_percpu(key, &values, MapFlags::ANY).map_err(failed)
}

/// Removes a row from the ledger, and returns its amount on each CPU; empty if the row is gone. A CPU that adds
/// to it at that moment adds to nothing, or to the next row in its memory: so only idle rows are removed.
pub(super) fn remove(map: &Map<'_>, row: &Row) -> Result<Vec<Amount>> {
    const VALUE: usize = size_of::<irq_amount>();
    let failed = |source| Error::kernel("remove a row from table rows", source);
    let cpus = num_possible_cpus().map_err(failed)?;
    let (key_octets, value_octets) = (map.key_size() as usize, map.value_size() as usize);
    if row.octets.len() != key_octets || value_octets != VALUE {
        return Err(Error::Foreign { table: "rows", octets: value_octets });
    }
    let mut values = vec![0u8; cpus * VALUE];
    // SAFETY: the key is as long as the table's keys are, and there is room for a value of each possible CPU,
    // which is what the kernel writes; VALUE is a multiple of eight.
    let code = unsafe {
        sys::bpf_map_lookup_and_delete_elem(
            map.as_fd().as_raw_fd(),
            row.octets.as_ptr().cast(),
            values.as_mut_ptr().cast(),
        )
    };
    if code == -nix::libc::ENOENT {
        return Ok(Vec::new());
    }
    if code < 0 {
        return Err(failed(std::io::Error::from_raw_os_error(-code).into()));
    }
    values.chunks(VALUE).map(|octets| Ok(of_cpu::<irq_amount>("rows", octets)?.into())).collect()
}
