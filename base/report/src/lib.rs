//! Results for people and programs.
//!
//! Every measuring command ends with one [`Outcome`]: checks that must hold, measured figures, the conditions
//! of the measurement and the origin of the result. It is one JSON object (`docs/result.schema.json`), and
//! other forms are derived from it: [`text`] for the terminal and [`html`] for a self-contained report with
//! plots.
//!
//! ```
//! use onbeat_report::{Check, Measurement, Run};
//!
//! let run = Run::begin("link-failure");
//! // ... the work ...
//! let mut outcome = run.finish();
//! outcome.check(Check::eq("lost", 0_u64, 0_u64, "frames"));
//! outcome.figure("rate", Measurement::of_runs("frames/s", &[998.0, 1001.0, 1000.0]));
//! outcome.conditions.driver = Some("veth".into());
//! assert!(outcome.ok());

//! ```
#![forbid(unsafe_code)]

pub mod conditions;
pub mod distribution;
pub mod figure;
pub mod format;
pub mod html;
pub mod metrics;
pub mod origin;
pub mod plot;
pub mod progress;
pub mod summary;
pub mod table;
pub mod text;
pub mod topology;

#[cfg(test)]
mod conformance;
mod number;
mod result;
mod run;
#[cfg(test)]
mod sample;
mod svg;
mod timestamp;
mod view;

pub use conditions::{Conditions, CpuTimes, PtpClock};
pub use distribution::Recorder;
pub use figure::{
    Cell, Column, Counters, Distribution, Figure, Loss, Measurement, Phase, PhaseState, Ratio,
    Series, Spread, Sweep, TimeSeries,
};
pub use number::Number;
pub use origin::{Input, InputKind, Inputs, Origin};
pub use progress::Progress;
pub use result::{Cause, Check, Outcome, SCHEMA, Sense};
pub use run::Run;
pub use timestamp::{rfc3339, rfc3339_us};
pub use topology::Topology;
