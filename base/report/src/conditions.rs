//! The conditions of a measurement, as reported by the host.

use std::collections::BTreeMap;
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::format;

/// The conditions of a result. Unknown values are `None`.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Conditions {
    /// Version of this program.
    pub onbeat: Option<String>,
    /// Kernel release: `6.1.0-18-amd64`.
    pub kernel: Option<String>,
    /// Preemption model according to the kernel: `PREEMPT_RT`, `PREEMPT_DYNAMIC`, `PREEMPT`; `none` if not
    /// reported.
    pub preempt: Option<String>,
    /// CPUs online.
    pub cpus: Option<u32>,
    /// Model of the first CPU.
    pub cpu_model: Option<String>,
    /// CPUs excluded from scheduling (`isolcpus`), as a list: `2-5`; empty if there are none.
    pub isolated_cpus: Option<String>,
    /// Frequency governors in use, comma-separated.
    pub governor: Option<String>,
    /// Load averages over 1, 5 and 15 minutes, at the start of the run.
    pub load: Option<[f64; 3]>,
    /// Share of CPU time that was not idle during the run, in percent.
    pub busy_percent: Option<f64>,
    /// CPU steal during the run: share of CPU time used by the hypervisor, in percent.
    pub steal_percent: Option<f64>,
    /// Clock source of the kernel.
    pub clock_source: Option<String>,
    /// Mitigations of CPU vulnerabilities.
    pub mitigations: Option<Mitigations>,
    /// Limit on the run time of real-time tasks.
    pub rt_throttling: Option<RtThrottling>,
    /// Whether this is a virtual machine.
    #[serde(alias = "virtualised")]
    pub virtual_machine: Option<bool>,
    /// Driver of the interfaces; filled in by the caller.
    pub driver: Option<String>,
    /// Mode of the data plane (`xdp-native`, `xdp-generic`, `user-space`); filled in by the caller.
    pub mode: Option<String>,
    /// The clock that ptp4l keeps; filled in by the caller, `None` without ptp4l.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ptp: Option<PtpClock>,
}

/// The clock of the host during a measurement, by ptp4l.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct PtpClock {
    /// Whether it was locked to its grandmaster at each sample.
    pub locked: bool,
    /// State at the end: `locked`, `grandmaster`, `not_locked`, `silent`.
    pub state: String,
    /// Why it was not locked.
    pub cause: Option<String>,
    /// Samples of the clock during the measurement.
    pub samples: u64,
    /// The largest offset from the master, without sign.
    pub worst_offset_ns: Option<u64>,
}

/// Vulnerabilities of the CPU, by mitigation.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Mitigations {
    /// Mitigated ones: each may cost time.
    pub mitigated: Vec<String>,
    /// Unmitigated ones.
    pub vulnerable: Vec<String>,
}

/// `sched_rt_runtime_us` of every `sched_rt_period_us`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct RtThrottling {
    /// Run time of real-time tasks per period; -1: no limit.
    pub runtime_us: i64,
    /// The period.
    pub period_us: i64,
}

impl Conditions {
    /// Returns the known conditions, as lines of a label and a text.
    pub fn lines(&self) -> Vec<(&'static str, String)> {
        let percent = |value: f64| format!("{value:.1} %");
        let isolated = self.isolated_cpus.clone().filter(|list| !list.is_empty());
        [
            ("kernel", self.kernel.clone()),
            ("preemption", self.preempt.clone()),
            ("CPU", self.cpu_model.clone()),
            ("CPUs", self.cpus.map(|cpus| cpus.to_string())),
            ("isolated CPUs", isolated),
            ("governor", self.governor.clone()),
            ("load before", self.load.map(|load| load.map(|l| format!("{l:.2}")).join(" "))),
            ("busy", self.busy_percent.map(percent)),
            ("steal", self.steal_percent.map(percent)),
            ("clock source", self.clock_source.clone()),
            ("mitigations", self.mitigations.as_ref().map(Mitigations::summary)),
            ("real-time throttling", self.rt_throttling.map(RtThrottling::summary)),
            (
                "virtual machine",
                self.virtual_machine.map(|yes| if yes { "yes" } else { "no" }.into()),
            ),
            ("driver", self.driver.clone()),
            ("mode", self.mode.clone()),
            ("clock by PTP", self.ptp.as_ref().map(PtpClock::summary)),
            ("onbeat", self.onbeat.clone()),
        ]
        .into_iter()
        .filter_map(|(label, text)| Some((label, text?)))
        .collect()
    }
}

