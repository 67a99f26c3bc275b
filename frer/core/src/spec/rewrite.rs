//! Edits of addresses and VLAN tag of a frame.

use alloc::format;
use alloc::string::String;
use core::error::Error;
use core::fmt;

use onbeat_wire::MacAddress;

/// An edit of addresses and VLAN tag. PCP and DEI are kept unless `priority` is set.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Rewrite {
    /// New destination address.
    pub destination: Option<MacAddress>,
    /// Handling of the outer VLAN tag.
    pub vlan: VlanAction,
    /// New PCP, `0..=7`, of the outer VLAN tag, if present.
    pub priority: Option<u8>,
}

/// Handling of the outer VLAN tag.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum VlanAction {
    /// Keeps the tag.
    #[default]
    Keep,
    /// Replaces the VLAN id of an existing tag; adds a tag with PCP 0, DEI 0 to an untagged frame.
    Set(u16),
    /// Removes the outer tag, if present.
    Remove,
}

/// A violated rule of a rewrite.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RewriteError {
    /// The VLAN id to set is out of range.
    VlanId(u16),
    /// `priority` is out of range.
    Priority(u8),
}

impl Error for RewriteError {}

impl fmt::Display for RewriteError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::VlanId(vlan) => write!(f, "vlan: {vlan}; use 1 to 4094"),
            Self::Priority(priority) => write!(f, "priority: {priority}; use 0 to 7"),
        }
    }
}

impl Rewrite {
    /// Returns the part of an identification's [`owner_text`](super::Identification::owner_text).
    pub(super) fn owner_text(&self) -> String {
        let destination = match self.destination {
            Some(MacAddress(octets)) => format!("Some(MacAddress({octets:?}))"),
            None => String::from("None"),
        };
        let vlan = match self.vlan {
            VlanAction::Keep => String::from("Keep"),
            VlanAction::Set(vlan) => format!("Set({vlan})"),
            VlanAction::Remove => String::from("Remove"),
        };
        let priority = self.priority;
        format!("Rewrite {{ destination: {destination}, vlan: {vlan}, priority: {priority:?} }}")
    }

    /// Checks VLAN id and priority.
    ///
    /// # Errors
    /// The first violated rule.
    pub fn validate(&self) -> Result<(), RewriteError> {
        match (self.vlan, self.priority) {
            (VlanAction::Set(vlan), _) if !(1..=4094).contains(&vlan) => {
                Err(RewriteError::VlanId(vlan))
            }
            (_, Some(priority)) if priority > 7 => Err(RewriteError::Priority(priority)),
            _ => Ok(()),
        }
    }
}
