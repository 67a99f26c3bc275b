//! Writing captures: pcap with nanoseconds.

use std::io::{self, Write};

use super::{LinkType, MAX_PACKET};

/// Writes a pcap file, packet by packet. What it writes to should be buffered.
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

    /// Writes a packet that had `wire_len` octets. Its time is one of a pcap: from 1970 to 2106.
    pub fn write(&mut self, time_ns: i64, octets: &[u8], wire_len: u32) -> io::Result<()> {
        let invalid = |what| io::Error::new(io::ErrorKind::InvalidInput, what);
        let seconds = u32::try_from(time_ns.div_euclid(1_000_000_000))
            .map_err(|_| invalid("a time that a pcap cannot hold"))?;
        let nanoseconds = time_ns.rem_euclid(1_000_000_000) as u32;
        let captured = u32::try_from(octets.len())
            .ok()
            .filter(|len| *len <= MAX_PACKET)
            .ok_or_else(|| invalid("a packet that is longer than a pcap may hold"))?;
        let mut header = [0; 16];
        for (place, value) in
            header.chunks_exact_mut(4).zip([seconds, nanoseconds, captured, wire_len])
        {
            place.copy_from_slice(&value.to_le_bytes());
        }
        self.output.write_all(&header)?;
        self.output.write_all(octets)
    }

    /// Writes what is buffered and gives the output back.
    pub fn finish(mut self) -> io::Result<W> {
        self.output.flush()?;
        Ok(self.output)
    }
}
