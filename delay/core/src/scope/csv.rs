//! Waveforms as CSV, as Tektronix oscilloscopes of the MSO/DPO series write them.
//!
//! ```text
//! Model,DPO4032
//! Sample Interval,4e-10,s
//! ...
//! TIME,CH1,CH2
//! -2.000000e-06,0.02,-0.01
//! ```
//!
//! The lines above the header line are ignored: every row contains its time.

use std::io::{self, BufRead, Read};

/// Maximum length of a line in octets.
const LINE: u64 = 64 * 1024;
/// Maximum number of samples of all channels, where times count as samples: about 1 GiB of memory.
const SAMPLES: usize = 1 << 27;

/// One channel.
#[derive(Debug, Clone, PartialEq)]
pub struct Channel {
    /// Its name in the file.
    pub name: String,
    /// Its samples, in volts.
    pub volts: Vec<f32>,
}

/// Channels sampled at the same instants.
#[derive(Debug, Clone, PartialEq)]
pub struct Waveform {
    /// The time of the first sample, in seconds; 0 is the trigger.
    pub start_s: f64,
    /// The sample interval, in seconds.
    pub interval_s: f64,
    /// The channels, in order of the file.
    pub channels: Vec<Channel>,
}

/// The error of a file that is not a waveform.
#[derive(Debug, thiserror::Error)]
pub enum WaveformError {
    /// It could not be read, or is not text.
    #[error("cannot read the waveform: {0}")]
    Read(#[from] io::Error),
    /// A line beyond the limit.
    #[error("line {0} is longer than the limit of {LINE} octets: not a waveform")]
    Line(usize),
    /// Too many samples.
    #[error("line {0}: more than {SAMPLES} samples, the limit; export a shorter record")]
    Samples(usize),
    /// No header line that starts with TIME.
    #[error("no header line `TIME,CH1,CH2`; export the waveform as a spreadsheet (CSV)")]
    NoNames,
    /// An invalid row.
    #[error("line {line}: `{text}` is not a time and one voltage for each of {channels} channels")]
    Row {
        /// The line, starting at 1.
        line: usize,
        /// The start of its content.
        text: String,
        /// The number of channels.
        channels: usize,
    },
    /// Fewer than two samples.
    #[error("not a waveform: number of samples {0}, at least 2 required")]
    Short(usize),
    /// Times that are not equidistant.
    #[error("line {line}: the time is {found} s instead of {expected} s: samples are missing")]
    Gap {
        /// The line, starting at 1.
        line: usize,
        /// The time there, in seconds.
        found: f64,
        /// The expected time, in seconds.
        expected: f64,
    },
}

/// Reads a waveform.
pub fn read_csv(input: impl BufRead) -> Result<Waveform, WaveformError> {
    let mut lines = lines(input).enumerate();
    let (mut channels, first_line) = loop {
        let Some((number, line)) = lines.next() else { return Err(WaveformError::NoNames) };
        let line = line?;
        let mut names = line.trim().split(',').map(|name| name.trim().trim_matches('"'));
        if names.next().is_some_and(|name| name.eq_ignore_ascii_case("time")) {
            let channels: Vec<Channel> = names
                .filter(|name| !name.is_empty())
                .map(|name| Channel { name: name.into(), volts: Vec::new() })
                .collect();
            break (channels, number + 2);
        }
    };
    if channels.is_empty() {
        return Err(WaveformError::NoNames);
    }
    let mut times = Vec::new();
    for (number, line) in lines {
        let line = line?;
        if line.trim().is_empty() {
            continue;
        }
        let mut fields = line.split(',').map(|field| field.trim().parse::<f64>());
        let time = fields.next().and_then(Result::ok).filter(|time| time.is_finite());
        let complete = channels.iter_mut().all(|channel| match fields.next() {
            Some(Ok(volts)) if volts.is_finite() => {
                channel.volts.push(volts as f32);
                true
            }
            _ => false,
        });
        let (Some(time), true) = (time, complete) else {
            let text = line.chars().take(60).collect();
            return Err(WaveformError::Row { line: number + 1, text, channels: channels.len() });
        };
        times.push(time);
        if times.len() * (1 + channels.len()) > SAMPLES {
            return Err(WaveformError::Samples(number + 1));
        }
    }
    let (Some(&start_s), Some(&end), true) = (times.first(), times.last(), times.len() > 1) else {
        return Err(WaveformError::Short(times.len()));
    };
    let interval_s = (end - start_s) / (times.len() - 1) as f64;
    // Times are rounded in the file; a missing sample shifts all later ones.
    let out_of_step = times.iter().enumerate().find_map(|(i, &found)| {
        let expected = start_s + i as f64 * interval_s;
        let far = (found - expected).abs() > 0.5 * interval_s;
        (far || interval_s <= 0.0).then_some((i, found, expected))
    });
    if let Some((i, found, expected)) = out_of_step {
        return Err(WaveformError::Gap { line: first_line + i, found, expected });
    }
    Ok(Waveform { start_s, interval_s, channels })
}

/// The lines of a text, none longer than [`LINE`].
fn lines(mut input: impl BufRead) -> impl Iterator<Item = Result<String, WaveformError>> {
    (1..).map_while(move |number| {
        let mut line = String::new();
        match input.by_ref().take(LINE + 1).read_line(&mut line) {
            Ok(0) => None,
            Ok(octets) if octets as u64 > LINE => Some(Err(WaveformError::Line(number))),
            Ok(_) => Some(Ok(line.trim_end_matches(['\r', '\n']).to_owned())),
            Err(error) => Some(Err(error.into())),
        }
    })
}
