//! Configuration files, control socket and doctor.

mod config_errors;
mod config_random;
mod config_values;
mod control;
mod doctor;
mod examples;
mod readers;
mod traps;
mod yang;
