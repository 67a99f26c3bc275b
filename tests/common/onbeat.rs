//! The product, for tests of the laboratory's crate.

use std::path::{Path, PathBuf};
use std::sync::LazyLock;

/// The program under test: beside that of the laboratory. The caller's test has its turn on the machine.
pub(crate) fn program() -> &'static Path {
    super::machine::shared();
    static PROGRAM: LazyLock<PathBuf> = LazyLock::new(|| {
        let program = Path::new(env!("CARGO_BIN_EXE_onbeat-lab")).with_file_name("onbeat");
        assert!(program.is_file(), "{program:?} is missing; build it: cargo build -p onbeat");
        program
    });
    &PROGRAM
}
