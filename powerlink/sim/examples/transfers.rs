//! Writes values by SDO to a virtual controlled node and reads them again; prints the frames as a capture file.
//!
//! ```text
//! cargo run --release -p onbeat-sim --example transfers -- [LENGTH...] > transfers.pcap
//! ```
//! Without lengths: those of `vectors/powerlink/transfers.pcap`, and aborted transfers.

use std::io::Write;
use std::process::ExitCode;

use onbeat_sim::{Conditions, Transfers};

fn main() -> ExitCode {
    let lengths: Result<Vec<usize>, _> =
        std::env::args().skip(1).map(|text| text.parse()).collect();
    let mut transfers = Transfers::new(Conditions::CLEAN, 1);
    match lengths {
        Ok(lengths) if lengths.is_empty() => transfers.record(),
        Ok(lengths) => {
            for len in lengths {
                let value = Transfers::value(len);
                if transfers.write_and_read(&value) != Ok(value) {
                    eprintln!("{len} octets: not read as written");
                    return ExitCode::FAILURE;
                }
            }
        }
        Err(error) => {
            eprintln!("usage: transfers [LENGTH...]: {error}");
            return ExitCode::from(2);
        }
    }
    match std::io::stdout().write_all(&transfers.capture()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("cannot write the capture: {error}");
            ExitCode::FAILURE
        }
    }
}
