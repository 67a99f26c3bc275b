use std::time::Duration;

use onbeat_report::progress::{Progress, Style};

use super::{Options, run};

fn silent() -> Progress {
    Progress::to(Box::new(std::io::sink()), Style::Silent)
}

#[test]
fn invalid_options_are_rejected() {
    for options in [
        Options { rounds: 0, ..Options::default() },
        Options { slice: Duration::ZERO, ..Options::default() },
        Options { cpu: Some(100_000), ..Options::default() },
    ] {
        assert!(run(&options, &mut silent()).is_err(), "{options:?}");
    }
}
