//! Generic netlink: families by name, and requests to them.

use netlink_packet_core::{DefaultNla, Emitable, NlasIterator};
use netlink_sys::protocols::NETLINK_GENERIC;
use nix::errno::Errno;

use crate::{
    Error,
    netlink::{Connection, Failure},
};

/// `struct genlmsghdr`: command, version, two octets reserved.
const HEADER: usize = 4;
/// `GENL_ID_CTRL`, the family that resolves the others.
const CONTROL: u16 = 16;
const CTRL_CMD_GETFAMILY: u8 = 3;
const CTRL_ATTR_FAMILY_ID: u16 = 1;
const CTRL_ATTR_FAMILY_NAME: u16 = 2;

/// A socket for one family of generic netlink.
#[derive(Debug)]
pub(crate) struct Family {
    connection: Connection,
    id: u16,
}

impl Family {
    /// Opens the family of that name; `None`: not in this kernel.
    pub(crate) fn open(name: &str) -> Result<Option<Self>, Error> {
        let connection = Connection::open(NETLINK_GENERIC)?;
        let query = DefaultNla::new(CTRL_ATTR_FAMILY_NAME, [name.as_bytes(), b"\0"].concat());
        let found = connection
            .request(CONTROL, 0, &body(CTRL_CMD_GETFAMILY, 1, &[query]))
            .and_then(|replies| match replies.first() {
                Some(reply) => attributes(&reply.payload),
                None => Err(Failure::Malformed("no family in the reply".into())),
            });
        let operation = || format!("look up generic netlink family {name:?}");
        match found {
            Ok(attributes) => {
                match attributes.into_iter().find(|(kind, _)| *kind == CTRL_ATTR_FAMILY_ID) {
                    Some((_, id)) if id.len() == 2 => {
                        Ok(Some(Self { connection, id: u16::from_ne_bytes([id[0], id[1]]) }))
                    }
                    _ => {
                        Err(Failure::Malformed("no family id in the reply".into())
                            .of(operation(), ""))
                    }
                }
            }
            Err(failure) if failure.errno() == Some(Errno::ENOENT) => Ok(None),
            Err(failure) => Err(failure.of(operation(), "")),
        }
    }

    /// Sends one command and returns the attributes of the first reply.
    pub(crate) fn get(&self, command: u8, query: &[DefaultNla]) -> Result<Attributes, Failure> {
        let replies = self.connection.request(self.id, 0, &body(command, 1, query))?;
        replies.first().map_or(Ok(Vec::new()), |reply| attributes(&reply.payload))
    }

    /// Returns the attributes of each entry of a table.
    pub(crate) fn dump(
        &self,
        command: u8,
        query: &[DefaultNla],
    ) -> Result<Vec<Attributes>, Failure> {
        let replies = self.connection.dump(self.id, &body(command, 1, query))?;
        replies.iter().map(|reply| attributes(&reply.payload)).collect()
    }
}

/// Attributes by their type.
pub(crate) type Attributes = Vec<(u16, Vec<u8>)>;

fn body(command: u8, version: u8, attributes: &[DefaultNla]) -> Vec<u8> {
    let mut body = vec![0; HEADER + attributes.buffer_len()];
    body[0] = command;
    body[1] = version;
    attributes.emit(&mut body[HEADER..]);
    body
}

fn attributes(payload: &[u8]) -> Result<Attributes, Failure> {
    let malformed = |reason: String| Failure::Malformed(reason);
    let payload = payload.get(HEADER..).ok_or_else(|| malformed("a short header".into()))?;
    NlasIterator::new(payload)
        .map(|attribute| match attribute {
            Ok(attribute) => Ok((attribute.kind(), attribute.value().to_vec())),
            Err(error) => Err(malformed(error.to_string())),
        })
        .collect()
}
