/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The cost of packets that GRO merges: irq/core/src/charge/merge.rs, which has the reasons. */
#ifndef ONBEAT_MERGE_H
#define ONBEAT_MERGE_H

#include "state.h"

#define MERGE_PACKET	   256
#define MERGE_LEAST	   (MERGE_PACKET / 8)
#define MERGE_MOST	   (MERGE_PACKET * 4)
#define MERGE_MOST_PACKETS 256
#define MERGE_MOST_NS	   (1 << 20)
#define MERGE_POLLS	   256
#define MERGE_PRIOR_SHIFT  8

struct merge_device {
	__u32 netns;
	__u32 device;
};

/* Sums over the polls of a device. */
struct merge_cost {
	__u32 polls;
	__u64 packets_squared;
	__u64 merged_squared;
	__u64 product;
	__u64 packets_ns;
	__u64 merged_ns;
};

struct {
	__uint(type, BPF_MAP_TYPE_LRU_PERCPU_HASH);
	__uint(max_entries, 1024);
	__type(key, struct merge_device);
	__type(value, struct merge_cost);
} merge_costs SEC(".maps");

static __always_inline void merge_add(struct merge_cost *cost, __u32 packets, __u32 merged,
				      __u64 ns)
{
	cost->polls++;
	cost->packets_squared += (__u64)packets * packets;
	cost->merged_squared += (__u64)merged * merged;
	cost->product += (__u64)packets * merged;
	cost->packets_ns += packets * ns;
	cost->merged_ns += merged * ns;
	if (cost->polls < MERGE_POLLS)
		return;
	cost->polls /= 2;
	cost->packets_squared /= 2;
	cost->merged_squared /= 2;
	cost->product /= 2;
	cost->packets_ns /= 2;
	cost->merged_ns /= 2;
}

static __always_inline __u32 merge_weight(const struct merge_cost *cost)
{
	__s64 prior = (cost->packets_squared + cost->merged_squared) >> MERGE_PRIOR_SHIFT;
	__s64 product = (__s64)cost->product - prior;
	/* Cramer's rule, without the common determinant, which is not negative. */
	__s64 merged = (__s64)cost->merged_ns * ((__s64)cost->packets_squared + prior) -
		       (__s64)cost->packets_ns * product;
	__s64 packet = (__s64)cost->packets_ns * ((__s64)cost->merged_squared + prior) -
		       (__s64)cost->merged_ns * product;
	__u64 weight;

	/* The processor of BPF divides without a sign. */
	if (packet < MERGE_PACKET)
		return MERGE_MOST;
	if (merged <= 0)
		return MERGE_LEAST;
	weight = (__u64)merged / ((__u64)packet / MERGE_PACKET);
	if (weight < MERGE_LEAST)
		return MERGE_LEAST;
	return weight > MERGE_MOST ? MERGE_MOST : weight;
}

static __always_inline __u32 weight_of_merged(const struct cpu *cpu)
{
	return cpu->merged_weight ?: MERGE_PACKET;
}

/*
 * Adds a poll of a device, of which `ns` is common to its packets if these had times; sets the
 * weight of merged packets, if the poll has or may hold any.
 */
static __always_inline void merge_learn(struct cpu *cpu, const struct irq_key *device, bool xdp,
					bool full, __u32 work, __u64 ns)
{
	struct merge_device key = {.netns = device->netns, .device = device->device};
	bool timed = cpu->timed == 1;
	struct merge_cost *cost;
	__u32 packets = cpu->arrived;

	cpu->timed = 0;
	/* Most polls: the weight has no effect. */
	if (!timed && !cpu->merged && !full)
		return;
	cost = bpf_map_lookup_elem(&merge_costs, &key);
	if (timed && !xdp && !cpu->skipped && !cpu->unannounced && packets <= work &&
	    work <= MERGE_MOST_PACKETS && ns <= MERGE_MOST_NS) {
		if (!cost && work > packets) {
			struct merge_cost none = {};

			bpf_map_update_elem(&merge_costs, &key, &none, BPF_NOEXIST);
			cost = bpf_map_lookup_elem(&merge_costs, &key);
		}
		if (cost)
			merge_add(cost, packets, work - packets, ns);
	}
	cpu->merged_weight = cost && cost->polls ? merge_weight(cost) : 0;
}

#endif
