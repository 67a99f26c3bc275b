//! Codecs against vectors, and with any octets.

mod no_panic;
mod observe;
mod powerlink;
mod vectors;
