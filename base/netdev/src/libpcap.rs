//! libpcap, loaded on demand: no program is linked with it.

use std::ffi::{CStr, CString, c_char, c_int, c_uchar, c_uint, c_void};
use std::sync::LazyLock;

use libloading::Library;

const NAME: &str = "libpcap.so.0.8";
/// PCAP_NETMASK_UNKNOWN.
const NETMASK_UNKNOWN: c_uint = u32::MAX;
/// Maximum octets of a packet that a filter may read: all.
const SNAPLEN: c_int = 262_144;

/// `struct pcap_pkthdr`.
#[repr(C)]
#[derive(Debug)]
pub struct PacketHeader {
    time: libc::timeval,
    captured: u32,
    len: u32,
}

macro_rules! functions {
    ($($name:ident: fn($($argument:ty),*) $(-> $result:ty)?;)*) => {
        /// The used functions of libpcap, as declared in pcap(3).
        #[derive(Debug)]
        pub struct Functions {
            $(
                #[doc = concat!("`pcap_", stringify!($name), "`.")]
                pub $name: unsafe extern "C" fn($($argument),*) $(-> $result)?,
            )*
            _library: Library,
        }

        impl Functions {
            fn open() -> Result<Self, libloading::Error> {
                // SAFETY: libpcap has no initialization code.
                let library = unsafe { Library::new(NAME) }?;
                $(
                    // SAFETY: the type is that of the function in pcap(3).
                    let $name = unsafe {
                        *library.get::<unsafe extern "C" fn($($argument),*) $(-> $result)?>(
                            concat!("pcap_", stringify!($name), "\0").as_bytes(),
                        )?
                    };
                )*
                Ok(Self { $($name,)* _library: library })
            }
        }
    };
}

functions! {
    create: fn(*const c_char, *mut c_char) -> *mut c_void;
    set_snaplen: fn(*mut c_void, c_int) -> c_int;
    set_promisc: fn(*mut c_void, c_int) -> c_int;
    set_immediate_mode: fn(*mut c_void, c_int) -> c_int;
    activate: fn(*mut c_void) -> c_int;
    setdirection: fn(*mut c_void, c_int) -> c_int;
    compile: fn(*mut c_void, *mut PcapFilter, *const c_char, c_int, c_uint) -> c_int;
    setfilter: fn(*mut c_void, *mut PcapFilter) -> c_int;
    freecode: fn(*mut PcapFilter);
    setnonblock: fn(*mut c_void, c_int, *mut c_char) -> c_int;
    get_selectable_fd: fn(*mut c_void) -> c_int;
    next_ex: fn(*mut c_void, *mut *mut PacketHeader, *mut *const c_uchar) -> c_int;
    open_dead: fn(c_int, c_int) -> *mut c_void;
    offline_filter: fn(*const PcapFilter, *const PacketHeader, *const c_uchar) -> c_int;
    sendpacket: fn(*mut c_void, *const c_uchar, c_int) -> c_int;
    geterr: fn(*mut c_void) -> *const c_char;
    close: fn(*mut c_void);
}

/// The functions of libpcap, loaded once.
///
/// # Errors
/// libpcap is not installed; with the remedy. A static program cannot load it: a C library of another version,
/// which comes with it, crashes.
pub fn functions() -> Result<&'static Functions, String> {
    if cfg!(target_feature = "crt-static") {
        return Err(format!(
            "{NAME} cannot be loaded: this program is linked statically; install a package of onbeat"
        ));
    }
    static FUNCTIONS: LazyLock<Result<Functions, String>> = LazyLock::new(|| {
        Functions::open()
            .map_err(|error| format!("{NAME} cannot be loaded: {error}; apt install libpcap0.8"))
    });
    FUNCTIONS.as_ref().map_err(String::clone)
}

/// An open handle, closed on drop.
#[derive(Debug)]
pub struct PcapHandle {
    functions: &'static Functions,
    pointer: *mut c_void,
}

impl PcapHandle {
    /// Wraps a handle; `None` for null.
    ///
    /// # Safety
    /// The pointer is null, or an open handle of libpcap without another owner.
    pub unsafe fn new(functions: &'static Functions, pointer: *mut c_void) -> Option<Self> {
        (!pointer.is_null()).then_some(Self { functions, pointer })
    }

    /// Returns the handle, for libpcap's functions.
    pub fn as_ptr(&self) -> *mut c_void {
        self.pointer
    }

    /// Compiles an expression of pcap-filter(7).
    ///
    /// # Errors
    /// libpcap's message about an invalid expression.
    pub fn compile(&self, expression: &str) -> Result<PcapFilter, String> {
        let expression = CString::new(expression).map_err(|error| error.to_string())?;
        let (functions, instructions) = (self.functions, std::ptr::null_mut());
        let mut filter = PcapFilter { len: 0, instructions, functions };
        let (to, text) = (&raw mut filter, expression.as_ptr());
        // SAFETY: the handle is open; the text ends with a zero; the filter is written.
        let compiled = unsafe { (functions.compile)(self.pointer, to, text, 1, NETMASK_UNKNOWN) };
        if compiled < 0 { Err(self.error()) } else { Ok(filter) }
    }

    /// Returns libpcap's message about the last failure.
    pub fn error(&self) -> String {
        // SAFETY: the handle is open; its message ends with a zero and stays as long as the handle.
        message(unsafe { CStr::from_ptr((self.functions.geterr)(self.pointer)) })
    }
}

impl Drop for PcapHandle {
    fn drop(&mut self) {
        // SAFETY: the handle is open, and not used again.
        unsafe { (self.functions.close)(self.pointer) }
    }
}

/// A compiled filter expression.
#[repr(C)]
#[derive(Debug)]
pub struct PcapFilter {
    // `struct bpf_program`.
    len: c_uint,
    instructions: *mut c_void,
    // Not read or written by libpcap.
    functions: &'static Functions,
}

impl PcapFilter {
    /// Compiles an expression for packets of a link type, a number of the kernel (DLT_*).
    ///
    /// # Errors
    /// libpcap is not installed; those of [`PcapHandle::compile`].
    pub fn compile(link_type: c_int, expression: &str) -> Result<Self, String> {
        let functions = functions()?;
        // SAFETY: takes two numbers, and returns null or a handle that has no owner yet.
        let handle =
            unsafe { PcapHandle::new(functions, (functions.open_dead)(link_type, SNAPLEN)) };
        handle.ok_or("libpcap: out of memory")?.compile(expression)
    }

    /// Returns whether a packet, of which `octets` were captured, matches.
    pub fn keeps(&self, octets: &[u8], wire_len: u32) -> bool {
        let time = libc::timeval { tv_sec: 0, tv_usec: 0 };
        let header = PacketHeader { time, captured: octets.len() as u32, len: wire_len };
        // SAFETY: the filter was compiled; `captured` octets are there.
        unsafe { (self.functions.offline_filter)(self, &raw const header, octets.as_ptr()) != 0 }
    }
}

impl Drop for PcapFilter {
    fn drop(&mut self) {
        // SAFETY: the filter is empty or was compiled, and is freed once.
        unsafe { (self.functions.freecode)(self) };
    }
}

/// A message of libpcap, for errors.
pub fn message(text: &CStr) -> String {
    format!("libpcap: {}", text.to_string_lossy())
}
