//! A node: one configuration file into running functions, watched over a control socket.

pub mod config;
pub mod control;
pub mod doctor;
pub mod metrics;
pub mod netconf;
pub mod notify;
pub mod protect;
pub mod run;
pub mod service;
pub mod yang;
