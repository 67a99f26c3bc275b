//! The traffic classes whose frames pass an etf queueing discipline. Pure.

use onbeat_netdev::qdisc::{Discipline, Etf, Qdisc, QdiscHandle, QueueMap};

/// The number of priorities (`SO_PRIORITY`) that queueing disciplines distinguish.
const PRIORITIES: u8 = 16;

/// The queueing disciplines at the root of an interface, and of each of its transmit queues.
pub(super) struct TrafficClasses {
    root: RootQdisc,
    /// By transmit queue; one if the root is etf or another classless discipline.
    queues: Vec<Option<Etf>>,
    /// The handle of the root, whose class n + 1 is transmit queue n.
    handle: QdiscHandle,
}

enum RootQdisc {
    Etf,
    /// All priorities share the transmit queues.
    Mq,
    /// mqprio and taprio.
    Map(&'static str, QueueMap),
    Other(String),
}

/// The reason why launch times are not supported.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct MissingEtf {
    pub(super) why: String,
    /// The parent that lacks etf; `None`: the root.
    pub(super) place: Option<QdiscHandle>,
}

/// Reads the queueing disciplines of an interface with this number of transmit queues.
pub(super) fn classes(qdiscs: &[Qdisc], tx_queues: u32) -> TrafficClasses {
    let etf_of = |qdisc: &Qdisc| match &qdisc.discipline {
        Discipline::Etf(etf) => Some(*etf),
        _ => None,
    };
    let Some(root) = qdiscs.iter().find(|qdisc| qdisc.parent == QdiscHandle::ROOT) else {
        let queues = vec![None];
        return TrafficClasses {
            root: RootQdisc::Other("none".into()),
            queues,
            handle: QdiscHandle::NONE,
        };
    };
    let handle = root.handle;
    let behind = |queue: u32| {
        let parent = QdiscHandle { major: handle.major, minor: queue as u16 + 1 };
        qdiscs.iter().find(|qdisc| qdisc.parent == parent).and_then(etf_of)
    };
    let kind = match &root.discipline {
        Discipline::Etf(etf) => {
            return TrafficClasses { root: RootQdisc::Etf, queues: vec![Some(*etf)], handle };
        }
        Discipline::Mqprio(map) => RootQdisc::Map("mqprio", map.clone()),
        Discipline::Taprio(taprio) => RootQdisc::Map("taprio", taprio.queues.clone()),
        Discipline::Other(kind) if kind == "mq" => RootQdisc::Mq,
        other => RootQdisc::Other(other.kind().to_owned()),
    };
    TrafficClasses { root: kind, queues: (0..tx_queues).map(behind).collect(), handle }
}

impl TrafficClasses {
    /// Returns the lowest priority whose frames all pass etf, or `wanted` if they do, and that etf.
    pub(super) fn timed(&self, wanted: Option<u8>) -> Result<(u8, Etf), MissingEtf> {
        let candidates = wanted.map_or(0..PRIORITIES, |wanted| wanted..wanted.saturating_add(1));
        let mut untimed = None;
        for priority in candidates {
            match self.etf(priority) {
                Ok(etf) => return Ok((priority, etf)),
                // Without a requested priority the error is of the last class: as a rule, the highest.
                Err(none) => untimed = Some(none),
            }
        }
        Err(untimed.unwrap_or(MissingEtf { why: "no such priority".into(), place: None }))
    }

