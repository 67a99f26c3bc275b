//! Emulated EtherCAT devices: as much of ETG.1000.4 (data link) and ETG.1000.6 (application) as a
//! main device needs to find them, bring them to OP and exchange process data. Pure: frames in,
//! frames out.
//!
//! There is no mailbox and no distributed clock, and FMMUs map whole octets. An emulated device
//! returns its outputs inverted.

#[path = "sii.rs"]
pub(crate) mod sii;

use std::ops::Range;

use self::sii::{INPUTS, OUTPUTS, PROCESS_DATA};

// Registers (ETG.1000.4, 6; ETG.1000.6, 5.3).
const STATION_ADDRESS: usize = 0x0010;
const DL_STATUS: usize = 0x0110;
const AL_CONTROL: usize = 0x0120;
const AL_STATUS: usize = 0x0130;
const AL_STATUS_CODE: usize = 0x0134;
const SII_CONFIG: usize = 0x0500;
const SII_CONTROL: usize = 0x0502;
const SII_ADDRESS: usize = 0x0504;
const SII_DATA: usize = 0x0508;
const FMMUS: Range<usize> = 0x0600..0x0600 + 2 * FMMU_LEN;
const FMMU_LEN: usize = 16;
const SYNC_MANAGERS: Range<usize> = 0x0800..0x0800 + 2 * SYNC_MANAGER_LEN;
const SYNC_MANAGER_LEN: usize = 8;
const PROCESS_RAM: Range<usize> = 0x1000..0x1400;

// States of the application (ETG.1000.6, table 9).
const INIT: u8 = 1;
const PREOP: u8 = 2;
const SAFEOP: u8 = 4;
const OP: u8 = 8;
/// In AL status: a request failed. In AL control: that is understood.
const ERROR: u8 = 0x10;

/// Devices in a row, the first of which is next to the main device.
#[derive(Debug)]
pub(crate) struct Segment {
    devices: Vec<Device>,
}

impl Segment {
    /// `count` devices, with serial numbers from 1.
    pub(crate) fn new(count: usize) -> Self {
        let device = |i| Device::new(i as u32 + 1, i + 1 == count);
        Self { devices: (0..count).map(device).collect() }
    }

    /// Turns a frame into the one that the segment returns; false if it is not EtherCAT and nothing is
    /// returned.
    pub(crate) fn process(&mut self, frame: &mut [u8]) -> bool {
        let Some((header, rest)) = frame.split_at_mut_checked(16) else { return false };
        let length = u16::from_le_bytes([header[14], header[15]]);
        let datagrams = rest.get_mut(..usize::from(length & 0x7ff));
        let (&[0x88, 0xa4], 1, Some(datagrams)) = (&header[12..14], length >> 12, datagrams) else {
            return false;
        };
        // How a main device knows its own frames from those that were processed.
        header[6] |= 0x02;
        for device in &mut self.devices {
            device.pass(datagrams);
        }
        true
    }
}

/// Access to the addressee of a datagram.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Access {
    Read,
    Write,
    ReadWrite,
}

impl Access {
    /// Working-counter increment of a write.
    fn of_a_write(self) -> u16 {
        if self == Access::ReadWrite { 2 } else { 1 }
    }
}

#[derive(Debug)]
struct Device {
    memory: Vec<u8>,
    eeprom: Vec<u8>,
}

impl Device {
    fn new(serial: u32, last: bool) -> Self {
        let mut memory = vec![0; PROCESS_RAM.end];
        // Type (IP core), revision, build, FMMUs, sync managers, KiB of RAM, ports 0 and 1: MII;
        // features: none.
        memory[..10].copy_from_slice(&[0x04, 0, 0, 0, 2, 2, 1, 0x0f, 0, 0]);
        // Ready; a link and a signal on port 0; on port 1 the same, or its loop is closed; the
        // loops of ports 2 and 3 are.
        let status: u16 = if last { 0x5611 } else { 0x5a31 };
        memory[DL_STATUS..DL_STATUS + 2].copy_from_slice(&status.to_le_bytes());
        memory[AL_STATUS] = INIT;
        Self { memory, eeprom: sii::image(serial) }
    }

    /// Processes the datagrams of a frame, up to where it is cut off.
    fn pass(&mut self, mut rest: &mut [u8]) {
        while let Some((header, behind)) = rest.split_at_mut_checked(10) {
            let flags = u16::from_le_bytes([header[6], header[7]]);
            let Some((data, behind)) = behind.split_at_mut_checked(usize::from(flags & 0x7ff))
            else {
                return;
            };
            let Some((counter, behind)) = behind.split_at_mut_checked(2) else { return };
            let worked = self.datagram(header, data);
            let before = u16::from_le_bytes([counter[0], counter[1]]);
            counter.copy_from_slice(&before.wrapping_add(worked).to_le_bytes());
            let more_follow = flags & 0x8000 != 0;
            rest = if more_follow { behind } else { return };
        }
    }

