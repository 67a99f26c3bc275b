//! The identity of an interface, for journals: names, indices and inodes of namespaces are reused.

use std::fs;
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use nix::errno::Errno;
use serde::{Deserialize, Serialize};

use crate::peer::{file_of, namespace_files};
use crate::{Error, Handle, Link, Namespace, Result};

/// `SO_NETNS_COOKIE` of asm-generic/socket.h, Linux 5.14.
const SO_NETNS_COOKIE: libc::c_int = 71;

/// The identity of an interface within one boot.
///
/// The cookie of the network namespace is never reused, and neither is the hardware address of an
/// interface, unless a process sets it. Values that are `None` are unknown: journals of the former
/// version hold no cookie and no address, and are identified by inode, index and name.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct InterfaceIdentity {
    /// The cookie of its network namespace.
    #[serde(default)]
    cookie: Option<u64>,
    /// The inode of its network namespace, for messages: the kernel reuses it.
    namespace: u64,
    /// `None`: it did not exist yet.
    index: Option<u32>,
    /// Its name when it was identified.
    #[serde(default)]
    name: String,
    /// Its permanent hardware address, or the current one where it has none.
    #[serde(default)]
    mac: Option<String>,
    /// Index of the other end of a veth pair in the same namespace.
    #[serde(default)]
    peer: Option<u32>,
}

impl InterfaceIdentity {
    /// Returns the identity of an interface of the handle's namespace.
    ///
    /// # Errors
    /// The kernel does not report the cookie of the namespace.
    pub fn of(handle: &Handle, link: &Link) -> Result<Self> {
        let planned = Self::planned(handle, &link.name)?;
        Ok(Self { index: Some(link.index), mac: mac(link), peer: peer(link), ..planned })
    }

    /// Returns the identity of an interface to be created in the handle's namespace.
    ///
    /// # Errors
    /// As [`InterfaceIdentity::of`].
    pub fn planned(handle: &Handle, name: &str) -> Result<Self> {
        let (cookie, namespace) = (Some(handle.cookie()?), handle.namespace().inode());
        Ok(Self { cookie, namespace, index: None, name: name.to_owned(), mac: None, peer: None })
    }

    /// Adds the name to the identity of a journal of the former version, which stores it elsewhere.
    pub fn set_former_name(&mut self, name: &str) {
        if self.name.is_empty() {
            name.clone_into(&mut self.name);
        }
    }

    /// Returns the identity of a journal of the former version, which has only the inode of the namespace and
    /// the name.
    #[must_use]
    pub fn former(namespace: u64, name: &str) -> Self {
        let name = name.to_owned();
        Self { cookie: None, namespace, index: None, name, mac: None, peer: None }
    }

    /// Returns whether both are of one interface, which may have been renamed in between.
    #[must_use]
    pub fn is_same(&self, other: &Self) -> bool {
        let of = |id: &Self| (id.cookie, id.namespace, id.index, id.mac.clone());
        of(self) == of(other)
    }

    /// Returns its name when it was identified; empty in journals of the former version.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns whether the interface existed when it was identified.
    #[must_use]
    pub fn was_made(&self) -> bool {
        self.index.is_some()
    }

    /// Returns the interface, which may have another name; `None`: it no longer exists. With its name and address, it may have
    /// another index: it was moved to another namespace and back, or its driver created it again.
    ///
    /// # Errors
    /// [`Error::NotIdentified`]: the handle is of another namespace, another interface has its index
    /// or name, or it was moved to another namespace.
    pub fn find(&self, handle: &Handle) -> Result<Option<Link>> {
        self.check_namespace(handle)?;
        let link = match self.index {
            Some(index) => handle.link_by_index(index),
            None => handle.link(&self.name),
        };
        let link = match link {
            Err(error) if error.is_not_found() => return self.find_returned(handle),
            link => link?,
        };
        match self.difference(&link) {
            None => Ok(Some(link)),
            Some(why) => Err(self.not_identified(why, "restore its settings by hand")),
        }
    }

