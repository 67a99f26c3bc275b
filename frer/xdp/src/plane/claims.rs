//! Which member has which key: pure, so that a change can be thought through before it is made.

use std::collections::{BTreeMap, HashMap, HashSet};

use crate::compile::Key;

/// A member of a stream that is in the tables.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Member {
    /// Number of the stream.
    pub(super) stream: usize,
    /// Place among its members.
    pub(super) member: usize,
}

/// What members ask for, by key.
#[derive(Debug, Default)]
pub(super) struct Claims {
    /// A member's first key is its own.
    own: HashMap<Key, Member>,
    /// Those behind it, which find frames without a VLAN, it may share with others: the one with
    /// the lowest VLAN id has them.
    shared: BTreeMap<(Key, u16), Member>,
}

/// Two members that want the same frames: by place among the new streams, or one that was there.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Clash {
    pub(super) first: Heir,
    pub(super) second: Heir,
}

/// Who has a key after a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Heir {
    /// A member that was there before and stays.
    There(Member),
    /// A member of a new stream, by its place among them.
    New(Member),
}

/// A key that a change concerns.
#[derive(Debug)]
pub(super) struct Step {
    pub(super) key: Key,
    /// `None`: nobody.
    pub(super) heir: Option<Heir>,
}

impl Claims {
    /// A member asks for these keys, its own first.
    pub(super) fn add(&mut self, keys: &[Key], member: Member) {
        let Some((own, shared)) = keys.split_first() else { return };
        self.own.insert(*own, member);
        self.shared.extend(shared.iter().map(|key| ((*key, own.vid()), member)));
    }

    /// It no longer does.
    pub(super) fn remove(&mut self, keys: &[Key]) {
        let Some((own, shared)) = keys.split_first() else { return };
        self.own.remove(own);
        for key in shared {
            self.shared.remove(&(*key, own.vid()));
        }
    }

    /// Who has which key once the streams of numbers `gone` are gone and `new` are there, as far as
    /// that may be otherwise than before. `gone` and `new` are the keys of their members.
    ///
    /// # Errors
    /// Two members with the same keys.
    pub(super) fn plan<'a>(
        &self,
        leaving: &HashSet<usize>,
        gone: impl Iterator<Item = &'a [Key]>,
        new: impl Iterator<Item = (Member, &'a [Key])>,
    ) -> Result<Vec<Step>, Clash> {
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
            let there = there.map(|there| Heir::There(*there));
            if let Some(first) = there.or(asks.own.get(own).map(|new| Heir::New(*new))) {
                return Err(Clash { first, second: Heir::New(member) });
            }
            asks.add(keys, member);
            keys.iter().for_each(&mut concern);
        }
        gone.flatten().for_each(concern);
        let step = |key: Key| Step { heir: self.heir(&asks, leaving, &key), key };
        Ok(keys.into_iter().map(step).collect())
    }

    /// Whether a member asks for a key.
    pub(super) fn has(&self, key: &Key) -> bool {
        self.own.contains_key(key) || self.sharing(key).next().is_some()
    }

    fn heir(&self, asks: &Claims, leaving: &HashSet<usize>, key: &Key) -> Option<Heir> {
        if let Some(new) = asks.own.get(key) {
            return Some(Heir::New(*new));
        }
        let new = asks.sharing(key).next().map(|(vid, member)| (vid, Heir::New(member)));
        let mut there = self.sharing(key).filter(|(_, member)| !leaving.contains(&member.stream));
        let there = there.next().map(|(vid, member)| (vid, Heir::There(member)));
        let lowest = new.into_iter().chain(there).min_by_key(|(vid, _)| *vid);
        lowest.map(|(_, heir)| heir)
    }

    /// Members that share a key, lowest VLAN id first.
    fn sharing(&self, key: &Key) -> impl Iterator<Item = (u16, Member)> {
        let members = self.shared.range((*key, 0)..=(*key, u16::MAX));
        members.map(|((_, vid), member)| (*vid, *member))
    }
}
