//! Packet sockets.
