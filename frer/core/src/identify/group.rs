//! Members that read the same fields, indexed by the values of these.

use alloc::collections::BTreeMap;

use onbeat_wire::MacAddress;

use super::Fields;
use super::index::Index;
use super::shape::{MemberRef, PackedMember, Shape};

/// Members of one kind.
#[derive(Debug, Clone)]
pub(super) struct Group<S: Shape> {
    shape: S,
    members: Index<S::Key>,
    /// Members that also take frames without a VLAN, by the key of such frames and the required VLAN id. The
    /// lowest one is in `members` under that key.
    untagged: BTreeMap<(S::Key, u16), PackedMember>,
}

impl<S: Shape> Group<S> {
    pub(super) fn new(shape: S) -> Self {
        Self { shape, members: Index::new(), untagged: BTreeMap::new() }
    }

    pub(super) fn shape(&self) -> S {
        self.shape
    }

    pub(super) fn is_empty(&self) -> bool {
        self.members.is_empty()
    }

    pub(super) fn insert(&mut self, key: S::Key, vid: u16, at: MemberRef) -> Result<(), MemberRef> {
        if let Some(earlier) = self.members.get(&key) {
            return Err(earlier.into());
        }
        self.members.insert(key, at.into());
        if let Some(untagged) = self.shape.untagged(key) {
            self.untagged.insert((untagged, vid), at.into());
            self.choose(untagged);
        }
        Ok(())
    }

    pub(super) fn remove(&mut self, key: S::Key, vid: u16) -> Option<MemberRef> {
        let member = self.members.remove(&key)?;
        if let Some(untagged) = self.shape.untagged(key) {
            self.untagged.remove(&(untagged, vid));
            self.choose(untagged);
        }
        Some(member.into())
    }

    /// Assigns frames without a VLAN to the member with the lowest VLAN id.
    fn choose(&mut self, untagged: S::Key) {
        match self.untagged.range((untagged, 0)..=(untagged, u16::MAX)).next() {
            Some((_, &lowest)) => self.members.insert(untagged, lowest),
            None => _ = self.members.remove(&untagged),
        }
    }

    pub(super) fn lookup(&self, mac: MacAddress, fields: &Fields<'_>) -> Option<MemberRef> {
        self.members.get(&self.shape.key(mac, fields)?).map(MemberRef::from)
    }

    /// Prefetches the entry that [`Group::lookup`] reads first.
    pub(super) fn prefetch(&self, mac: MacAddress, fields: &Fields<'_>) {
        if let Some(key) = self.shape.key(mac, fields) {
            self.members.prefetch(&key);
        }
    }
}
