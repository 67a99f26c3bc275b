//! IEEE 802.1CB FRER in XDP: one program per port, driven by tables that outlive the process.
//!
//! The files in `bpf/` are the stages of a frame: `parse`, `identify`, `recover`, `generate`, `egress`.
//! `abi/frer.h` describes the tables that they share with this crate. [`Plane`] loads the programs, attaches
//! them to ports and converts streams to table entries.

pub mod abi;
pub mod compile;
mod error;
mod features;
mod lans;
mod link;
mod output;
mod owner;
mod pin;
mod plane;
mod programs;
mod slots;
mod steering;
mod table;

pub use error::{Error, Result};
pub use lans::{Shield, UnattachedLanPrograms};
pub use link::forwards;
pub use pin::{
    BPF_MOUNT, PinDirectory, PinOwner, check_path as check_pin_path, uses_mount_of_init,
};
pub use plane::{Options, Plane};
pub use steering::{SteeredPort, Steering};
