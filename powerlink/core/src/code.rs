//! Error codes of the communication profile (EPSG DS 301, appendix 3.9), as entries of the error
//! history and the reason of NMTResetNode have them.

/// E_PDO_SHORT_RX: a payload shorter than its mapping.
pub const PDO_SHORT: u16 = 0x8210;
/// E_PDO_MAP_VERS: a payload of another version of the mapping.
pub const PDO_VERSION: u16 = 0x8211;
/// E_DLL_JITTER_TH: SoC came too far from where the ones before them say.
pub const JITTER: u16 = 0x8235;
/// E_DLL_LATE_PRES_TH: responses to polls came too late.
pub const LATE_PRES: u16 = 0x8236;
/// E_DLL_INVALID_FORMAT: a frame that cannot be read.
pub const INVALID_FORMAT: u16 = 0x8241;
/// E_DLL_LOSS_PREQ_TH: polls were lost.
pub const LOSS_OF_PREQ: u16 = 0x8242;
/// E_DLL_LOSS_PRES_TH: responses to polls were lost.
pub const LOSS_OF_PRES: u16 = 0x8243;
/// E_DLL_LOSS_SOA_TH: SoA were lost.
pub const LOSS_OF_SOA: u16 = 0x8244;
/// E_DLL_LOSS_SOC_TH: SoC were lost.
pub const LOSS_OF_SOC: u16 = 0x8245;
/// E_NMT_BPO1_DEVICE_TYPE: another device type than expected; those of vendor, product, revision
/// and serial number follow it.
pub const DEVICE_TYPE: u16 = 0x8422;
/// E_NMT_BPO1_CF_VERIFY: the configuration cannot be written, or is not what was written.
pub const CONFIGURATION: u16 = 0x8428;
/// E_NMT_BPO2: no way to PRE_OPERATIONAL_2 or READY_TO_OPERATE in time.
pub const PRE_OPERATIONAL_2: u16 = 0x8430;
/// E_NMT_BRO: no way from READY_TO_OPERATE to OPERATIONAL in time.
pub const READY_TO_OPERATE: u16 = 0x8440;
/// E_NMT_WRONG_STATE: another state than commanded.
pub const WRONG_STATE: u16 = 0x8480;
/// E_NMT_NO_STATUS_RES: requests for a status were not answered.
pub const NO_STATUS: u16 = 0xf002;

/// The type of an entry: it happened, by the communication profile, and is of the history.
pub(crate) const OCCURRED: u16 = 0x3002;
