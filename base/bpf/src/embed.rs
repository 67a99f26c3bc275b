//! BPF programs embedded in a crate: the output of its build script in `OUT_DIR`, and values shared with
//! programs.

/// Octets with the alignment that ELF requires.
#[doc(hidden)]
#[repr(align(8))]
pub struct AlignedOctets<T: ?Sized>(pub T);

/// The object file built by the crate's build script: `&'static [u8]`, aligned for ELF.
#[macro_export]
macro_rules! bpf_object {
    ($file:literal) => {{
        const OBJECT: &$crate::embed::AlignedOctets<[u8]> =
            &$crate::embed::AlignedOctets(*include_bytes!(concat!(env!("OUT_DIR"), "/", $file)));
        &OBJECT.0
    }};
}

/// A module of the types that the crate's build script generated from a BPF object (libbpf's skeleton).
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

/// A type shared with the kernel: plain octets, for which every pattern is valid.
///
/// # Safety
/// Only for `repr(C)` types without references, niches, or padding that the kernel reads.
pub unsafe trait PlainData: Copy + Default {
    /// Returns the octets of the value.
    fn octets(&self) -> &[u8] {
        // SAFETY: the reference covers exactly the value, and any of its octets may be read:
        // values are made by `Default` and field writes into zeroed memory.
        unsafe { std::slice::from_raw_parts(std::ptr::from_ref(self).cast(), size_of::<Self>()) }
    }

    /// Returns the octets of the value, to be written.
    fn octets_mut(&mut self) -> &mut [u8] {
        // SAFETY: the reference covers exactly the value, and every pattern of octets is a value of the type.
        unsafe {
            std::slice::from_raw_parts_mut(std::ptr::from_mut(self).cast(), size_of::<Self>())
        }
    }

    /// Converts octets to a value; `None`: wrong number of octets.
    fn from_octets(octets: &[u8]) -> Option<Self> {
        (octets.len() == size_of::<Self>()).then(|| {
            // SAFETY: the length was checked, the read needs no alignment, and every pattern of
            // octets is a value of the type.
            unsafe { std::ptr::read_unaligned(octets.as_ptr().cast()) }
        })
    }

    /// Converts the first octets to a value and ignores further ones: the kernel rounds sizes up, and
    /// programs may have data after the value. `None`: too few octets.
    fn from_start(octets: &[u8]) -> Option<Self> {
        octets.get(..size_of::<Self>()).and_then(Self::from_octets)
    }
}

// SAFETY: integers.
unsafe impl PlainData for u64 {}
// SAFETY: integers.
unsafe impl PlainData for u32 {}
// SAFETY: integers.
unsafe impl PlainData for i32 {}

/// Implements [`PlainData`] for types that the build generated from C structs; the caller asserts the safety
/// requirements of the trait with `unsafe`.
#[macro_export]
macro_rules! bpf_plain {
    (unsafe: $($type:ty),* $(,)?) => {
        $(
            // SAFETY: asserted by the caller.
            unsafe impl $crate::PlainData for $type {}
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
    fn values_convert_to_octets_and_back() {
        let pair = Pair { a: 0x0102, b: [3, 4] };
        assert_eq!(pair.octets(), [&0x0102_u16.to_ne_bytes()[..], &[3, 4]].concat());
        // At an offset without accidental alignment.
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
