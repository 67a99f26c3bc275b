//! Frames queued for the asynchronous phase.

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use onbeat_wire::powerlink::{Priority, RequestedService, SendRequest};

/// Maximum number of queued frames; a peer that requests more than it fetches receives no further answers.
const CAPACITY: usize = 64;

/// Frames of a node that are queued until it is invited, by priority.
#[derive(Debug, Default)]
pub(crate) struct Queue {
    nmt: VecDeque<Vec<u8>>,
    generic: VecDeque<Vec<u8>>,
}

impl Queue {
    /// PR and RS.
    pub(crate) fn request(&self) -> SendRequest {
        let (priority, frames) = match (self.nmt.len(), self.generic.len()) {
            (0, 0) => return SendRequest::NONE,
            (0, frames) => (Priority::GENERIC, frames),
            (frames, _) => (Priority::NMT_REQUEST, frames),
        };
        SendRequest { priority, pending: frames.min(SendRequest::MAX.into()) as u8 }
    }

    /// The number of queued frames of generic priority.
    pub(crate) fn generic(&self) -> usize {
        self.generic.len()
    }

    /// Adds a frame; returns false if the queue is full.
    pub(crate) fn push(&mut self, priority: Priority, frame: Vec<u8>) -> bool {
        let queue = match priority {
            Priority::NMT_REQUEST => &mut self.nmt,
            _ => &mut self.generic,
        };
        let room = queue.len() < CAPACITY;
        if room {
            queue.push_back(frame);
        }
        room
    }

    /// Removes the next frame that an invite permits.
    pub(crate) fn take(&mut self, service: RequestedService) -> Option<Vec<u8>> {
        match service {
            RequestedService::NMT_REQUEST_INVITE => self.nmt.pop_front(),
            RequestedService::UNSPECIFIED_INVITE => self.generic.pop_front(),
            _ => None,
        }
    }

    /// Whether a frame of generic priority is queued.
    pub(crate) fn holds(&self, frame: &[u8]) -> bool {
        self.generic.iter().any(|queued| queued == frame)
    }

    pub(crate) fn clear(&mut self) {
        self.nmt.clear();
        self.generic.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;

    #[test]
    fn the_highest_priority_is_announced_and_each_invite_gets_its_own() {
        let mut queue = Queue::default();
        assert_eq!(queue.request(), SendRequest::NONE);
        for n in 0..9 {
            assert!(queue.push(Priority::GENERIC, vec![n]));
        }
        assert_eq!(queue.request(), SendRequest { priority: Priority::GENERIC, pending: 7 });
        assert!(queue.push(Priority::NMT_REQUEST, vec![100]));
        assert_eq!(queue.request(), SendRequest { priority: Priority::NMT_REQUEST, pending: 1 });
        assert_eq!(queue.take(RequestedService::UNSPECIFIED_INVITE), Some(vec![0]));
        assert_eq!(queue.take(RequestedService::NMT_REQUEST_INVITE), Some(vec![100]));
        assert_eq!(queue.take(RequestedService::NMT_REQUEST_INVITE), None);
        assert_eq!(queue.take(RequestedService::IDENT_REQUEST), None);
        while queue.push(Priority::GENERIC, vec![]) {}
        assert_eq!(queue.generic.len(), CAPACITY);
        queue.clear();
        assert_eq!(queue.request(), SendRequest::NONE);
    }
}
