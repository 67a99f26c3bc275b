//! Device descriptions, and configurations of other tools, that a network file refers to.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use onbeat_config::Value;
use onbeat_host::file;
use onbeat_host::trust::{self, UntrustedFile};
use onbeat_powerlink::mn::{dcf_entries, is_concise_dcf};
use onbeat_powerlink::network::follows_from_network;
use onbeat_powerlink::od::ObjectId;
use onbeat_powerlink::od::profile::{self, Identity};
use onbeat_report::Input;
use onbeat_xdd::Description;

/// Maximum octets of a device description, and of a concise DCF.
pub(super) const LONGEST: u64 = 16 << 20;

/// Cached descriptions: many nodes are the same device.
#[derive(Debug)]
pub(super) struct Descriptions {
    folder: PathBuf,
    read: BTreeMap<PathBuf, Rc<Description>>,
    /// Files that were read.
    pub(super) inputs: Vec<Input>,
    /// The first file that another user could have written.
    pub(super) untrusted: Option<UntrustedFile>,
}

impl Descriptions {
    /// Resolves paths from the folder of a file.
    pub(super) fn beside(file: &Path) -> Self {
        let folder = file.parent().unwrap_or(Path::new("")).to_owned();
        Descriptions { folder, read: BTreeMap::new(), inputs: Vec::new(), untrusted: None }
    }

    /// Records before reading whether another user could have written the file.
    fn check(&mut self, path: &Path) {
        self.untrusted = self.untrusted.take().or_else(|| trust::check_file(path).err());
    }

    /// Reads the description that a value names. Its errors are reported at the value.
    pub(super) fn read(&mut self, value: &Value<'_>) -> Option<Rc<Description>> {
        let path = self.folder.join(value.text()?);
        if let Some(known) = self.read.get(&path) {
            return Some(Rc::clone(known));
        }
        let shown = path.display();
        self.check(&path);
        let text = match file::read_text(&path, LONGEST) {
            Ok(text) => text,
            Err(error) => {
                let help =
                    "use the path of an XDD or XDC file, relative to the folder of this file";
                value.fault(format!("cannot read {shown}: {error}"), help);
                return None;
            }
        };
        match onbeat_xdd::read(&text) {
            Ok(description) => {
                self.inputs.push(Input::of_file(&path, text.as_bytes()));
                let description = Rc::new(description);
                self.read.insert(path, Rc::clone(&description));
                Some(description)
            }
            Err(faults) => {
                for fault in faults {
                    value.fault(format!("{shown}:{fault}"), fault.help);
                }
                None
            }
        }
    }
}

impl Descriptions {
    /// The path of a node's parameters that a value names; the file need not exist.
    pub(super) fn store(&self, value: &Value<'_>) -> Option<PathBuf> {
        let name = value.text()?;
        let path = self.folder.join(name);
        if name.ends_with('/') || path.file_name().is_none() {
            let help = "use a path such as \"drive.dcf\", relative to the folder of this file";
            value.fault(format!("invalid file name {name:?}"), help);
            return None;
        }
        Some(path)
    }

    /// The entries of the concise DCF that a value names, except those derived from the network.
    pub(super) fn concise(&mut self, value: &Value<'_>) -> Option<Vec<(ObjectId, Vec<u8>)>> {
        let path = self.folder.join(value.text()?);
        let shown = path.display();
        self.check(&path);
        let octets = match file::read(&path, LONGEST) {
            Ok(octets) => octets,
            Err(error) => {
                let help = "use the path of a concise DCF, relative to the folder of this file";
                value.fault(format!("cannot read {shown}: {error}"), help);
                return None;
            }
        };
        if !is_concise_dcf(&octets) {
            let help = "a concise DCF is a count of entries, then index, sub-index, length \
                        and value of each, least significant octet first";
            let read = dcf_entries(&octets).count();
            value.fault(format!("{shown} is not a concise DCF: readable entries: {read}"), help);
            return None;
        }
        self.inputs.push(Input::of_file(&path, &octets));
        let entries = dcf_entries(&octets).filter(|(object, _)| !follows_from_network(*object));
        Some(entries.map(|(object, value)| (object, value.to_vec())).collect())
    }
}

/// Copies the identity of a device.
pub(super) fn identify(device: &Description, identity: &mut Identity) {
    for (object, to) in [
        (profile::DEVICE_TYPE, &mut identity.device_type),
        (profile::VENDOR_ID, &mut identity.vendor_id),
        (profile::PRODUCT_CODE, &mut identity.product_code),
        (profile::REVISION_NUMBER, &mut identity.revision_number),
        (profile::SERIAL_NUMBER, &mut identity.serial_number),
    ] {
        if device.objects.object(object).is_ok() {
            *to = device.objects.number(object) as u32;
        }
    }
    if let Some(product) = &device.product {
        identity.device_name = product.clone().into_bytes();
    }
}

/// The values of a device's configuration, except those derived from the network.
pub(super) fn configuration(device: &Description) -> impl Iterator<Item = (ObjectId, Vec<u8>)> {
    let writes = |object| device.objects.object(object).is_ok_and(|known| known.access.writes());
    let actual = device.actual.iter();
    actual.filter(move |(object, _)| !follows_from_network(*object) && writes(*object)).cloned()
}
