//! Validation of topologies.

use std::collections::HashSet;

use super::Topology;

/// An invalid topology.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TopologyError {
    /// Invalid TOML, or another schema.
    #[error("topology: {0}")]
    Toml(#[from] toml::de::Error),
    /// An invalid end of a link.
    #[error(
        "{0:?} is not an end of a link; use STATION:INTERFACE, with 1 to 15 characters of \
            interface name"
    )]
    End(String),
    /// An invalid name of a host or node: files and namespaces use it.
    #[error(
        "{0:?} cannot be the name of a host or node; use letters, digits, hyphens and underscores"
    )]
    Name(String),
    /// A duplicate name.
    #[error("duplicate {what} {name:?}; use distinct names")]
    Twice {
        /// "host or node", "link", "interface".
        what: &'static str,
        /// The duplicate name.
        name: String,
    },
    /// A link to an unknown station.
    #[error("link {link:?} leads to the unknown host or node {station:?}; use one of: {}", known.join(", "))]
    Nowhere {
        /// The link.
        link: String,
        /// Its unknown station.
        station: String,
        /// Known hosts and nodes.
        known: Vec<String>,
    },
    /// A bridge of an interface that no link has.
    #[error(
        "node {node:?}: no link has the interface {interface:?} of its bridge; add a link, or remove the interface from bridge"
    )]
    Bridge {
        /// The node.
        node: String,
        /// The interface.
        interface: String,
    },
    /// No configuration, or two.
    #[error("node {0:?} needs either config or config-text, or a bridge")]
    Config(String),
    /// An invalid impairment.
    #[error("link {link:?}: {reason}")]
    Impairment {
        /// The link.
        link: String,
        /// The cause.
        reason: String,
    },
}

impl Topology {
    /// Validates the topology.
    ///
    /// # Errors
    /// Names are duplicate or missing, or values are out of range.
    pub fn checked(self) -> Result<Self, TopologyError> {
        let stations: Vec<String> = self
            .hosts
            .iter()
            .map(|host| host.name.clone())
            .chain(self.nodes.iter().map(|node| node.name.clone()))
            .collect();
        let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
        let wrong = |name: &&String| name.is_empty() || !name.chars().all(allowed);
        if let Some(name) = stations.iter().find(wrong) {
            return Err(TopologyError::Name(name.clone()));
        }
        once("host or node", stations.iter().cloned())?;
        once("link", self.links.iter().map(|link| link.name.clone()))?;
        let ends = || self.links.iter().flat_map(|link| &link.ends);
        once("interface", ends().map(ToString::to_string))?;
        for link in &self.links {
            for end in &link.ends {
                if !stations.contains(&end.station) {
                    return Err(TopologyError::Nowhere {
                        link: link.name.clone(),
                        station: end.station.clone(),
                        known: stations,
                    });
                }
            }
            if let Some(reason) = link.impairment.and_then(|impairment| impairment.fault()) {
                return Err(TopologyError::Impairment { link: link.name.clone(), reason });
            }
        }
        for node in &self.nodes {
            let configs =
                usize::from(node.config.is_some()) + usize::from(node.config_text.is_some());
            // A node that only bridges its interfaces is a hub, and needs no configuration.
            if configs > 1 || configs == 0 && node.bridge.is_empty() {
                return Err(TopologyError::Config(node.name.clone()));
            }
            let made = |name: &String| {
                ends().any(|end| end.station == node.name && end.interface == *name)
            };
            if let Some(interface) = node.bridge.iter().find(|name| !made(name)) {
                let (node, interface) = (node.name.clone(), interface.clone());
                return Err(TopologyError::Bridge { node, interface });
            }
        }
        Ok(self)
    }
}

fn once(what: &'static str, names: impl Iterator<Item = String>) -> Result<(), TopologyError> {
    let mut seen = HashSet::new();
    for name in names {
        if !seen.insert(name.clone()) {
            return Err(TopologyError::Twice { what, name });
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn invalid_topologies_are_rejected() {
        let hosts = r#"host = [{ name = "a" }, { name = "b" }]"#;
        for (rest, part) in [
            ("host = 3", "duplicate key"),
            ("hosts = []", "unknown field"),
            (r#"node = [{ name = "../c", config = "x" }]"#, "\"../c\" cannot be the name"),
            (r#"node = [{ name = "a", config = "x" }]"#, "duplicate host or node \"a\""),
            (r#"node = [{ name = "c" }]"#, "node \"c\" needs either config or config-text"),
            (r#"link = [{ name = "l", ends = ["a", "b:x"] }]"#, "\"a\" is not an end of a link"),
            (
                r#"link = [{ name = "l", ends = ["a:0123456789abcdef", "b:x"] }]"#,
                "not an end of a link",
            ),
            (r#"link = [{ name = "l", ends = ["a:x", "c:x"] }]"#, "use one of: a, b"),
            (r#"link = [{ name = "l", ends = ["a:x", "a:x"] }]"#, "duplicate interface \"a:x\""),
            (
                r#"link = [{ name = "l", ends = ["a:x", "b:x"] }, { name = "l", ends = ["a:y", "b:y"] }]"#,
                "duplicate link \"l\"",
            ),
            (
                r#"link = [{ name = "l", ends = ["a:x", "b:x"], impairment = { loss = 1.5 } }]"#,
                "link \"l\": loss 1.5",
            ),
            (
                r#"node = [{ name = "c", config = "x", bridge = ["p"] }]"#,
                "no link has the interface \"p\"",
            ),
        ] {
            let error = Topology::parse(&format!("{hosts}\n{rest}")).unwrap_err().to_string();
            assert!(error.contains(part), "{rest}: {error}");
        }
    }
}