    /// Checks that the handle is of the interface's namespace.
    ///
    /// # Errors
    /// [`Error::NotIdentified`].
    pub fn check_namespace(&self, handle: &Handle) -> Result<()> {
        let inode = handle.namespace().inode();
        let is_same = self.namespace == inode
            && match self.cookie {
                Some(cookie) => cookie == handle.cookie()?,
                None => true,
            };
        if is_same {
            return Ok(());
        }
        if self.namespace == inode {
            let why = "its network namespace no longer exists, and this one has the same inode";
            return Err(self.not_identified(why.into(), "restore its settings by hand"));
        }
        let path = Namespace::named_path(self.namespace);
        let path = path.map_or(String::new(), |path| format!(" ({})", path.display()));
        let why = format!("it was changed in network namespace net:[{}]{path}", self.namespace);
        Err(self.not_identified(why, "run this command there"))
    }

    /// Returns whether its network namespace exists: it is the handle's, it has a name of `ip netns`, or a
    /// process visible to this one is in it.
    #[must_use]
    pub fn has_namespace(&self, handle: &Handle) -> bool {
        if self.namespace == handle.namespace().inode() {
            return self.check_namespace(handle).is_ok();
        }
        let inode = |path: PathBuf| fs::metadata(path).map(|metadata| metadata.ino());
        namespace_files().any(|path| inode(path).is_ok_and(|inode| inode == self.namespace))
    }

    /// Returns whether an interface of any namespace is this one, by the properties that a move to another
    /// namespace preserves.
    #[must_use]
    pub fn is_device(&self, link: &Link) -> bool {
        match &self.mac {
            Some(known) => mac(link).as_ref() == Some(known),
            None => link.name == self.name && self.index.is_none_or(|index| index == link.index),
        }
    }

    /// Finds the interface among those of any namespace, unless a move changed its name and index.
    #[must_use]
    pub fn find_device(&self, links: Vec<Link>) -> Option<Link> {
        // A bridge or VLAN interface may have the address of an interface below it.
        let of_name = |link: &Link| link.name == self.name || Some(link.index) == self.index;
        links.into_iter().find(|link| of_name(link) && self.is_device(link))
    }

    /// Describes the difference of an interface with the same namespace and index.
    fn difference(&self, link: &Link) -> Option<String> {
        let is_here = |what: &str| {
            Some(format!("interface {:?} with {what} has its index {}", link.name, link.index))
        };
        let now = mac(link);
        match (&self.mac, now) {
            (Some(known), now) if now.as_ref() != Some(known) => {
                let now = now.unwrap_or_else(|| "none".into());
                return is_here(&format!("hardware address {now} instead of {known}"));
            }
            // Without an address only the name is left.
            (None, _) if link.name != self.name => return is_here("another name"),
            _ => {}
        }
        // The other end may have been moved to another namespace.
        match (self.peer, link.peer_namespace) {
            (Some(known), None) if link.peer != Some(known) => is_here("another veth peer"),
            _ => None,
        }
    }

    /// Searches for the interface by its name and address.
    fn find_returned(&self, handle: &Handle) -> Result<Option<Link>> {
        let named = |link: &Link| link.name == self.name && self.mac.is_some();
        let mut links = handle.links()?.into_iter();
        match links.find(|link| named(link) && self.is_device(link)) {
            Some(link) => Ok(Some(link)),
            None => self.check_moved(handle).map(|()| None),
        }
    }

