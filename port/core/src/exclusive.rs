//! Exclusive use: an interface has one port. Two ports would both receive each frame, and send two sequences.

use onbeat_bpf::ProgramInfo;
use onbeat_host::{InterfaceLock, command_line};
use onbeat_netdev::{Link, Namespace};

use crate::{Error, Result};

/// Locks an interface for a port of this process, with any back end.
pub(crate) fn lock(namespace: &Namespace, link: &Link) -> Result<InterfaceLock> {
    Ok(InterfaceLock::take(namespace, link.index, &link.name, &command_line())?)
}

/// Refuses an interface whose frames an XDP program receives before packet sockets do, such as the data plane of a
/// node, which works without a process that holds the lock. `own` is the id of a program that the caller attached,
/// read from its BPF link. Any other program is foreign, whatever its name or tag: the programs of all nodes have
/// the same ones.
///
/// # Errors
/// [`Error::Programmed`] with the first foreign program, in any mode.
pub fn refuse_foreign_program(link: &Link, own: Option<u32>) -> Result<()> {
    let foreign = link.xdp.iter().find(|attached| Some(attached.program_id) != own);
    foreign.map_or(Ok(()), |attached| {
        let program = shown_program(attached.program_id);
        Err(Error::Programmed { interface: link.name.clone(), program })
    })
}

/// Formats a loaded program for messages: `"NAME" (id ID)`.
pub(crate) fn shown_program(id: u32) -> String {
    let name = ProgramInfo::by_id(id)
        .map_or_else(|_| "of unknown name".into(), |info| format!("{:?}", info.name));
    format!("{name} (id {id})")
}