    /// Processes a datagram; returns the increment of its working counter (ETG.1000.4, 5.4).
    fn datagram(&mut self, header: &mut [u8], data: &mut [u8]) -> u16 {
        let command = header[0];
        let position = u16::from_le_bytes([header[2], header[3]]);
        let offset = usize::from(u16::from_le_bytes([header[4], header[5]]));
        // Positions, and what is sent to all, are counted up from device to device.
        if matches!(command, 1..=3 | 7..=9 | 13) {
            header[2..4].copy_from_slice(&position.wrapping_add(1).to_le_bytes());
        }
        let own = &self.memory[STATION_ADDRESS..STATION_ADDRESS + 2];
        let (here, meant) = (position == 0, own == position.to_le_bytes());
        let access = match command {
            1 if here => Access::Read,       // APRD
            2 if here => Access::Write,      // APWR
            3 if here => Access::ReadWrite,  // APRW
            4 if meant => Access::Read,      // FPRD
            5 if meant => Access::Write,     // FPWR
            6 if meant => Access::ReadWrite, // FPRW
            7 => Access::Read,               // BRD
            8 => Access::Write,              // BWR
            9 => Access::ReadWrite,          // BRW
            10 => return self.logical(header, data, Access::Read),
            11 => return self.logical(header, data, Access::Write),
            12 => return self.logical(header, data, Access::ReadWrite),
            13 if here => Access::Read,  // ARMW
            14 if meant => Access::Read, // FRMW
            13 | 14 => Access::Write,
            _ => return 0, // NOP; to another device
        };
        let mut worked = 0;
        let came = data.to_vec();
        if access != Access::Write {
            worked += u16::from(self.read(offset, data));
            if matches!(command, 7..=9) {
                // What all say is ORed.
                data.iter_mut().zip(&came).for_each(|(octet, before)| *octet |= before);
            }
        }
        if access != Access::Read {
            worked += u16::from(self.write(offset, &came)) * access.of_a_write();
        }
        worked
    }

    /// Reads memory; whether any of it is there.
    fn read(&self, offset: usize, data: &mut [u8]) -> bool {
        let mut any = false;
        for (at, octet) in (offset..).zip(data) {
            if self.is_readable(at) {
                *octet = self.memory[at];
                any = true;
            }
        }
        any
    }

    /// Writes memory and performs the requested operations; returns false if nothing can be written.
    fn write(&mut self, offset: usize, data: &[u8]) -> bool {
        let mut any = false;
        for (at, octet) in (offset..).zip(data) {
            if self.is_writable(at) {
                self.memory[at] = *octet;
                any = true;
            }
        }
        let written = |register| (offset..offset + data.len()).contains(&register);
        if written(AL_CONTROL) {
            self.change_state();
        }
        // Its second octet holds the commands.
        if written(SII_CONTROL + 1) {
            self.access_eeprom();
        }
        self.apply();
        any
    }

    fn is_readable(&self, at: usize) -> bool {
        at < FMMUS.start || FMMUS.contains(&at) || SYNC_MANAGERS.contains(&at) || self.is_ram(at, 0)
    }

    fn is_writable(&self, at: usize) -> bool {
        // Station address; DL control; AL control; watchdogs; EEPROM.
        let registers =
            [0x0010..0x0014, 0x0100..0x0104, 0x0120..0x0122, 0x0400..0x0442, 0x0500..0x0510];
        registers.iter().any(|range| range.contains(&at))
            || FMMUS.contains(&at)
            || SYNC_MANAGERS.contains(&at)
            || self.is_ram(at, 1)
    }

    /// Whether process RAM may be accessed there: where a sync manager of this direction is on.
    fn is_ram(&self, at: usize, direction: u8) -> bool {
        PROCESS_RAM.contains(&at)
            && self.memory[SYNC_MANAGERS].chunks_exact(SYNC_MANAGER_LEN).any(|manager| {
                let start = usize::from(u16::from_le_bytes([manager[0], manager[1]]));
                let length = usize::from(u16::from_le_bytes([manager[2], manager[3]]));
                manager[6] & 1 == 1
                    && (manager[4] >> 2) & 3 == direction
                    && (start..start + length).contains(&at)
            })
    }

