//! The cost of a packet that GRO merges, relative to one that passes the protocols by itself.
//!
//! Both take the driver's time, but a merged packet passes no protocol of its own, and GRO copies or chains it. No
//! event separates the two within a poll. Polls of one device have different numbers of each: their times
//! `t = a * packets + b * merged` give both costs by least squares.

/// The weight of a packet that was not merged.
pub(super) const PACKET: u64 = 256;

/// Smallest and largest weight of a merged packet.
const RANGE: (i64, i64) = (PACKET as i64 / 8, PACKET as i64 * 4);

/// Largest number of packets, and of nanoseconds, of a poll that counts: sums of these never overflow.
const MOST_PACKETS: u32 = 256;
const MOST_NS: u64 = 1 << 20;

/// Number of polls after which earlier ones count half.
const POLLS: u32 = 256;

/// The equal cost of both weighs as much as this part of the observations.
const PRIOR_SHIFT: u32 = 8;

/// Sums over the polls of a device.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct MergeCost {
    polls: u32,
    packets_squared: i64,
    merged_squared: i64,
    product: i64,
    packets_ns: i64,
    merged_ns: i64,
}

impl MergeCost {
    /// Adds a poll whose time, without that of single packets, is `ns`.
    pub(super) fn add(&mut self, packets: u32, merged: u32, ns: u64) {
        if packets.saturating_add(merged) > MOST_PACKETS
            || ns > MOST_NS
            || (merged == 0 && self.polls == 0)
        {
            return;
        }
        let (packets, merged, ns) = (i64::from(packets), i64::from(merged), ns as i64);
        self.polls += 1;
        self.packets_squared += packets * packets;
        self.merged_squared += merged * merged;
        self.product += packets * merged;
        self.packets_ns += packets * ns;
        self.merged_ns += merged * ns;
        if self.polls >= POLLS {
            self.polls /= 2;
            self.packets_squared /= 2;
            self.merged_squared /= 2;
            self.product /= 2;
            self.packets_ns /= 2;
            self.merged_ns /= 2;
        }
    }

    /// The weight of a merged packet, beside [`PACKET`].
    pub(super) fn weight(&self) -> u64 {
        let prior = (self.packets_squared + self.merged_squared) >> PRIOR_SHIFT;
        let product = self.product - prior;
        // Cramer's rule, without the common determinant, which is not negative.
        let merged = self.merged_ns * (self.packets_squared + prior) - self.packets_ns * product;
        let packet = self.packets_ns * (self.merged_squared + prior) - self.merged_ns * product;
        let packet = packet / PACKET as i64;
        let (least, most) = RANGE;
        match packet {
            _ if self.polls == 0 => PACKET,
            ..=0 => most as u64,
            _ => (merged / packet).clamp(least, most) as u64,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn weight_of(polls: impl IntoIterator<Item = (u32, u32, u64)>) -> u64 {
        let mut cost = MergeCost::default();
        polls.into_iter().for_each(|(packets, merged, ns)| cost.add(packets, merged, ns));
        cost.weight()
    }

    #[test]
    fn polls_of_different_composition_give_the_relative_cost() {
        for (a, b) in [(800, 400), (400, 400), (300, 600), (500, 250)] {
            let polls = [(40, 24), (0, 22), (18, 46), (22, 0)];
            let polls = polls.into_iter().cycle().take(1000);
            let polls = polls.map(|(packets, merged)| {
                (packets, merged, u64::from(packets) * a + u64::from(merged) * b)
            });
            let (weight, truth) = (weight_of(polls) as f64, (PACKET * b) as f64 / a as f64);
            assert!((weight / truth - 1.0).abs() < 0.06, "{a} {b}: {weight}, {truth}");
        }
    }

    #[test]
    fn equal_compositions_give_equal_costs() {
        assert_eq!(weight_of([]), PACKET);
        assert_eq!(weight_of([(64, 0, 9000); 9]), PACKET);
        for (packets, merged) in [(1, 45), (32, 32), (60, 4)] {
            let weight = weight_of((0..5000).map(|poll| (packets, merged, 20_000 + poll % 7)));
            assert!(weight.abs_diff(PACKET) <= 2, "{packets} {merged}: {weight}");
        }
    }

    #[test]
    fn the_weight_is_bounded_and_nothing_overflows() {
        let least = weight_of([(40, 24, 40_000), (0, 22, 0), (18, 46, 18_000)].repeat(200));
        let most = weight_of([(40, 24, 24_000), (22, 0, 0), (18, 46, 46_000)].repeat(200));
        assert!(least < PACKET / 4 && most == PACKET * 4, "{least} {most}");
        let extreme =
            [(256, 0, MOST_NS), (0, 256, MOST_NS), (1, 1, 0), (u32::MAX / 2, 9, u64::MAX)];
        weight_of(extreme.repeat(1000));
    }
}
