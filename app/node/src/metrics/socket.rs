//! The listening socket that systemd passes (sd_listen_fds(3)).

use std::net::TcpListener;
use std::os::fd::FromRawFd;
use std::os::unix::fs::FileTypeExt;

/// The first passed descriptor.
const FIRST: i32 = 3;

/// Why a passed socket cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum SocketError {
    /// Several sockets.
    #[error("systemd passes {0} sockets; set one ListenStream= in the socket unit")]
    Several(String),
    /// It does not listen for TCP.
    #[error(
        "the socket that systemd passes is unusable: {0}; set ListenStream=ADDRESS:PORT in the socket unit"
    )]
    Unusable(std::io::Error),
}

/// Returns the socket that systemd passes to this process, if there is one. To be called once.
///
/// # Errors
/// systemd passes something else.
pub fn inherited_listener() -> Result<Option<TcpListener>, SocketError> {
    let variable = |name| std::env::var(name).ok();
    if variable("LISTEN_PID") != Some(std::process::id().to_string()) {
        return Ok(None);
    }
    match variable("LISTEN_FDS").as_deref() {
        None | Some("0") => return Ok(None),
        Some("1") => {}
        Some(count) => return Err(SocketError::Several(count.to_owned())),
    }
    let file =
        std::fs::metadata(format!("/proc/self/fd/{FIRST}")).map_err(SocketError::Unusable)?;
    if !file.file_type().is_socket() {
        return Err(SocketError::Unusable(std::io::ErrorKind::InvalidInput.into()));
    }
    // SAFETY: the descriptor is open, by the check above. systemd passed it to this process, which has opened none with
    // this number, and the caller takes it once.
    let listener = unsafe { TcpListener::from_raw_fd(FIRST) };
    listener.local_addr().map_err(SocketError::Unusable)?;
    Ok(Some(listener))
}
