//! The list of kinds that frames are looked up by.

use std::collections::{BTreeSet, HashMap};

use super::Plane;
use super::grace::Epoch;
use crate::abi::constants as c;
use crate::abi::{frer_mask, frer_node, frer_shapes};
use crate::compile::{self, KeyKind};
use crate::error::Result;

const SETS: usize = c::SHAPE_SETS as usize;

/// Kinds of identification, and the sets of the node table that list them.
#[derive(Debug)]
pub(super) struct Shapes {
    /// Number of entries of each kind.
    entries: HashMap<KeyKind, usize>,
    /// Kinds that frames are looked up by; a kind may have no entry any more.
    listed: BTreeSet<KeyKind>,
    /// Masks of listed kinds, by id.
    masks: HashMap<u64, frer_mask>,
    /// End of use of each set as the active one.
    left: [Epoch; SETS],
}

impl Shapes {
    /// `node`: the node table. `entries`: the kind of each entry.
    pub(super) fn new(node: &frer_node, entries: impl Iterator<Item = KeyKind>) -> Self {
        let active = &node.shapes[node.active as usize % SETS];
        let masks = active.masks.iter().take(active.mask_count as usize);
        let masks: HashMap<u64, frer_mask> = masks.map(|mask| (mask.id, *mask)).collect();
        let ip = active.ip.iter().take(active.ip_count as usize).map(|shape| KeyKind::Ip(*shape));
        let l2 = active.l2.iter().take(active.l2_count as usize).map(|shape| KeyKind::L2(*shape));
        let listed = ip.chain(l2).chain(masks.keys().map(|id| KeyKind::Mask(*id))).collect();
        let mut shapes = Self { entries: HashMap::new(), listed, masks, left: [0; SETS] };
        entries.for_each(|kind| shapes.add(kind));
        shapes
    }

    /// Adds an entry of `kind`.
    pub(super) fn add(&mut self, kind: KeyKind) {
        *self.entries.entry(kind).or_insert(0) += 1;
    }

    /// Removes an entry of `kind`.
    pub(super) fn remove(&mut self, kind: KeyKind) {
        if let Some(entries) = self.entries.get_mut(&kind) {
            *entries -= 1;
            if *entries == 0 {
                self.entries.remove(&kind);
            }
        }
    }

    /// Returns the kinds of present entries.
    pub(super) fn kinds(&self) -> impl Iterator<Item = KeyKind> {
        self.entries.keys().copied()
    }

    /// Returns the number of entries of these kinds.
    pub(super) fn count(&self, of: impl Fn(KeyKind) -> bool) -> usize {
        self.entries.iter().filter(|(kind, _)| of(**kind)).map(|(_, entries)| entries).sum()
    }

    /// Returns the kinds in their order of precedence.
    fn in_order(&self, kinds: &BTreeSet<KeyKind>) -> frer_shapes {
        let (mut ip, mut l2, mut masks) = (Vec::new(), Vec::new(), Vec::new());
        for kind in kinds {
            match kind {
                KeyKind::Ip(shape) => ip.push(*shape),
                KeyKind::L2(shape) => l2.push(*shape),
                KeyKind::Mask(id) => masks.push(self.masks[id]),
            }
        }
        ip.sort_by_key(|shape| compile::rank(*shape));
        l2.sort_by_key(|shape| compile::rank(*shape));
        masks.sort_by_key(compile::mask_rank);
        let mut shapes = frer_shapes {
            ip_count: ip.len() as u32,
            l2_count: l2.len() as u32,
            mask_count: masks.len() as u32,
            ..Default::default()
        };
        // The capacity was checked before.
        shapes.ip[..ip.len()].copy_from_slice(&ip);
        shapes.l2[..l2.len()].copy_from_slice(&l2);
        shapes.masks[..masks.len()].copy_from_slice(&masks);
        shapes
    }
}

impl Plane {
    /// Adds kinds to the lookup.
    pub(super) fn add_kinds(
        &mut self,
        new: impl Iterator<Item = KeyKind>,
        masks: impl Iterator<Item = frer_mask>,
    ) -> Result<()> {
        let mut kinds: BTreeSet<KeyKind> = new.collect();
        if kinds.is_subset(&self.shapes.listed) {
            return Ok(());
        }
        self.shapes.masks.extend(masks.map(|mask| (mask.id, mask)));
        kinds.extend(self.shapes.kinds());
        let mut node = self.tables.node.get(&0)?.unwrap_or_default();
        let next = (node.active as usize + 1) % SETS;
        self.grace.wait(self.shapes.left[next])?;
        self.write_shapes(&mut node, next, kinds)
    }

    /// Removes kinds without entries from the lookup, if that is possible without waiting.
    pub(super) fn remove_unused_kinds(&mut self) -> Result<()> {
        let kinds: BTreeSet<KeyKind> = self.shapes.kinds().collect();
        if kinds == self.shapes.listed {
            return Ok(());
        }
        let mut node = self.tables.node.get(&0)?.unwrap_or_default();
        let next = (node.active as usize + 1) % SETS;
        if self.grace.is_over(self.shapes.left[next]) {
            self.write_shapes(&mut node, next, kinds)?;
        }
        Ok(())
    }

    fn write_shapes(
        &mut self,
        node: &mut frer_node,
        set: usize,
        kinds: BTreeSet<KeyKind>,
    ) -> Result<()> {
        node.shapes[set] = self.shapes.in_order(&kinds);
        self.tables.node.set(&0, node)?;
        let before = std::mem::replace(&mut node.active, set as u32);
        self.tables.node.set(&0, node)?;
        self.shapes.left[before as usize % SETS] = self.grace.now();
        self.shapes.masks.retain(|id, _| kinds.contains(&KeyKind::Mask(*id)));
        self.shapes.listed = kinds;
        Ok(())
    }
}
