//! An interface that captures and sends by libpcap.

use std::ffi::{CStr, CString, c_char, c_int};
use std::ptr;

use onbeat_netdev::Namespace;
use onbeat_netdev::libpcap::{Functions, PcapHandle, functions, message};

/// PCAP_ERRBUF_SIZE.
const ERROR_LEN: usize = 256;
/// PCAP_D_IN.
const INCOMING: c_int = 1;

/// An interface, opened in immediate mode.
pub(super) struct Capture {
    functions: &'static Functions,
    handle: PcapHandle,
}

// SAFETY: a handle of libpcap is not bound to a thread; two threads must not use it at once, and its
// owner is the only user.
unsafe impl Send for Capture {}

impl Capture {
    /// Opens an interface for frames that match a filter.
    ///
    /// # Errors
    /// The message of libpcap.
    pub(super) fn open(
        namespace: &Namespace,
        interface: &str,
        filter: &str,
    ) -> Result<Self, String> {
        let name = CString::new(interface).map_err(|error| error.to_string())?;
        namespace
            .run(|| Self::in_this_namespace(&name, filter))
            .map_err(|error| error.to_string())?
    }

    fn in_this_namespace(interface: &CStr, filter: &str) -> Result<Self, String> {
        let f = functions()?;
        let mut error = [0; ERROR_LEN];
        // SAFETY: the name is NUL-terminated, and the buffer has PCAP_ERRBUF_SIZE octets. Nothing else
        // owns the handle.
        let handle =
            unsafe { PcapHandle::new(f, (f.create)(interface.as_ptr(), error.as_mut_ptr())) };
        let handle = handle.ok_or_else(|| text(&error))?;
        let raw = handle.as_ptr();
        // SAFETY: the handle is open; each function is called in the state that pcap(3) requires, as
        // the first error is the last call.
        let failed = unsafe {
            (f.set_snaplen)(raw, 2048) < 0
                || (f.set_promisc)(raw, 1) < 0
                || (f.set_immediate_mode)(raw, 1) < 0
                // A positive result is a warning.
                || (f.activate)(raw) < 0
                || (f.setdirection)(raw, INCOMING) < 0
        };
        if failed {
            return Err(handle.error());
        }
        let mut filter = handle.compile(filter)?;
        // SAFETY: the handle is active; the filter was compiled, and libpcap copies it.
        if unsafe { (f.setfilter)(raw, &raw mut filter) } < 0 {
            return Err(handle.error());
        }
        // SAFETY: the handle is active, and the buffer is long enough.
        if unsafe { (f.setnonblock)(raw, 1, error.as_mut_ptr()) } < 0 {
            return Err(text(&error));
        }
        Ok(Self { functions: f, handle })
    }

    /// Waits for a frame, at most for this time. libpcap's own wait ends only with a frame
    /// (pcap_set_timeout(3PCAP): "may wait forever").
    pub(super) fn wait(&self, milliseconds: u8) {
        // SAFETY: the handle is active.
        let fd = unsafe { (self.functions.get_selectable_fd)(self.handle.as_ptr()) };
        let mut polled = libc::pollfd { fd, events: libc::POLLIN, revents: 0 };
        // SAFETY: one pollfd, which lives through the call. The result is ignored: the next read finds
        // the frame.
        unsafe { libc::poll(&raw mut polled, 1, milliseconds.into()) };
    }

    /// Reads the next frame; returns false if there is none.
    ///
    /// # Errors
    /// The message of libpcap.
    pub(super) fn next(&mut self) -> Result<bool, String> {
        let (mut header, mut octets) = (ptr::null_mut(), ptr::null());
        let handle = self.handle.as_ptr();
        // SAFETY: the handle is active, and both pointers are written.
        match unsafe { (self.functions.next_ex)(handle, &raw mut header, &raw mut octets) } {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(self.handle.error()),
        }
    }

    /// Sends a frame; returns false if it was not accepted.
    pub(super) fn send(&mut self, frame: &[u8]) -> bool {
        // SAFETY: the handle is active, and the frame has the length given.
        let sent = unsafe {
            (self.functions.sendpacket)(self.handle.as_ptr(), frame.as_ptr(), frame.len() as c_int)
        };
        sent == 0
    }
}

/// The message in a buffer.
fn text(buffer: &[c_char; ERROR_LEN]) -> String {
    let octets = buffer.map(|octet| octet as u8);
    message(CStr::from_bytes_until_nul(&octets).unwrap_or_default())
}
