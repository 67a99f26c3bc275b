//! The sender of time-critical frames.

use std::fmt;

use onbeat_link::Backend;

/// The sender of a controlled node's responses to polls, or a managing node's SoC.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Sender {
    /// This process, once it is scheduled.
    Process,
    /// The back end, in the driver, in the kernel or in the NIC, whatever the state of this process.
    Automatic,
}

impl Sender {
    /// All senders, with their names in files and on the command line.
    pub const ALL: [(&'static str, Self); 2] =
        [("process", Self::Process), ("automatic", Self::Automatic)];

    /// The default sender of responses: the back end if it supports them.
    #[must_use]
    pub const fn of_responses(backend: Backend) -> Self {
        if backend.answers() { Self::Automatic } else { Self::Process }
    }

    /// The default sender of SoC: the back end if it supports launch times.
    #[must_use]
    pub const fn of_soc(backend: Backend) -> Self {
        if backend.launches() { Self::Automatic } else { Self::Process }
    }
}

impl fmt::Display for Sender {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Process => "process",
            Self::Automatic => "automatic",
        })
    }
}
