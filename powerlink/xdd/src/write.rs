//! Writes device descriptions.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use onbeat_powerlink::od::{Access, Dictionary, Limits, Object, ObjectId, PdoMapping, profile};

use crate::{names, value};

/// A device to describe.
#[derive(Debug, Clone)]
pub struct Device<'a> {
    /// Its objects.
    pub objects: &'a Dictionary,
    /// Names of objects beyond the communication profile.
    pub names: BTreeMap<ObjectId, String>,
    /// It is a managing node; otherwise a controlled one.
    pub is_managing: bool,
    /// The name of the file.
    pub file_name: &'a str,
    /// The date of the file, `YYYY-MM-DD`.
    pub date: &'a str,
}

/// The types of DS 301, in the order of their indices.
const TYPES: [(u16, &str); 24] = [
    (0x0001, "Boolean"),
    (0x0002, "Integer8"),
    (0x0003, "Integer16"),
    (0x0004, "Integer32"),
    (0x0005, "Unsigned8"),
    (0x0006, "Unsigned16"),
    (0x0007, "Unsigned32"),
    (0x0008, "Real32"),
    (0x0009, "Visible_String"),
    (0x000a, "Octet_String"),
    (0x000f, "Domain"),
    (0x0010, "Integer24"),
    (0x0011, "Real64"),
    (0x0012, "Integer40"),
    (0x0013, "Integer48"),
    (0x0014, "Integer56"),
    (0x0015, "Integer64"),
    (0x0016, "Unsigned24"),
    (0x0018, "Unsigned40"),
    (0x0019, "Unsigned48"),
    (0x001a, "Unsigned56"),
    (0x001b, "Unsigned64"),
    (0x0401, "MAC_ADDRESS"),
    (0x0402, "IP_ADDRESS"),
];

/// The description of a device, as a text in XML (EPSG DS 311).
#[must_use]
pub fn write(device: &Device<'_>) -> String {
    let Device { objects, file_name, date, .. } = device;
    let text =
        |object| String::from_utf8_lossy(objects.get(object).unwrap_or_default()).into_owned();
    let product = match text(onbeat_powerlink::od::id(0x1008, 0)) {
        name if name.is_empty() => "onbeat".to_owned(),
        name => name,
    };
    let (product, version) = (escape(&product), escape(env!("CARGO_PKG_VERSION")));
    let vendor = objects.number(profile::VENDOR_ID);
    let body = format!(
        "fileName=\"{}\" fileCreator=\"onbeat\" fileCreationDate=\"{date}\" fileVersion=\"1\"",
        escape(file_name)
    );
    let mut out = String::from(
        "<?xml version=\"1.0\" encoding=\"utf-8\"?>\n\
         <ISO15745ProfileContainer xmlns=\"http://www.ethernet-powerlink.org\" \
         xmlns:xsi=\"http://www.w3.org/2001/XMLSchema-instance\" \
         xsi:schemaLocation=\"http://www.ethernet-powerlink.org Powerlink_Main.xsd\">\n",
    );
    let mut line = |indent: usize, text: &str| {
        out.extend(std::iter::repeat_n(' ', 2 * indent));
        out.push_str(text);
        out.push('\n');
    };
    header(&mut line, "Powerlink_Device_Profile", &product, "Device");
    line(2, &format!("<ProfileBody xsi:type=\"ProfileBody_Device_Powerlink\" {body}>"));
    line(3, "<DeviceIdentity>");
    line(4, "<vendorName>onbeat</vendorName>");
    line(4, &format!("<vendorID>0x{vendor:08X}</vendorID>"));
    line(4, &format!("<productName>{product}</productName>"));
    line(4, &format!("<version versionType=\"SW\">{version}</version>"));
    line(3, "</DeviceIdentity>");
    line(3, "<DeviceFunction/>");
    line(2, "</ProfileBody>");
    line(1, "</ISO15745Profile>");
    header(&mut line, "Powerlink_Communication_Profile", &product, "CommunicationNetwork");
    line(
        2,
        &format!("<ProfileBody xsi:type=\"ProfileBody_CommunicationNetwork_Powerlink\" {body}>"),
    );
    line(3, "<ApplicationLayers>");
    line(4, "<DataTypeList>");
    for (index, name) in TYPES {
        line(5, &format!("<defType dataType=\"{index:04X}\"><{name}/></defType>"));
    }
    line(4, "</DataTypeList>");
    object_list(device, &mut line);
    if device.is_managing {
        dynamic_channels(&mut line);
    }
    line(3, "</ApplicationLayers>");
    line(3, "<TransportLayers/>");
    line(3, "<NetworkManagement>");
    for (element, attributes) in features(device) {
        let attributes: Vec<String> =
            attributes.iter().map(|(name, value)| format!(" {name}=\"{value}\"")).collect();
        line(4, &format!("<{element}{}/>", attributes.concat()));
    }
    line(3, "</NetworkManagement>");
    line(2, "</ProfileBody>");
    line(1, "</ISO15745Profile>");
    line(0, "</ISO15745ProfileContainer>");
    out
}

