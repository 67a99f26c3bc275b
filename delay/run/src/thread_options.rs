//! CPUs and priority of a probing thread.

use onbeat_realtime::{CpuSet, Profile, Scheduling};

/// Options that isolate the measurement from other work on the host.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct ThreadOptions {
    /// Run with SCHED_FIFO at this priority, with memory locked and without timer slack
    #[arg(long, value_name = "PRIORITY", value_parser = clap::value_parser!(u8).range(1..=99))]
    fifo: Option<u8>,
    /// Run on these CPUs, such as 1 or 2-3
    #[arg(long, value_name = "LIST")]
    cpus: Option<CpuSet>,
}

impl ThreadOptions {
    /// The real-time profile of the thread during the measurement.
    pub(crate) fn profile(&self) -> Profile {
        let mut profile = Profile::default();
        // Without it a sender would wake up 50 us late.
        profile.timer_slack_ns = Some(1);
        profile.cpus = self.cpus.clone();
        if let Some(priority) = self.fifo {
            profile.lock_memory = true;
            profile.scheduling = Some(Scheduling::Fifo(priority));
        }
        profile
    }
}
