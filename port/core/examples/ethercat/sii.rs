//! EEPROM content of an emulated device: the slave information interface (ETG.2010).

/// Octets of process data in each direction.
pub(crate) const PROCESS_DATA: usize = 4;
/// Where outputs are in the device's memory: sync manager 0.
pub(crate) const OUTPUTS: u16 = 0x1000;
/// Where inputs are: sync manager 1.
pub(crate) const INPUTS: u16 = 0x1100;
/// A vendor that does not exist.
pub(crate) const VENDOR: u32 = 0xffff_fffe;
/// The product's code.
pub(crate) const PRODUCT: u32 = 0x0b04;
/// The product's name.
pub(crate) const NAME: &str = "EMULATED-IO";

// Categories (ETG.2010, table 3).
const STRINGS: u16 = 10;
const GENERAL: u16 = 30;
const FMMU: u16 = 40;
const SYNC_MANAGER: u16 = 41;
const TX_PDO: u16 = 50;
const RX_PDO: u16 = 51;
const END: u16 = 0xffff;

/// Where the categories begin, in octets.
const CATEGORIES: usize = 0x80;

/// The image of a device with this serial number. It has no mailbox: its process data is fixed.
pub(crate) fn image(serial: u32) -> Vec<u8> {
    let mut image = vec![0; CATEGORIES];
    image[0] = 0x04; // process data interface: digital input and output
    image[14] = checksum(&image[..14]);
    for (at, value) in [(16, VENDOR), (20, PRODUCT), (24, 1), (28, serial)] {
        image[at..at + 4].copy_from_slice(&value.to_le_bytes());
    }
    image[0x7c..0x80].copy_from_slice(&[3, 0, 1, 0]); // 4 kbit; version 1

    let strings = [&[1, NAME.len() as u8], NAME.as_bytes()].concat();
    let mut general = [0; 32];
    general[2] = 1; // order: the first string
    general[3] = 1; // name
    general[0x10] = 0x11; // ports 0 and 1: MII
    category(&mut image, STRINGS, &strings);
    category(&mut image, GENERAL, &general);
    category(&mut image, FMMU, &[1, 2]); // outputs, inputs
    let sync_managers = [
        sync_manager(OUTPUTS, 0x64, 3), // buffered, written by the main device, watchdog
        sync_manager(INPUTS, 0x20, 4),  // buffered, read by the main device
    ];
    category(&mut image, SYNC_MANAGER, &sync_managers.concat());
    category(&mut image, TX_PDO, &pdo(0x1a00, 1, 0x6000));
    category(&mut image, RX_PDO, &pdo(0x1600, 0, 0x7000));
    image.extend(END.to_le_bytes());
    image
}

/// A category: its type, its length in words, and its content.
fn category(image: &mut Vec<u8>, kind: u16, content: &[u8]) {
    let words = content.len().div_ceil(2);
    image.extend(kind.to_le_bytes());
    image.extend((words as u16).to_le_bytes());
    image.extend(content);
    image.resize(image.len() + 2 * words - content.len(), 0);
}

fn sync_manager(start: u16, control: u8, usage: u8) -> [u8; 8] {
    let ([start_low, start_high], enabled) = (start.to_le_bytes(), 1);
    [start_low, start_high, PROCESS_DATA as u8, 0, control, 0, enabled, usage]
}

/// A process data object of one entry, an unsigned number of 32 bits.
fn pdo(index: u16, sync_manager: u8, object: u16) -> [u8; 16] {
    let ([index, index_high], [object, object_high]) = (index.to_le_bytes(), object.to_le_bytes());
    let (unsigned32, bits) = (0x07, 8 * PROCESS_DATA as u8);
    [
        [index, index_high, 1, sync_manager, 0, 0, 0, 0],
        [object, object_high, 1, 0, unsigned32, bits, 0, 0],
    ]
    .concat()
    .try_into()
    .expect("two times eight octets")
}

/// CRC of x^8 + x^2 + x + 1 that begins with all ones (ETG.2010, table 2).
fn checksum(octets: &[u8]) -> u8 {
    octets.iter().fold(0xff, |crc, octet| {
        (0..8).fold(crc ^ octet, |crc: u8, _| (crc << 1) ^ if crc & 0x80 == 0 { 0 } else { 0x07 })
    })
}
