//! Loaded programs of any owner.

use std::ffi::CStr;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use libbpf_rs::libbpf_sys as sys;

use crate::error::{Error, Result};

/// Properties of a loaded program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProgramInfo {
    /// The program id.
    pub id: u32,
    /// Its name, of at most 15 octets.
    pub name: String,
    /// Instructions that the verifier processed.
    pub verified_instructions: u32,
    /// Its runs while [`Statistics`](crate::statistics::Statistics) were on.
    pub runs: Runs,
}

impl ProgramInfo {
    /// Returns the properties of an open program.
    ///
    /// # Errors
    /// The descriptor is not of a program.
    pub fn of(program: BorrowedFd<'_>) -> io::Result<Self> {
        let mut info = sys::bpf_prog_info::default();
        let mut length = size_of::<sys::bpf_prog_info>() as u32;
        // SAFETY: `info` is as long as `length` says, and any octets are a valid value of it.
        checked(unsafe {
            sys::bpf_prog_get_info_by_fd(program.as_raw_fd(), &raw mut info, &raw mut length)
        })?;
        let name = info.name.map(|octet| octet as u8);
        let name = CStr::from_bytes_until_nul(&name).unwrap_or_default();
        Ok(Self {
            id: info.id,
            name: name.to_string_lossy().into_owned(),
            verified_instructions: info.verified_insns,
            runs: Runs { count: info.run_cnt, time_ns: info.run_time_ns },
        })
    }

    /// Returns the properties of the program with this id.
    ///
    /// # Errors
    /// ENOENT; EPERM.
    pub fn by_id(id: u32) -> io::Result<Self> {
        use std::os::fd::AsFd;
        // SAFETY: no pointers.
        let program = owned(unsafe { sys::bpf_prog_get_fd_by_id(id) })?;
        Self::of(program.as_fd())
    }
}

/// Returns a number of libbpf, or its error.
pub(crate) fn checked(code: i32) -> io::Result<i32> {
    if code < 0 { Err(io::Error::from_raw_os_error(-code)) } else { Ok(code) }
}

/// Returns a new descriptor of libbpf, or its error.
pub(crate) fn owned(fd: i32) -> io::Result<OwnedFd> {
    // SAFETY: the kernel returned this new descriptor.
    checked(fd).map(|fd| unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Runs of a program and their time, since it was loaded.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Runs {
    /// The number of runs.
    pub count: u64,
    /// The total time, in nanoseconds.
    pub time_ns: u64,
}

impl Runs {
    /// Returns the runs of a program.
    ///
    /// # Errors
    /// The descriptor is not of a program.
    pub fn of(program: BorrowedFd<'_>) -> Result<Self> {
        let info = ProgramInfo::of(program)
            .map_err(|error| Error::kernel("read the runs of a BPF program", error.into()))?;
        Ok(info.runs)
    }

    /// Returns the sum of the runs of several programs.
    #[must_use]
    pub fn of_all(programs: &[(String, Self)]) -> Self {
        let mut sum = Self::default();
        for (_, runs) in programs {
            sum.count += runs.count;
            sum.time_ns += runs.time_ns;
        }
        sum
    }

    /// Those since an earlier moment.
    #[must_use]
    pub fn since(self, before: Self) -> Self {
        Self { count: self.count - before.count, time_ns: self.time_ns - before.time_ns }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_of_programs_together_since_a_moment() {
        let runs = |count, time_ns| Runs { count, time_ns };
        let programs = [("a".to_string(), runs(2, 30)), ("b".to_string(), runs(1, 4))];
        assert_eq!(Runs::of_all(&programs), runs(3, 34));
        assert_eq!(Runs::of_all(&programs).since(runs(1, 4)), runs(2, 30));
    }
}
