//! A client that reads and writes objects of a node by SDO: over UDP, or as diagnostic device on the bus.

mod bus;
mod udp;

use std::io;
use std::net::{Ipv4Addr, SocketAddrV4};

use onbeat_netdev::Namespace;
use onbeat_powerlink::ethernet;
use onbeat_powerlink::od::Abort;
use onbeat_powerlink::od::ObjectId;
use onbeat_powerlink::od::profile::{FEATURES, NODE_ID, SDO_MULTIPLE};
use onbeat_powerlink::sdo::{CompletedRequest, MAX_SEGMENT, Request, UDP_PORT};
use onbeat_wire::powerlink::NodeId;

use bus::BusClient;
use udp::UdpClient;

/// An error of a client.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// The operating system cannot send to the address, or reports that it is unreachable.
    #[error(
        "cannot reach node {node} at {address} over UDP: {source}; check its address and the route to it"
    )]
    Unreachable {
        /// The node.
        node: NodeId,
        /// Its address.
        address: SocketAddrV4,
        /// The cause.
        source: io::Error,
    },
    /// No process has the port.
    #[error(
        "node {node} at {address} has no SDO server over UDP; configure virtual-ethernet there, or use \
         --interface on the bus"
    )]
    NoServer {
        /// The node.
        node: NodeId,
        /// Its address.
        address: SocketAddrV4,
    },
    /// Another node has the address.
    #[error(
        "node {node} was addressed, but the host at {address} answers as node {found}; use this id, or the address \
         of node {node}"
    )]
    OtherNode {
        /// The addressed node.
        node: NodeId,
        /// The address.
        address: Ipv4Addr,
        /// The node id of the host (0x1F93/1).
        found: NodeId,
    },
    /// The server is silent over UDP.
    #[error(
        "node {node} at {address} did not answer within {timeout_s} s; check its address and state, and raise \
         --timeout if its cycle is long"
    )]
    Silent {
        /// The node.
        node: NodeId,
        /// Its address.
        address: SocketAddrV4,
        /// The timeout, in seconds.
        timeout_s: f64,
    },
    /// The server closed the connection: it was reset, or needed the connection for another client.
    #[error(
        "node {node} closed the connection before its answer; read the object, since the access may have been \
         executed, and repeat it"
    )]
    Closed {
        /// The node.
        node: NodeId,
    },
    /// The scheduling policy of the thread.
    #[error(transparent)]
    Realtime(onbeat_realtime::Error),
    /// The interface.
    #[error(transparent)]
    Port(#[from] onbeat_link::Error),
    /// No managing node on the bus.
    #[error(
        "{interface}: no SoA of a managing node within {timeout_s} s; without one, use UDP to the node's address"
    )]
    NoManagingNode {
        /// The interface.
        interface: String,
        /// The timeout, in seconds.
        timeout_s: f64,
    },
    /// The managing node does not let node 253 send.
    #[error(
        "{interface}: the managing node did not {missing} node 253 (a diagnostic device) within {timeout_s} s; \
         raise --timeout if its cycle is long, or use UDP to the node's address"
    )]
    NotInvited {
        /// The interface.
        interface: String,
        /// `identify` or `invite`.
        missing: &'static str,
        /// The timeout, in seconds.
        timeout_s: f64,
    },
    /// The node does not answer on the bus.
    #[error(
        "{interface}: node {node} did not answer within {timeout_s} s; check its id and state, and raise --timeout \
         if the bus is slow"
    )]
    SilentOnBus {
        /// The interface.
        interface: String,
        /// The node.
        node: NodeId,
        /// The timeout, in seconds.
        timeout_s: f64,
    },
}

/// The transport of a client's frames.
trait Transport: std::fmt::Debug {
    /// Executes a request.
    fn execute(&mut self, request: Request) -> Result<CompletedRequest, ClientError>;

    /// Closes the connection. Without it, the server closes after its timeout.
    fn close(&mut self);
}

/// Maximum number of objects that are read by one command: a request of one segment, since the reference stack does
/// not answer longer ones.
const READ_TOGETHER: usize = MAX_SEGMENT / 4;

/// A client of one node. Its connection is closed when it is dropped.
#[derive(Debug)]
pub struct ObjectClient(Box<dyn Transport>);

