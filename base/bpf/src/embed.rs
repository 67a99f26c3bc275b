//! BPF programs as parts of a crate: what its build script put into `OUT_DIR`, and values that they and we
//! hold alike.

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

/// A type that the kernel and we hold alike: plain octets, every pattern of them valid.
///
/// # Safety
/// Only for `repr(C)` types without references, niches, or padding that the kernel would look at.
pub unsafe trait Plain: Copy + Default {
    /// The value's octets.
    fn octets(&self) -> &[u8] {
        // SAFETY: the reference covers exactly the value, and any of its octets may be read:
        // values are made by `Default` and field writes into zeroed memory.
        unsafe { std::slice::from_raw_parts(std::ptr::from_ref(self).cast(), size_of::<Self>()) }
    }

    /// The value that these octets stand for; `None` where they are too few or too many.
    fn from_octets(octets: &[u8]) -> Option<Self> {
        (octets.len() == size_of::<Self>()).then(|| {
            // SAFETY: the length was checked, the read needs no alignment, and every pattern of
            // octets is a value of the type.
            unsafe { std::ptr::read_unaligned(octets.as_ptr().cast()) }
        })
    }

    /// The value that these octets begin with, of which there may be more: the kernel rounds sizes up,
    /// and what follows may be the programs' own. `None` where they are too few.
    fn from_start(octets: &[u8]) -> Option<Self> {
        octets.get(..size_of::<Self>()).and_then(Self::from_octets)
    }
}

// SAFETY: integers.
unsafe impl Plain for u64 {}
// SAFETY: integers.
unsafe impl Plain for u32 {}
// SAFETY: integers.
unsafe impl Plain for i32 {}

/// Makes types [`Plain`] that the build generated from C structs; who writes `unsafe` answers for what
/// the trait asks.
#[macro_export]
macro_rules! bpf_plain {
    (unsafe: $($type:ty),* $(,)?) => {
        $(
            // SAFETY: the caller's word.
            unsafe impl $crate::Plain for $type {}
        )*
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[repr(C)]
    #[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
    struct Pair {
        a: u16,
        b: [u8; 2],
    }

    crate::bpf_plain!(unsafe: Pair);

    #[test]
    fn values_by_their_octets() {
        let pair = Pair { a: 0x0102, b: [3, 4] };
        assert_eq!(pair.octets(), [&0x0102_u16.to_ne_bytes()[..], &[3, 4]].concat());
        // Where no alignment is right for it by chance.
        let octets = [&[9][..], pair.octets(), &[9, 9]].concat();
        assert_eq!(Pair::from_octets(&octets[1..5]), Some(pair));
        assert_eq!(
            (Pair::from_octets(&octets[1..6]), Pair::from_octets(&octets[1..4])),
            (None, None)
        );
        assert_eq!(
            (Pair::from_start(&octets[1..]), Pair::from_start(&octets[4..])),
            (Some(pair), None)
        );
    }
}
