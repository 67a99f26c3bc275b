//! The networks of all rows: each has hosts, nodes and paths of its own, so that nothing is removed
//! between two measurements.

use libbpf_rs::Link;

use super::cpu_layout::CpuLayout;
use super::row::{Napi, Plane, REDIRECT, ROWS, Row};
use super::{Load, background, napi, programs};
use crate::scenario::options::DataPlaneOptions;
use crate::scenario::stage::Stage;
use crate::{Error, Result, Topology, World};

/// Interfaces of a node.
const INTERFACES: [&str; 3] = ["host", "path1", "path2"];

/// The networks of all rows, ready to be measured.
pub(super) struct Rig {
    // Dropped before their interfaces.
    links: Vec<Link>,
    pub(super) world: World,
    /// All requested rows, each with the reason if it is unavailable.
    pub(super) rows: Vec<(Row, Option<String>)>,
}

impl Rig {
    /// Builds the rows that are measured under these loads.
    pub(super) fn build(
        stage: &mut Stage<'_>,
        plane: &DataPlaneOptions,
        loads: &[Load],
        place: &CpuLayout,
    ) -> Result<Self> {
        let only = plane.backend;
        let wanted = |row: &&Row| row.runs_on(only) && loads.iter().any(|load| row.is_for(*load));
        let rows: Vec<Row> = ROWS.iter().filter(wanted).copied().collect();
        let mut network = Topology::default();
        for row in &rows {
            let Topology { hosts, nodes, links, .. } = row.topology(place);
            network.hosts.extend(hosts);
            network.nodes.extend(nodes);
            network.links.extend(links);
        }
        stage.show_step("building the network");
        let mut rig = Self { links: Vec::new(), world: World::build(&network)?, rows: Vec::new() };
        for row in rows {
            stage.show_step(&format!("starting {}", row.name));
            let opened = rig.open(stage, &row, loads, place);
            let why_not = match opened {
                Ok(()) => None,
                // Without the reference no measurement is meaningful.
                Err(error) if row.name == REDIRECT => return Err(error),
                Err(error @ Error::Interrupted(_)) => return Err(error),
                Err(error) => Some(error.to_string().replace('\n', " ")),
            };
            rig.rows.push((row, why_not));
        }
        let nodes = rig.present().filter(|row| row.plane != Plane::Redirect);
        let nodes: Vec<String> =
            nodes.flat_map(|row| ["a", "b"].map(|node| row.station(node))).collect();
        stage.record_ports(&rig.world, nodes.iter().map(String::as_str))?;
        Ok(rig)
    }

    /// The available rows.
    pub(super) fn present(&self) -> impl Iterator<Item = Row> {
        self.rows.iter().filter(|(_, why_not)| why_not.is_none()).map(|(row, _)| *row)
    }

    fn open(
        &mut self,
        stage: &Stage<'_>,
        row: &Row,
        loads: &[Load],
        place: &CpuLayout,
    ) -> Result<()> {
        match row.plane {
            Plane::Redirect => self.links.extend(programs::redirect(&self.world, row)?),
            Plane::Frer { napi, .. } => {
                for node in ["a", "b"] {
                    self.world.start(&row.station(node), stage.onbeat_bin())?;
                }
                if let Napi::Threaded { realtime } = napi {
                    for (node, cpu) in [("a", place.a), ("b", place.b)] {
                        let namespace = self.world.namespace(&row.station(node))?;
                        napi::thread(namespace, &INTERFACES, cpu, realtime)?;
                    }
                }
            }
        }
        self.links.push(programs::answer(&self.world, row)?);
        if loads.contains(&Load::Background) {
            background::prepare(&self.world, row)?;
        }
        Ok(())
    }
}
