//! An upper bound of delays beyond the measured ones: extrapolation of the tail.
//!
//! Exceedances of a high threshold have a generalized Pareto distribution, whatever the distribution of the delays,
//! if the threshold is high enough (Pickands 1975; Coles: *An Introduction to Statistical Modeling of Extreme
//! Values*, chapter 4). The threshold is selected by rule, the fit is tested, and a failed test yields a
//! [`Refusal`].

mod goodness;
mod largest;
mod model;
mod pareto;
mod table;

pub use goodness::{anderson_darling, p_value};
pub use largest::{LargestDelays, Sample};
pub use model::{Estimate, Refusal, Tail, fit};
pub use pareto::{Pareto, Shape};