impl Mitigations {
    fn summary(&self) -> String {
        let open = if self.vulnerable.is_empty() {
            "none open".into()
        } else {
            format!("open: {}", self.vulnerable.join(", "))
        };
        format!("{} active, {open}", self.mitigated.len())
    }
}

impl PtpClock {
    fn summary(&self) -> String {
        let mut text = self.state.replace('_', " ");
        text += &format!(" during the measurement, {}", format::count(self.samples, "sample"));
        let worst = self
            .worst_offset_ns
            .map(|ns| format!(", offset up to {}", format::duration_ns(ns as f64)));
        text += &worst.unwrap_or_default();
        text += &self.cause.as_ref().map(|cause| format!(": {cause}")).unwrap_or_default();
        text
    }
}

impl RtThrottling {
    fn summary(self) -> String {
        if self.runtime_us < 0 || self.runtime_us >= self.period_us {
            return "off".into();
        }
        let ms = |us: i64| format::duration_ns(us as f64 * 1e3);
        format!("{} of every {}", ms(self.runtime_us), ms(self.period_us))
    }
}

/// Collects conditions from the start of a run to its end.
#[derive(Debug)]
pub(crate) struct Collector {
    host: Host,
    load: Option<[f64; 3]>,
    times: Option<CpuTimes>,
}

impl Collector {
    pub(crate) fn begin() -> Self {
        Self::begin_on(Host { root: "/".into() })
    }

    fn begin_on(host: Host) -> Self {
        Self { load: host.load(), times: host.cpu_times(), host }
    }

    pub(crate) fn finish(self) -> Conditions {
        let host = &self.host;
        let shares = self.times.zip(host.cpu_times()).and_then(|(from, to)| to.shares_since(from));
        Conditions {
            onbeat: Some(env!("CARGO_PKG_VERSION").into()),
            kernel: host.line("proc/sys/kernel/osrelease"),
            preempt: host.preempt(),
            cpus: host.cpus(),
            cpu_model: host.cpu_model(),
            isolated_cpus: host.line("sys/devices/system/cpu/isolated"),
            governor: host.governors(),
            load: self.load,
            busy_percent: shares.map(|shares| shares.busy_percent),
            steal_percent: shares.map(|shares| shares.steal_percent),
            clock_source: host
                .line("sys/devices/system/clocksource/clocksource0/current_clocksource"),
            mitigations: host.mitigations(),
            rt_throttling: host.rt_throttling(),
            virtual_machine: host.is_virtual_machine(),
            driver: None,
            mode: None,
            ptp: None,
        }
    }
}

/// The root of /proc and /sys; a directory in tests.
#[derive(Debug)]
struct Host {
    root: PathBuf,
}

/// CPU time of all CPUs by use since the host was started, or in a part of that time, in ticks of the kernel.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CpuTimes {
    total: u64,
    idle: u64,
    steal: u64,
}

#[derive(Debug, Clone, Copy)]
struct CpuShares {
    busy_percent: f64,
    steal_percent: f64,
}

impl CpuTimes {
    /// Returns the times until now; `None`: not reported by the host.
    pub fn now() -> Option<Self> {
        Host { root: "/".into() }.cpu_times()
    }