impl ObjectClient {
    /// A client over UDP; the default address is that of the node's id. At another address, the
    /// node id of the host (0x1F93/1) is checked first. The timeout in nanoseconds is the longest silence of the node.
    ///
    /// # Errors
    /// There is no route to the address, no answer from it, or another node has it.
    pub fn by_udp(
        node: NodeId,
        address: Option<Ipv4Addr>,
        timeout_ns: u64,
    ) -> Result<Self, ClientError> {
        let chosen = address.filter(|address| *address != ethernet::address(node));
        let address = SocketAddrV4::new(address.unwrap_or(ethernet::address(node)), UDP_PORT);
        let mut client = ObjectClient(Box::new(UdpClient::open(node, address, timeout_ns)?));
        if chosen.is_some() {
            client.check_node(node, *address.ip())?;
        }
        Ok(client)
    }

    /// Refuses a host that has another node id. A frame of SDO over UDP has none; a node without the object passes.
    fn check_node(&mut self, node: NodeId, address: Ipv4Addr) -> Result<(), ClientError> {
        let read = self.execute_read(Request::Read(NODE_ID))?.result;
        let Ok(&[found]) = read.as_deref() else { return Ok(()) };
        let found = NodeId(found);
        // The active one of redundant managing nodes has two ids (EPSG DS 302-A).
        if found == node || found.is_managing() && node == NodeId::MN {
            return Ok(());
        }
        Err(ClientError::OtherNode { node, address, found })
    }

    /// A client on the bus, as node 253 of an interface of this namespace.
    ///
    /// # Errors
    /// The interface does not exist, or this process cannot send and receive frames.
    pub fn on_bus(node: NodeId, interface: &str, timeout_ns: u64) -> Result<Self, ClientError> {
        let namespace = Namespace::current().map_err(onbeat_link::Error::from)?;
        let client = BusClient::open(&namespace, interface, node, timeout_ns)?;
        Ok(ObjectClient(Box::new(client)))
    }

    /// Reads objects: several by one command if the node has it, else one by one. If the node closes the connection,
    /// another one is opened once for each command.
    ///
    /// # Errors
    /// The node does not answer.
    pub fn read(
        &mut self,
        objects: &[ObjectId],
    ) -> Result<Vec<Result<Vec<u8>, Abort>>, ClientError> {
        if objects.len() > 1 && self.reads_multiple()? {
            let mut results = Vec::with_capacity(objects.len());
            for together in objects.chunks(READ_TOGETHER) {
                let done = self.execute_read(Request::ReadMultiple(together.to_vec()))?;
                results.extend(match done.result {
                    Ok(_) => done.results,
                    // A node may refuse a response that exceeds a segment.
                    Err(_) => self.read_one_by_one(together)?,
                });
            }
            return Ok(results);
        }
        self.read_one_by_one(objects)
    }

    fn read_one_by_one(
        &mut self,
        objects: &[ObjectId],
    ) -> Result<Vec<Result<Vec<u8>, Abort>>, ClientError> {
        let read = |object: &ObjectId| Ok(self.execute_read(Request::Read(*object))?.result);
        objects.iter().map(read).collect()
    }

    /// Executes a request that has no effect on the node, and can be repeated.
    fn execute_read(&mut self, request: Request) -> Result<CompletedRequest, ClientError> {
        match self.0.execute(request.clone()) {
            Err(ClientError::Closed { .. }) => self.0.execute(request),
            done => done,
        }
    }

    /// Whether the node has commands for several objects (0x1F82).
    fn reads_multiple(&mut self) -> Result<bool, ClientError> {
        let features = self.execute_read(Request::Read(FEATURES))?.result.unwrap_or_default();
        let features = features.first_chunk().map_or(0, |octets| u32::from_le_bytes(*octets));
        Ok(features & SDO_MULTIPLE != 0)
    }

    /// Writes an object.
    ///
    /// # Errors
    /// The node does not answer, or closes the connection.
    pub fn write(
        &mut self,
        object: ObjectId,
        value: &[u8],
    ) -> Result<Result<(), Abort>, ClientError> {
        let done = self.0.execute(Request::Write(object, value.into()))?;
        Ok(done.result.map(drop))
    }
}

impl Drop for ObjectClient {
    fn drop(&mut self) {
        self.0.close();
    }
}
