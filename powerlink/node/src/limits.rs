//! Sizes that the parts of a runner share.

/// Longest frame, without FCS.
pub(crate) const LONGEST: usize = 1514;
