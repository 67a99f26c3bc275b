//! The schedule of sampling windows.

use std::fs::File;
use std::io::Read;
use std::num::NonZeroU32;
use std::time::{Duration, Instant};

use super::Meter;
use crate::error::{Error, Result};

/// Length of a window: long compared with a poll, and with the time to attach and detach programs.
const WINDOW: Duration = Duration::from_millis(20);

/// Makes a [`Meter`] of a sampling tracer sample packets in one of `one_in` parts of the time.
///
/// Time is divided into intervals of `one_in` windows. Each has one window at a random position: periodic
/// traffic is sampled in all its phases.
#[derive(Debug)]
pub struct Sampler {
    one_in: NonZeroU32,
    random: File,
    opens: Instant,
    ends: Instant,
}

impl Sampler {
    /// Samples one of `one_in` parts. The first interval starts now.
    ///
    /// # Errors
    /// /dev/urandom cannot be read.
    pub fn new(one_in: NonZeroU32) -> Result<Self> {
        let random = File::open("/dev/urandom").map_err(unreadable)?;
        let now = Instant::now();
        let mut sampler = Self { one_in, random, opens: now, ends: now };
        sampler.plan(now)?;
        Ok(sampler)
    }

    /// The length of an interval.
    #[must_use]
    pub fn period(&self) -> Duration {
        WINDOW * self.one_in.get()
    }

    /// Waits until an instant, or a little longer if a window is open then. `wait` waits until an instant, and
    /// returns false to stop; so does this function.
    ///
    /// # Errors
    /// Those of `wait`; the kernel denies to attach programs or to read.
    pub fn wait<E: From<Error>>(
        &mut self,
        meter: &mut Meter,
        until: Instant,
        mut wait: impl FnMut(Instant) -> std::result::Result<bool, E>,
    ) -> std::result::Result<bool, E> {
        if self.ends < Instant::now() {
            self.plan(Instant::now())?;
        }
        while self.opens < until {
            if !wait(self.opens)? {
                return Ok(false);
            }
            meter.begin_window()?;
            let on = wait(Instant::now() + WINDOW);
            meter.end_window()?;
            // A late interval does not shorten the next ones.
            self.plan(self.ends.max(Instant::now()))?;
            if !on? {
                return Ok(false);
            }
        }
        wait(until)
    }

    /// Places a window in the interval that starts at an instant.
    fn plan(&mut self, begins: Instant) -> Result<()> {
        let mut octets = [0; 8];
        self.random.read_exact(&mut octets).map_err(unreadable)?;
        let room_ns = (self.period() - WINDOW).as_nanos();
        let at_ns = (u128::from(u64::from_ne_bytes(octets)) * room_ns) >> u64::BITS;
        self.opens = begins + Duration::from_nanos(at_ns as u64);
        self.ends = begins + self.period();
        Ok(())
    }
}

fn unreadable(error: std::io::Error) -> Error {
    Error::kernel("read random numbers from /dev/urandom", error.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_period_has_a_window_at_a_random_position() {
        let mut sampler = Sampler::new(NonZeroU32::new(10).unwrap()).unwrap();
        let begins = Instant::now();
        let (mut early, mut late) = (0, 0);
        for _ in 0..1000 {
            sampler.plan(begins).unwrap();
            assert_eq!(sampler.ends - begins, 10 * WINDOW);
            let at = sampler.opens - begins;
            assert!(at <= 9 * WINDOW, "{at:?}");
            early += u32::from(at < 3 * WINDOW);
            late += u32::from(at >= 6 * WINDOW);
        }
        // A third each; this deviation has a probability of 10^-20.
        assert!((190..480).contains(&early) && (190..480).contains(&late), "{early}, {late}");
    }

    #[test]
    fn one_in_one_samples_always() {
        let mut sampler = Sampler::new(NonZeroU32::MIN).unwrap();
        let begins = Instant::now();
        sampler.plan(begins).unwrap();
        assert_eq!((sampler.opens, sampler.ends), (begins, begins + WINDOW));
    }
}
