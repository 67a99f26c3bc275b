//! Errors of rows, which are sums of estimates.

use super::{SampledPart, UnownedRow};
use crate::charge::sample::{Estimate, StandardError};

/// The error of a sum is at most the sum of errors; if one is unknown, so is that of the sum.
pub(super) fn sum(a: Option<StandardError>, b: Option<StandardError>) -> Option<StandardError> {
    let (a, b) = (a?, b?);
    Some(StandardError { ns: a.ns + b.ns, packets: a.packets + b.packets })
}

impl UnownedRow {
    pub(super) fn with_error(self, standard_error: Option<StandardError>) -> Self {
        Self { standard_error, ..self }
    }
}

impl SampledPart {
    /// `None` if all packets were observed.
    pub(super) fn of(estimate: &Estimate) -> Option<Self> {
        let Estimate { windows, sampled_ns: looked_at_ns, skipped_ns, .. } = *estimate;
        estimate.is_sampled().then_some(Self { windows, looked_at_ns, skipped_ns })
    }
}
