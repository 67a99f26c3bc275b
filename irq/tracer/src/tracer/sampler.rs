//! When to look at packets, where only a sample of them is looked at.

use std::fs::File;
use std::io::Read;
use std::num::NonZeroU32;
use std::time::{Duration, Instant};

use super::Meter;
use crate::error::{Error, Result};

/// How long packets are looked at in one go: long beside a poll, and beside what it takes to attach and
/// detach the programs that look.
const WINDOW: Duration = Duration::from_millis(20);

/// Has a [`Meter`] of a sampling tracer look at packets for one part in so many of the time.
///
/// Time is divided into stretches, so many windows long, and each has one window, at random: what comes
/// periodically is looked at in all its phases.
#[derive(Debug)]
pub struct Sampler {
    one_in: NonZeroU32,
    random: File,
    opens: Instant,
    ends: Instant,
}

impl Sampler {
    /// Of one part in so many. The first stretch begins now.
    ///
    /// # Errors
    /// Where /dev/urandom cannot be read.
    pub fn new(one_in: NonZeroU32) -> Result<Self> {
        let random = File::open("/dev/urandom").map_err(unreadable)?;
        let now = Instant::now();
        let mut sampler = Self { one_in, random, opens: now, ends: now };
        sampler.plan(now)?;
        Ok(sampler)
    }

    /// How long a stretch is.
    #[must_use]
    pub fn stretch(&self) -> Duration {
        WINDOW * self.one_in.get()
    }

    /// Waits until an instant, or a little longer where a window is open then. `wait` waits until an
    /// instant, and returns false where it is to be the last time; so does this.
    ///
    /// # Errors
    /// Those of `wait`; where the kernel does not let us attach programs or read.
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
            // Who was late is not made up for.
            self.plan(self.ends.max(Instant::now()))?;
            if !on? {
                return Ok(false);
            }
        }
        wait(until)
    }

    /// Puts a window into the stretch that begins at an instant.
    fn plan(&mut self, begins: Instant) -> Result<()> {
        let mut octets = [0; 8];
        self.random.read_exact(&mut octets).map_err(unreadable)?;
        let room_ns = (self.stretch() - WINDOW).as_nanos();
        let at_ns = (u128::from(u64::from_ne_bytes(octets)) * room_ns) >> u64::BITS;
        self.opens = begins + Duration::from_nanos(at_ns as u64);
        self.ends = begins + self.stretch();
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
    fn each_stretch_has_a_window_anywhere_in_it() {
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
        // A third each; that one is off by so much happens once in 10^20 times.
        assert!((190..480).contains(&early) && (190..480).contains(&late), "{early}, {late}");
    }

    #[test]
    fn one_in_one_is_always() {
        let mut sampler = Sampler::new(NonZeroU32::MIN).unwrap();
        let begins = Instant::now();
        sampler.plan(begins).unwrap();
        assert_eq!((sampler.opens, sampler.ends), (begins, begins + WINDOW));
    }
}
