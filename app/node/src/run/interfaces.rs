//! Resolution of interface names of a configuration.

use std::collections::{BTreeMap, BTreeSet};

use onbeat_netdev::Handle;

use super::error::{Error, Result};
use crate::config::{Config, PortConfig};

/// Replaces alternative names (`ip link property add`) of ports' interfaces by the kernel's names, if
/// the interfaces exist.
///
/// # Errors
/// Two ports have the same interface, possibly by different names: both would receive each frame.
pub(super) fn resolve(handle: &Handle, ports: &mut [PortConfig]) -> Result<()> {
    // By the kernel's name: number of the port, and the name in the configuration.
    let mut owners: BTreeMap<String, (usize, String)> = BTreeMap::new();
    for index in 0..ports.len() {
        let mut names = vec![ports[index].interface.clone(), ports[index].attached_interface()];
        names.dedup();
        for name in names {
            let port = &mut ports[index];
            let interface = match handle.link(&name) {
                Ok(link) => link.name,
                Err(error) if error.is_not_found() => name.clone(),
                Err(source) => return Err(Error::Port { port: port.name.clone(), source }),
            };
            if port.create.is_none() {
                port.interface.clone_from(&interface);
            }
            let (owner, known) = owners.entry(interface.clone()).or_insert((index, name.clone()));
            if *owner != index {
                let ports = [&ports[*owner], &ports[index]].map(|port| port.name.clone());
                return Err(Error::SameInterface {
                    ports,
                    names: [known.clone(), name],
                    interface,
                });
            }
        }
    }
    Ok(())
}

/// Interfaces of ports and of the guard that do not exist at present, except those that a node creates.
///
/// # Errors
/// Interfaces cannot be read.
pub fn absent_interfaces(config: &Config) -> Result<BTreeSet<String>> {
    let handle = Handle::open()?;
    let of_guard = config.node.guard.iter().flat_map(|guard| guard.interfaces.clone());
    let mut names: BTreeSet<String> = of_guard.collect();
    names.extend(config.ports.iter().map(PortConfig::attached_interface));
    for port in config.ports.iter().filter(|port| port.create.is_some()) {
        names.remove(&port.interface);
        names.remove(&port.attached_interface());
    }
    let mut absent = BTreeSet::new();
    for name in names {
        match handle.link(&name) {
            Ok(_) => {}
            Err(error) if error.is_not_found() => {
                absent.insert(name);
            }
            Err(error) => return Err(error.into()),
        }
    }
    Ok(absent)
}

#[cfg(test)]
mod tests {
    use onbeat_netdev::{Namespace, VethEnd};
    use onbeat_testing::{Feature, require_all};

    use super::*;
    use crate::config::Config;

    fn ports(interfaces: [(&str, bool); 2]) -> Vec<PortConfig> {
        let tables = ["p", "q"].iter().zip(interfaces).map(|(port, (interface, create))| {
            let create = if create { "create = \"veth\"\n" } else { "" };
            format!("[[port]]\nname = \"{port}\"\ninterface = \"{interface}\"\n{create}")
        });
        Config::parse(&tables.collect::<String>(), "a.toml").unwrap().ports
    }

    fn check_names() {
        let handle = Handle::open().unwrap();
        handle.create_veth(&VethEnd::new("a0"), &VethEnd::new("b0")).unwrap();
        handle.add_alternative_name("a0", "alta0").unwrap();
        let resolved = |interfaces| {
            let mut ports = ports(interfaces);
            let resolved = resolve(&handle, &mut ports);
            resolved.map(|()| ports.into_iter().map(|port| port.interface).collect::<Vec<_>>())
        };
        let names = resolved([("alta0", false), ("b0", false)]).unwrap();
        assert_eq!(names, ["a0", "b0"]);
        assert_eq!(resolved([("x", false), ("y", true)]).unwrap(), ["x", "y"], "not there yet");
        for interfaces in [
            [("a0", false), ("alta0", false)],
            [("alta0", false), ("a0", false)],
            [("a0", true), ("alta0", false)],
            [("y", true), ("y-frer", false)],
        ] {
            let error = resolved(interfaces).unwrap_err();
            assert!(matches!(error, Error::SameInterface { .. }), "{error}");
            let said = error.to_string();
            for (port, (interface, _)) in ["p", "q"].iter().zip(interfaces) {
                assert!(said.contains(&format!("{port:?}")) && said.contains(interface), "{said}");
            }
        }
    }

    #[test]
    fn ports_with_names_of_one_interface_are_refused() {
        if require_all(&[Feature::Root, Feature::Veth]) {
            Namespace::new().unwrap().run(check_names).unwrap();
        }
    }
}
