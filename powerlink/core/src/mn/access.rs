//! The application's access to objects of nodes, by SDO.

use core::fmt;

use onbeat_wire::powerlink::NodeId;

use super::{ManagingNode, Step};
use crate::od::Abort;
use crate::sdo::{Done, Request};

/// A node whose objects nobody can get at now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NotReachable(pub NodeId);

impl fmt::Display for NotReachable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let node = self.0;
        write!(f, "node {node} is none of the network, or not identified and configured yet")
    }
}

impl core::error::Error for NotReachable {}

impl ManagingNode {
    /// Reads or writes an object of a node; what comes of it [`poll_done`](Self::poll_done) tells.
    /// Requests to one node are done one after the other, those to several nodes at the same time.
    ///
    /// # Errors
    /// The node is none of the network, or is not configured yet.
    pub fn request(
        &mut self,
        now_ns: u64,
        node: NodeId,
        request: Request,
    ) -> Result<(), NotReachable> {
        let found = self.stations.iter_mut().find(|station| station.node == node);
        let station = found.ok_or(NotReachable(node))?;
        if matches!(station.step, Step::Identify | Step::Configure | Step::Reset) {
            return Err(NotReachable(node));
        }
        station.sdo.request(now_ns, request, &mut station.frames);
        Ok(())
    }

    /// A request of the application that is done, and for which node. One of a node that has to
    /// begin anew ends as one that nobody answered.
    pub fn poll_done(&mut self) -> Option<(NodeId, Done)> {
        self.done.pop_front()
    }

    /// A request to a node is done: of its configuration, or of the application.
    pub(super) fn sdo_done(&mut self, now_ns: u64, place: usize, done: Done) {
        let station = &self.stations[place];
        if station.step == Step::Configure {
            self.configured(now_ns, place, &done);
        } else {
            self.done.push_back((station.node, done));
        }
    }

    /// Forgets what a node was, as after a reset.
    pub(super) fn forget(&mut self, place: usize) {
        let station = &mut self.stations[place];
        if station.step != Step::Configure {
            let node = station.node;
            let result = Err(Abort::TIME_OUT);
            let gone = station.sdo.take_pending();
            self.done.extend(gone.map(|request| (node, Done { request, result: result.clone() })));
        }
        station.forget();
    }
}
