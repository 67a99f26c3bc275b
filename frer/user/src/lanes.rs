//! The order in which frames of several queues are decided: that of their arrival.
//!
//! Otherwise, a backlog of one path would be decided before that of the other path, whose copies would then be older
//! than the history.

use onbeat_frer::plane::FrameIdentity;
use onbeat_frer::spec::PortId;
use onbeat_link::raw::BATCH;

/// The oldest frames of all queues, in a round.
#[derive(Debug, Default)]
pub(crate) struct Lanes {
    /// Of which the first `used` have frames: kept, so that a round allocates no memory.
    lanes: Vec<Lane>,
    used: usize,
    /// A lane has no more frames, but its queue may have: no later frame can be decided before those.
    ended: bool,
}

/// The oldest frames of a queue.
#[derive(Debug)]
pub(crate) struct Lane {
    pub(crate) port: PortId,
    pub(crate) queue: usize,
    identities: [FrameIdentity; BATCH],
    arrivals: [u64; BATCH],
    /// Frames that were decided, and all.
    next: usize,
    count: usize,
}

/// Successive frames of a queue; none of another queue arrived before them.
#[derive(Debug)]
pub(crate) struct Run<'a> {
    pub(crate) port: PortId,
    pub(crate) queue: usize,
    /// The place of the first one among the frames of the lane.
    pub(crate) first: usize,
    pub(crate) identities: &'a [FrameIdentity],
    pub(crate) arrivals: &'a [u64],
}

impl Default for Lane {
    fn default() -> Self {
        let (identities, arrivals) = ([FrameIdentity::default(); BATCH], [0; BATCH]);
        Self { port: PortId(0), queue: 0, identities, arrivals, next: 0, count: 0 }
    }
}

impl Lane {
    /// The number of frames that were decided.
    pub(crate) fn decided(&self) -> usize {
        self.next
    }
}

impl Lanes {
    /// Makes room for the frames of this number of queues.
    pub(crate) fn reserve(&mut self, queues: usize) {
        self.lanes.resize_with(queues.max(self.lanes.len()), Lane::default);
    }

    /// Begins a round.
    pub(crate) fn clear(&mut self) {
        (self.used, self.ended) = (0, false);
    }

    /// Adds the oldest frames of a queue by their arrival times, at most [`BATCH`]; returns the places for their
    /// identities.
    ///
    /// # Panics
    /// There is no room for that many queues.
    pub(crate) fn add(
        &mut self,
        port: PortId,
        queue: usize,
        arrivals: impl Iterator<Item = u64>,
    ) -> &mut [FrameIdentity] {
        let lane = &mut self.lanes[self.used];
        (lane.port, lane.queue, lane.next, lane.count) = (port, queue, 0, 0);
        for (place, arrival) in lane.arrivals.iter_mut().zip(arrivals) {
            *place = arrival;
            lane.count += 1;
        }
        self.used += 1;
        &mut lane.identities[..lane.count]
    }

    /// Returns the frames to decide next; `None`: look for frames again.
    pub(crate) fn next_run(&mut self) -> Option<Run<'_>> {
        if self.ended {
            return None;
        }
        let (mut oldest, mut oldest_ns, mut second_ns) = (None, u64::MAX, u64::MAX);
        for (index, lane) in self.lanes[..self.used].iter().enumerate() {
            let Some(&arrival) = lane.arrivals[..lane.count].get(lane.next) else { continue };
            if oldest.is_none() || arrival < oldest_ns {
                (second_ns, oldest_ns, oldest) = (oldest_ns, arrival, Some(index));
            } else {
                second_ns = second_ns.min(arrival);
            }
        }
        let lane = &mut self.lanes[oldest?];
        let waiting = &lane.arrivals[lane.next..lane.count];
        let run = waiting.iter().take_while(|arrival| **arrival <= second_ns).count();
        let (first, end) = (lane.next, lane.next + run);
        lane.next = end;
        self.ended = end == BATCH;
        Some(Run {
            port: lane.port,
            queue: lane.queue,
            first,
            identities: &lane.identities[first..end],
            arrivals: &lane.arrivals[first..end],
        })
    }

    /// The lanes of the round.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Lane> {
        self.lanes[..self.used].iter()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns queue and arrival of each frame in the order of decisions.
    fn order(queues: &[&[u64]]) -> (Vec<(usize, u64)>, Vec<usize>) {
        let mut lanes = Lanes::default();
        lanes.reserve(queues.len().max(1));
        // The lanes of a former round do not matter.
        lanes.add(PortId(7), 7, [1, 2, 3].into_iter());
        lanes.clear();
        for (queue, arrivals) in queues.iter().enumerate() {
            let identities = lanes.add(PortId(queue as u8), queue, arrivals.iter().copied());
            assert_eq!(identities.len(), arrivals.len().min(BATCH));
        }
        let mut order = Vec::new();
        while let Some(run) = lanes.next_run() {
            assert_eq!(run.identities.len(), run.arrivals.len());
            let decided = order.iter().filter(|(queue, _)| *queue == run.queue).count();
            assert_eq!(run.first, decided);
            order.extend(run.arrivals.iter().map(|arrival| (run.queue, *arrival)));
        }
        (order, lanes.iter().map(Lane::decided).collect())
    }

    #[test]
    fn frames_are_decided_in_the_order_of_arrival() {
        let (decided, counts) = order(&[&[1, 4, 5, 9], &[], &[2, 3, 5, 8, 10], &[7]]);
        let expected =
            [(0, 1), (2, 2), (2, 3), (0, 4), (0, 5), (2, 5), (3, 7), (2, 8), (0, 9), (2, 10)];
        assert_eq!(decided, expected);
        assert_eq!(counts, [4, 0, 5, 1]);
        assert_eq!(order(&[]), (vec![], vec![]));
    }

    #[test]
    fn the_order_of_a_queue_is_kept() {
        // Its clock was set back.
        let (decided, _) = order(&[&[5, 1, 6], &[2, 7]]);
        assert_eq!(decided, [(1, 2), (0, 5), (0, 1), (0, 6), (1, 7)]);
        let (decided, _) = order(&[&[u64::MAX, 1], &[u64::MAX]]);
        assert_eq!(decided.len(), 3);
    }

    #[test]
    fn no_frame_is_decided_before_an_older_one_that_was_not_found() {
        let many: Vec<u64> = (0..100).map(|number| 10 * number).collect();
        let (decided, counts) = order(&[&many, &[5, 625, 635, 5000]]);
        assert_eq!(counts, [BATCH, 2]);
        assert_eq!(decided.last(), Some(&(0, 630)));
    }
}