fn header(line: &mut impl FnMut(usize, &str), identification: &str, name: &str, class: &str) {
    line(1, "<ISO15745Profile>");
    line(2, "<ProfileHeader>");
    line(3, &format!("<ProfileIdentification>{identification}</ProfileIdentification>"));
    line(3, "<ProfileRevision>1</ProfileRevision>");
    line(3, &format!("<ProfileName>{name}</ProfileName>"));
    line(3, "<ProfileSource/>");
    line(3, &format!("<ProfileClassID>{class}</ProfileClassID>"));
    line(3, "<ISO15745Reference>");
    line(4, "<ISO15745Part>4</ISO15745Part>");
    line(4, "<ISO15745Edition>1</ISO15745Edition>");
    line(4, "<ProfileTechnology>Powerlink</ProfileTechnology>");
    line(3, "</ISO15745Reference>");
    line(2, "</ProfileHeader>");
}

fn object_list(device: &Device<'_>, line: &mut impl FnMut(usize, &str)) {
    line(4, "<ObjectList>");
    let mut objects = device.objects.objects().peekable();
    while let Some((first, described)) = objects.next() {
        let is_alone =
            first.sub == 0 && objects.peek().is_none_or(|(object, _)| object.index != first.index);
        let name = names::of_index(first.index).map(|name| name.into_owned());
        if is_alone {
            let name = name.or_else(|| device.names.get(&first).cloned());
            let name = name.unwrap_or_else(|| format!("Object_{:04X}", first.index));
            let attributes = attributes(device, first, described, &name);
            line(
                5,
                &format!(
                    "<Object index=\"{:04X}\" name=\"{}\" objectType=\"7\"{attributes}/>",
                    first.index,
                    escape(&name)
                ),
            );
            continue;
        }
        let mut entries = vec![(first, described)];
        while let Some(entry) = objects.next_if(|(object, _)| object.index == first.index) {
            entries.push(entry);
        }
        let name = name.unwrap_or_else(|| format!("Object_{:04X}", first.index));
        // The name of the profile ends with the kind of the object.
        let kind = if name.contains("_A") && !name.ends_with("_REC") { 8 } else { 9 };
        line(
            5,
            &format!(
                "<Object index=\"{:04X}\" name=\"{}\" objectType=\"{kind}\">",
                first.index,
                escape(&name)
            ),
        );
        for (object, described) in entries {
            let profile = (first.index < 0x2000 || object.sub == 0)
                .then(|| names::of_sub(object.index, object.sub))
                .flatten();
            let name = profile.map(str::to_owned).or_else(|| device.names.get(&object).cloned());
            let name = name.unwrap_or_else(|| format!("Entry_{:02X}", object.sub));
            let attributes = attributes(device, object, described, &name);
            line(
                6,
                &format!(
                    "<SubObject subIndex=\"{:02X}\" name=\"{}\" objectType=\"7\"{attributes}/>",
                    object.sub,
                    escape(&name)
                ),
            );
        }
        line(5, "</Object>");
    }
    line(4, "</ObjectList>");
}

/// Type, access, mapping, limits and default of an object, in the order of the templates.
fn attributes(device: &Device<'_>, object: ObjectId, described: &Object, name: &str) -> String {
    let Object { data_type, access, mappable, limits, .. } = described;
    let index = match value::index(*data_type) {
        0x0007 if name.ends_with("_IPAD") => 0x0402,
        index => index,
    };
    let access = match access {
        Access::Constant => "const",
        Access::ReadOnly => "ro",
        Access::ReadWrite => "rw",
        Access::WriteOnly => "wo",
    };
    let mapping = match mappable {
        PdoMapping::No => "no",
        PdoMapping::Transmit => "TPDO",
        PdoMapping::Receive => "RPDO",
        PdoMapping::Both => "optional",
    };
    let mut out =
        format!(" dataType=\"{index:04X}\" accessType=\"{access}\" PDOmapping=\"{mapping}\"");
    let range = match limits {
        Some(Limits::Unsigned(range)) => Some((range.start().to_string(), range.end().to_string())),
        Some(Limits::Signed(range)) => Some((range.start().to_string(), range.end().to_string())),
        Some(Limits::Real(range)) => Some((range.start().to_string(), range.end().to_string())),
        None => None,
    };
    if let Some((low, high)) = range {
        let _ = write!(out, " lowLimit=\"{low}\" highLimit=\"{high}\"");
    }
    let default = device.objects.default_of(object).unwrap_or_default();
    if let Some(default) = value::written(*data_type, default).filter(|text| !text.is_empty()) {
        let _ = write!(out, " defaultValue=\"{}\"", escape(&default));
    }
    out
}

