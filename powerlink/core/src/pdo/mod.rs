//! Process data: transfer between the payload of polls and objects (EPSG DS 301, 6.4).

mod bits;
mod mapping;

pub use mapping::{Channel, Direction, MappingEntry, check_mapping, check_write};
