//! The `onbeat` program: parsing, printing, exit codes; no logic.
fn main() {}