/// The process image of a managing node: the ranges of DS 302-4.
fn dynamic_channels(line: &mut impl FnMut(usize, &str)) {
    line(4, "<dynamicChannels>");
    for (start, access) in [(0xa000_u16, "readOnly"), (0xa480, "readWriteOutput")] {
        for (range, data_type) in (0..).zip(onbeat_powerlink::network::PROCESS_TYPES) {
            let first = start + 0x40 * range;
            line(
                5,
                &format!(
                    "<dynamicChannel dataType=\"{:04X}\" accessType=\"{access}\" \
                     startIndex=\"{first:04X}\" endIndex=\"{:04X}\" maxNumber=\"{}\" \
                     addressOffset=\"0000\" bitAlignment=\"{}\"/>",
                    value::index(data_type),
                    first + 0x3f,
                    0x40 * 254,
                    data_type.bits().unwrap_or_default().min(8)
                ),
            );
        }
    }
    line(4, "</dynamicChannels>");
}

type Attributes = Vec<(&'static str, String)>;

/// The abilities of nodes of this implementation.
fn features(device: &Device<'_>) -> Vec<(&'static str, Attributes)> {
    let objects = device.objects;
    let bits = objects.number(profile::FEATURES);
    let bit = |number: u32| (bits >> number & 1 == 1).to_string();
    let channels = |page: u16| {
        let channels =
            (0..=0xff).filter(|n| objects.object(onbeat_powerlink::od::id(page + n, 0)).is_ok());
        channels.count().to_string()
    };
    let text = |text: &str| text.to_owned();
    let general = vec![
        ("CFMConfigManager", bit(8)),
        ("DLLFeatureCN", (!device.is_managing).to_string()),
        ("DLLFeatureMN", device.is_managing.to_string()),
        ("NMTBootTimeNotActive", text("1000000")),
        ("NMTCycleTimeMax", text("10000000")),
        ("NMTCycleTimeMin", text("200")),
        ("NMTEmergencyQueueSize", text("32")),
        ("NMTErrorEntries", text("2")),
        ("NMTExtNmtCmds", bit(5)),
        ("NMTFlushArpEntry", text("true")),
        ("NMTIsochronous", bit(0)),
        ("NMTNetHostNameSet", text("true")),
        ("NMTNodeIDByHW", text("false")),
        ("NMTNodeIDBySW", bit(10)),
        // A configuration tool maps the process data of a managing node.
        ("PDODynamicMapping", (device.is_managing || bits >> 6 & 1 == 1).to_string()),
        ("PDOGranularity", text("1")),
        ("PDORPDOChannelObjects", profile::MAX_MAPPED.to_string()),
        ("PDORPDOChannels", channels(profile::RPDO)),
        ("PDOSelfReceipt", text("false")),
        ("PDOTPDOChannelObjects", profile::MAX_MAPPED.to_string()),
        ("PHYExtEPLPorts", text("1")),
        ("PHYHubIntegrated", text("false")),
        ("SDOClient", device.is_managing.to_string()),
        ("SDOCmdReadAllByIndex", bit(14)),
        ("SDOCmdReadMultParam", bit(15)),
        ("SDOCmdWriteAllByIndex", bit(14)),
        ("SDOCmdWriteMultParam", bit(15)),
        ("SDOMaxConnections", text("8")),
        ("SDOMaxParallelConnections", text("8")),
        ("SDOServer", text("true")),
        ("SDOSupportASnd", bit(2)),
        ("SDOSupportPDO", bit(3)),
        ("SDOSupportUdpIp", bit(1)),
    ];
    let own = if device.is_managing {
        let attributes = vec![
            ("DLLMNFeatureMultiplex", bit(9)),
            ("DLLMNPResChaining", bit(18)),
            ("NMTMNASnd2SoC", text("0")),
            ("NMTMNBasicEthernet", bit(11)),
            ("NMTMNMultiplCycMax", text("255")),
            ("NMTMNPRes2PReq", text("0")),
            ("NMTMNPRes2PRes", text("0")),
            ("NMTMNPResRx2SoA", text("0")),
            ("NMTMNPResTx2SoA", text("0")),
            ("NMTMNSoA2ASndTx", text("0")),
            ("NMTMNSoC2PReq", text("0")),
            ("NMTNetTime", text("true")),
            ("NMTNetTimeIsRealTime", text("true")),
            ("NMTRelativeTime", text("true")),
            ("NMTSimpleBoot", text("false")),
            ("PDOTPDOChannels", channels(profile::TPDO)),
        ];
        ("MNFeatures", attributes)
    } else {
        let attributes = vec![
            ("DLLCNFeatureMultiplex", bit(9)),
            ("DLLCNPResChaining", bit(18)),
            ("NMTCNSoC2PReq", text("0")),
        ];
        ("CNFeatures", attributes)
    };
    vec![("GeneralFeatures", general), own]
}

/// A text in an attribute or an element.
fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\t' | '\n' | '\r' => {
                let _ = write!(out, "&#{};", u32::from(letter));
            }
            // XML has no other control characters.
            letter if letter.is_control() || matches!(letter, '\u{fffe}' | '\u{ffff}') => {
                out.push('?')
            }
            letter => out.push(letter),
        }
    }
    out
}
