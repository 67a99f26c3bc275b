//! The clock of the host, if ptp4l keeps it.

use std::path::PathBuf;
use std::thread::sleep;
use std::time::Duration;

use super::root::HostRoot;
use super::{Finding, Level};
use onbeat_host::ptp::{History, PtpClient, PtpState, PtpStatus, Round, SERVERS};

/// Number of samples, their distance, and the time of a response: together longer than the usual interval of Sync messages.
const SAMPLES: usize = 3;
const DISTANCE: Duration = Duration::from_millis(700);
const RESPONSE: Duration = Duration::from_millis(50);

/// Largest offset of a system clock that follows a NIC.
const SYSTEM_LIMIT_NS: u64 = 10_000;

const WHAT: &str = "clock by PTP (ptp4l)";

pub(super) fn examine(root: &HostRoot<'_>) -> Option<Finding> {
    let servers = SERVERS.map(|path| root.path(path));
    let name = format!("doctor-{}.ptp", std::process::id());
    // ptp4l of a service may have a /tmp of its own.
    let directories = [root.path(onbeat_host::RUN), std::env::temp_dir()];
    let mut opened = Ok(None);
    for directory in directories.into_iter().filter(|directory| directory.is_dir()) {
        opened = PtpClient::open(servers.clone(), &directory.join(&name));
        if opened.is_ok() {
            break;
        }
    }
    match opened {
        Ok(client) => client.map(|client| finding(&sample(client))),
        Err(error) => {
            Some(Finding::new("ptp", Level::Info, WHAT, format!("unknown: {error}")).remedy(
                format!("run the command as root; restart ptp4l, or rm {}", present(&servers)),
            ))
        }
    }
}

/// The sockets that exist.
fn present(servers: &[PathBuf]) -> String {
    let present = servers.iter().filter(|path| path.exists());
    present.map(|path| path.display().to_string()).collect::<Vec<_>>().join(" ")
}

fn sample(mut client: PtpClient) -> PtpStatus {
    let mut history = History::new(SAMPLES);
    for number in 0..SAMPLES {
        if number > 0 {
            sleep(DISTANCE);
        }
        let mut round = Round::default();
        if client.request().is_ok() {
            sleep(RESPONSE);
            client.receive(&mut round);
        }
        history.push(round);
    }
    history.status_with_clocks()
}

fn finding(status: &PtpStatus) -> Finding {
    let value = status.to_string();
    let is_apart = |offset: i64| offset.unsigned_abs() > SYSTEM_LIMIT_NS;
    match status.state {
        PtpState::Locked if status.phc_offset_ns.is_some_and(is_apart) => {
            Finding::new("ptp", Level::Warn, WHAT, value)
                .remedy("the system clock does not follow the NIC: phc2sys -a -r")
        }
        PtpState::Locked | PtpState::Grandmaster => Finding::ok("ptp", WHAT, value),
        PtpState::NotLocked => Finding::new("ptp", Level::Warn, WHAT, value)
            .remedy("pmc -u -b 0 'GET PORT_DATA_SET' 'GET TIME_STATUS_NP', and the log of ptp4l"),
        PtpState::Silent => Finding::new("ptp", Level::Warn, WHAT, value)
            .remedy("pgrep -a ptp4l; continue a stopped one with: kill -CONT PID"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_that_is_not_locked_has_a_remedy() {
        let status = |state| PtpStatus { state, ..PtpStatus::default() };
        for (state, level) in [
            (PtpState::Locked, Level::Ok),
            (PtpState::Grandmaster, Level::Ok),
            (PtpState::NotLocked, Level::Warn),
            (PtpState::Silent, Level::Warn),
        ] {
            let found = finding(&status(state));
            assert_eq!((found.level, found.remedy.is_some()), (level, level != Level::Ok));
        }
        let apart =
            |ns| finding(&PtpStatus { phc_offset_ns: Some(ns), ..status(PtpState::Locked) });
        assert_eq!((apart(-10_000).level, apart(10_001).level), (Level::Ok, Level::Warn));
        assert!(apart(i64::MIN).remedy.unwrap_or_default().contains("phc2sys"));
    }
}
