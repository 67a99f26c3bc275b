//! Waveforms whose truth is known, and files that are none.

use onbeat_delay::key::Recognition;
use onbeat_delay::matching::Verdict;
use onbeat_delay::scope::synthesis::Signal;
use onbeat_delay::scope::{WaveformError, crossings, decode, fcs, read_csv};

/// An Ethernet frame of `len` octets that differs by `seed`.
fn frame(len: usize, seed: u8) -> Vec<u8> {
    let mut octets = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 0x88, 0xb5];
    octets.extend((octets.len()..len).map(|i| (i as u8).wrapping_mul(37).wrapping_add(seed)));
    octets
}

#[test]
fn the_check_sequence_of_the_check_string() {
    assert_eq!(fcs(b"123456789"), 0xcbf4_3926);
}

/// Every rate of the oscilloscope, with noise, other bit rates and lost preamble: every frame is
/// found, and the delay is right to less than a sample.
#[test]
fn every_frame_at_every_rate() {
    let frames = [frame(60, 1), frame(192, 2), frame(60, 0)];
    for rate in [100e6, 250e6, 1e9, 2.5e9] {
        for (noise_volts, bit_ppm, preamble) in [(0.0, 0.0, 7), (0.25, 100.0, 7), (0.25, -100.0, 3)]
        {
            let signal = Signal { rate, noise_volts, ..Signal::default() };
            let arrivals = [20.03e-6, 110.011e-6, 310.0e-6];
            // Delays that are no whole number of samples.
            let delays = [17.4683e-6, 25.0017e-6, 14.5761e-6];
            let at = |times: [f64; 3]| -> Vec<(f64, &[u8])> {
                times.into_iter().zip(&frames).map(|(time, octets)| (time, &octets[..])).collect()
            };
            let before = signal.record(450e-6, &at(arrivals));
            let behind = Signal { bit_ppm, preamble, seed: 2, ..signal };
            let departures = std::array::from_fn(|i| arrivals[i] + delays[i]);
            let behind = behind.record(450e-6, &at(departures));
            let [before, behind] = [before, behind].map(|volts| decode(&volts, 0.0, 1.0 / rate));
            for decoded in [&before, &behind] {
                assert_eq!((decoded.frames.len(), decoded.fragments), (3, 0), "{rate}");
                for (found, sent) in decoded.frames.iter().zip(&frames) {
                    assert!(found.fcs_right);
                    assert_eq!(found.without_fcs(), sent);
                }
            }
            assert!((behind.frames[1].bit_ppm - bit_ppm).abs() < 30.0, "{:?}", behind.frames[1]);
            let (found, counts) =
                crossings(&before.frames, &behind.frames, &Recognition::default(), 1_000_000);
            assert_eq!((found.len(), counts.certain), (3, 3));
            for (crossing, delay) in found.iter().zip(delays) {
                let samples = (crossing.delay_ns * 1e-9 - delay).abs() * rate;
                assert!(samples < 1.0, "{rate}: off by {samples} samples");
                assert_eq!(crossing.verdict, Verdict::Certain);
            }
            // What a fit of hundreds of bits can do where the sampling is not in step with the bits.
            if noise_volts > 0.0 {
                let error = before.frames[1].error_s * rate;
                assert!(error < 0.1, "{rate}: {error} samples");
            }
        }
    }
}

#[test]
fn a_frame_that_the_record_cuts_is_a_fragment() {
    let octets = frame(192, 1);
    let signal = Signal::default();
    let whole = signal.record(250e-6, &[(30e-6, &octets)]);
    let cut = decode(&whole[..100_000], 0.0, 1e-9);
    assert_eq!(
        (cut.frames.iter().filter(|frame| frame.fcs_right).count(), cut.frames.len()),
        (0, 1)
    );
    let short = decode(&whole[..35_000], 0.0, 1e-9);
    assert_eq!((short.frames.len(), short.fragments), (0, 1));
    // Its first bits missing, but most of the preamble there.
    let late = decode(&whole[25_500..], 25.5e-6, 1e-9);
    assert_eq!(late.frames.len(), 1);
    assert!((late.frames[0].time_s - 30e-6).abs() < 1e-9, "{:?}", late.frames[0].time_s);
}

