//! An interface is one port's: two would both receive each frame, and send two sequences.

use onbeat_host::{InterfaceLock, command_line};
use onbeat_netdev::{Link, Namespace};

use crate::{Error, Result};

/// Locks an interface for a port of this process, whichever its back end.
pub(crate) fn lock(namespace: &Namespace, link: &Link) -> Result<InterfaceLock> {
    Ok(InterfaceLock::take(namespace.inode(), link.index, &link.name, &command_line())?)
}

/// Refuses an XDP program in front of a packet socket: the data plane of a node, which works without
/// a process that would hold the lock.
pub(crate) fn refuse_program(link: &Link) -> Result<()> {
    let Some(program) = link.xdp_program() else { return Ok(()) };
    Err(Error::Programmed { interface: link.name.clone(), program: program.program_id })
}
