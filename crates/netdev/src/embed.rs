//! BPF programs as parts of a crate: what its build script put into `OUT_DIR`.

/// Octets in memory aligned as ELF wants them.
#[doc(hidden)]
#[repr(align(8))]
pub struct Aligned<T: ?Sized>(pub T);

/// The object file that the crate's build script made: `&'static [u8]`, aligned as ELF wants it.
#[macro_export]
macro_rules! bpf_object {
    ($file:literal) => {{
        const OBJECT: &$crate::embed::Aligned<[u8]> =
            &$crate::embed::Aligned(*include_bytes!(concat!(env!("OUT_DIR"), "/", $file)));
        &OBJECT.0
    }};
}

/// A module of the types that the crate's build script made from a BPF object (libbpf's skeleton).
#[macro_export]
macro_rules! bpf_skeleton {
    ($visibility:vis $module:ident, $file:literal) => {
        #[allow(
            clippy::all,
            clippy::undocumented_unsafe_blocks,
            missing_docs,
            unreachable_pub,
            dead_code,
            unused
        )]
        $visibility mod $module {
            include!(concat!(env!("OUT_DIR"), "/", $file));
        }
    };
}
