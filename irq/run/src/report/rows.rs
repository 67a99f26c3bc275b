//! Tables of values that may be estimates.

use onbeat_irq_core::charge::sample::StandardError;
use onbeat_irq_core::view::Table;
use onbeat_report::{Cell, Counters};

/// A table; that of a sample has two more columns, for errors.
pub(super) struct Rows {
    pub(super) counters: Counters,
    sampled: bool,
}

impl Rows {
    pub(super) fn new<const N: usize>(
        of: &Table,
        columns: [(&'static str, &'static str); N],
    ) -> Self {
        const ERRORS: [(&str, &str); 2] =
            [("time, standard error", "ns"), ("packets, standard error", "")];
        let sampled = of.sample.is_some();
        let errors = if sampled { &ERRORS[..] } else { &[] };
        let columns = columns.into_iter().chain(errors.iter().copied());
        Self { counters: Counters::new(columns), sampled }
    }

    pub(super) fn row<const N: usize>(&mut self, cells: [Cell; N], error: Option<StandardError>) {
        let cell = |of: fn(StandardError) -> f64| Cell::from(error.map(|error| of(error).round()));
        let errors = [cell(|error| error.ns), cell(|error| error.packets)];
        let errors = errors.into_iter().filter(|_| self.sampled);
        self.counters.row(cells.into_iter().chain(errors));
    }
}
