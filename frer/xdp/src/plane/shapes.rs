//! The list of what frames are looked up by.

use std::collections::{BTreeSet, HashMap};

use super::Plane;
use super::grace::Moment;
use crate::abi::constants as c;
use crate::abi::{frer_mask, frer_node, frer_shapes};
use crate::compile::{self, Kind};
use crate::error::Result;

const SETS: usize = c::SHAPE_SETS as usize;

/// Kinds of identification, and the sets of the node table that list them.
#[derive(Debug)]
pub(super) struct Shapes {
    /// How many entries are found by each.
    entries: HashMap<Kind, usize>,
    /// Those that frames are looked up by, of which none may have an entry any more.
    listed: BTreeSet<Kind>,
    /// Masks among these, by their id.
    masks: HashMap<u64, frer_mask>,
    /// When a set ceased to be the active one.
    left: [Moment; SETS],
}

impl Shapes {
    /// `node`: as it is in its table. `entries`: kinds that entries are found by, once for each.
    pub(super) fn new(node: &frer_node, entries: impl Iterator<Item = Kind>) -> Self {
        let active = &node.shapes[node.active as usize % SETS];
        let masks = active.masks.iter().take(active.mask_count as usize);
        let masks: HashMap<u64, frer_mask> = masks.map(|mask| (mask.id, *mask)).collect();
        let ip = active.ip.iter().take(active.ip_count as usize).map(|shape| Kind::Ip(*shape));
        let l2 = active.l2.iter().take(active.l2_count as usize).map(|shape| Kind::L2(*shape));
        let listed = ip.chain(l2).chain(masks.keys().map(|id| Kind::Mask(*id))).collect();
        let mut shapes = Self { entries: HashMap::new(), listed, masks, left: [0; SETS] };
        entries.for_each(|kind| shapes.add(kind));
        shapes
    }

    /// One more entry is found by `kind`.
    pub(super) fn add(&mut self, kind: Kind) {
        *self.entries.entry(kind).or_insert(0) += 1;
    }

    /// One entry fewer is found by `kind`.
    pub(super) fn remove(&mut self, kind: Kind) {
        if let Some(entries) = self.entries.get_mut(&kind) {
            *entries -= 1;
            if *entries == 0 {
                self.entries.remove(&kind);
            }
        }
    }

    /// Kinds that entries are found by.
    pub(super) fn kinds(&self) -> impl Iterator<Item = Kind> {
        self.entries.keys().copied()
    }

    /// How many entries there are of these kinds.
    pub(super) fn count(&self, of: impl Fn(Kind) -> bool) -> usize {
        self.entries.iter().filter(|(kind, _)| of(**kind)).map(|(_, entries)| entries).sum()
    }

    /// The kinds in their order of precedence.
    fn in_order(&self, kinds: &BTreeSet<Kind>) -> frer_shapes {
        let (mut ip, mut l2, mut masks) = (Vec::new(), Vec::new(), Vec::new());
        for kind in kinds {
            match kind {
                Kind::Ip(shape) => ip.push(*shape),
                Kind::L2(shape) => l2.push(*shape),
                Kind::Mask(id) => masks.push(self.masks[id]),
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
        // That there is room for them, was seen before.
        shapes.ip[..ip.len()].copy_from_slice(&ip);
        shapes.l2[..l2.len()].copy_from_slice(&l2);
        shapes.masks[..masks.len()].copy_from_slice(&masks);
        shapes
    }
}

impl Plane {
    /// Has frames looked up by these kinds too.
    pub(super) fn list_kinds(
        &mut self,
        new: impl Iterator<Item = Kind>,
        masks: impl Iterator<Item = frer_mask>,
    ) -> Result<()> {
        let mut kinds: BTreeSet<Kind> = new.collect();
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

    /// Spares frames the look-up by kinds that no entry is of any more, where that can be had
    /// without waiting.
    pub(super) fn unlist_kinds(&mut self) -> Result<()> {
        let kinds: BTreeSet<Kind> = self.shapes.kinds().collect();
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
        kinds: BTreeSet<Kind>,
    ) -> Result<()> {
        node.shapes[set] = self.shapes.in_order(&kinds);
        self.tables.node.set(&0, node)?;
        let before = std::mem::replace(&mut node.active, set as u32);
        self.tables.node.set(&0, node)?;
        self.shapes.left[before as usize % SETS] = self.grace.now();
        self.shapes.masks.retain(|id, _| kinds.contains(&Kind::Mask(*id)));
        self.shapes.listed = kinds;
        Ok(())
    }
}
