//! BPF maps as typed tables.

use std::marker::PhantomData;

use libbpf_rs::{MapCore, MapFlags, MapHandle};
use onbeat_bpf::PlainData;

use crate::error::{Context, Result};

/// A map from `K` to `V`.
#[derive(Debug)]
pub(crate) struct Table<K, V> {
    map: MapHandle,
    types: PhantomData<(K, V)>,
}

impl<K: PlainData, V: PlainData> Table<K, V> {
    /// Wraps `map`, whose keys and values must have these sizes.
    pub(crate) fn new(map: MapHandle) -> Self {
        assert_eq!(map.key_size() as usize, size_of::<K>(), "key of {:?}", map.name());
        assert_eq!(map.value_size() as usize, size_of::<V>(), "value of {:?}", map.name());
        Self { map, types: PhantomData }
    }

    /// Returns the maximum number of entries.
    pub(crate) fn capacity(&self) -> u32 {
        self.map.max_entries()
    }

    fn name(&self) -> String {
        self.map.name().to_string_lossy().into_owned()
    }

    /// Returns the value of `key`.
    pub(crate) fn get(&self, key: &K) -> Result<Option<V>> {
        let bytes = self
            .map
            .lookup(key.octets(), MapFlags::ANY)
            .context(|| format!("read table {}", self.name()))?;
        Ok(bytes.and_then(|bytes| V::from_octets(&bytes)))
    }

    /// Sets the value of `key`.
    pub(crate) fn set(&self, key: &K, value: &V) -> Result<()> {
        self.map
            .update(key.octets(), value.octets(), MapFlags::ANY)
            .context(|| format!("write table {}", self.name()))
    }

    /// Removes `key`, if present.
    pub(crate) fn remove(&self, key: &K) -> Result<()> {
        match self.map.delete(key.octets()) {
            Err(error) if error.kind() == libbpf_rs::ErrorKind::NotFound => Ok(()),
            other => other.context(|| format!("remove from table {}", self.name())),
        }
    }

    /// Sets the value of `key` if the table has none; returns whether it did.
    pub(crate) fn insert(&self, key: &K, value: &V) -> Result<bool> {
        match self.map.update(key.octets(), value.octets(), MapFlags::NO_EXIST) {
            Err(error) if error.kind() == libbpf_rs::ErrorKind::AlreadyExists => Ok(false),
            other => other.context(|| format!("add to table {}", self.name())).map(|()| true),
        }
    }

    /// Returns all keys. While programs change the table, some may be missing or repeated.
    pub(crate) fn keys(&self) -> Vec<K> {
        // The kernel starts again at the first one if the former key was removed.
        let keys = self.map.keys().take(self.capacity() as usize);
        keys.filter_map(|bytes| K::from_octets(&bytes)).collect()
    }
}
