//! IEEE 802.1CB FRER in XDP: one program per port, driven by tables that outlive the process.
//!
//! A frame's way is told by the files in `bpf/`: `parse`, `identify`, `recover`, `generate`,
//! `egress`; the tables they share with this crate are described in `abi/frer.h`. [`Plane`] loads
//! the programs, attaches them to ports and turns streams into table entries.

pub mod abi;
pub mod compile;
mod error;
mod link;
mod owner;
mod pin;
mod plane;
mod programs;
mod slots;
mod steering;
mod table;

pub use error::{Error, Result};
pub use link::forwards;
pub use pin::{
    BPF_MOUNT, PinDirectory, PinOwner, check_path as check_pin_path, uses_mount_of_init,
};
pub use plane::{Options, Plane};
pub use steering::Steering;
