//! End-to-end tests of both programs, on networks of namespaces; requires `cargo build -p onbeat`. One
//! binary: each test holds a lock on the machine (`common::machine`).

#[path = "../common/mod.rs"]
mod common;

mod bad_frames;
mod bench_irq;
mod bench_port;
mod book;
mod bridge;
mod canary;
mod causes;
mod chaos;
mod command_line;
mod compare;
mod delay;
mod end_system;
mod events;
mod exclusive;
mod foreign;
mod guard;
mod history;
mod host_conditions;
mod how_to;
mod interfaces;
mod irq;
mod latent;
mod losses;
mod managed;
mod metrics;
mod mirror;
mod modes;
mod origin;
mod output;
mod paths;
mod powerlink;
mod powerlink_ethernet;
mod powerlink_late;
mod powerlink_sdo;
mod private;
mod probe;
mod protect;
mod protect_host;
mod protect_sources;
mod readers;
mod reload;
mod scenarios;
mod shell;
mod show;
mod silent;
mod stream;
mod takeover;
mod top;
mod traffic;
mod tutorials;
mod wildcards;
mod world;
