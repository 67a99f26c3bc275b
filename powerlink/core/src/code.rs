//! Error codes of the communication profile (EPSG DS 301, appendix 3.9), used in entries of the error history
//! and as the reason of NMTResetNode.

/// E_PDO_SHORT_RX: a payload shorter than its mapping.
pub const PDO_SHORT: u16 = 0x8210;
/// E_PDO_MAP_VERS: a payload of another version of the mapping.
pub const PDO_VERSION: u16 = 0x8211;
/// E_DLL_JITTER_TH: the interval between SoC deviated too far from the cycle length.
pub const JITTER: u16 = 0x8235;
/// E_DLL_LATE_PRES_TH: responses to polls came too late.
pub const LATE_PRES: u16 = 0x8236;
/// E_DLL_INVALID_FORMAT: a frame with an invalid format.
pub const INVALID_FORMAT: u16 = 0x8241;
/// E_DLL_LOSS_PREQ_TH: polls were lost.
pub const LOSS_OF_PREQ: u16 = 0x8242;
/// E_DLL_LOSS_PRES_TH: responses to polls were lost.
pub const LOSS_OF_PRES: u16 = 0x8243;
/// E_DLL_LOSS_SOA_TH: SoA were lost.
pub const LOSS_OF_SOA: u16 = 0x8244;
/// E_DLL_LOSS_SOC_TH: SoC were lost.
pub const LOSS_OF_SOC: u16 = 0x8245;
/// E_NMT_BPO1_DEVICE_TYPE: unexpected device type; the codes of vendor, product, revision and serial number
/// follow.
pub const DEVICE_TYPE: u16 = 0x8422;
/// E_NMT_BPO1_CF_VERIFY: the configuration cannot be written, or differs from the written one.
pub const CONFIGURATION: u16 = 0x8428;
/// E_NMT_BPO2: PRE_OPERATIONAL_2 or READY_TO_OPERATE was not reached in time.
pub const PRE_OPERATIONAL_2: u16 = 0x8430;
/// E_NMT_BRO: OPERATIONAL was not reached from READY_TO_OPERATE in time.
pub const READY_TO_OPERATE: u16 = 0x8440;
/// E_NMT_WRONG_STATE: another state than commanded.
pub const WRONG_STATE: u16 = 0x8480;
/// E_NMT_NO_STATUS_RES: StatusRequests were not answered.
pub const NO_STATUS: u16 = 0xf002;

/// The type of an entry: an error that occurred, of the communication profile, in the history.
pub(crate) const OCCURRED: u16 = 0x3002;