    /// Adds the time between two readings.
    pub fn add(&mut self, from: Self, to: Self) {
        self.total += to.total.saturating_sub(from.total);
        self.idle += to.idle.saturating_sub(from.idle);
        self.steal += to.steal.saturating_sub(from.steal);
    }

    /// Returns the CPU steal, in percent; `None`: less than a tick.
    pub fn steal_percent(self) -> Option<f64> {
        self.shares_since(Self::default()).map(|shares| shares.steal_percent)
    }

    /// Returns the shares; `None`: less than a tick.
    fn shares_since(self, from: Self) -> Option<CpuShares> {
        let total = self.total.checked_sub(from.total).filter(|ticks| *ticks > 0)? as f64;
        // Idle and I/O wait times may decrease slightly (proc(5)).
        let steal = self.steal.saturating_sub(from.steal) as f64;
        let idle = self.idle.saturating_sub(from.idle) as f64;
        Some(CpuShares {
            busy_percent: (100.0 * (total - idle - steal) / total).clamp(0.0, 100.0),
            steal_percent: (100.0 * steal / total).min(100.0),
        })
    }
}

impl Host {
    fn read(&self, path: impl AsRef<Path>) -> Option<String> {
        fs::read_to_string(self.root.join(path)).ok()
    }

    fn line(&self, path: impl AsRef<Path>) -> Option<String> {
        self.read(path).map(|text| text.trim().to_owned())
    }

    fn number(&self, path: &str) -> Option<i64> {
        self.line(path)?.parse().ok()
    }

    /// Returns the names in a directory, sorted.
    fn names(&self, path: &str) -> BTreeSet<String> {
        let entries = fs::read_dir(self.root.join(path)).into_iter().flatten().flatten();
        entries.filter_map(|entry| entry.file_name().into_string().ok()).collect()
    }

    /// Reads a word of `/proc/version`: `#1 SMP PREEMPT_DYNAMIC Debian ...`.
    fn preempt(&self) -> Option<String> {
        let version = self.line("proc/sys/kernel/version")?;
        let word = version.split_whitespace().find(|word| word.starts_with("PREEMPT"));
        Some(word.unwrap_or("none").to_owned())
    }

