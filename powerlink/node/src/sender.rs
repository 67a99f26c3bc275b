//! Who sends the frames on whose time everything depends.

use std::fmt;

use onbeat_link::Backend;

/// Who sends a controlled node's responses to polls, or a managing node's SoC.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Sender {
    /// This process, once it has its turn.
    Process,
    /// The back end, in the driver, in the kernel or in the NIC, whatever this process is doing.
    Automatic,
}

impl Sender {
    /// Each with its name in files and on the command line.
    pub const ALL: [(&'static str, Self); 2] =
        [("process", Self::Process), ("automatic", Self::Automatic)];

    /// Who sends responses where nobody says: a back end that can does.
    #[must_use]
    pub const fn of_responses(backend: Backend) -> Self {
        if backend.answers() { Self::Automatic } else { Self::Process }
    }

    /// Who sends SoC where nobody says: a back end that can does.
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
