//! The programs of `bpf/rtt.bpf.c`: a reflector of probes, and nodes that redirect.

use libbpf_rs::Link;

use super::row::Row;
use crate::programs::Programs;
use crate::scenario::two_paths::BACK;
use crate::{Result, World};

static OBJECT: &[u8] = onbeat_bpf::bpf_object!("rtt.bpf.o");

fn load() -> Result<Programs> {
    Programs::load(OBJECT, "the round trips")
}

/// Makes the listener of a row reflect every probe, until the result is dropped.
pub(super) fn answer(world: &World, row: &Row) -> Result<Link> {
    let programs = load()?;
    programs.set_state(&BACK.0)?;
    programs.attach("answer", world.handle(&row.station("listener"))?, "eth0")
}

/// Makes the nodes of a row redirect, until the result is dropped.
pub(super) fn redirect(world: &World, row: &Row) -> Result<Vec<Link>> {
    let mut links = Vec::new();
    for node in ["a", "b"] {
        let handle = world.handle(&row.station(node))?;
        let programs = load()?;
        programs.set_target("to_paths", 0, handle, "path1")?;
        programs.set_target("to_paths", 1, handle, "path2")?;
        programs.set_target("to_host", 0, handle, "host")?;
        for (program, interface) in
            [("replicate", "host"), ("deliver", "path1"), ("eliminate", "path2")]
        {
            links.push(programs.attach(program, handle, interface)?);
        }
    }
    Ok(links)
}
