//! The interface of a journal is identified under another name, and distinguished from others.

use onbeat_netdev::{Error, Handle, InterfaceIdentity, Namespace, VethEnd};
use onbeat_testing::{Feature, require_all};
use onbeat_wire::MacAddress;

/// A namespace with the veth pair a0, a1.
fn pair() -> Option<Handle> {
    require_all(&[Feature::Root, Feature::Veth]).then(|| {
        let handle = Handle::in_namespace(&Namespace::new().unwrap()).unwrap();
        handle.create_veth(&VethEnd::new("a0"), &VethEnd::new("a1")).unwrap();
        handle
    })
}

fn identity(handle: &Handle) -> InterfaceIdentity {
    InterfaceIdentity::of(handle, &handle.link("a0").unwrap()).unwrap()
}

fn refusal(identity: &InterfaceIdentity, handle: &Handle) -> String {
    let error = identity.find(handle).unwrap_err();
    assert!(matches!(&error, Error::NotIdentified { .. }), "{error}");
    error.to_string()
}

#[test]
fn an_interface_is_found_under_another_name_and_no_other_has_its_name() {
    let Some(handle) = pair() else { return };
    let known = identity(&handle);
    assert_eq!(known.find(&handle).unwrap(), Some(handle.link("a0").unwrap()));
    handle.rename("a0", "b0").unwrap();
    assert_eq!(known.find(&handle).unwrap().unwrap().name, "b0");
    handle.delete("b0").unwrap();
    handle.create_veth(&VethEnd::new("a0"), &VethEnd::new("a1")).unwrap();
    assert_eq!(known.find(&handle).unwrap(), None);
}

#[test]
fn another_interface_with_its_index_and_name_is_refused() {
    let Some(handle) = pair() else { return };
    let known = identity(&handle);
    handle.set_mac("a0", MacAddress([2, 0, 0, 0, 0, 7])).unwrap();
    let refused = refusal(&known, &handle);
    assert!(refused.contains("hardware address 02:00:00:00:00:07 instead of "), "{refused}");
}

#[test]
fn cookies_of_namespaces_differ() {
    let (Some(one), Some(two)) = (pair(), pair()) else { return };
    assert_ne!(one.cookie().unwrap(), two.cookie().unwrap());
    let again = Handle::in_namespace(one.namespace()).unwrap();
    assert_eq!(one.cookie().unwrap(), again.cookie().unwrap());
    let refused = refusal(&identity(&one), &two);
    let inode = format!("net:[{}]; run this command there", one.namespace().inode());
    assert!(refused.contains(&inode), "{refused}");
    // Only descriptors refer to these two; this process is in the third.
    assert!(!identity(&one).has_namespace(&two));
    let here = Handle::open().unwrap();
    let lo = InterfaceIdentity::of(&here, &here.link("lo").unwrap()).unwrap();
    assert!(lo.has_namespace(&here) && lo.has_namespace(&one));
}

#[test]
fn an_interface_in_another_namespace_still_exists() {
    let Some(handle) = pair() else { return };
    let other = Handle::in_namespace(&Namespace::new().unwrap()).unwrap();
    let known = identity(&handle);
    handle.move_to("a0", other.namespace()).unwrap();
    // No file refers to that namespace.
    let refused = refusal(&known, &handle);
    assert!(refused.contains("it is interface \"a0\" of network namespace"), "{refused}");
    assert!(refused.contains("move it back"), "{refused}");
    other.rename("a0", "b0").unwrap();
    let refused = refusal(&known, &handle);
    assert!(refused.contains("interface \"b0\""), "{refused}");
    other.move_to("b0", handle.namespace()).unwrap();
    assert_eq!(known.find(&handle).unwrap().unwrap().name, "b0");
}
