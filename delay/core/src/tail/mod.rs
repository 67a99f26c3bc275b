//! The upper bound that no measurement shows: the tail of the delays, extrapolated.
//!
//! What exceeds a high threshold is distributed as a generalised Pareto distribution, whatever the
//! delays are distributed as, if the threshold is high enough (Pickands 1975; Coles: *An
//! Introduction to Statistical Modeling of Extreme Values*, chapter 4). The threshold is chosen by
//! rule, the fit is tested, and where it fails there is no answer: [`Refusal`].

mod goodness;
mod largest;
mod model;
mod pareto;
mod table;

pub use goodness::{anderson_darling, p_value};
pub use largest::{LargestDelays, Sample};
pub use model::{Estimate, Refusal, Tail, fit};
pub use pareto::{Pareto, Shape};
