//! The other end of a veth pair, in whichever namespace it is.

use std::collections::HashSet;
use std::fs;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};

use netlink_packet_route::RouteNetlinkMessage;
use netlink_packet_route::nsid::{NsidAttribute, NsidMessage};

use crate::{Ethtool, Handle, Link, Namespace, Result};

/// Where `ip netns` keeps namespaces by name.
const NAMES: &str = "/run/netns";

/// The other end of a veth pair.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VethPeer {
    /// Its index, in its own namespace.
    pub index: u32,
    /// Its name; `None` where its namespace was not found.
    pub name: Option<String>,
    /// The file by which its namespace was found; `None`: that of this end.
    pub namespace: Option<PathBuf>,
    /// Whether it leaves the checksums of what it sends to the device; `None` where that cannot be
    /// read.
    pub checksum_offload: Option<bool>,
}

impl VethPeer {
    /// The other end of `link`; `None` where that is no veth.
    ///
    /// # Errors
    /// Where the kernel refuses.
    pub fn of(handle: &Handle, link: &Link) -> Result<Option<Self>> {
        let (Some("veth"), Some(index)) = (link.kind.as_deref(), link.peer) else {
            return Ok(None);
        };
        let unknown = Self { index, name: None, namespace: None, checksum_offload: None };
        let namespace = match link.peer_namespace {
            None => return Ok(Some(unknown.read(handle.namespace()).unwrap_or(unknown))),
            Some(id) => find(handle, id),
        };
        Ok(Some(match namespace {
            None => unknown,
            Some((path, namespace)) => {
                let found = Self { namespace: Some(path), ..unknown.clone() };
                found.read(&namespace).unwrap_or(unknown)
            }
        }))
    }

    fn read(&self, namespace: &Namespace) -> Result<Self> {
        let name = Handle::in_namespace(namespace)?.link_by_index(self.index)?.name;
        let offload = Ethtool::in_namespace(namespace)?.feature(&name, "tx-checksum-ip-generic");
        Ok(Self { name: Some(name), checksum_offload: offload.ok(), ..self.clone() })
    }

    /// The command that makes the other end finish its checksums, where that can be told exactly.
    #[must_use]
    pub fn finish_checksums(&self) -> Option<String> {
        let ethtool = format!("ethtool -K {} tx off", quoted(self.name.as_ref()?));
        let Some(namespace) = &self.namespace else { return Some(ethtool) };
        let named = namespace.strip_prefix(NAMES).ok().and_then(Path::to_str);
        Some(match named {
            Some(name) => format!("ip netns exec {} {ethtool}", quoted(name)),
            None => format!("nsenter --net={} {ethtool}", namespace.display()),
        })
    }
}

/// A word of a shell's command line.
fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "._-@+".contains(c);
    if word.chars().all(plain) && !word.starts_with('-') {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', "'\\''"))
    }
}

/// The namespace that has this id in that of `handle`: one with a name, or one of a process.
fn find(handle: &Handle, id: i32) -> Option<(PathBuf, Namespace)> {
    let below = |directory: &str| {
        let entries = fs::read_dir(directory).into_iter().flatten().flatten();
        entries.map(|entry| entry.path()).collect::<Vec<_>>()
    };
    let is_process = |path: &PathBuf| {
        let name = path.file_name().and_then(|name| name.to_str());
        name.is_some_and(|name| name.bytes().all(|octet| octet.is_ascii_digit()))
    };
    let processes = below("/proc").into_iter().filter(is_process).map(|path| path.join("ns/net"));
    let mut seen = HashSet::new();
    below(NAMES).into_iter().chain(processes).find_map(|path| {
        let namespace = Namespace::from_path(&path).ok()?;
        let fresh = seen.insert(namespace.inode());
        (fresh && id_of(handle, &namespace) == Some(id)).then_some((path, namespace))
    })
}

/// The id of a namespace in that of `handle`.
fn id_of(handle: &Handle, namespace: &Namespace) -> Option<i32> {
    let mut query = NsidMessage::default();
    query.attributes.push(NsidAttribute::Fd(namespace.as_raw_fd() as u32));
    let answer = handle.rtnl().get(&RouteNetlinkMessage::GetNsId(query)).ok()?;
    let RouteNetlinkMessage::NewNsId(answer) = answer else { return None };
    answer.attributes.into_iter().find_map(|attribute| match attribute {
        NsidAttribute::Id(id) => Some(id),
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::VethEnd;
    use crate::testing::{Feature, require_all};

    #[test]
    fn words_of_a_command_are_quoted_where_a_shell_would_read_them() {
        assert_eq!(quoted("veth0@a"), "veth0@a");
        assert_eq!(quoted("a;reboot"), "'a;reboot'");
        assert_eq!(quoted("$(a'b)"), "'$(a'\\''b)'");
        assert_eq!(quoted("-K"), "'-K'");
    }

    #[test]
    fn the_other_end_is_found_in_this_namespace_and_in_that_of_a_process() {
        if !require_all(&[Feature::Root, Feature::Veth]) {
            return;
        }
        let (here, there) = (Namespace::new().unwrap(), Namespace::new().unwrap());
        let handle = Handle::in_namespace(&here).unwrap();
        handle.create_veth(&VethEnd::new("a"), &VethEnd::new("b")).unwrap();
        handle.create_veth(&VethEnd::new("c"), &VethEnd::new("d").namespace(&there)).unwrap();
        let peer = |name: &str| {
            let link = handle.link(name).unwrap();
            VethPeer::of(&handle, &link).unwrap().unwrap()
        };
        assert_eq!(peer("a").checksum_offload, Some(true));
        assert_eq!(peer("a").finish_checksums().unwrap(), "ethtool -K b tx off");
        let ethtool = Ethtool::in_namespace(&here).unwrap();
        ethtool.set_features("b", &[("tx-checksum-ip-generic", false)]).unwrap();
        assert_eq!(peer("a").checksum_offload, Some(false));

        // Only this test's descriptor keeps it.
        let unknown = VethPeer {
            index: Handle::in_namespace(&there).unwrap().index("d").unwrap(),
            name: None,
            namespace: None,
            checksum_offload: None,
        };
        assert_eq!(peer("c"), unknown);
        assert_eq!(unknown.finish_checksums(), None);

        let mut command = std::process::Command::new("sleep");
        let mut child = there.start_in(command.arg("60")).spawn().unwrap();
        let found = peer("c");
        let _ = child.kill();
        child.wait().unwrap();
        assert_eq!(found.checksum_offload, Some(true));
        let path = format!("/proc/{}/ns/net", child.id());
        assert_eq!(found.namespace.as_deref(), Some(Path::new(&path)));
        let command = format!("nsenter --net={path} ethtool -K d tx off");
        assert_eq!(found.finish_checksums(), Some(command));
        let lo = handle.link("lo").unwrap();
        assert_eq!(VethPeer::of(&handle, &lo).unwrap(), None);
    }
}
