//! Changes of interfaces of which the journal has former settings.

use std::os::unix::fs::MetadataExt;

use super::*;

fn set_address(devices: &Devices, last: u8) {
    devices.handle.set_mac("tsn0", MacAddress([2, 0, 0, 0, 0, last])).unwrap();
}

/// The leftovers of a killed node that changed the MTU of an interface from 1500 to 9000.
fn leave_behind(control: &Path, devices: &Devices) {
    create_pair(&devices.handle);
    set_address(devices, 6);
    change_again(control, devices, "tsn0").unwrap();
    devices.handle.set_mtu("tsn0", 9000).unwrap();
}

/// The next process changes its MTU.
fn change_again(control: &Path, devices: &Devices, interface: &str) -> Result<()> {
    let link = devices.handle.link(interface).unwrap();
    Journal::open(control, "nh").unwrap().changing_mtu(&devices.handle, &link)
}

#[test]
fn further_changes_keep_the_settings_of_a_journal_of_the_former_version() {
    in_namespace("kept", |control| {
        let mut devices = Devices::open("nh").unwrap();
        leave_behind(control, &devices);
        edit_journal(control, |journal| {
            let (namespace, index) =
                (devices.handle.namespace().inode(), devices.handle.index("tsn0").unwrap());
            let former = serde_json::json!({ "namespace": namespace, "index": index });
            journal["content"]["identity"]["tsn0"] = former;
        });
        set_address(&devices, 7);
        let before = state(&devices, "tsn0");
        let link = devices.handle.link("tsn0").unwrap();
        devices.poll(&link, &mut Journal::open(control, "nh").unwrap()).unwrap();
        assert_ne!(state(&devices, "tsn0"), before);
        change_again(control, &devices, "tsn0").unwrap();
        devices.handle.set_mtu("tsn0", 2000).unwrap();
        // The journal has its address now.
        devices.handle.rename("tsn0", "other").unwrap();
        assert_eq!(restore(control, &mut devices), Vec::<String>::new());
        assert_eq!(state(&devices, "other"), (before.0, before.1, 1500));
    });
}

#[test]
fn settings_of_an_interface_that_may_exist_stay_when_another_one_has_its_name() {
    in_namespace("stay", |control| {
        let mut devices = Devices::open("nh").unwrap();
        leave_behind(control, &devices);
        let refused = |devices: &Devices, interface: &str, words: &str| {
            let error = change_again(control, devices, interface).unwrap_err();
            assert!(matches!(&error, Error::FormerSettings { .. }), "{error}");
            assert!(error.to_string().contains(words), "{error}");
            assert!(error.to_string().contains("onbeat down nh --forget"), "{error}");
        };
        set_address(&devices, 7);
        refused(&devices, "tsn0", "address 02:00:00:00:00:07 instead of 02:00:00:00:00:06");
        set_address(&devices, 6);

        let handle = &devices.handle;
        handle.rename("tsn0", "other").unwrap();
        handle.create_veth(&VethEnd::new("tsn0"), &VethEnd::new("x")).unwrap();
        for interface in ["tsn0", "other"] {
            refused(
                &devices,
                interface,
                "\"tsn0\" is now \"other\"; restore them with: onbeat down nh,",
            );
        }
        change_again(control, &devices, "x").unwrap();
        let elsewhere = Handle::in_namespace(&Namespace::new().unwrap()).unwrap();
        handle.move_to("other", elsewhere.namespace()).unwrap();
        refused(&devices, "tsn0", "move it back");
        handle.delete("tsn0").unwrap();
        elsewhere.move_to("other", handle.namespace()).unwrap();
        handle.rename("other", "tsn0").unwrap();

        let set_namespace = |inode: u64, cookie: u64| {
            edit_journal(control, |journal| {
                let identity = &mut journal["content"]["identity"]["tsn0"];
                identity["namespace"] = inode.into();
                identity["cookie"] = cookie.into();
            });
        };
        let (inode, cookie) = (handle.namespace().inode(), handle.cookie().unwrap());
        let of_process = fs::metadata(format!("/proc/{}/ns/net", std::process::id()));
        set_namespace(of_process.unwrap().ino(), cookie + 1);
        refused(&devices, "tsn0", "run this command there");
        set_namespace(inode, cookie);
        assert_eq!(restore(control, &mut devices), Vec::<String>::new());
        assert_eq!(devices.handle.link("tsn0").unwrap().mtu, 1500);
    });
}

#[test]
fn settings_of_an_interface_that_is_gone_are_discarded_when_another_one_has_its_name() {
    for inode in [None, Some(1)] {
        in_namespace("discarded", |control| {
            let mut devices = Devices::open("nh").unwrap();
            leave_behind(control, &devices);
            match inode {
                // Its namespace is gone as well.
                Some(inode) => edit_journal(control, |journal| {
                    journal["content"]["identity"]["tsn0"]["namespace"] = inode.into();
                }),
                None => {
                    devices.handle.delete("tsn0").unwrap();
                    create_pair(&devices.handle);
                }
            }
            devices.handle.set_mtu("tsn0", 2000).unwrap();
            change_again(control, &devices, "tsn0").unwrap();
            devices.handle.set_mtu("tsn0", 3000).unwrap();
            assert_eq!(restore(control, &mut devices), Vec::<String>::new());
            assert_eq!(devices.handle.link("tsn0").unwrap().mtu, 2000);
        });
    }
}
