//! Drivers, features and NAPI.

use crate::common::Cable;
use onbeat_netdev::{Error, Ethtool, napi, xdp};
use onbeat_testing::{Feature, require_all};

fn cable() -> Option<(Cable, Ethtool)> {
    if !require_all(&[Feature::Root, Feature::Veth]) {
        return None;
    }
    let cable = Cable::new();
    let ethtool = Ethtool::in_namespace(cable.left.namespace()).unwrap();
    Some((cable, ethtool))
}

#[test]
fn a_veth_reports_its_driver() {
    let Some((_cable, ethtool)) = cable() else { return };
    assert_eq!(ethtool.driver("l0").unwrap().name, "veth");
    assert!(ethtool.link_detected("l0").unwrap());
    let timestamping = ethtool.timestamping("l0").unwrap();
    assert!(timestamping.tx_software && timestamping.rx_software && !timestamping.rx_hardware);
    assert_eq!(timestamping.phc, None);
    let channels = ethtool.channels("l0").unwrap();
    assert!(channels.rx >= 1 && channels.rx <= channels.max_rx, "{channels:?}");
}

#[test]
fn unsupported_requests_and_missing_devices_are_reported() {
    let Some((_cable, ethtool)) = cable() else { return };
    let error = ethtool.channels("lo").unwrap_err();
    assert!(matches!(error, Error::Unsupported { .. }), "{error}");
    assert!(error.to_string().contains("\"lo\""), "{error}");
    let error = ethtool.features("l7").unwrap_err();
    assert_eq!(error.to_string(), "interface \"l7\" not found; interfaces here: lo, l0");
}

#[test]
fn features_are_set_and_undone() {
    let Some((_cable, ethtool)) = cable() else { return };
    let before = ethtool.features("l0").unwrap();
    let wanted = [("rx-gro", true), ("tx", false), ("rxvlan", false), ("txvlan", false)];
    let change = ethtool.set_features("l0", &wanted).unwrap();
    assert!(ethtool.feature("l0", "gro").unwrap());
    assert!(!ethtool.feature("l0", "tx-checksum-ip-generic").unwrap());
    assert!(!ethtool.feature("l0", "rx-vlan-hw-parse").unwrap());
    assert!(change.changed.contains(&("rx-gro".into(), true)), "{change:?}");
    // Segmentation requires the checksum: it follows, and is restored automatically.
    assert!(change.changed.contains(&("tx-tcp-segmentation".into(), false)), "{change:?}");
    assert!(!change.undo.iter().any(|(name, _)| name == "tx-tcp-segmentation"), "{change:?}");
    let nothing = ethtool.set_features("l0", &wanted).unwrap();
    assert_eq!(nothing, onbeat_netdev::ethtool::Change::default());

    ethtool.set_features("l0", &change.undo()).unwrap();
    assert_eq!(ethtool.features("l0").unwrap(), before);
}

#[test]
fn features_that_cannot_change_or_are_unknown_are_refused() {
    let Some((_cable, ethtool)) = cable() else { return };
    let before = ethtool.features("l0").unwrap();
    let fixed = before.iter().find(|feature| !feature.changeable && !feature.active).unwrap();
    let error = ethtool.set_features("l0", &[("gro", true), (&fixed.name, true)]).unwrap_err();
    assert!(matches!(&error, Error::Feature { feature, .. } if *feature == fixed.name), "{error}");
    let error = ethtool.set_features("l0", &[("gro", true), ("warp-drive", true)]).unwrap_err();
    assert!(error.to_string().contains("\"warp-drive\""), "{error}");
    assert_eq!(ethtool.features("l0").unwrap(), before, "nothing was changed");
    // A fixed feature in the requested state is no error.
    ethtool.set_features("l0", &[(&fixed.name, false)]).unwrap();
}

#[test]
fn a_feature_with_an_unmet_dependency_undoes_the_rest() {
    let Some((_cable, ethtool)) = cable() else { return };
    ethtool.set_features("l0", &[("tx", false)]).unwrap();
    let before = ethtool.features("l0").unwrap();
    let wanted = [("gro", true), ("tx-tcp-segmentation", true)];
    let error = ethtool.set_features("l0", &wanted).unwrap_err();
    assert!(
        matches!(&error, Error::Feature { feature, wanted: true, .. } if feature == "tx-tcp-segmentation"),
        "{error}"
    );
    assert_eq!(ethtool.features("l0").unwrap(), before);
}

#[test]
fn xdp_redirect_to_a_veth_needs_napi_at_its_other_end() {
    let Some((cable, ethtool)) = cable() else { return };
    if !require_all(&[Feature::XdpFeatures]) {
        return;
    }
    let features = |handle, name| xdp::features(handle, name).unwrap().expect("Linux 6.3");
    let left = features(&cable.left, "l0");
    assert!(left.basic && left.redirect && !left.xsk_zerocopy && !left.hw_offload, "{left}");
    assert!(!features(&cable.right, "r0").ndo_xmit);
    ethtool.set_features("l0", &[("gro", true)]).unwrap();
    assert!(features(&cable.right, "r0").ndo_xmit);
    assert!(!features(&cable.left, "l0").ndo_xmit);
    assert_eq!(features(&cable.left, "lo"), xdp::XdpFeatures::default());
    let error = xdp::features(&cable.left, "l7").unwrap_err();
    assert!(error.is_not_found(), "{error}");
}

#[test]
fn an_existing_napi_instance_becomes_threaded() {
    let Some((cable, ethtool)) = cable() else { return };
    let inside = |f: &(dyn Fn() + Sync)| cable.left.namespace().run_with_sysfs(f).unwrap();
    inside(&|| {
        let error = napi::set_threaded("l0", true).unwrap_err();
        assert!(matches!(error, Error::Unsupported { .. }), "{error}");
        assert!(error.to_string().contains("rx-gro"), "{error}");
    });
    ethtool.set_features("l0", &[("gro", true)]).unwrap();
    inside(&|| {
        assert!(!napi::threaded("l0").unwrap());
        napi::set_threaded("l0", true).unwrap();
        assert!(napi::threaded("l0").unwrap());
        napi::set_gro_flush_timeout_ns("l0", 20_000).unwrap();
        napi::set_defer_hard_irqs("l0", 2).unwrap();
        assert_eq!(napi::gro_flush_timeout_ns("l0").unwrap(), 20_000);
        assert_eq!(napi::defer_hard_irqs("l0").unwrap(), 2);
        let error = napi::threaded("l7").unwrap_err();
        assert_eq!(error.to_string(), "interface \"l7\" not found; interfaces here: l0, lo");
    });
}