    /// LRD, LWR, LRW: octets that the FMMUs map to this device.
    fn logical(&mut self, header: &[u8], data: &mut [u8], access: Access) -> u16 {
        let first = u32::from_le_bytes([header[2], header[3], header[4], header[5]]);
        let came = data.to_vec();
        let (mut reads, mut writes) = (false, false);
        for fmmu in FMMUS.step_by(FMMU_LEN) {
            let entry: [u8; FMMU_LEN] =
                self.memory[fmmu..fmmu + FMMU_LEN].try_into().expect("as long as an entry");
            let start = u32::from_le_bytes([entry[0], entry[1], entry[2], entry[3]]);
            let length = u16::from_le_bytes([entry[4], entry[5]]);
            let physical = usize::from(u16::from_le_bytes([entry[8], entry[9]]));
            let (readable, writable) = (entry[11] & 1 != 0, entry[11] & 2 != 0);
            if entry[12] & 1 == 0 {
                continue;
            }
            for (i, octet) in data.iter_mut().enumerate() {
                let Some(within) = first.wrapping_add(i as u32).checked_sub(start) else {
                    continue;
                };
                if within >= u32::from(length) {
                    continue;
                }
                let at = physical + within as usize;
                if readable && access != Access::Write && self.is_readable(at) {
                    *octet = self.memory[at];
                    reads = true;
                }
                if writable && access != Access::Read && self.is_writable(at) {
                    self.memory[at] = came[i];
                    writes = true;
                }
            }
        }
        self.apply();
        u16::from(reads) + u16::from(writes) * access.of_a_write()
    }

    /// The application: outputs that count come back inverted.
    fn apply(&mut self) {
        if self.memory[AL_STATUS] == OP {
            for i in 0..PROCESS_DATA {
                self.memory[usize::from(INPUTS) + i] = !self.memory[usize::from(OUTPUTS) + i];
            }
        }
    }

    /// Handles AL control (ETG.1000.6, 6.4.1).
    fn change_state(&mut self) {
        let (request, status) = (self.memory[AL_CONTROL], self.memory[AL_STATUS]);
        let state = status & 0x0f;
        if status & ERROR != 0 && request & ERROR == 0 {
            return;
        }
        let result = match (state, request & 0x0f) {
            (_, new @ INIT)
            | (PREOP.., new @ PREOP)
            | (SAFEOP.., new @ SAFEOP)
            | (OP, new @ OP) => Ok(new),
            (INIT, PREOP) => Ok(PREOP),
            (PREOP, SAFEOP) => self.check_sync_managers().map(|()| SAFEOP),
            (SAFEOP, OP) => Ok(OP),
            (_, PREOP | SAFEOP | OP) => Err(0x11), // invalid requested state change
            _ => Err(0x12),                        // unknown requested state
        };
        self.memory[AL_STATUS] = result.unwrap_or(state | ERROR);
        self.memory[AL_STATUS_CODE] = result.err().unwrap_or(0);
    }

    /// That the main device set up the sync managers as the EEPROM says, or the AL status code.
    fn check_sync_managers(&self) -> Result<(), u8> {
        for (manager, start, code) in [(0, OUTPUTS, 0x1d), (1, INPUTS, 0x1e)] {
            let at = SYNC_MANAGERS.start + manager * SYNC_MANAGER_LEN;
            let [start, length] = [start, PROCESS_DATA as u16].map(u16::to_le_bytes);
            let on = self.memory[at + 6] & 1 == 1;
            if !on || self.memory[at..at + 4] != [start, length].concat() {
                return Err(code);
            }
        }
        Ok(())
    }

    /// Handles the control register of the EEPROM (ETG.1000.4, 6.4.3): it can be read, eight
    /// octets at once.
    fn access_eeprom(&mut self) {
        const EIGHT_OCTETS: u8 = 0x40;
        const READ: u8 = 0x01;
        const REFUSED: u8 = 0x20;
        let command = self.memory[SII_CONTROL + 1] & 0x07;
        let ours = self.memory[SII_CONFIG] & 1 == 0;
        self.memory[SII_CONTROL] = EIGHT_OCTETS;
        self.memory[SII_CONTROL + 1] = match command {
            READ if ours => {
                let word = [self.memory[SII_ADDRESS], self.memory[SII_ADDRESS + 1]];
                let from = 2 * usize::from(u16::from_le_bytes(word));
                for i in 0..8 {
                    let octet = self.eeprom.get(from + i).copied();
                    self.memory[SII_DATA + i] = octet.unwrap_or(0xff);
                }
                0
            }
            0 => 0,
            _ => REFUSED,
        };
    }
}
