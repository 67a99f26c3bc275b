//! The object dictionary: all parameters of a node, and its process data.
//!
//! Values of fixed length are consecutive in one buffer. A PDO is copied by offsets that are computed once,
//! when its mapping is activated. The elements of an array, which cannot be mapped, have one description and a
//! block of values that grows with the highest element in use.

mod array;
mod dictionary;
mod object;
pub mod profile;

pub use dictionary::{AddError, Dictionary};
pub use object::{Access, DataType, Limits, Object, ObjectId, PdoMapping, id};
pub use onbeat_wire::powerlink::Abort;

#[cfg(test)]
mod tests;
