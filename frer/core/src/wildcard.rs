//! Wildcards: all frames of a host port, or those of one VLAN, over two paths with R-TAGs (802.1CB 7.8).
//!
//! ```text
//!   host port ──► in scope? ──► number of the node, R-TAG ──► copy on path A, copy on path B
//!
//!   path A, path B ──► R-TAG and in scope? ──► own? ──► first copy? ──► without R-TAG to the host port
//!                       │                       │        │
//!                   own stack of             discard   discard
//!                   the path
//! ```
//!
//! A frame belongs to the named stream that identifies it, else to the wildcard of its VLAN, else to that of all frames.
//! Frames of link-local protocols are never numbered.
//!
//! All wildcards of a node draw from one counter, so that its source addresses and a number identify a frame at any
//! receiver, whatever its wildcards. A receiver of unicast frames therefore sees gaps as a rule. Each number is
//! remembered by itself, as for PRP ([`crate::prp`]): vector recovery would discard what comes late after a gap.

use alloc::string::String;
use alloc::vec::Vec;

use onbeat_wire::{Frame, SequenceTag};

use crate::prp::{Lre, NumberSpace, Outcome, Parameters, Reading, Role};
use crate::spec::PortId;

/// The greatest number of wildcards of a node whose data plane is in the kernel.
pub const MAX_IN_KERNEL: usize = 16;

/// The frames of a wildcard. The order is that of precedence.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Scope {
    /// Frames whose outer VLAN tag has this VLAN id.
    Vlan(u16),
    /// All frames.
    All,
}

impl Scope {
    /// Returns its name, as in configurations.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Vlan(_) => "vlan",
            Self::All => "all",
        }
    }

    /// Returns whether a frame is in scope.
    #[must_use]
    pub fn contains(self, frame: &Frame<'_>) -> bool {
        match self {
            Self::Vlan(vid) => frame.vlan().is_some_and(|tag| tag.vid == vid),
            Self::All => true,
        }
    }
}

/// A wildcard.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wildcard {
    /// A name that is unique within the node.
    pub name: String,
    /// Its frames.
    pub scope: Scope,
    /// Its host port and paths. EntryForgetTime is the same for all wildcards of a node.
    pub link: Parameters,
}

/// The state of a wildcard.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WildcardReading {
    /// Its name.
    pub name: String,
    /// The rest of the silence after a start, in milliseconds; `None`: it has ended.
    pub silence_ms: Option<u32>,
    /// Tables and counters. The LANs are its paths.
    pub link: Reading,
}

#[derive(Debug)]
struct Entity {
    name: String,
    scope: Scope,
    lre: Lre,
}

/// The wildcards of a node.
#[derive(Debug, Default)]
pub struct Wildcards {
    /// By precedence.
    entities: Vec<Entity>,
    /// From the first wildcard on.
    number_space: Option<NumberSpace>,
}

impl Wildcards {
    /// Sets the wildcards. Those of the same names continue with their tables and counters, and the numbers of the node
    /// continue.
    pub fn set(&mut self, wildcards: &[Wildcard], now_ns: u64) {
        let mut former = core::mem::take(&mut self.entities);
        for Wildcard { name, scope, link } in wildcards {
            let entity = match former.iter().position(|entity| entity.name == *name) {
                Some(at) => {
                    let mut entity = former.swap_remove(at);
                    entity.scope = *scope;
                    entity.lre.set_parameters(link.clone());
                    entity
                }
                None => Entity { name: name.clone(), scope: *scope, lre: Lre::r_tag(link.clone()) },
            };
            self.entities.push(entity);
        }
        self.entities.sort_by_key(|entity| entity.scope);
        if let (None, Some(first)) = (&self.number_space, wildcards.first()) {
            self.number_space = Some(NumberSpace::new(first.link.entry_forget_ms, now_ns));
        }
    }

    /// Returns whether there are no wildcards.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.entities.is_empty()
    }

    /// Processes a frame received at `port` that matches no named stream; `None`: it is in no wildcard.
    pub fn frame<'a>(
        &mut self,
        port: PortId,
        now_ns: u64,
        frame: &Frame<'a>,
    ) -> Option<Outcome<'a>> {
        let has_r_tag = matches!(frame.sequence_tag(), Some(SequenceTag::RTag(_)));
        let of_frame = |entity: &&mut Entity| {
            let takes = |role| role == Role::Host || has_r_tag;
            entity.lre.role(port).is_some_and(takes) && entity.scope.contains(frame)
        };
        let is_path = |entity: &&mut Entity| matches!(entity.lre.role(port), Some(Role::Lan(_)));
        if !has_r_tag && let Some(first) = self.entities.iter_mut().find(is_path) {
            let role = first.lre.role(port)?;
            first.lre.count_other_protocol(role, frame);
        }
        let entity = self.entities.iter_mut().find(of_frame)?;
        let role = entity.lre.role(port)?;
        let number_space = self.number_space.as_mut()?;
        Some(entity.lre.frame_of_node(number_space, role, now_ns, frame))
    }

    /// Removes senders and stations that were not heard for NodeForgetTime.
    pub fn expire(&mut self, now_ns: u64) {
        self.entities.iter_mut().for_each(|entity| entity.lre.expire(now_ns));
    }

    /// Returns tables and counters, by precedence.
    #[must_use]
    pub fn read(&self, now_ns: u64) -> Vec<WildcardReading> {
        let number_space = self.number_space.unwrap_or_default();
        let reading = |entity: &Entity| WildcardReading {
            name: entity.name.clone(),
            silence_ms: number_space.silence_ms(now_ns),
            link: Reading { next: number_space.next(), ..entity.lre.read() },
        };
        self.entities.iter().map(reading).collect()
    }
}
