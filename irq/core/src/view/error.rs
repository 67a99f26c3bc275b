//! Errors of rows, which are sums of what was estimated.

use super::{Sampled, UnownedRow};
use crate::charge::sample::{Estimate, StandardError};

/// The error of a sum is no more than the sum of errors; where one is not known, neither is that.
pub(super) fn sum(a: Option<StandardError>, b: Option<StandardError>) -> Option<StandardError> {
    let (a, b) = (a?, b?);
    Some(StandardError { ns: a.ns + b.ns, packets: a.packets + b.packets })
}

impl UnownedRow {
    pub(super) fn with_error(self, standard_error: Option<StandardError>) -> Self {
        Self { standard_error, ..self }
    }
}

impl Sampled {
    /// `None` where all packets were looked at.
    pub(super) fn of(estimate: &Estimate) -> Option<Self> {
        let Estimate { windows, looked_at_ns, skipped_ns, .. } = *estimate;
        estimate.is_sampled().then_some(Self { windows, looked_at_ns, skipped_ns })
    }
}
