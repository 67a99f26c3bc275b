//! libpcap, loaded when it is needed: the program does not depend on it.

mod capture;
mod filter;

use std::ffi::{CStr, CString, c_char, c_int, c_uchar, c_uint, c_void};

use libloading::Library;

pub use capture::Capture;
pub use filter::Filter;

const NAME: &str = "libpcap.so.0.8";
const ERROR_LEN: usize = 256;
/// PCAP_NETMASK_UNKNOWN.
const NETMASK_UNKNOWN: c_uint = u32::MAX;

type Handle = *mut c_void;

/// `struct bpf_program`.
#[repr(C)]
struct Program {
    len: c_uint,
    instructions: *mut c_void,
}

/// `struct pcap_pkthdr`.
#[repr(C)]
struct Header {
    time: libc::timeval,
    captured: u32,
    len: u32,
}

macro_rules! functions {
    ($($name:ident: fn($($argument:ty),*) $(-> $result:ty)?;)*) => {
        /// The functions of libpcap that are used, as pcap(3) declares them.
        struct Functions {
            $($name: unsafe extern "C" fn($($argument),*) $(-> $result)?,)*
            _library: Library,
        }

        impl Functions {
            fn load() -> Result<Self, libloading::Error> {
                // SAFETY: libpcap does nothing when it is loaded.
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
    create: fn(*const c_char, *mut c_char) -> Handle;
    set_snaplen: fn(Handle, c_int) -> c_int;
    set_promisc: fn(Handle, c_int) -> c_int;
    set_immediate_mode: fn(Handle, c_int) -> c_int;
    activate: fn(Handle) -> c_int;
    setdirection: fn(Handle, c_int) -> c_int;
    compile: fn(Handle, *mut Program, *const c_char, c_int, c_uint) -> c_int;
    setfilter: fn(Handle, *mut Program) -> c_int;
    freecode: fn(*mut Program);
    setnonblock: fn(Handle, c_int, *mut c_char) -> c_int;
    get_selectable_fd: fn(Handle) -> c_int;
    next_ex: fn(Handle, *mut *mut Header, *mut *const c_uchar) -> c_int;
    open_dead: fn(c_int, c_int) -> Handle;
    offline_filter: fn(*const Program, *const Header, *const c_uchar) -> c_int;
    sendpacket: fn(Handle, *const c_uchar, c_int) -> c_int;
    geterr: fn(Handle) -> *const c_char;
    close: fn(Handle);
}

/// Whether libpcap is installed; otherwise why not, and the remedy.
pub fn available() -> Result<(), String> {
    load().map(drop)
}

fn load() -> Result<Functions, String> {
    Functions::load()
        .map_err(|error| format!("{NAME} cannot be loaded: {error}; apt install libpcap0.8"))
}

fn text(text: &str) -> Result<CString, String> {
    CString::new(text).map_err(|error| error.to_string())
}

fn message(text: &CStr) -> String {
    format!("libpcap: {}", text.to_string_lossy())
}
