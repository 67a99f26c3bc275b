//! rtnetlink: typed messages over a [`Connection`].

use std::os::fd::{AsFd, BorrowedFd};

use netlink_packet_core::{NetlinkDeserializable, NetlinkSerializable};
use netlink_packet_route::{
    RouteNetlinkMessage,
    link::LinkMessage,
    nsid::{NsidAttribute, NsidMessage},
};
use netlink_sys::protocols::NETLINK_ROUTE;

use crate::{
    Error,
    netlink::{Connection, Failure, Reply},
};

/// An rtnetlink socket.
#[derive(Debug)]
pub(crate) struct Rtnl(Connection);

impl Rtnl {
    /// Opens a socket in the calling thread's namespace.
    pub(crate) fn open() -> Result<Self, Error> {
        Connection::open(NETLINK_ROUTE).map(Self)
    }

    /// Requests a change, with `flags` in addition to request and acknowledgment.
    pub(crate) fn change(&self, message: &RouteNetlinkMessage, flags: u16) -> Result<(), Failure> {
        self.0.request(message.message_type(), flags, &bytes(message)).map(drop)
    }

    /// Requests a change like [`Rtnl::change`], with a serialized message.
    pub(crate) fn request(&self, kind: u16, flags: u16, body: &[u8]) -> Result<(), Failure> {
        self.0.request(kind, flags, body).map(drop)
    }

    /// Returns all entries of a table.
    pub(crate) fn dump(&self, kind: u16, body: &[u8]) -> Result<Vec<Reply>, Failure> {
        self.0.dump(kind, body)
    }

    /// Returns the reply to a query for one entry.
    pub(crate) fn get(&self, query: &RouteNetlinkMessage) -> Result<RouteNetlinkMessage, Failure> {
        let replies = self.0.request(query.message_type(), 0, &bytes(query))?;
        let reply = replies.last().ok_or_else(|| Failure::Malformed("no reply".into()))?;
        parse(reply)
    }

    /// Returns the ids of other namespaces in the namespace of this socket.
    pub(crate) fn namespace_ids(&self) -> Result<Vec<i32>, Failure> {
        let query = RouteNetlinkMessage::GetNsId(NsidMessage::default());
        let mut ids = Vec::new();
        for reply in self.0.dump(query.message_type(), &bytes(&query))? {
            if let RouteNetlinkMessage::NewNsId(message) = parse(&reply)? {
                ids.extend(message.attributes.iter().filter_map(|attribute| match attribute {
                    NsidAttribute::Id(id) => Some(*id),
                    _ => None,
                }));
            }
        }
        Ok(ids)
    }

    /// Returns the link that `query` selects.
    pub(crate) fn link(&self, query: LinkMessage) -> Result<LinkMessage, Failure> {
        let message = RouteNetlinkMessage::GetLink(query);
        let replies = self.0.request(message.message_type(), 0, &bytes(&message))?;
        links(&replies)?.pop().ok_or_else(|| Failure::Malformed("no link in the reply".into()))
    }

    /// Returns all links that `query` selects.
    pub(crate) fn links(&self, query: LinkMessage) -> Result<Vec<LinkMessage>, Failure> {
        let message = RouteNetlinkMessage::GetLink(query);
        links(&self.0.dump(message.message_type(), &bytes(&message))?)
    }
}

impl AsFd for Rtnl {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// Parses a message.
pub(crate) fn parse(reply: &Reply) -> Result<RouteNetlinkMessage, Failure> {
    RouteNetlinkMessage::deserialize(&reply.header, &reply.payload)
        .map_err(|error| Failure::Malformed(error.to_string()))
}

fn links(replies: &[Reply]) -> Result<Vec<LinkMessage>, Failure> {
    let mut links = Vec::with_capacity(replies.len());
    for reply in replies {
        if let RouteNetlinkMessage::NewLink(link) = parse(reply)? {
            links.push(link);
        }
    }
    Ok(links)
}

fn bytes(message: &RouteNetlinkMessage) -> Vec<u8> {
    let mut buffer = vec![0; NetlinkSerializable::buffer_len(message)];
    message.serialize(&mut buffer);
    buffer
}
