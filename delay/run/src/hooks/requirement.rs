//! Checks if the hooks traced enough packets for a measurement, and determines the cause if not.

use onbeat_bpf::Reasons;
use onbeat_hooks::Counts;
use onbeat_report::Outcome;
use onbeat_report::format::{count, count_of};

use super::stages::FateCounts;
use crate::requirement;

/// The packets to trace.
#[derive(Debug, Clone, Copy)]
pub(super) struct HooksRequest<'a> {
    pub(super) arrivals: &'a str,
    pub(super) departures: Option<&'a str>,
    pub(super) is_filtered: bool,
    /// Minimum number of matches of a measurement.
    pub(super) min_matched: u64,
}

impl HooksRequest<'_> {
    /// Returns the number of matched packets, and of those required to match: for an interface of departures,
    /// without those that a process read and did not answer.
    fn matched(&self, fates: &FateCounts, counts: &Counts) -> (u64, u64) {
        match self.departures {
            Some(_) => fates.left(counts),
            None => (fates.ended_well(), fates.followed(counts)),
        }
    }
}

/// Adds the checks, and the cause if they fail.
pub(super) fn check_with_causes(
    outcome: &mut Outcome,
    fates: &FateCounts,
    counts: &Counts,
    request: &HooksRequest<'_>,
) {
    let (matched, followed) = request.matched(fates, counts);
    requirement::check(outcome, matched, followed, request.min_matched);
    if matched >= request.min_matched && 2 * matched >= followed {
        return;
    }
    let (name, statement) = cause(fates, counts, request, &Reasons::of_kernel());
    outcome.cause(name, statement);
}

fn cause(
    fates: &FateCounts,
    counts: &Counts,
    request: &HooksRequest<'_>,
    reasons: &Reasons,
) -> (&'static str, String) {
    let (matched, followed) = request.matched(fates, counts);
    let (arrivals, required) = (request.arrivals, request.min_matched);
    let unmatched = followed.saturating_sub(matched);
    if fates.followed(counts) == 0 {
        let what = match request.is_filtered {
            true => {
                format!("{arrivals} received no packet that passes the filter; check the filter")
            }
            false => format!("{arrivals} received no packet; check the interface"),
        };
        return ("no packets", format!("{what}, and measure while packets pass"));
    }
    if matched > 0 && 2 * matched >= followed {
        let statement = format!(
            "{} were sent or read, {required} required; measure for longer (--for), or accept fewer: \
             --min-matched {matched}",
            count(matched, "packet")
        );
        return ("too few packets", statement);
    }
    let part = |number| count_of(number, followed, "packet");
    let (dropped, most) = fates.dropped();
    if dropped > 0 && 2 * dropped >= unmatched {
        let reason = most.map_or(String::new(), |reason| {
            format!(", most with the reason {}", reasons.name(reason))
        });
        let statement =
            format!("this host dropped {}{reason}; select others with a filter", part(dropped));
        return ("packets dropped", statement);
    }
    if let Some(departures) = request.departures.filter(|_| !fates.any_forwarded()) {
        let statement = format!(
            "none of {} were sent by {departures}; use another interface with --out, or omit --out",
            count(fates.followed(counts), "packet")
        );
        return ("no departures", statement);
    }
    if 2 * counts.evicted >= unmatched {
        let statement = format!(
            "the kernel merged or consumed {}; disable merging with `ethtool -K {arrivals} gro off`, or select \
             others with a filter",
            part(counts.evicted)
        );
        return ("packets merged", statement);
    }
    let statement =
        format!("{} were neither sent nor read; select others with a filter", part(unmatched));
    ("most packets unmatched", statement)
}

#[cfg(test)]
mod tests {
    use super::*;
    use onbeat_hooks::Fate;

    /// Returns the cause for these numbers of packets by outcome.
    fn named(
        gone: &[(Fate, u64)],
        counts: Counts,
        departures: Option<&str>,
    ) -> (&'static str, String) {
        let mut fates = FateCounts::default();
        for (fate, number) in gone {
            (0..*number).for_each(|_| fates.count(*fate));
        }
        let request =
            HooksRequest { arrivals: "eth0", departures, is_filtered: false, min_matched: 100 };
        cause(&fates, &counts, &request, &Reasons::of_kernel())
    }

    #[test]
    fn counts_determine_each_cause() {
        let counts = |begun, evicted| Counts { begun, evicted, ..Counts::default() };
        for (gone, counts, departures, name, part) in [
            (&[][..], counts(0, 0), None, "no packets", "eth0 received no packet"),
            (&[(Fate::Delivered, 40)], counts(50, 0), None, "too few packets", "--min-matched 40"),
            (
                &[(Fate::Delivered, 110), (Fate::Dropped(2), 200)],
                counts(310, 0),
                None,
                "packets dropped",
                "200 of 310 packets",
            ),
            (&[(Fate::Delivered, 20)], counts(300, 280), Some("eth7"), "no departures", "eth7"),
            // Packets read by processes of this host were not sent by an interface.
            (
                &[(Fate::Delivered, 300)],
                counts(300, 0),
                Some("eth7"),
                "no departures",
                "of 300 packets",
            ),
            (&[(Fate::Forwarded, 20)], counts(300, 280), Some("eth7"), "packets merged", "gro off"),
            (&[(Fate::Delivered, 20)], counts(300, 0), None, "most packets unmatched", "280 of"),
        ] {
            let (found, statement) = named(gone, counts, departures);
            assert_eq!(found, name, "{statement}");
            assert!(statement.contains(part), "{statement}");
        }
    }
}