    /// Returns the etf for frames of a priority.
    fn etf(&self, priority: u8) -> Result<Etf, MissingEtf> {
        let (first, count) = match &self.root {
            RootQdisc::Etf => (0, 1),
            RootQdisc::Mq => (0, self.queues.len()),
            RootQdisc::Map(_, map) => {
                let class = map.class_of.get(usize::from(priority));
                let queues = class.and_then(|class| map.queues.get(usize::from(*class)));
                let (first, count) = queues.copied().unwrap_or_default();
                (usize::from(first), usize::from(count))
            }
            RootQdisc::Other(kind) => {
                let why = format!("its root queueing discipline {kind} does not support them");
                return Err(MissingEtf { why, place: None });
            }
        };
        let mut found = None;
        // A hash of the frame selects among the queues of a class.
        for queue in first..first + count {
            found = self.queues.get(queue).copied().flatten();
            if found.is_none() {
                let name = match &self.root {
                    RootQdisc::Map(name, _) => name,
                    _ => "mq",
                };
                return Err(MissingEtf {
                    why: format!(
                        "frames of priority {priority} use transmit queue {queue}, for which \
                         {name} has no etf"
                    ),
                    place: Some(QdiscHandle { minor: queue as u16 + 1, ..self.handle }),
                });
            }
        }
        found.ok_or_else(|| MissingEtf {
            why: format!("priority {priority} has no transmit queue"),
            place: None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use onbeat_netdev::qdisc::Taprio;

    const ROOT: QdiscHandle = QdiscHandle { major: 0x100, minor: 0 };
    const ETF: Etf = Etf { delta_ns: 5, deadline: false, offload: true, skip_socket_check: false };

    fn qdisc(handle: QdiscHandle, parent: QdiscHandle, discipline: Discipline) -> Qdisc {
        Qdisc { handle, parent, discipline }
    }

    fn root(discipline: Discipline) -> Qdisc {
        qdisc(ROOT, QdiscHandle::ROOT, discipline)
    }

    fn behind(queue: u16, discipline: Discipline) -> Qdisc {
        let parent = QdiscHandle { minor: queue + 1, ..ROOT };
        qdisc(QdiscHandle { major: 0x200 + queue, minor: 0 }, parent, discipline)
    }

    /// Priorities 0 to 2 of class 0 on queue 0, the others of class 1 on queues 1 and 2.
    fn map() -> QueueMap {
        let mut class_of = [1; 16];
        class_of[..3].fill(0);
        QueueMap { class_of, queues: vec![(0, 1), (1, 2)] }
    }

    #[test]
    fn etf_at_the_root_applies_to_all_priorities() {
        let classes = classes(&[root(Discipline::Etf(ETF))], 1);
        assert_eq!(classes.timed(None), Ok((0, ETF)));
        assert_eq!(classes.timed(Some(7)), Ok((7, ETF)));
    }

    #[test]
    fn a_class_is_timed_if_all_its_queues_are() {
        for discipline in [
            Discipline::Mqprio(map()),
            Discipline::Taprio(Taprio { queues: map(), ..Taprio::default() }),
        ] {
            let mut qdiscs = vec![root(discipline), behind(1, Discipline::Etf(ETF))];
            let half = classes(&qdiscs, 3).timed(None).unwrap_err();
            assert_eq!(half.place, Some(QdiscHandle { minor: 3, ..ROOT }), "{}", half.why);
            qdiscs.push(behind(2, Discipline::Etf(ETF)));
            let both = classes(&qdiscs, 3);
            assert_eq!(both.timed(None), Ok((3, ETF)));
            assert_eq!(both.timed(Some(2)).unwrap_err().place.unwrap().to_string(), "100:1");
            assert!(both.timed(Some(16)).is_err() && both.timed(Some(255)).is_err());
        }
    }

    #[test]
    fn mq_requires_etf_on_all_queues() {
        let mq = root(Discipline::Other("mq".into()));
        let mut qdiscs = vec![mq, behind(0, Discipline::Etf(ETF))];
        assert!(classes(&qdiscs, 2).timed(None).is_err());
        qdiscs.push(behind(1, Discipline::Etf(ETF)));
        assert_eq!(classes(&qdiscs, 2).timed(None), Ok((0, ETF)));
    }

    #[test]
    fn other_disciplines_support_no_launch_times() {
        let untimed = classes(&[root(Discipline::Other("fq_codel".into()))], 1).timed(None);
        assert!(untimed.unwrap_err().why.contains("fq_codel"));
        assert!(classes(&[], 1).timed(None).is_err());
    }
}
