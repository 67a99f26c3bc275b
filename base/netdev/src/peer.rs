//! The other end of a veth pair, in the same namespace or another one.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::fs;
use std::os::fd::AsRawFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use netlink_packet_route::RouteNetlinkMessage;
use netlink_packet_route::nsid::{NsidAttribute, NsidMessage};

use crate::ethtool::Feature;
use crate::{Ethtool, Handle, Link, NAMED_NAMESPACES, Namespace, Result};

/// The other end of a veth pair.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VethPeer {
    /// Its index, in its own namespace.
    pub index: u32,
    /// Its name; `None`: its namespace was not found.
    pub name: Option<String>,
    /// The file of its namespace; `None`: the namespace of this end.
    pub namespace: Option<PathBuf>,
    /// The offloads that are on, by the kernel's names; `None`: they cannot be read.
    pub offloads: Option<Vec<String>>,
}

impl VethPeer {
    /// Returns the other end of `link`; `None`: not a veth.
    #[must_use]
    pub fn of(handle: &Handle, link: &Link) -> Option<Self> {
        Self::search(handle, &[link]).pop().flatten()
    }

    /// Returns the other ends of several links; `None` for a link that is not a veth. All namespaces of the
    /// machine are searched once for all links, unless each peer is in the namespace of `handle`.
    #[must_use]
    pub fn search(handle: &Handle, links: &[&Link]) -> Vec<Option<Self>> {
        let unknown: Vec<Option<Self>> = links.iter().map(|link| Self::unknown(link)).collect();
        let veths = links.iter().zip(&unknown).filter(|(_, peer)| peer.is_some());
        let ids: BTreeSet<i32> = veths.filter_map(|(link, _)| link.peer_namespace).collect();
        let namespaces = find(&ids, namespace_files(), |path| {
            let namespace = Namespace::from_path(path).ok()?;
            Some((id_of(handle, &namespace)?, namespace))
        });
        let read = |(link, unknown): (&&Link, Option<Self>)| {
            let unknown = unknown?;
            let peer = match link.peer_namespace {
                None => unknown.read(handle.namespace()).ok(),
                Some(id) => namespaces.get(&id).and_then(|(path, namespace)| {
                    let peer = Self { namespace: Some(path.clone()), ..unknown.clone() };
                    peer.read(namespace).ok()
                }),
            };
            Some(peer.unwrap_or(unknown))
        };
        links.iter().zip(unknown).map(read).collect()
    }

    /// Reads this peer of `link` without a search; `None`: the file is no longer that of its namespace, or
    /// `link` has another peer.
    #[must_use]
    pub fn reread(&self, handle: &Handle, link: &Link) -> Option<Self> {
        if link.peer != Some(self.index) {
            return None;
        }
        match (&self.namespace, link.peer_namespace) {
            (None, None) => self.read(handle.namespace()).ok(),
            (Some(path), Some(id)) => {
                let namespace = Namespace::from_path(path).ok()?;
                let is_same = id_of(handle, &namespace) == Some(id);
                is_same.then(|| self.read(&namespace).ok()).flatten()
            }
            _ => None,
        }
    }

    fn unknown(link: &Link) -> Option<Self> {
        let (Some("veth"), Some(index)) = (link.kind.as_deref(), link.peer) else { return None };
        Some(Self { index, name: None, namespace: None, offloads: None })
    }

    fn read(&self, namespace: &Namespace) -> Result<Self> {
        let name = Handle::in_namespace(namespace)?.link_by_index(self.index)?.name;
        let features = Ethtool::in_namespace(namespace)?.features(&name).ok();
        let active = |feature: Feature| feature.active.then_some(feature.name);
        let offloads = features.map(|features| features.into_iter().filter_map(active).collect());
        Ok(Self { name: Some(name), offloads, ..self.clone() })
    }

