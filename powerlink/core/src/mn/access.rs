//! The application's SDO access to objects of nodes.

use core::fmt;

use onbeat_wire::powerlink::NodeId;

use super::station::Station;
use super::{ManagingNode, Step};
use crate::od::Abort;
use crate::sdo::{CompletedRequest, Request};

/// A node without SDO access at present.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UnreachableNode(pub NodeId);

impl fmt::Display for UnreachableNode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let node = self.0;
        write!(
            f,
            "node {node} is not reachable: not in the network, or not identified and configured yet"
        )
    }
}

impl core::error::Error for UnreachableNode {}

impl ManagingNode {
    /// Requests to read or write objects of a node; [`poll_completed`](Self::poll_completed) returns the result.
    /// Requests to one node are executed in order, those to several nodes in parallel.
    ///
    /// # Errors
    /// The node is not in the network, or is not configured yet.
    pub fn request(
        &mut self,
        now_ns: u64,
        node: NodeId,
        request: Request,
    ) -> Result<(), UnreachableNode> {
        let found = self.stations.iter_mut().find(|station| station.node == node);
        let station = found.ok_or(UnreachableNode(node))?;
        if matches!(station.step, Step::Identify | Step::Configure | Step::Reset) {
            return Err(UnreachableNode(node));
        }
        station.sdo.request(now_ns, request, &mut station.frames);
        Ok(())
    }

    /// Returns a completed request of the application, and its node. If the node is reset, the result is that
    /// of a timeout.
    pub fn poll_completed(&mut self) -> Option<(NodeId, CompletedRequest)> {
        self.done.pop_front()
    }

    /// Aborts the first request of the application to a node that is not completed, in the node as well.
    /// [`poll_completed`](Self::poll_completed) returns it with the reason.
    pub fn abort_request(&mut self, now_ns: u64, node: NodeId, why: Abort) {
        let is_it =
            |station: &&mut Station| station.node == node && station.step != Step::Configure;
        let Some(station) = self.stations.iter_mut().find(is_it) else { return };
        let aborted = station.sdo.abort(now_ns, why, &mut station.frames);
        self.done.extend(aborted.map(|request| (node, request)));
    }

    /// Handles a completed request: of a node's configuration, or of the application.
    pub(super) fn sdo_done(&mut self, now_ns: u64, place: usize, done: CompletedRequest) {
        let station = &self.stations[place];
        if station.step == Step::Configure {
            self.configured(now_ns, place, &done);
        } else {
            self.done.push_back((station.node, done));
        }
    }

    /// Resets the state of a node.
    pub(super) fn reset_station(&mut self, place: usize) {
        let station = &mut self.stations[place];
        if station.step != Step::Configure {
            let node = station.node;
            let gone = station.sdo.take_pending();
            let failed = |request| (node, CompletedRequest::failed(request, Abort::TIME_OUT));
            self.done.extend(gone.map(failed));
        }
        station.reset();
    }
}
