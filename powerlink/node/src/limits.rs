//! Sizes common to the parts of a runner.

/// Longest frame, without FCS.
pub(crate) const LONGEST: usize = 1514;
