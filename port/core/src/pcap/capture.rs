//! An interface as a libpcap program captures and sends on it.

use std::ffi::{CStr, c_char, c_int, c_uchar};
use std::{fmt, ptr};

use onbeat_netdev::Namespace;

use super::{ERROR_LEN, Functions, Handle, Header, NETMASK_UNKNOWN, Program, load, message, text};

/// PCAP_D_IN.
const INCOMING: c_int = 1;

/// An interface, opened as a program that wants each frame at once opens it.
pub struct Capture {
    functions: Functions,
    handle: Handle,
}

// SAFETY: a handle of libpcap is of no thread; it must only not be used by two at a time, and
// its owner is the only user.
unsafe impl Send for Capture {}

impl Capture {
    /// Opens an interface for frames that a filter lets through.
    ///
    /// # Errors
    /// libpcap's own message.
    pub fn open(namespace: &Namespace, interface: &str, filter: &str) -> Result<Self, String> {
        let functions = load()?;
        let (interface, filter) = (text(interface)?, text(filter)?);
        namespace
            .run(|| Self::in_this_namespace(functions, &interface, &filter))
            .map_err(|error| error.to_string())?
    }

    fn in_this_namespace(
        functions: Functions,
        interface: &CStr,
        filter: &CStr,
    ) -> Result<Self, String> {
        let mut error = [0; ERROR_LEN];
        // SAFETY: the name ends with a zero, and the buffer is as long as PCAP_ERRBUF_SIZE says.
        let handle = unsafe { (functions.create)(interface.as_ptr(), error.as_mut_ptr()) };
        if handle.is_null() {
            return Err(said(&error));
        }
        let capture = Self { functions, handle };
        let f = &capture.functions;
        // SAFETY: the handle is open; each is called in the state that pcap(3) wants it in, as the
        // first that fails is the last.
        let failed = unsafe {
            (f.set_snaplen)(handle, 2048) < 0
                || (f.set_promisc)(handle, 1) < 0
                || (f.set_immediate_mode)(handle, 1) < 0
                // A positive result is a warning.
                || (f.activate)(handle) < 0
                || (f.setdirection)(handle, INCOMING) < 0
        };
        if failed {
            return Err(capture.error());
        }
        capture.set_filter(filter)?;
        // SAFETY: the handle is active, and the buffer is long enough.
        let result = unsafe { (f.setnonblock)(handle, 1, error.as_mut_ptr()) };
        if result < 0 {
            return Err(said(&error));
        }
        Ok(capture)
    }

    fn set_filter(&self, filter: &CStr) -> Result<(), String> {
        let f = &self.functions;
        let mut program = Program { len: 0, instructions: ptr::null_mut() };
        // SAFETY: the handle is active; the text ends with a zero; the program is written.
        let compiled = unsafe {
            (f.compile)(self.handle, &raw mut program, filter.as_ptr(), 1, NETMASK_UNKNOWN)
        };
        if compiled < 0 {
            return Err(self.error());
        }
        // SAFETY: the program was compiled just now; libpcap copies it, and it is freed once.
        let set = unsafe {
            let set = (f.setfilter)(self.handle, &raw mut program);
            (f.freecode)(&raw mut program);
            set
        };
        if set < 0 { Err(self.error()) } else { Ok(()) }
    }

    /// Waits for a frame, or for so long. libpcap's own wait has no end but a frame
    /// (pcap_set_timeout(3PCAP): "may wait forever").
    pub fn wait(&self, milliseconds: u8) {
        // SAFETY: the handle is active.
        let fd = unsafe { (self.functions.get_selectable_fd)(self.handle) };
        let mut polled = libc::pollfd { fd, events: libc::POLLIN, revents: 0 };
        // SAFETY: one pollfd, which lives through the call. What it says is seen by reading.
        unsafe { libc::poll(&raw mut polled, 1, milliseconds.into()) };
    }

    /// Passes the next frame, if there is one, to `look`.
    ///
    /// # Errors
    /// libpcap's own message.
    pub fn next<T>(&mut self, look: impl FnOnce(&[u8]) -> T) -> Result<Option<T>, String> {
        let mut header: *mut Header = ptr::null_mut();
        let mut octets: *const c_uchar = ptr::null();
        // SAFETY: the handle is active, and both pointers are written.
        let result =
            unsafe { (self.functions.next_ex)(self.handle, &raw mut header, &raw mut octets) };
        match result {
            1 => {
                // SAFETY: libpcap says that both point to a frame, which stays until the next call;
                // `captured` octets of it are there.
                let frame =
                    unsafe { std::slice::from_raw_parts(octets, (*header).captured as usize) };
                Ok(Some(look(frame)))
            }
            0 => Ok(None),
            _ => Err(self.error()),
        }
    }

    /// Sends a frame; whether it was taken.
    pub fn send(&mut self, frame: &[u8]) -> bool {
        // SAFETY: the handle is active, and the frame has the length given.
        unsafe {
            (self.functions.sendpacket)(self.handle, frame.as_ptr(), frame.len() as c_int) == 0
        }
    }

    fn error(&self) -> String {
        // SAFETY: the handle is open; what it points to ends with a zero and stays as long as it.
        let said = unsafe { CStr::from_ptr((self.functions.geterr)(self.handle)) };
        message(said)
    }
}

impl fmt::Debug for Capture {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Capture").finish_non_exhaustive()
    }
}

impl Drop for Capture {
    fn drop(&mut self) {
        // SAFETY: the handle is open, and not used again.
        unsafe { (self.functions.close)(self.handle) }
    }
}

fn said(buffer: &[c_char; ERROR_LEN]) -> String {
    let octets = buffer.map(|octet| octet as u8);
    message(CStr::from_bytes_until_nul(&octets).unwrap_or_default())
}
