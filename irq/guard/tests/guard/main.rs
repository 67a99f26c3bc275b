//! The guard: on a host made of a table, and on this kernel.

mod evaders;
mod fake;
mod foreign;
mod groups;
// The tests of the ledger use all of it.
#[allow(dead_code, reason = "other tests use the rest")]
#[path = "../../../tracer/tests/kernel/harness.rs"]
mod harness;
mod hostile;
mod innocent;
mod kernel;
#[allow(dead_code, reason = "other tests use the rest")]
#[path = "../../../tracer/tests/kernel/reader.rs"]
mod reader;
mod running;
mod server;
mod table;
