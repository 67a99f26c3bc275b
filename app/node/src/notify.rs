//! Notifies systemd of the state of the service (`sd_notify(3)`), without libsystemd.

use std::ffi::OsStr;
use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::time::Duration;

use nix::time::{ClockId, clock_gettime};

/// Connection to the service manager; without one, nothing is sent and no call fails.
#[derive(Debug)]
pub struct Notifier {
    manager: Option<(UnixDatagram, SocketAddr)>,
    watchdog: Option<Duration>,
}

impl Notifier {
    /// Uses the service manager that started this process, if any (`NOTIFY_SOCKET`).
    pub fn from_env() -> io::Result<Notifier> {
        let watchdog = watchdog(
            std::env::var("WATCHDOG_USEC").ok().as_deref(),
            std::env::var("WATCHDOG_PID").ok().as_deref(),
        );
        match std::env::var_os("NOTIFY_SOCKET") {
            Some(path) if !path.is_empty() => Notifier::to(&path, watchdog),
            _ => Ok(Notifier { manager: None, watchdog: None }),
        }
    }

    /// Uses a service manager that listens on a path, or on the abstract name after `@`.
    pub fn to(path: &OsStr, watchdog: Option<Duration>) -> io::Result<Notifier> {
        let address = match path.as_bytes() {
            [b'@', name @ ..] => SocketAddr::from_abstract_name(name)?,
            [b'/', ..] => SocketAddr::from_pathname(path)?,
            _ => {
                let message = format!(
                    "NOTIFY_SOCKET={path:?} is neither a path nor an abstract name; start the service with Type=notify, or unset it"
                );
                return Err(io::Error::new(io::ErrorKind::InvalidInput, message));
            }
        };
        let socket = UnixDatagram::unbound()?;
        // A manager that does not read must not block the node.
        socket.set_nonblocking(true)?;
        Ok(Notifier { manager: Some((socket, address)), watchdog })
    }

    /// Interval at which to call [`Notifier::alive`]; `None` without a watchdog.
    pub fn watchdog(&self) -> Option<Duration> {
        self.watchdog
    }

    /// Notifies that the node runs, after its start or a reload.
    pub fn ready(&self, status: &str) -> io::Result<()> {
        self.send(&format!("READY=1\nSTATUS={}", one_line(status)))
    }

    /// Notifies that the node reloads its configuration; [`Notifier::ready`] follows.
    pub fn reloading(&self) -> io::Result<()> {
        let now = clock_gettime(ClockId::CLOCK_MONOTONIC)?;
        let now_us = Duration::from(now).as_micros();
        self.send(&format!("RELOADING=1\nMONOTONIC_USEC={now_us}"))
    }

    /// Notifies that the node stops.
    pub fn stopping(&self) -> io::Result<()> {
        self.send("STOPPING=1")
    }

    /// Sets the status line of `systemctl status`.
    pub fn status(&self, status: &str) -> io::Result<()> {
        self.send(&format!("STATUS={}", one_line(status)))
    }

    /// Notifies that the node is alive; required every [`Notifier::watchdog`].
    pub fn alive(&self) -> io::Result<()> {
        self.send("WATCHDOG=1")
    }

    fn send(&self, message: &str) -> io::Result<()> {
        let Some((socket, address)) = &self.manager else { return Ok(()) };
        socket.send_to_addr(message.as_bytes(), address).map(drop)
    }
}

/// Replaces line ends, which would start another assignment.
fn one_line(status: &str) -> String {
    status.replace(['\n', '\r'], " ")
}

/// Half of the timeout of systemd, as `sd_watchdog_enabled(3)` recommends.
fn watchdog(usec: Option<&str>, pid: Option<&str>) -> Option<Duration> {
    let for_another = pid.is_some_and(|pid| pid != std::process::id().to_string());
    let usec: u64 = usec?.parse().ok().filter(|&usec| usec > 0 && !for_another)?;
    Some(Duration::from_micros(usec) / 2)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn received(manager: &UnixDatagram) -> String {
        let mut buffer = [0; 512];
        let length = manager.recv(&mut buffer).unwrap();
        String::from_utf8(buffer[..length].to_vec()).unwrap()
    }

    fn send_all_states(manager: &UnixDatagram, notifier: &Notifier) {
        manager.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
        notifier.ready("4 streams\nREADY=0").unwrap();
        assert_eq!(received(manager), "READY=1\nSTATUS=4 streams READY=0");
        notifier.reloading().unwrap();
        let message = received(manager);
        let usec: u64 =
            message.strip_prefix("RELOADING=1\nMONOTONIC_USEC=").unwrap().parse().unwrap();
        assert!(usec > 0);
        notifier.status("fine").unwrap();
        assert_eq!(received(manager), "STATUS=fine");
        notifier.alive().unwrap();
        assert_eq!(received(manager), "WATCHDOG=1");
        notifier.stopping().unwrap();
        assert_eq!(received(manager), "STOPPING=1");
    }

    #[test]
    fn to_an_abstract_socket() {
        let name = format!("onbeat-notify-{}", std::process::id());
        let address = SocketAddr::from_abstract_name(&name).unwrap();
        let manager = UnixDatagram::bind_addr(&address).unwrap();
        let notifier = Notifier::to(OsStr::new(&format!("@{name}")), None).unwrap();
        send_all_states(&manager, &notifier);
    }

    #[test]
    fn to_a_path() {
        let path = std::env::temp_dir().join(format!("onbeat-notify-{}.sock", std::process::id()));
        let manager = UnixDatagram::bind(&path).unwrap();
        let notifier = Notifier::to(path.as_os_str(), None).unwrap();
        send_all_states(&manager, &notifier);
        std::fs::remove_file(&path).unwrap();
    }

    #[test]
    fn an_invalid_address_is_refused() {
        let error = Notifier::to(OsStr::new("vsock:2:1"), None).unwrap_err();
        assert!(error.to_string().contains("vsock:2:1"));
    }

    #[test]
    fn without_a_manager_nothing_fails() {
        let notifier = Notifier { manager: None, watchdog: None };
        notifier.ready("").unwrap();
        notifier.stopping().unwrap();
    }

    #[test]
    fn the_interval_is_half_the_time_out_and_only_for_this_process() {
        let own = std::process::id().to_string();
        assert_eq!(watchdog(Some("3000000"), Some(&own)), Some(Duration::from_millis(1500)));
        assert_eq!(watchdog(Some("3000000"), None), Some(Duration::from_millis(1500)));
        assert_eq!(watchdog(Some("3000000"), Some("1")), None);
        assert_eq!(watchdog(Some("0"), None), None);
        assert_eq!(watchdog(Some("x"), None), None);
        assert_eq!(watchdog(None, None), None);
    }
}
