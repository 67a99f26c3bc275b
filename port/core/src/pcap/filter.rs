//! A filter expression of pcap-filter(7), applied to packets of a file.

use std::ffi::{CStr, c_int};
use std::{fmt, ptr};

use super::{Functions, Header, NETMASK_UNKNOWN, Program, load, message, text};

/// Octets of a packet that a filter may read: all.
const SNAPLEN: c_int = 262_144;
/// Link types of files whose number differs from that of the kernel (LINKTYPE_RAW, DLT_RAW).
const LINKTYPE_RAW: u16 = 101;
const DLT_RAW: c_int = 12;

/// Terms of an expression. libpcap's time grows with their cube: 0.3 s for 100, 8 s for 300.
const MOST_TERMS: usize = 128;

/// Conditions that `and` and `or` join.
fn terms(expression: &str) -> usize {
    let words = expression.split(|c: char| !c.is_ascii_alphanumeric());
    let symbols = ["||", "&&"].map(|symbol| expression.matches(symbol).count());
    1 + words.filter(|word| ["and", "or"].contains(word)).count() + symbols.iter().sum::<usize>()
}

/// A compiled filter expression.
pub struct Filter {
    functions: Functions,
    program: Program,
}

impl Filter {
    /// Compiles an expression for packets of a link type, by its number in files.
    ///
    /// # Errors
    /// Where libpcap is not installed, and libpcap's message where the expression is not one.
    pub fn compile(link_type: u16, expression: &str) -> Result<Self, String> {
        let functions = load()?;
        let terms = terms(expression);
        if terms > MOST_TERMS {
            return Err(format!(
                "it has {terms} terms, more than the limit of {MOST_TERMS}; join them, as by portrange or \
                 net"
            ));
        }
        let expression = text(expression)?;
        let link_type = if link_type == LINKTYPE_RAW { DLT_RAW } else { c_int::from(link_type) };
        // SAFETY: takes two numbers, and returns a handle or null.
        let handle = unsafe { (functions.open_dead)(link_type, SNAPLEN) };
        if handle.is_null() {
            return Err("libpcap: out of memory".into());
        }
        let mut program = Program { len: 0, instructions: ptr::null_mut() };
        // SAFETY: the handle is open; the text ends with a zero; the program is written.
        let compiled = unsafe {
            (functions.compile)(handle, &raw mut program, expression.as_ptr(), 1, NETMASK_UNKNOWN)
        };
        let error = (compiled < 0).then(|| {
            // SAFETY: the handle is open; its message ends with a zero and stays as long as it.
            message(unsafe { CStr::from_ptr((functions.geterr)(handle)) })
        });
        // SAFETY: the handle is open, and not used again; the program does not refer to it.
        unsafe { (functions.close)(handle) };
        match error {
            Some(error) => Err(error),
            None => Ok(Self { functions, program }),
        }
    }

    /// Whether a packet, of which `octets` were captured, passes.
    pub fn keeps(&self, octets: &[u8], wire_len: u32) -> bool {
        let time = libc::timeval { tv_sec: 0, tv_usec: 0 };
        let header = Header { time, captured: octets.len() as u32, len: wire_len };
        // SAFETY: the program was compiled; `captured` octets are there.
        let found = unsafe {
            (self.functions.offline_filter)(
                &raw const self.program,
                &raw const header,
                octets.as_ptr(),
            )
        };
        found != 0
    }
}

impl Drop for Filter {
    fn drop(&mut self) {
        // SAFETY: the program was compiled, and is freed once.
        unsafe { (self.functions.freecode)(&raw mut self.program) };
    }
}

impl fmt::Debug for Filter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Filter").field("instructions", &self.program.len).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use onbeat_testing::require_that;

    #[test]
    fn expressions_select_packets_of_their_link_type() {
        if !require_that(super::super::available().is_ok(), "libpcap") {
            return;
        }
        let mut packet = vec![0x45, 0, 0, 28, 0, 1, 0, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2];
        packet.extend([0, 9, 0, 7, 0, 8, 0, 0]);
        let mut frame = vec![0; 12];
        frame.extend([8, 0]);
        frame.extend(&packet);
        for (link_type, octets) in [(1, &frame), (LINKTYPE_RAW, &packet)] {
            for (expression, keeps) in [
                ("udp and dst port 7", true),
                ("not (src net 10.0.0.0/8 or tcp)", false),
                ("udp[0:2] = 9", true),
                ("", true),
            ] {
                let filter = Filter::compile(link_type, expression).unwrap();
                let len = octets.len() as u32;
                assert_eq!(filter.keeps(octets, len), keeps, "{link_type}: {expression}");
            }
        }
        let ports = |count: u16| (1..=count).map(|port| format!("port {port}")).collect::<Vec<_>>();
        assert!(Filter::compile(1, &ports(20).join(" or ")).is_ok());
        for joint in [" or ", "||", " and ", "&&"] {
            let error = Filter::compile(1, &ports(129).join(joint)).unwrap_err();
            assert!(error.starts_with("it has 129 terms, more than the limit of 128; "), "{error}");
        }
        let error = Filter::compile(1, "udp and and").unwrap_err();
        assert!(error.starts_with("libpcap: ") && error.contains("syntax error"), "{error}");
        let error = Filter::compile(LINKTYPE_RAW, "ether host 02:00:00:00:00:01").unwrap_err();
        assert!(error.contains("supported only on ethernet"), "{error}");
    }
}