#[test]
fn noise_and_silence_are_no_frames() {
    let noise = Signal { noise_volts: 1.0, ..Signal::default() }.record(200e-6, &[]);
    assert!(decode(&noise, 0.0, 1e-9).frames.is_empty());
    for volts in [&[][..], &[0.0], &[1.0; 1000], &[f32::NAN; 1000]] {
        let decoded = decode(volts, 0.0, 1e-9);
        assert_eq!((decoded.frames.len(), decoded.fragments), (0, 0));
    }
}

#[test]
fn a_disturbed_bit_fails_the_check() {
    let octets = frame(60, 1);
    let mut volts = Signal::default().record(100e-6, &[(20e-6, &octets)]);
    // A whole bit turned around, in the middle of the frame.
    volts[40_000..40_100].iter_mut().for_each(|volts| *volts = -*volts);
    let decoded = decode(&volts, 0.0, 1e-9);
    assert_eq!(decoded.frames.iter().filter(|frame| frame.fcs_right).count(), 0);
}

const FILE: &str = "Model,DPO4032\r\nFirmware Version,2.48\r\n\r\nSample Interval,4e-10,s\r\n\
    Label,,\r\nTIME,CH1,CH2\r\n-2.000e-09,0.5,-0.25\r\n-1.600e-09,0.75,1e-1\r\n-1.200e-09,1,2\r\n\r\n";

#[test]
fn a_file_of_the_oscilloscope() {
    let waveform = read_csv(FILE.as_bytes()).unwrap();
    assert!((waveform.interval_s - 4e-10).abs() < 1e-20);
    assert_eq!(waveform.start_s, -2e-9);
    let channels: Vec<_> =
        waveform.channels.iter().map(|channel| (&channel.name[..], &channel.volts[..])).collect();
    assert_eq!(channels, [("CH1", &[0.5, 0.75, 1.0][..]), ("CH2", &[-0.25, 0.1, 2.0])]);
}

#[test]
fn files_that_are_no_waveform() {
    let error = |text: &str| read_csv(text.as_bytes()).unwrap_err();
    assert!(matches!(error(""), WaveformError::NoNames));
    assert!(matches!(error("TIME\n1\n"), WaveformError::NoNames));
    assert!(matches!(error("TIME,CH1\n0,1\n"), WaveformError::Short(1)));
    for row in ["x,1", "1e-9", "1e-9,", "1e-9,inf", "nan,1"] {
        let found = error(&format!("a\nTIME,CH1\n0,1\n{row}\n"));
        assert!(matches!(found, WaveformError::Row { line: 4, .. }), "{row}: {found}");
    }
    let rows = |times: &[f64]| times.iter().map(|time| format!("{time},1\n")).collect::<String>();
    let gap = error(&format!("TIME,CH1\n{}", rows(&[0.0, 1.0, 2.0, 5.0, 6.0])));
    assert!(matches!(gap, WaveformError::Gap { .. }), "{gap}");
    for times in [[0.0, 0.0, 0.0], [3.0, 2.0, 1.0]] {
        let gap = error(&format!("TIME,CH1\n{}", rows(&times)));
        assert!(matches!(gap, WaveformError::Gap { line: 2, .. }), "{gap}");
    }
    let endless = read_csv(std::io::BufReader::new(std::io::repeat(0))).unwrap_err();
    assert!(matches!(endless, WaveformError::Line(1)), "{endless}");
    let binary = read_csv(&[0xff, 0xfe, 0, 1][..]).unwrap_err();
    assert!(matches!(binary, WaveformError::Read(_)), "{binary}");
}