    /// Returns whether an offload of the other end is on, by the kernel's name; `None`: it cannot be read.
    #[must_use]
    pub fn offload(&self, name: &str) -> Option<bool> {
        Some(self.offloads.as_ref()?.iter().any(|on| on == name))
    }

    /// Returns whether the transmit checksum offload of the other end is on: frames that it sends have
    /// incomplete checksums. `None`: it cannot be read.
    #[must_use]
    pub fn checksum_offload(&self) -> Option<bool> {
        self.offload("tx-checksum-ip-generic")
    }

    /// Returns the command that turns off the transmit checksum offload of the other end; `None`: its name is
    /// unknown.
    #[must_use]
    pub fn finish_checksums(&self) -> Option<String> {
        self.set_offloads("tx off")
    }

    /// Returns the command that sets offloads of the other end, such as `gro on`; `None`: its name is
    /// unknown.
    #[must_use]
    pub fn set_offloads(&self, offloads: &str) -> Option<String> {
        let ethtool = format!("ethtool -K {} {offloads}", shell_word(self.name.as_ref()?));
        let Some(namespace) = &self.namespace else { return Some(ethtool) };
        let named = namespace.strip_prefix(NAMED_NAMESPACES).ok().and_then(Path::to_str);
        Some(match named {
            Some(name) => format!("ip netns exec {} {ethtool}", shell_word(name)),
            None => format!("nsenter --net={} {ethtool}", namespace.display()),
        })
    }
}

/// Returns a word of a command line, quoted for a shell where necessary.
#[must_use]
pub fn shell_word(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "/:._-@+".contains(c);
    if word.chars().all(plain) && !word.starts_with('-') && !word.is_empty() {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', "'\\''"))
    }
}

/// Returns the files of network namespaces: those of `ip netns` first, then those of processes.
pub fn namespace_files() -> impl Iterator<Item = PathBuf> {
    let below = |directory: &str| {
        fs::read_dir(directory).into_iter().flatten().flatten().map(|entry| entry.path())
    };
    let is_process = |path: &PathBuf| {
        let name = path.file_name().and_then(|name| name.to_str());
        name.is_some_and(|name| name.bytes().all(|octet| octet.is_ascii_digit()))
    };
    let processes = std::iter::once("/proc").flat_map(below).filter(is_process);
    std::iter::once(NAMED_NAMESPACES)
        .flat_map(below)
        .chain(processes.map(|path| path.join("ns/net")))
}

/// Finds the namespaces with these ids, each with its file. Reads each namespace once, by `identify`, and
/// stops when all are found.
fn find<N>(
    ids: &BTreeSet<i32>,
    files: impl Iterator<Item = PathBuf>,
    mut identify: impl FnMut(&Path) -> Option<(i32, N)>,
) -> BTreeMap<i32, (PathBuf, N)> {
    let mut found = BTreeMap::new();
    let mut inodes = HashSet::new();
    let mut files = files;
    while found.len() < ids.len() {
        let Some(path) = files.next() else { break };
        let Ok(inode) = fs::metadata(&path).map(|metadata| metadata.ino()) else { continue };
        if !inodes.insert(inode) {
            continue;
        }
        if let Some((id, namespace)) = identify(&path).filter(|(id, _)| ids.contains(id)) {
            found.entry(id).or_insert((path, namespace));
        }
    }
    found
}

/// Returns the file of the namespace with this id in that of `handle`, if there is one.
pub(crate) fn file_of(handle: &Handle, id: i32) -> Option<PathBuf> {
    let found = find(&BTreeSet::from([id]), namespace_files(), |path| {
        Some((id_of(handle, &Namespace::from_path(path).ok()?)?, ()))
    });
    found.into_values().next().map(|(path, ())| path)
}

