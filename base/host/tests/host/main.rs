//! Locks, journals, private directories and settings of hosts.

mod common;
mod directory;
mod journal;
mod live;
mod lock;
mod namespace;
mod transaction;
mod umask;
