//! The clock of the host during a measurement.

use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use super::{History, PtpClient, PtpStatus, Round, SERVERS};

/// Interval of samples, and time of a response.
const INTERVAL: Duration = Duration::from_secs(1);
const RESPONSE: Duration = Duration::from_millis(50);

/// Most samples that are kept; in a longer measurement every second one is discarded then.
const MOST: usize = 4096;

/// Samples a clock in a thread of its own.
#[derive(Debug)]
pub struct ClockWatch {
    /// Ends the thread when dropped.
    stop: Sender<()>,
    thread: JoinHandle<Vec<Round>>,
}

/// The clock during a measurement.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClockRecord {
    /// Its judgment over all samples: locked if it was at each.
    pub status: PtpStatus,
    /// Number of samples.
    pub samples: usize,
}

impl ClockWatch {
    /// Starts to sample the clock of the ptp4l of this host; `None` without ptp4l.
    #[must_use]
    pub fn start() -> Option<Self> {
        Self::start_with(&SERVERS.map(PathBuf::from))
    }

    fn start_with(servers: &[PathBuf]) -> Option<Self> {
        if !servers.iter().any(|path| path.exists()) {
            return None;
        }
        let client = open(servers);
        let (stop, stops) = mpsc::channel();
        let sample = move || {
            let mut client = client;
            let mut rounds = vec![round(client.as_mut())];
            let mut interval = INTERVAL;
            loop {
                let ended = stops.recv_timeout(interval) != Err(RecvTimeoutError::Timeout);
                rounds.push(round(client.as_mut()));
                if ended {
                    return rounds;
                }
                if rounds.len() >= MOST {
                    rounds = rounds.into_iter().step_by(2).collect();
                    interval *= 2;
                }
            }
        };
        let thread = thread::Builder::new().name("ptp".into()).spawn(sample).ok()?;
        Some(Self { stop, thread })
    }

    /// Ends the thread, and judges the clock. It is not locked if a sample is missing.
    #[must_use]
    pub fn finish(self) -> ClockRecord {
        drop(self.stop);
        let rounds = self.thread.join().unwrap_or_default();
        let samples = rounds.len();
        let mut history = History::new(samples);
        rounds.into_iter().for_each(|round| history.push(round));
        ClockRecord { status: history.status_with_clocks(), samples }
    }
}

/// Connects to ptp4l, which sends its responses to a path; it may have a /tmp of its own.
fn open(servers: &[PathBuf]) -> Option<PtpClient> {
    let name = format!("watch-{}.ptp", std::process::id());
    let directories = [Path::new(crate::RUN).to_owned(), std::env::temp_dir()];
    let open =
        |directory: PathBuf| PtpClient::open(servers.iter().cloned(), &directory.join(&name));
    directories.into_iter().filter_map(|directory| open(directory).ok()).flatten().next()
}

/// A round of requests and responses, without data if ptp4l does not respond.
fn round(client: Option<&mut PtpClient>) -> Round {
    let mut round = Round::default();
    if let Some(client) = client
        && client.request().is_ok()
    {
        thread::sleep(RESPONSE);
        client.receive(&mut round);
    }
    round
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixDatagram;

    use onbeat_testing::TemporaryDirectory;

    use super::*;
    use crate::ptp::PtpState;

    #[test]
    fn a_clock_without_responses_is_not_locked_and_without_ptp4l_there_is_none() {
        let directory = TemporaryDirectory::new("clock-watch");
        let server = directory.file("ptp4l");
        assert!(ClockWatch::start_with(std::slice::from_ref(&server)).is_none());
        let silent = UnixDatagram::bind(&server).unwrap();
        let record = ClockWatch::start_with(&[server]).unwrap().finish();
        assert_eq!((record.status.state, record.samples), (PtpState::Silent, 2));
        drop(silent);
    }
}
