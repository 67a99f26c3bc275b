//! Roll-out of plans: from one plan to the next while frames flow, without losing or doubling one.
//!
//! ```text
//!            plans (files of nodes)                         store (etcd, or MemoryStore)
//!  old, new ──────► change ──► Change, hashes                  │            ▲
//!                     │ stage: the file of a node in a phase   │ View       │ Current, by compare
//!                     ▼                                        ▼            │
//!                  stage ◄──────────── Agent ◄── Current ── Controller::decide
//!                                        │ files, apply, read the hash back
//!                                        └──► NodeState, with the step of Current
//! ```
//!
//! [`Current`] says which stage all nodes run, [`NodeState`] what one node runs. The controller moves `Current` by one
//! phase when all affected nodes have acknowledged its step; so no node is more than one phase from another.
//!
//! # Seams
//!
//! - [`store::Store`] is the part of etcd that the protocol uses. Its requests are plain data: a program with an
//!   asynchronous client executes the same [`store::Transaction`]s.
//! - [`controller::Controller`] and [`agent::Agent`] are machines without I/O. A program reads, passes results in, and
//!   executes what comes out. Each step of an agent is one action, so that a process can be killed between any two.
//! - Time is passed in as nanoseconds of a monotonic clock; no wall clock is compared.
//! - [`record::Signer`] and [`record::Verifier`] are implemented by the program (Ed25519).
//! - [`stage`] computes the files of all phases, [`change`] what a change of plans requires or why it is refused.
#![forbid(unsafe_code)]

pub mod agent;
pub mod change;
pub mod controller;
pub mod key;
pub mod phase;
pub mod record;
pub mod stage;
pub mod store;

pub use agent::Agent;
pub use controller::Controller;
pub use phase::{Current, Generation, Phase, Step};
pub use record::NodeState;
