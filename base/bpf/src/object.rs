//! Objects: the programs of one file, with their tables and variables.

use std::ffi::OsStr;
use std::os::fd::AsFd;

use libbpf_rs::{
    Map, MapCore, MapFlags, MapHandle, ObjectBuilder, OpenMapMut, OpenObject, ProgramMut,
};

use crate::embed::PlainData;
use crate::error::{Error, Result};
use crate::mapped::MappedArray;
use crate::program::Runs;

/// A loaded object. Dropping it unloads its programs and tables, unless links or pins hold them.
#[derive(Debug)]
pub struct Object(libbpf_rs::Object);

/// An object before it is loaded.
#[derive(Debug)]
pub struct UnloadedObject(OpenObject);

impl UnloadedObject {
    /// Reads an object file, without the kernel. `what` names its content in errors: "the programs of the bench".
    ///
    /// # Errors
    /// [`Error::Kernel`]: not an object file.
    pub fn open(file: &[u8], what: &str) -> Result<Self> {
        let open = ObjectBuilder::default().open_memory(file);
        open.map(Self).map_err(|source| Error::kernel(format!("read {what}"), source))
    }

    /// Sets constants, each by its offset.
    ///
    /// # Panics
    /// A constant is beyond their end.
    pub fn set_constants(&mut self, values: &[(usize, &[u8])]) {
        for mut map in self.maps().filter(|map| is(map.name(), ".rodata")) {
            let all = map.initial_value_mut().expect("constants have initial values");
            for (at, value) in values {
                all[*at..][..value.len()].copy_from_slice(value);
            }
        }
    }

    /// Excludes a program from loading.
    pub fn skip(&mut self, program: &str) {
        let programs = self.0.progs_mut().filter(|known| known.name() == program);
        programs.for_each(|mut program| program.set_autoload(false));
    }

    /// Returns the tables and sections.
    pub fn maps(&mut self) -> impl Iterator<Item = OpenMapMut<'_>> {
        self.0.maps_mut()
    }

    /// Sets the size of a table.
    ///
    /// The table does not support this size.
    /// Where the table cannot have it.
    pub fn set_entries(&mut self, table: &str, entries: u32) -> Result<()> {
        let mut tables = self.maps().filter(|known| known.name() == table);
        let sized = tables.try_for_each(|mut table| table.set_max_entries(entries));
        sized.map_err(|source| Error::kernel(format!("size table {table}"), source))
    }

    /// Excludes a table that no loaded program uses.
    ///
    /// # Errors
    /// libbpf refuses it.
    pub fn omit(&mut self, table: &str) -> Result<()> {
        let mut tables = self.maps().filter(|known| known.name() == table);
        let omitted = tables.try_for_each(|mut table| table.set_autocreate(false));
        omitted.map_err(|source| Error::kernel(format!("omit table {table}"), source))
    }

    /// Replaces the table of the same name by one of another object.
    ///
    /// # Errors
    /// The kernel does not report the properties of `table`.
    pub fn share(&mut self, table: &impl MapCore) -> Result<()> {
        let mut tables = self.maps().filter(|known| known.name() == table.name());
        let shared = tables.try_for_each(|mut own| own.reuse_fd(table.as_fd()));
        shared.map_err(|source| Error::kernel(format!("reuse table {:?}", table.name()), source))
    }
}

impl Object {
    /// Loads the programs of an object file after `prepare`. `what` names them in errors: "the programs of the
    /// bench".
    ///
    /// # Errors
    /// [`Error::Kernel`]: not an object file; the kernel refuses a program or a table. Errors of `prepare`.
    pub fn load<E: From<Error>>(
        file: &[u8],
        what: &str,
        prepare: impl FnOnce(&mut UnloadedObject) -> std::result::Result<(), E>,
    ) -> std::result::Result<Self, E> {
        let mut object = UnloadedObject::open(file, what)?;
        prepare(&mut object)?;
        let loaded = object.0.load();
        Ok(Self(loaded.map_err(|source| Error::kernel(format!("load {what}"), source))?))
    }

    /// Returns the program of this name.
    ///
    /// # Panics
    /// The object has no such program: names are those of its source.
    #[must_use]
    pub fn program(&self, name: &str) -> ProgramMut<'_> {
        self.0.progs_mut().find(|program| program.name() == name).expect("a program of the object")
    }

    /// Returns the loaded programs.
    pub fn programs(&self) -> impl Iterator<Item = ProgramMut<'_>> {
        self.0.progs_mut().filter(|program| program.autoload())
    }

    /// Returns the table of this name.
    ///
    /// # Panics
    /// The object has no such table.
    #[must_use]
    pub fn map(&self, name: &str) -> Map<'_> {
        self.maps().find(|map| map.name() == name).expect("a table of the object")
    }

    /// Maps the array of this name, which was created with `BPF_F_MMAPABLE`.
    ///
    /// # Errors
    /// [`Error::Mapping`]; the kernel does not report the properties of the array.
    ///
    /// # Panics
    /// As [`Object::map`] and [`MappedArray::new`].
    pub fn mapped_array<V: PlainData>(&self, name: &str) -> Result<MappedArray<V>> {
        let handle = MapHandle::try_from(&self.map(name));
        MappedArray::new(
            &handle.map_err(|source| Error::kernel(format!("map table {name}"), source))?,
        )
    }

    /// Returns the tables and sections.
    pub fn maps(&self) -> impl Iterator<Item = Map<'_>> {
        self.0.maps()
    }

    /// Returns the variables of the programs.
    ///
    /// # Errors
    /// The kernel refuses to read them.
    ///
    /// # Panics
    /// The programs have no variables.
    pub fn variables(&self) -> libbpf_rs::Result<Vec<u8>> {
        Ok(self.section().lookup(&0u32.to_ne_bytes(), MapFlags::ANY)?.unwrap_or_default())
    }

    /// Sets variables, each by its offset, and clears all others.
    ///
    /// # Errors
    /// The kernel refuses to write them.
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

    /// Returns the runs of each program, by name, while [`Statistics`](crate::statistics::Statistics) were
    /// enabled.
    ///
    /// # Errors
    /// The kernel refuses to read them.
    pub fn runs(&self) -> Result<Vec<(String, Runs)>> {
        let named = self.programs().map(|program| {
            Ok((program.name().to_string_lossy().into_owned(), Runs::of(program.as_fd())?))
        });
        named.collect()
    }

    /// Returns the table whose single entry contains the variables.
    fn section(&self) -> Map<'_> {
        self.maps().find(|map| is(map.name(), ".bss")).expect("the programs have variables")
    }
}

/// Returns whether a table is this section: libbpf prefixes the object's name, which the kernel shortens.
fn is(name: &OsStr, section: &str) -> bool {
    name.to_string_lossy().ends_with(section)
}
