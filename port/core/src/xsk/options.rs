//! What a port over XDP is opened with.

use onbeat_netdev::XdpMode;
use onbeat_wire::EtherType;

use crate::{Clock, Error, Result};

/// Responses of a port at most: what the program looks at for each frame.
pub(crate) const MAX_RESPONSES: usize = 128;
const MOST: usize = 4096;

/// How a [`super::XskPort`] or a [`crate::XdpPort`] is opened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct XdpOptions {
    /// What to receive; empty: every EtherType. Frames of others, and to other addresses, go to the
    /// network stack.
    pub ether_types: Vec<EtherType>,
    /// Transmit slots.
    pub slots: usize,
    /// Automatic responses.
    pub responses: usize,
    /// Places for received frames, of 2048 octets each.
    pub receive_buffers: usize,
    /// [`Clock::Monotonic`] or [`Clock::Tai`].
    pub clock: Clock,
    /// [`crate::Port::wait`] does not sleep but looks at the rings and the clock again and again,
    /// without a system call. Takes a whole core.
    pub spin: bool,
    /// Confirm what was sent. Confirmations want to be taken: while there are some,
    /// [`crate::Port::wait`] returns at once. That a launch or a response could not be sent is
    /// told in any case.
    pub confirm: bool,
    /// Where the program runs: [`XdpMode::Native`] or [`XdpMode::Generic`], and nowhere else.
    /// `None`: native where the driver can, else generic.
    pub mode: Option<XdpMode>,
    /// Copy frames to and from the UMEM even where the driver could work on it.
    pub copy: bool,
}

impl Default for XdpOptions {
    fn default() -> Self {
        Self {
            ether_types: Vec::new(),
            slots: 64,
            responses: 64,
            receive_buffers: 256,
            clock: Clock::Monotonic,
            spin: false,
            confirm: true,
            mode: None,
            copy: false,
        }
    }
}

impl XdpOptions {
    pub(super) fn check(&self) -> Result<()> {
        for (what, value, least, most, allowed) in [
            ("slots", self.slots, 1, MOST, "from 1 to 4096"),
            ("responses", self.responses, 0, MAX_RESPONSES, "at most 128"),
            ("receive buffers", self.receive_buffers, 2, MOST, "from 2 to 4096"),
        ] {
            if !(least..=most).contains(&value) {
                return Err(Error::Option { what, value, allowed });
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_out_of_range_are_named() {
        assert!(XdpOptions::default().check().is_ok());
        let refusal = XdpOptions { responses: 129, ..XdpOptions::default() }.check().unwrap_err();
        assert_eq!(refusal.to_string(), "responses is 129; it must be at most 128");
        assert!(XdpOptions { slots: 0, ..XdpOptions::default() }.check().is_err());
        assert!(XdpOptions { receive_buffers: 1, ..XdpOptions::default() }.check().is_err());
    }
}
