//! A synthetic 10BASE-T signal of frames, for tests: as an ideal probe measures it.

use super::manchester::{BIT_S, fcs};
use onbeat_wire::random::Random;

/// The parameters of a signal.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Signal {
    /// Samples/s.
    pub rate: f64,
    /// The voltage of each level.
    pub volts: f64,
    /// The duration of an edge, in seconds.
    pub rise_s: f64,
    /// The standard deviation of the noise, in volts.
    pub noise_volts: f64,
    /// The excess of the bit length over 100 ns, in parts per million.
    pub bit_ppm: f64,
    /// Octets of preamble before the start frame delimiter; 7 if no hop removed any.
    pub preamble: usize,
    /// The seed of the noise.
    pub seed: u64,
}

impl Default for Signal {
    /// By clause 14, at 1 GS/s, with little noise.
    fn default() -> Self {
        Signal {
            rate: 1e9,
            volts: 2.5,
            rise_s: 12e-9,
            noise_volts: 0.1,
            bit_ppm: 0.0,
            preamble: 7,
            seed: 1,
        }
    }
}

impl Signal {
    /// A record of `length_s` seconds, in which the first bit of each frame's destination address
    /// begins at the time given with it. Frames are without FCS; link pulses come every 16 ms.
    pub fn record(&self, length_s: f64, frames: &[(f64, &[u8])]) -> Vec<f32> {
        let mut random = Random::new(self.seed);
        let mut volts: Vec<f32> = (0..(length_s * self.rate) as usize)
            .map(|_| (self.noise_volts * normal(&mut random)) as f32)
            .collect();
        let half = BIT_S / 2.0 * (1.0 + self.bit_ppm * 1e-6);
        for (time_s, octets) in frames {
            let preamble = std::iter::repeat_n(0x55, self.preamble).chain([0xd5]);
            let check = fcs(octets).to_le_bytes();
            let mut levels = Vec::new();
            for octet in preamble.chain(octets.iter().copied()).chain(check) {
                for bit in 0..8 {
                    let up = octet >> bit & 1 == 1;
                    levels.extend(if up { [-1.0, 1.0] } else { [1.0, -1.0] });
                }
            }
            // The start of idle: three bits high.
            levels.extend([1.0; 6]);
            let begin = time_s - (self.preamble + 1) as f64 * 16.0 * half;
            self.draw(&mut volts, begin, half, &levels);
        }
        let mut pulse_s = 3e-6;
        while pulse_s < length_s {
            let free = |(time, octets): &(f64, &[u8])| {
                let (from, to) = (time - 8e-6, time + (octets.len() + 8) as f64 * 8.0 * BIT_S);
                !(from..to).contains(&pulse_s)
            };
            if frames.iter().all(free) {
                self.draw(&mut volts, pulse_s, half, &[1.0, 1.0]);
            }
            pulse_s += 16e-3;
        }
        volts
    }

    /// Adds levels, each of `half` seconds, from `begin` on, with edges of the configured duration.
    fn draw(&self, volts: &mut [f32], begin: f64, half: f64, levels: &[f64]) {
        let level =
            |i: isize| usize::try_from(i).ok().and_then(|i| levels.get(i)).copied().unwrap_or(0.0);
        let from = ((begin - self.rise_s) * self.rate).max(0.0) as usize;
        let end = begin + levels.len() as f64 * half + self.rise_s;
        let to = ((end * self.rate) as usize).min(volts.len());
        for (i, volts) in volts.iter_mut().enumerate().take(to).skip(from) {
            let since = i as f64 / self.rate - begin;
            // The nearest edge, and its completed share.
            let edge = (since / half).round();
            let done = ((since - edge * half) / self.rise_s + 0.5).clamp(0.0, 1.0);
            let (before, after) = (level(edge as isize - 1), level(edge as isize));
            *volts += (self.volts * (before + (after - before) * done)) as f32;
        }
    }
}

/// Returns a number of the standard normal distribution (Box, Muller).
fn normal(random: &mut Random) -> f64 {
    let radius = (-2.0 * (1.0 - random.uniform()).ln()).sqrt();
    radius * (2.0 * std::f64::consts::PI * random.uniform()).cos()
}