    fn cpus(&self) -> Option<u32> {
        let stat = self.read("proc/stat")?;
        let is_cpu = |line: &&str| {
            line.strip_prefix("cpu")
                .is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()))
        };
        u32::try_from(stat.lines().filter(is_cpu).count()).ok().filter(|cpus| *cpus > 0)
    }

    /// The key is `model name` on x86; `Model`, `cpu model` or `Hardware` on others.
    fn cpu_model(&self) -> Option<String> {
        let info = self.read("proc/cpuinfo")?;
        ["model name", "cpu model", "Model", "Hardware", "uarch"].into_iter().find_map(|key| {
            info.lines().find_map(|line| {
                let (name, value) = line.split_once(':')?;
                (name.trim() == key).then(|| value.trim().to_owned())
            })
        })
    }

    fn governors(&self) -> Option<String> {
        let policies = "sys/devices/system/cpu/cpufreq";
        let governors: BTreeSet<String> = self
            .names(policies)
            .iter()
            .filter_map(|name| self.line(format!("{policies}/{name}/scaling_governor")))
            .collect();
        let list: Vec<String> = governors.into_iter().collect();
        (!list.is_empty()).then(|| list.join(", "))
    }

    fn load(&self) -> Option<[f64; 3]> {
        let text = self.read("proc/loadavg")?;
        let mut words = text.split_whitespace().map(|word| word.parse().ok());
        Some([words.next()??, words.next()??, words.next()??])
    }

    /// First line: user nice system idle iowait irq softirq steal; the remaining ones (guest times) are
    /// included in user and nice.
    fn cpu_times(&self) -> Option<CpuTimes> {
        let stat = self.read("proc/stat")?;
        let line = stat.lines().find_map(|line| line.strip_prefix("cpu "))?;
        let ticks: Vec<u64> =
            line.split_whitespace().take(8).map_while(|word| word.parse().ok()).collect();
        let &[_, _, _, idle, iowait, _, _, steal] = ticks.as_slice() else { return None };
        Some(CpuTimes { total: ticks.iter().sum(), idle: idle + iowait, steal })
    }

    fn mitigations(&self) -> Option<Mitigations> {
        let directory = "sys/devices/system/cpu/vulnerabilities";
        let states: BTreeMap<String, String> = self
            .names(directory)
            .into_iter()
            .filter_map(|name| Some((self.line(format!("{directory}/{name}"))?, name)))
            .map(|(state, name)| (name, state))
            .collect();
        if states.is_empty() {
            return None;
        }
        let with = |prefix: &str| {
            let chosen = states.iter().filter(|(_, state)| state.starts_with(prefix));
            chosen.map(|(name, _)| name.clone()).collect()
        };
        Some(Mitigations { mitigated: with("Mitigation"), vulnerable: with("Vulnerable") })
    }

    fn rt_throttling(&self) -> Option<RtThrottling> {
        Some(RtThrottling {
            runtime_us: self.number("proc/sys/kernel/sched_rt_runtime_us")?,
            period_us: self.number("proc/sys/kernel/sched_rt_period_us")?,
        })
    }

    /// x86 has a CPU flag, Xen a directory, arm64 a device-tree node or the firmware's name.
    fn is_virtual_machine(&self) -> Option<bool> {
        let info = self.read("proc/cpuinfo")?;
        if let Some(flags) = info.lines().find(|line| line.starts_with("flags")) {
            return Some(flags.split_whitespace().any(|flag| flag == "hypervisor"));
        }
        if self.root.join("sys/hypervisor/type").exists()
            || self.root.join("proc/device-tree/hypervisor").exists()
        {
            return Some(true);
        }
        let product = self.line("sys/class/dmi/id/product_name")?;
        Some(["KVM", "QEMU", "Virtual", "VMware"].iter().any(|name| product.contains(name)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A directory in place of `/`, removed on drop.
    struct FakeHost(PathBuf);

    impl FakeHost {
        fn new(name: &str, files: &[(&str, &str)]) -> Self {
            let root =
                std::env::temp_dir().join(format!("onbeat-report-{}-{name}", std::process::id()));
            let host = Self(root);
            files.iter().for_each(|(path, text)| host.write(path, text));
            host
        }

        fn write(&self, path: &str, text: &str) {
            let path = self.0.join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }

        fn host(&self) -> Host {
            Host { root: self.0.clone() }
        }
    }

    impl Drop for FakeHost {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn all_conditions_of_a_host_are_read() {
        let fake = FakeHost::new(
            "full",
            &[
                ("proc/sys/kernel/osrelease", "6.1.0-18-rt-amd64\n"),
                ("proc/sys/kernel/version", "#1 SMP PREEMPT_RT Debian 6.1.76-1\n"),
                ("proc/stat", "cpu  100 0 100 700 100 0 0 0 50 0\ncpu0 1\ncpu1 1\nintr 5\n"),
                ("proc/cpuinfo", "model name\t: Some CPU @ 2 GHz\nflags\t: fpu hypervisor\n"),
                ("proc/loadavg", "0.51 0.97 0.60 1/90 11360\n"),
                ("proc/sys/kernel/sched_rt_runtime_us", "950000\n"),
                ("proc/sys/kernel/sched_rt_period_us", "1000000\n"),
                ("sys/devices/system/cpu/isolated", "2-5\n"),
                ("sys/devices/system/cpu/cpufreq/policy0/scaling_governor", "powersave\n"),
                ("sys/devices/system/cpu/cpufreq/policy1/scaling_governor", "performance\n"),
                ("sys/devices/system/cpu/cpufreq/policy2/scaling_governor", "performance\n"),
                ("sys/devices/system/cpu/vulnerabilities/mds", "Not affected\n"),
                ("sys/devices/system/cpu/vulnerabilities/spectre_v2", "Mitigation: IBRS\n"),
                ("sys/devices/system/cpu/vulnerabilities/retbleed", "Vulnerable\n"),
                ("sys/devices/system/clocksource/clocksource0/current_clocksource", "tsc\n"),
            ],
        );
        let collector = Collector::begin_on(fake.host());
        fake.write("proc/stat", "cpu  150 0 120 800 100 0 10 20 90 0\ncpu0 1\ncpu1 1\n");
        let found = collector.finish();
        assert_eq!(found.kernel.as_deref(), Some("6.1.0-18-rt-amd64"));
        assert_eq!(found.preempt.as_deref(), Some("PREEMPT_RT"));
        assert_eq!(found.cpus, Some(2));
        assert_eq!(found.cpu_model.as_deref(), Some("Some CPU @ 2 GHz"));
        assert_eq!(found.isolated_cpus.as_deref(), Some("2-5"));
        assert_eq!(found.governor.as_deref(), Some("performance, powersave"));
        assert_eq!(found.load, Some([0.51, 0.97, 0.60]));
        assert_eq!(found.steal_percent, Some(10.0), "20 of 200 ticks");
        assert_eq!(found.busy_percent, Some(40.0), "80 of 200 ticks");
        assert_eq!(found.clock_source.as_deref(), Some("tsc"));
        assert_eq!(
            found.mitigations,
            Some(Mitigations {
                mitigated: vec!["spectre_v2".into()],
                vulnerable: vec!["retbleed".into()]
            })
        );
        assert_eq!(
            found.rt_throttling,
            Some(RtThrottling { runtime_us: 950_000, period_us: 1_000_000 })
        );
        assert_eq!(found.virtual_machine, Some(true));
        let lines = found.lines();
        assert!(lines.contains(&("real-time throttling", "950 ms of every 1.00 s".into())));
        assert!(lines.contains(&("mitigations", "1 active, open: retbleed".into())));
    }

    #[test]
    fn missing_or_invalid_conditions_are_unknown() {
        let empty = FakeHost::new("empty", &[]);
        let found = Collector::begin_on(empty.host()).finish();
        assert_eq!(Conditions { onbeat: None, ..found }, Conditions::default(), "all unknown");

        let broken = FakeHost::new(
            "broken",
            &[
                ("proc/stat", "cpu x y\n"),
                ("proc/loadavg", "high"),
                ("proc/cpuinfo", "\u{0}:::\nflags"),
                ("proc/sys/kernel/sched_rt_runtime_us", "lots"),
                ("proc/sys/kernel/version", "#1"),
            ],
        );
        let found = Collector::begin_on(broken.host()).finish();
        assert_eq!(
            (found.load, found.steal_percent, found.rt_throttling, found.cpus),
            (None, None, None, None)
        );
        assert_eq!(found.preempt.as_deref(), Some("none"));
    }

    #[test]
    fn no_ticks_no_shares() {
        let times = CpuTimes { total: 10, idle: 5, steal: 1 };
        assert!(times.shares_since(times).is_none());
        assert_eq!(CpuTimes::default().steal_percent(), None);
    }

    #[test]
    fn parts_of_a_run_add_up() {
        let mut sum = CpuTimes::default();
        let times = |total, steal| CpuTimes { total, idle: 0, steal };
        sum.add(times(100, 10), times(150, 10));
        sum.add(times(200, 20), times(250, 30));
        assert_eq!(sum.steal_percent(), Some(10.0));
    }

    #[test]
    fn throttling_is_off_without_a_limit() {
        for runtime_us in [-1, 1_000_000] {
            assert_eq!(RtThrottling { runtime_us, period_us: 1_000_000 }.summary(), "off");
        }
    }
}
