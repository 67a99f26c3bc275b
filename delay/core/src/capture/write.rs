//! Capture writers: pcap and pcapng, with times in nanoseconds.

use std::io::{self, Write};

use super::blocks::{BYTE_ORDER, ENHANCED_PACKET, INTERFACE, SECTION, option};
use super::{LinkType, MAX_PACKET};

/// Writes a pcap file, packet by packet. The output should be buffered.
#[derive(Debug)]
pub struct Writer<W> {
    output: W,
}

impl<W: Write> Writer<W> {
    /// Writes the file's header.
    pub fn new(mut output: W, link: LinkType) -> io::Result<Self> {
        let mut header = [0; 24];
        header[..4].copy_from_slice(&0xa1b2_3c4d_u32.to_le_bytes());
        header[4..6].copy_from_slice(&2_u16.to_le_bytes());
        header[6..8].copy_from_slice(&4_u16.to_le_bytes());
        header[16..20].copy_from_slice(&MAX_PACKET.to_le_bytes());
        header[20..].copy_from_slice(&u32::from(link.0).to_le_bytes());
        output.write_all(&header)?;
        Ok(Writer { output })
    }

    /// Writes a packet of `wire_len` octets on the wire. Its time must be in the range of pcap: 1970 to 2106.
    pub fn write(&mut self, time_ns: i64, octets: &[u8], wire_len: u32) -> io::Result<()> {
        let invalid = |what| io::Error::new(io::ErrorKind::InvalidInput, what);
        let seconds = u32::try_from(time_ns.div_euclid(1_000_000_000))
            .map_err(|_| invalid("the time is out of the range of pcap"))?;
        let nanoseconds = time_ns.rem_euclid(1_000_000_000) as u32;
        let captured = u32::try_from(octets.len())
            .ok()
            .filter(|len| *len <= MAX_PACKET)
            .ok_or_else(|| invalid("the packet exceeds the maximum length of pcap"))?;
        let mut header = [0; 16];
        for (place, value) in
            header.chunks_exact_mut(4).zip([seconds, nanoseconds, captured, wire_len])
        {
            place.copy_from_slice(&value.to_le_bytes());
        }
        self.output.write_all(&header)?;
        self.output.write_all(octets)
    }

    /// Flushes and returns the output.
    pub fn finish(mut self) -> io::Result<W> {
        self.output.flush()?;
        Ok(self.output)
    }
}

/// Writes a pcapng file of one section. The output should be buffered.
#[derive(Debug)]
pub struct PcapngWriter<W> {
    output: W,
    interfaces: u32,
}

impl<W: Write> PcapngWriter<W> {
    /// Writes the header of the section, of unknown length.
    ///
    /// # Errors
    /// Errors of the output, as of all functions here.
    pub fn new(output: W) -> io::Result<Self> {
        let mut header = BYTE_ORDER.to_le_bytes().to_vec();
        // Version 1.0.
        header.extend([1, 0, 0, 0]);
        header.extend(u64::MAX.to_le_bytes());
        let mut writer = PcapngWriter { output, interfaces: 0 };
        writer.block(SECTION, &header)?;
        Ok(writer)
    }

    /// Describes an interface, without a snap length; returns its number.
    pub fn interface(&mut self, link: LinkType, name: &str) -> io::Result<u32> {
        let mut interface = link.0.to_le_bytes().to_vec();
        interface.extend([0; 6]);
        for (code, value) in [
            (option::IF_NAME, name.as_bytes()),
            // Units of 10^-9 s.
            (option::IF_TSRESOL, &[9]),
            (option::END, &[]),
        ] {
            interface.extend(code.to_le_bytes());
            interface.extend((value.len() as u16).to_le_bytes());
            interface.extend(value);
            interface.resize(interface.len().next_multiple_of(4), 0);
        }
        self.block(INTERFACE, &interface)?;
        self.interfaces += 1;
        Ok(self.interfaces - 1)
    }

    /// Writes a packet of a described interface, of `wire_len` octets on the wire.
    pub fn packet(
        &mut self,
        interface: u32,
        time_ns: u64,
        octets: &[u8],
        wire_len: u32,
    ) -> io::Result<()> {
        let mut packet = Vec::with_capacity(20 + octets.len());
        let time = [(time_ns >> 32) as u32, time_ns as u32];
        for value in [interface, time[0], time[1], octets.len() as u32, wire_len] {
            packet.extend(value.to_le_bytes());
        }
        packet.extend(octets);
        self.block(ENHANCED_PACKET, &packet)
    }

    /// Flushes and returns the output.
    pub fn finish(mut self) -> io::Result<W> {
        self.output.flush()?;
        Ok(self.output)
    }

    fn block(&mut self, kind: u32, body: &[u8]) -> io::Result<()> {
        let padding = body.len().next_multiple_of(4) - body.len();
        let length = (12 + body.len() + padding) as u32;
        self.output.write_all(&kind.to_le_bytes())?;
        self.output.write_all(&length.to_le_bytes())?;
        self.output.write_all(body)?;
        self.output.write_all(&[0; 4][..padding])?;
        self.output.write_all(&length.to_le_bytes())
    }
}
