//! Assignment of keys to members: pure, so that a change is planned before it is made.

use std::collections::{BTreeMap, HashMap, HashSet};

use crate::compile::Key;

/// A member of a stream in the tables.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Member {
    /// Number of the stream.
    pub(super) stream: usize,
    /// Index among its members.
    pub(super) member: usize,
}

/// Keys requested by members.
#[derive(Debug, Default)]
pub(super) struct Claims {
    /// The first key of a member is exclusive.
    own: HashMap<Key, Member>,
    /// Further keys, which match frames without a VLAN, may be shared: the member with the lowest VLAN id
    /// receives these frames.
    shared: BTreeMap<(Key, u16), Member>,
}

/// Two members with the same key: by index among the new streams, or an existing one.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct ClaimConflict {
    pub(super) first: KeyOwner,
    pub(super) second: KeyOwner,
}

/// The owner of a key after a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum KeyOwner {
    /// A member that exists before and after the change.
    Existing(Member),
    /// A member of a new stream, by its index among them.
    New(Member),
}

/// A key that a change affects.
#[derive(Debug)]
pub(super) struct KeyChange {
    pub(super) key: Key,
    /// `None`: no owner.
    pub(super) new_owner: Option<KeyOwner>,
}

impl Claims {
    /// Adds the keys of a member, its exclusive key first.
    pub(super) fn add(&mut self, keys: &[Key], member: Member) {
        let Some((own, shared)) = keys.split_first() else { return };
        self.own.insert(*own, member);
        self.shared.extend(shared.iter().map(|key| ((*key, own.vid()), member)));
    }

    /// Removes the keys of a member.
    pub(super) fn remove(&mut self, keys: &[Key]) {
        let Some((own, shared)) = keys.split_first() else { return };
        self.own.remove(own);
        for key in shared {
            self.shared.remove(&(*key, own.vid()));
        }
    }

    /// Returns the owner of each key that may change when streams `gone` are removed and `new` are added.
    /// `gone` and `new` are the keys of their members.
    ///
    /// # Errors
    /// Two members have the same exclusive key.
    pub(super) fn plan<'a>(
        &self,
        leaving: &HashSet<usize>,
        gone: impl Iterator<Item = &'a [Key]>,
        new: impl Iterator<Item = (Member, &'a [Key])>,
    ) -> Result<Vec<KeyChange>, ClaimConflict> {
        let mut concerned = HashSet::new();
        let mut keys = Vec::new();
        let mut concern = |key: &Key| {
            if concerned.insert(*key) {
                keys.push(*key);
            }
        };
        let mut asks = Claims::default();
        for (member, keys) in new {
            let Some(own) = keys.first() else { continue };
            let there = self.own.get(own).filter(|there| !leaving.contains(&there.stream));
            let there = there.map(|there| KeyOwner::Existing(*there));
            if let Some(first) = there.or(asks.own.get(own).map(|new| KeyOwner::New(*new))) {
                return Err(ClaimConflict { first, second: KeyOwner::New(member) });
            }
            asks.add(keys, member);
            keys.iter().for_each(&mut concern);
        }
        gone.flatten().for_each(concern);
        let step = |key: Key| KeyChange { new_owner: self.new_owner(&asks, leaving, &key), key };
        Ok(keys.into_iter().map(step).collect())
    }

    /// Returns whether a member requests a key.
    pub(super) fn has(&self, key: &Key) -> bool {
        self.own.contains_key(key) || self.sharing(key).next().is_some()
    }

    fn new_owner(&self, asks: &Claims, leaving: &HashSet<usize>, key: &Key) -> Option<KeyOwner> {
        if let Some(new) = asks.own.get(key) {
            return Some(KeyOwner::New(*new));
        }
        let new = asks.sharing(key).next().map(|(vid, member)| (vid, KeyOwner::New(member)));
        let mut there = self.sharing(key).filter(|(_, member)| !leaving.contains(&member.stream));
        let there = there.next().map(|(vid, member)| (vid, KeyOwner::Existing(member)));
        let lowest = new.into_iter().chain(there).min_by_key(|(vid, _)| *vid);
        lowest.map(|(_, new_owner)| new_owner)
    }

    /// Returns the members that share a key, lowest VLAN id first.
    fn sharing(&self, key: &Key) -> impl Iterator<Item = (u16, Member)> {
        let members = self.shared.range((*key, 0)..=(*key, u16::MAX));
        members.map(|((_, vid), member)| (*vid, *member))
    }
}
