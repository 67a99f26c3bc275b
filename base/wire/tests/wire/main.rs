//! Codecs compared with vectors, and with random octets.

mod no_panic;
mod observe;
mod powerlink;
mod prp;
mod prp_tshark;
mod vectors;