/// Returns the id of a namespace in that of `handle`.
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
    use onbeat_testing::{Feature as Required, require_all};

    #[test]
    fn words_of_a_command_are_quoted_for_the_shell() {
        assert_eq!(shell_word("veth0@a"), "veth0@a");
        assert_eq!(shell_word("/opt/a b"), "'/opt/a b'");
        assert_eq!(shell_word(""), "''");
        assert_eq!(shell_word("a;reboot"), "'a;reboot'");
        assert_eq!(shell_word("$(a'b)"), "'$(a'\\''b)'");
        assert_eq!(shell_word("-K"), "'-K'");
    }

    #[test]
    fn the_other_end_is_found_in_this_namespace_and_in_that_of_a_process() {
        if !require_all(&[Required::Root, Required::Veth]) {
            return;
        }
        let (here, there) = (Namespace::new().unwrap(), Namespace::new().unwrap());
        let handle = Handle::in_namespace(&here).unwrap();
        handle.create_veth(&VethEnd::new("a"), &VethEnd::new("b")).unwrap();
        handle.create_veth(&VethEnd::new("c"), &VethEnd::new("d").namespace(&there)).unwrap();
        let peer = |name: &str| {
            let link = handle.link(name).unwrap();
            VethPeer::of(&handle, &link).unwrap()
        };
        assert_eq!(peer("a").checksum_offload(), Some(true));
        assert_eq!(peer("a").finish_checksums().unwrap(), "ethtool -K b tx off");
        let ethtool = Ethtool::in_namespace(&here).unwrap();
        ethtool.set_features("b", &[("tx-checksum-ip-generic", false)]).unwrap();
        assert_eq!(peer("a").checksum_offload(), Some(false));

        // Referenced by this test's descriptor only.
        let unknown = VethPeer {
            index: Handle::in_namespace(&there).unwrap().index("d").unwrap(),
            name: None,
            namespace: None,
            offloads: None,
        };
        assert_eq!(peer("c"), unknown);
        assert_eq!(unknown.finish_checksums(), None);

        let mut command = std::process::Command::new("sleep");
        let mut child = there.start_in(command.arg("60")).spawn().unwrap();
        let found = peer("c");
        let (link, other) = (handle.link("c").unwrap(), handle.link("a").unwrap());
        assert_eq!(found.reread(&handle, &link), Some(found.clone()));
        assert_eq!(found.reread(&handle, &other), None);
        let lo = handle.link("lo").unwrap();
        let all = VethPeer::search(&handle, &[&link, &lo, &other]);
        assert_eq!(all, [Some(found.clone()), None, Some(peer("a"))]);
        let _ = child.kill();
        child.wait().unwrap();
        assert_eq!(found.reread(&handle, &link), None);
        assert_eq!(found.checksum_offload(), Some(true));
        let path = format!("/proc/{}/ns/net", child.id());
        assert_eq!(found.namespace.as_deref(), Some(Path::new(&path)));
        let command = format!("nsenter --net={path} ethtool -K d tx off");
        assert_eq!(found.finish_checksums(), Some(command));
        assert_eq!(found.offload("rx-gro"), Some(false));
        let command = format!("nsenter --net={path} ethtool -K d gro on");
        assert_eq!(found.set_offloads("gro on"), Some(command));
    }

    #[test]
    fn each_namespace_is_read_once_for_all_ids_and_none_after_the_last_is_found() {
        // Files of one file system with distinct inodes, some of them twice.
        let names = ["Cargo.toml", "src", "Cargo.toml", "src/lib.rs", "src/peer.rs", "missing"];
        let files = || names.iter().map(|name| Path::new(env!("CARGO_MANIFEST_DIR")).join(name));
        let reads = |ids: &[i32]| {
            let mut read = 0;
            let found = find(&ids.iter().copied().collect(), files(), |_| {
                read += 1;
                Some((read, ()))
            });
            (found.keys().copied().collect::<Vec<_>>(), read)
        };
        assert_eq!(reads(&[1, 3]), (vec![1, 3], 3));
        assert_eq!(reads(&[2, 9]), (vec![2], 4));
        assert_eq!(reads(&[]), (vec![], 0));
    }
}
