//! The program `onbeat`, executed.

mod check;
mod common;
mod doctor;
mod doctor_fix;
mod files;
mod help;
mod install;
mod node;
mod plan;
mod results;
mod run;
mod service;
mod trust;
mod usage;
mod wording;
mod yang;