    /// Searches the namespaces that have ids in the handle's namespace. The kernel assigns one to each
    /// namespace that an interface is moved to.
    fn check_moved(&self, handle: &Handle) -> Result<()> {
        if !self.was_made() || self.cookie.is_none() {
            return Ok(());
        }
        let failed = |failure: crate::netlink::Failure| failure.of("list namespace ids", "");
        for id in handle.rtnl().namespace_ids().map_err(failed)? {
            // The handle's namespace can have an id there, too.
            if file_of(handle, id).is_some_and(|path| is_file_of(&path, handle)) {
                continue;
            }
            // It may have been removed meanwhile.
            let links = handle.links_of(id).unwrap_or_default();
            let Some(link) = links.into_iter().find(|link| self.is_device(link)) else { continue };
            let namespace = match file_of(handle, id) {
                Some(path) => format!("{:?}", path.display().to_string()),
                None => format!("{id} (its id in this one)"),
            };
            let why = format!("it is interface {:?} of network namespace {namespace}", link.name);
            return Err(self.not_identified(why, "move it back"));
        }
        Ok(())
    }

    fn not_identified(&self, why: String, remedy: &str) -> Error {
        Error::NotIdentified { interface: self.name.clone(), why, remedy: remedy.to_owned() }
    }
}

impl Handle {
    /// Returns the cookie of the namespace, which is unique within a boot.
    ///
    /// # Errors
    /// The kernel is older than 5.14.
    pub fn cookie(&self) -> Result<u64> {
        let mut cookie = 0_u64;
        let mut length = size_of::<u64>() as libc::socklen_t;
        // SAFETY: the socket is open, and the kernel writes at most `length` octets to `cookie`.
        let result = unsafe {
            libc::getsockopt(
                self.rtnl().as_fd().as_raw_fd(),
                libc::SOL_SOCKET,
                SO_NETNS_COOKIE,
                (&raw mut cookie).cast(),
                &raw mut length,
            )
        };
        Errno::result(result)
            .map(|_| cookie)
            .map_err(|errno| Error::io("read the cookie of the network namespace", errno))
    }
}

/// Whether a file is that of the handle's namespace.
fn is_file_of(path: &Path, handle: &Handle) -> bool {
    fs::metadata(path).is_ok_and(|metadata| metadata.ino() == handle.namespace().inode())
}

fn mac(link: &Link) -> Option<String> {
    let mac = link.permanent_mac.or(link.mac).filter(|mac| mac.0 != [0; 6]);
    mac.map(|mac| mac.to_string())
}

fn peer(link: &Link) -> Option<u32> {
    let is_here = link.kind.as_deref() == Some("veth") && link.peer_namespace.is_none();
    is_here.then_some(link.peer).flatten()
}

#[cfg(test)]
mod tests {
    use onbeat_testing::{Feature, require_all};
    use onbeat_wire::MacAddress;

    use super::*;
    use crate::VethEnd;

    /// A restarted driver, or a move to another namespace and back, changes the index.
    #[test]
    fn an_interface_with_another_index_is_the_same_by_name_and_address() {
        if !require_all(&[Feature::Root]) {
            return;
        }
        let [near, far] =
            [(); 2].map(|()| Handle::in_namespace(&Namespace::new().unwrap()).unwrap());
        let create = |mac: u8| {
            let end = VethEnd::new("e0").mac(MacAddress([2, 0, 0, 0, 0, mac]));
            near.create_veth(&end, &VethEnd::new("e1").namespace(far.namespace())).unwrap();
            near.link("e0").unwrap()
        };
        let identity = InterfaceIdentity::of(&near, &create(1)).unwrap();
        // The query for links of the other namespace gives this one an id in itself.
        for id in near.rtnl().namespace_ids().unwrap() {
            near.links_of(id).unwrap();
        }
        near.delete("e0").unwrap();
        near.create_veth(&VethEnd::new("other1"), &VethEnd::new("other2")).unwrap();
        let again = create(1);
        assert_ne!(Some(again.index), identity.index);
        assert_eq!(identity.find(&near).unwrap().map(|link| link.index), Some(again.index));
        near.move_to("e0", far.namespace()).unwrap();
        let error = identity.find(&near).unwrap_err().to_string();
        assert!(error.contains("move it back"), "{error}");
        far.delete("e0").unwrap();
        create(2);
        assert_eq!(identity.find(&near).unwrap(), None, "another address");
    }
}
