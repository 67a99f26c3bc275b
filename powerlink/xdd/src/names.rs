//! Names of the objects of the communication profile (EPSG DS 301).

use std::borrow::Cow;

/// Names of an index and of its sub-indices starting at 1; one name for all elements of an array.
type Entry = (u16, &'static str, &'static [&'static str]);

const COUNTER: &[&str] = &["CumulativeCnt_U32", "ThresholdCnt_U32", "Threshold_U32"];
const STORE: &[&str] = &[
    "AllParam_U32",
    "CommunicationParam_U32",
    "ApplicationParam_U32",
    "ManufacturerParam_04h_U32",
];

/// By index.
const NAMES: &[Entry] = &[
    (0x1000, "NMT_DeviceType_U32", &[]),
    (0x1001, "ERR_ErrorRegister_U8", &[]),
    (0x1003, "ERR_History_ADOM", &["ErrorEntry_DOM"]),
    (0x1006, "NMT_CycleLen_U32", &[]),
    (0x1008, "NMT_ManufactDevName_VS", &[]),
    (0x1009, "NMT_ManufactHwVers_VS", &[]),
    (0x100a, "NMT_ManufactSwVers_VS", &[]),
    (0x1010, "NMT_StoreParam_REC", STORE),
    (0x1011, "NMT_RestoreDefParam_REC", STORE),
    (
        0x1018,
        "NMT_IdentityObject_REC",
        &["VendorId_U32", "ProductCode_U32", "RevisionNo_U32", "SerialNo_U32"],
    ),
    (
        0x1020,
        "CFM_VerifyConfiguration_REC",
        &["ConfDate_U32", "ConfTime_U32", "ConfId_U32", "VerifyConfInvalid_BOOL"],
    ),
    (
        0x1030,
        "NMT_InterfaceGroup_0h_REC",
        &[
            "InterfaceIndex_U16",
            "InterfaceDescription_VSTR",
            "InterfaceType_U8",
            "InterfaceMtu_U16",
            "InterfacePhysAddress_OSTR",
            "InterfaceName_VSTR",
            "InterfaceOperStatus_U8",
            "InterfaceAdminState_U8",
            "Valid_BOOL",
        ],
    ),
    (0x1050, "NMT_RelativeLatencyDiff_AU32", &["RelativeLatencyDiff"]),
    (0x1300, "SDO_SequLayerTimeout_U32", &[]),
    (0x1c00, "DLL_MNCRCError_REC", COUNTER),
    (0x1c02, "DLL_MNCycTimeExceed_REC", COUNTER),
    (0x1c04, "DLL_MNCNLatePResCumCnt_AU32", &["CumulativeCnt"]),
    (0x1c05, "DLL_MNCNLatePResThrCnt_AU32", &["ThresholdCnt"]),
    (0x1c06, "DLL_MNCNLatePResThreshold_AU32", &["Threshold"]),
    (0x1c07, "DLL_MNCNLossPResCumCnt_AU32", &["CumulativeCnt"]),
    (0x1c08, "DLL_MNCNLossPResThrCnt_AU32", &["ThresholdCnt"]),
    (0x1c09, "DLL_MNCNLossPResThreshold_AU32", &["Threshold"]),
    (0x1c0b, "DLL_CNLossSoC_REC", COUNTER),
    (0x1c0c, "DLL_CNLossSoA_REC", COUNTER),
    (0x1c0d, "DLL_CNLossPReq_REC", COUNTER),
    (0x1c0e, "DLL_CNSoCJitter_REC", COUNTER),
    (0x1c0f, "DLL_CNCRCError_REC", COUNTER),
    (0x1c12, "DLL_MNCycleSuspendNumber_U32", &[]),
    (0x1c13, "DLL_CNSoCJitterRange_U32", &[]),
    (0x1c14, "DLL_CNLossOfSocTolerance_U32", &[]),
    (0x1c15, "DLL_MNLossStatusResCumCnt_AU32", &["CumulativeCnt"]),
    (0x1c16, "DLL_MNLossStatusResThrCnt_AU32", &["ThresholdCnt"]),
    (0x1c17, "DLL_MNLossStatusResThreshold_AU32", &["Threshold"]),
    (
        0x1e40,
        "NWL_IpAddrTable_0h_REC",
        &["IfIndex_U16", "Addr_IPAD", "NetMask_IPAD", "ReasmMaxSize_U16", "DefaultGateway_IPAD"],
    ),
    (0x1e4a, "NWL_IpGroup_REC", &["Forwarding_BOOL", "DefaultTTL_U16", "ForwardDatagrams_U32"]),
    (0x1f22, "CFM_ConciseDcfList_ADOM", &["CNConciseDcfData"]),
    (0x1f26, "CFM_ExpConfDateList_AU32", &["CNConfigurationDate"]),
    (0x1f27, "CFM_ExpConfTimeList_AU32", &["CNConfigurationTime"]),
    (0x1f52, "PDL_LocVerApplSw_REC", &["ApplSwDate_U32", "ApplSwTime_U32"]),
    (0x1f53, "PDL_MnExpAppSwDateList_AU32", &["AppSwDate"]),
    (0x1f54, "PDL_MnExpAppSwTimeList_AU32", &["AppSwTime"]),
    (0x1f80, "NMT_StartUp_U32", &[]),
    (0x1f81, "NMT_NodeAssignment_AU32", &["NodeAssignment"]),
    (0x1f82, "NMT_FeatureFlags_U32", &[]),
    (0x1f83, "NMT_EPLVersion_U8", &[]),
    (0x1f84, "NMT_MNDeviceTypeIdList_AU32", &["CNDeviceTypeId"]),
    (0x1f85, "NMT_MNVendorIdList_AU32", &["CNVendorId"]),
    (0x1f86, "NMT_MNProductCodeList_AU32", &["CNProductCode"]),
    (0x1f87, "NMT_MNRevisionNoList_AU32", &["CNRevisionNo"]),
    (0x1f88, "NMT_MNSerialNoList_AU32", &["CNSerialNo"]),
    (
        0x1f89,
        "NMT_BootTime_REC",
        &[
            "MNWaitNotAct_U32",
            "MNTimeoutPreOp1_U32",
            "MNWaitPreOp1_U32",
            "MNTimeoutPreOp2_U32",
            "MNTimeoutReadyToOp_U32",
            "MNIdentificationTimeout_U32",
            "MNSoftwareTimeout_U32",
            "MNConfigurationTimeout_U32",
            "MNStartCNTimeout_U32",
            "MNSwitchOverPriority_U32",
            "MNSwitchOverDelay_U32",
            "MNSwitchOverCycleDivider_U32",
        ],
    ),
    (
        0x1f8a,
        "NMT_MNCycleTiming_REC",
        &["WaitSoCPReq_U32", "AsyncSlotTimeout_U32", "ASndMaxNumber"],
    ),
    (0x1f8b, "NMT_MNPReqPayloadLimitList_AU16", &["CNPReqPayload"]),
    (0x1f8c, "NMT_CurrNMTState_U8", &[]),
    (0x1f8d, "NMT_PResPayloadLimitList_AU16", &["PResPayloadLimit"]),
    (0x1f8e, "NMT_MNNodeCurrState_AU8", &["CurrState"]),
    (0x1f8f, "NMT_MNNodeExpState_AU8", &["ExpState"]),
    (0x1f92, "NMT_MNCNPResTimeout_AU32", &["CNResTimeout"]),
    (0x1f93, "NMT_EPLNodeID_REC", &["NodeID_U8", "NodeIDByHW_BOOL"]),
    (
        0x1f98,
        "NMT_CycleTiming_REC",
        &[
            "IsochrTxMaxPayload_U16",
            "IsochrRxMaxPayload_U16",
            "PResMaxLatency_U32",
            "PReqActPayloadLimit_U16",
            "PResActPayloadLimit_U16",
            "ASndMaxLatency_U32",
            "MultiplCycleCnt_U8",
            "AsyncMTU_U16",
            "Prescaler_U16",
            "PResMode_U8",
            "PResTimeFirst_U32",
            "PResTimeSecond_U32",
            "SyncMNDelayFirst_U32",
            "SyncMNDelaySecond_U32",
        ],
    ),
    (0x1f99, "NMT_CNBasicEthernetTimeout_U32", &[]),
    (0x1f9a, "NMT_HostName_VSTR", &[]),
    (0x1f9b, "NMT_MultiplCycleAssign_AU8", &["CycleNo"]),
    (0x1f9e, "NMT_ResetCmd_U8", &[]),
    (0x1f9f, "NMT_RequestCmd_REC", &["Release_BOOL", "CmdID_U8", "CmdTarget_U8", "CmdData_DOM"]),
];

/// Names of PDOs, by the page of their index: before and after the channel, and the sub-indices.
const CHANNELS: &[(u16, &str, &str, &[&str])] = &[
    (0x14, "PDO_RxCommParam_", "h_REC", &["NodeID_U8", "MappingVersion_U8"]),
    (0x16, "PDO_RxMappParam_", "h_AU64", &["ObjectMapping"]),
    (0x18, "PDO_TxCommParam_", "h_REC", &["NodeID_U8", "MappingVersion_U8"]),
    (0x1a, "PDO_TxMappParam_", "h_AU64", &["ObjectMapping"]),
];

/// The name of an index of the profile.
pub(crate) fn of_index(index: u16) -> Option<Cow<'static, str>> {
    if let Ok(place) = NAMES.binary_search_by_key(&index, |entry| entry.0) {
        return Some(NAMES[place].1.into());
    }
    let (_, before, after, _) = CHANNELS.iter().find(|channel| channel.0 == index >> 8)?;
    Some(format!("{before}{:02X}{after}", index & 0xff).into())
}

/// The name of a sub-index of the profile.
pub(crate) fn of_sub(index: u16, sub: u8) -> Option<&'static str> {
    if sub == 0 {
        return Some("NumberOfEntries");
    }
    let subs = match NAMES.binary_search_by_key(&index, |entry| entry.0) {
        Ok(place) => NAMES[place].2,
        Err(_) => CHANNELS.iter().find(|channel| channel.0 == index >> 8)?.3,
    };
    match subs {
        [element] => Some(element),
        _ => subs.get(usize::from(sub) - 1).copied(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use onbeat_powerlink::od::profile::{self, Identity};

    #[test]
    fn every_object_of_a_node_has_a_name() {
        assert!(NAMES.windows(2).all(|pair| pair[0].0 < pair[1].0), "sorted");
        let identity = Identity::default();
        let controlled = profile::controlled_node(&identity, 256).unwrap();
        let managing = profile::managing_node(&identity, 1000, &[]).unwrap();
        for (object, _) in controlled.objects().chain(managing.objects()) {
            assert!(of_index(object.index).is_some(), "{object}");
            assert!(of_sub(object.index, object.sub).is_some(), "{object}");
        }
        assert_eq!(of_index(0x16ab).as_deref(), Some("PDO_RxMappParam_ABh_AU64"));
        assert_eq!((of_sub(0x1f81, 9), of_sub(0x1018, 5)), (Some("NodeAssignment"), None));
        assert_eq!(of_index(0x2000), None);
    }
}
