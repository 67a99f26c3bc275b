//! Device descriptions of the nodes of a file.

use std::collections::BTreeMap;

use onbeat_powerlink::network::{NetworkError, managing_input, managing_output};
use onbeat_powerlink::od::ObjectId;
use onbeat_wire::MacAddress;
use onbeat_wire::powerlink::NodeId;
use onbeat_xdd::Device;

use crate::File;

impl File {
    /// The device description of a controlled node, or of the managing node, as a text in XML; `date` is
    /// `YYYY-MM-DD`.
    ///
    /// # Errors
    /// The network has no such node, or its objects conflict.
    pub fn describe(
        &self,
        node: Option<NodeId>,
        file_name: &str,
        date: &str,
    ) -> Result<String, NetworkError> {
        let mac = MacAddress::default();
        let write = |objects, names, is_managing| {
            onbeat_xdd::write(&Device { objects, names, is_managing, file_name, date })
        };
        Ok(match (node, &self.project) {
            (Some(node), _) => {
                let mut controlled = self.network.controlled(node, mac)?;
                let mut nodes = self.network.nodes.iter().zip(&self.nodes);
                let host = nodes.find(|(station, _)| station.node == node).map(|(_, host)| host);
                if host.is_some_and(|host| host.host.virtual_ethernet.is_some()) {
                    controlled.serve_datagrams();
                }
                write(controlled.objects(), self.names(node), false)
            }
            (None, Some(project)) => {
                let names = project.project.values.iter().zip(&project.names);
                let names = names.map(|(value, name)| (value.object, name.clone())).collect();
                write(project.project.objects(), names, true)
            }
            (None, None) => {
                let mut managing = self.network.managing(mac)?;
                if self.managing.virtual_ethernet.is_some() {
                    managing.serve_datagrams();
                }
                write(managing.objects(), self.managing_names(), true)
            }
        })
    }

    /// The names of a controlled node's signals.
    fn names(&self, node: NodeId) -> BTreeMap<ObjectId, String> {
        let stations = self.network.nodes.iter().filter(|station| station.node == node);
        let names = stations.flat_map(|station| {
            let signals = station.inputs.iter().chain(&station.outputs);
            let signals = signals.map(|signal| (signal.object, signal.name.clone()));
            let received = station.received.iter();
            signals.chain(received.map(|signal| (signal.object, signal.name.clone())))
        });
        names.collect()
    }

    /// The names of the managing node's signals: host name of the node, and name of its signal.
    fn managing_names(&self) -> BTreeMap<ObjectId, String> {
        let names = self.network.nodes.iter().flat_map(|station| {
            let host = String::from_utf8_lossy(&station.identity.host_name).into_owned();
            let inputs = station.inputs.iter().enumerate();
            let inputs =
                inputs.map(|(place, signal)| (managing_input(station.node, place), signal));
            let outputs = station.outputs.iter().enumerate();
            let outputs =
                outputs.map(|(place, signal)| (managing_output(station.node, place), signal));
            inputs
                .chain(outputs)
                .map(move |(object, signal)| (object, format!("{host}.{}", signal.name)))
        });
        names.collect()
    }
}
