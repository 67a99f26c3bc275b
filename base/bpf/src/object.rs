//! Objects: the programs of one file, their tables and variables.

use std::ffi::OsStr;
use std::os::fd::{AsFd, BorrowedFd};

use libbpf_rs::{Map, MapCore, MapFlags, ObjectBuilder, OpenObject, ProgramMut};

use crate::error::{Error, Result};
use crate::statistics::Runs;

/// An object in the kernel. Its programs and tables go with it, unless links or pins hold them.
#[derive(Debug)]
pub struct Object(libbpf_rs::Object);

/// An object that is not in the kernel yet.
#[derive(Debug)]
pub struct UnloadedObject(OpenObject);

impl UnloadedObject {
    /// Sets constants, each by its offset.
    ///
    /// # Panics
    /// Where a constant lies beyond their end.
    pub fn set_constants(&mut self, values: &[(usize, &[u8])]) {
        for mut map in self.0.maps_mut().filter(|map| is(map.name(), ".rodata")) {
            let all = map.initial_value_mut().expect("constants have initial values");
            for (at, value) in values {
                all[*at..][..value.len()].copy_from_slice(value);
            }
        }
    }

    /// Leaves a program out.
    pub fn skip(&mut self, program: &str) {
        let programs = self.0.progs_mut().filter(|known| known.name() == program);
        programs.for_each(|mut program| program.set_autoload(false));
    }

    /// Sets the size of a table.
    ///
    /// # Errors
    /// Where the table cannot have it.
    pub fn set_entries(&mut self, table: &str, entries: u32) -> libbpf_rs::Result<()> {
        let mut tables = self.0.maps_mut().filter(|known| known.name() == table);
        tables.try_for_each(|mut table| table.set_max_entries(entries))
    }

    /// Puts a table of another object in the place of the one with its name.
    ///
    /// # Errors
    /// Where the two differ.
    pub fn share(&mut self, name: &OsStr, table: BorrowedFd<'_>) -> libbpf_rs::Result<()> {
        let mut tables = self.0.maps_mut().filter(|known| known.name() == name);
        tables.try_for_each(|mut own| own.reuse_fd(table))
    }
}

impl Object {
    /// Loads the programs of an object file, once `prepare` has set what is to be set before. `what` names them
    /// in errors: "the programs of the bench".
    ///
    /// # Errors
    /// [`Error::Kernel`]: the file is none; the kernel refuses a program or a table.
    pub fn load(
        file: &[u8],
        what: &str,
        prepare: impl FnOnce(&mut UnloadedObject) -> libbpf_rs::Result<()>,
    ) -> Result<Self> {
        let open = ObjectBuilder::default().open_memory(file);
        let prepared = open.map(UnloadedObject).and_then(|mut object| {
            prepare(&mut object)?;
            object.0.load()
        });
        prepared.map(Self).map_err(|source| Error::kernel(format!("load {what}"), source))
    }

    /// The program of this name.
    ///
    /// # Panics
    /// Where the object does not hold it: names are those of its source.
    #[must_use]
    pub fn program(&self, name: &str) -> ProgramMut<'_> {
        self.0.progs_mut().find(|program| program.name() == name).expect("the object holds it")
    }

    /// All programs but those that were skipped.
    pub fn programs(&self) -> impl Iterator<Item = ProgramMut<'_>> {
        self.0.progs_mut().filter(|program| program.autoload())
    }

    /// The table of this name.
    ///
    /// # Panics
    /// Where the object does not hold it.
    #[must_use]
    pub fn map(&self, name: &str) -> Map<'_> {
        self.0.maps().find(|map| map.name() == name).expect("the object holds it")
    }

    /// The programs' variables.
    ///
    /// # Errors
    /// Where the kernel does not let us read.
    ///
    /// # Panics
    /// Where the programs have none.
    pub fn variables(&self) -> libbpf_rs::Result<Vec<u8>> {
        Ok(self.section().lookup(&0u32.to_ne_bytes(), MapFlags::ANY)?.unwrap_or_default())
    }

    /// Sets variables, each by its offset, and makes all others zero.
    ///
    /// # Errors
    /// Where the kernel does not let us write.
    ///
    /// # Panics
    /// As [`Object::variables`].
    pub fn set_variables(&self, values: &[(usize, &[u8])]) -> libbpf_rs::Result<()> {
        let map = self.section();
        let mut all = vec![0; map.value_size() as usize];
        for (at, value) in values {
            all[*at..][..value.len()].copy_from_slice(value);
        }
        map.update(&0u32.to_ne_bytes(), &all, MapFlags::ANY)
    }

    /// What each of the programs has taken, by name, while
    /// [`Statistics`](crate::statistics::Statistics) were on.
    ///
    /// # Errors
    /// Where the kernel does not tell.
    pub fn runs(&self) -> Result<Vec<(String, Runs)>> {
        let named = self.programs().map(|program| {
            Ok((program.name().to_string_lossy().into_owned(), Runs::of(program.as_fd())?))
        });
        named.collect()
    }

    /// The table of the variables, of one entry.
    fn section(&self) -> Map<'_> {
        let mut maps = self.0.maps();
        maps.find(|map| is(map.name(), ".bss")).expect("the programs have variables")
    }
}

/// Whether a table is such a section: libbpf puts the object's name before it, and the kernel shortens that.
fn is(name: &OsStr, section: &str) -> bool {
    name.to_string_lossy().ends_with(section)
}
