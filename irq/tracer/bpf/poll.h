/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Divides the time of a poll: irq/core/src/charge/poll.rs, which has the reasons. */
#ifndef ONBEAT_POLL_H
#define ONBEAT_POLL_H

#include "merge.h"
#include "names.h"
#include "spend.h"

/*
 * Functions with loops are not static: the verifier checks each of these once, by itself, instead
 * of once for each path to it.
 */

__noinline int charge(struct cpu *cpu, const struct irq_key *key, __u64 ns, __u64 packets)
{
	struct irq_amount *amount, none = {};

	if (!cpu || !key || (!ns && !packets))
		return 0;
	amount = bpf_map_lookup_elem(&rows, key);
	if (!amount) {
		bpf_map_update_elem(&rows, key, &none, BPF_NOEXIST);
		amount = bpf_map_lookup_elem(&rows, key);
		/* The interrupted process is the current one. */
		if (key->kind == IRQ_BY_PROCESS)
			save_process(bpf_get_current_task_btf());
	}
	if (amount) {
		amount->ns += ns;
		amount->packets += packets;
		return 0;
	}
	cpu->totals.lost_ns += ns;
	return 0;
}

static __always_inline __u64 weight(const struct cpu *cpu, const struct entry *e)
{
	return (__u64)e->packets * MERGE_PACKET + (__u64)e->merged * weight_of_merged(cpu);
}

/* Charges the receive queue of a poll that is over. */
static __always_inline void charge_queue(struct cpu *cpu)
{
	if (cpu->queue.device)
		charge(cpu, &cpu->queue, cpu->queue_ns, cpu->queue_packets);
	cpu->queue_ns = 0;
	cpu->queue_packets = 0;
}

/* Charges the entries with their own time, their parts of the common time, and their packets. */
__noinline int share(struct cpu *cpu)
{
	__u64 weights = 0, left_ns, part_ns;
	__u32 i;

	if (!cpu)
		return 0;
	left_ns = cpu->shared_ns;
	for (i = 0; i < IRQ_MAX_CAUSES && i < cpu->entries; i++)
		weights += weight(cpu, &cpu->entry[i]);
	for (i = 0; i < IRQ_MAX_CAUSES && i < cpu->entries; i++) {
		struct entry *e = &cpu->entry[i];

		/*
		 * The last entry receives the remainder of the division, so that no time is lost.
		 */
		if (i + 1 == cpu->entries)
			part_ns = left_ns;
		else
			part_ns = weights ? cpu->shared_ns * weight(cpu, e) / weights : 0;
		left_ns -= part_ns;
		charge(cpu, &e->key, e->own_ns + part_ns, e->packets);
		if (budget_netns)
			spend(&e->key, e->own_ns + part_ns,
			      e->packets + (budget_unmerged ? e->merged : 0));
		cpu->totals.packets += e->packets;
		cpu->queue_ns += e->own_ns + part_ns;
		cpu->queue_packets += e->packets;
		e->own_ns = 0;
		e->packets = 0;
		e->merged = 0;
	}
	if (cpu->over)
		charge_queue(cpu);
	cpu->entries = 0;
	cpu->shared_ns = 0;
	cpu->over = false;
	return 0;
}

/* Charges all pending time. The entries stay for the time after the poll, which is over. */
static __always_inline void poll_settle(struct cpu *cpu)
{
	__u32 entries = cpu->entries;

	share(cpu);
	cpu->entries = entries;
	cpu->over = true;
}

static __always_inline bool same(const struct irq_key *x, const struct irq_key *y)
{
	return x->kind == y->kind && x->a == y->a && x->b == y->b && x->device == y->device &&
	       x->netns == y->netns;
}

static __always_inline __u32 add_entry(struct cpu *cpu, const struct irq_key *key)
{
	__u32 at = cpu->entries;
	struct entry *e;

	if (at >= IRQ_MAX_CAUSES) {
		share(cpu);
		at = 0;
	}
	cpu->entries = at + 1;
	e = &cpu->entry[at];
	e->key = *key;
	e->packets = 0;
	e->merged = 0;
	e->own_ns = 0;
	return at;
}

static __always_inline __u32 find_entry(struct cpu *cpu, const struct irq_key *key)
{
	__u32 i;

	for (i = 0; i < IRQ_MAX_CAUSES && i < cpu->entries; i++)
		if (same(&cpu->entry[i].key, key))
			return i;
	return add_entry(cpu, key);
}

/* Whether all packets of the current poll have this one cause. */
__noinline int is_only_cause(struct cpu *cpu, const struct irq_key *key)
{
	if (!cpu || !key)
		return 0;
	return cpu->over || !cpu->entries || (cpu->entries == 1 && same(&cpu->entry[0].key, key));
}

static __always_inline void clear_arrivals(struct cpu *cpu)
{
	cpu->arrived = 0;
	cpu->merged = 0;
	cpu->outstanding = 0;
	cpu->merged_in = 0;
	cpu->unannounced = false;
	cpu->to_socket = 0;
	cpu->aborted = false;
	cpu->pendings = 0;
	cpu->pending_at = 0;
	cpu->gap = false;
}

/* Records a packet from the driver, merged from `packets`. */
static __always_inline void arrive(struct cpu *cpu, __u32 packets)
{
	cpu->delivered = false;
	cpu->arrived++;
	cpu->outstanding++;
	if (packets > 1) {
		cpu->merged += packets - 1;
		cpu->merged_in = cpu->outstanding;
		cpu->merged_of = packets - 1;
	}
}

/* Packets that the XDP program of a device took do not arrive. */
static __always_inline void announce(struct cpu *cpu, __u32 packets)
{
	record_event(0, IRQ_ANNOUNCE, NULL, packets);
	cpu->arrived += packets;
	cpu->outstanding += packets;
}

/* Counts packets. They are delivered in the order of arrival. */
static __always_inline void count(struct cpu *cpu, struct entry *e, __u32 packets)
{
	__u32 ended;

	e->packets += packets;
	if (!packets)
		return;
	if (!cpu->outstanding) {
		/* One segment of a merged packet that was split again, already counted. */
		cpu->unannounced = true;
		e->merged -= e->merged < packets ? e->merged : packets;
		return;
	}
	ended = packets < cpu->outstanding ? packets : cpu->outstanding;
	cpu->outstanding -= ended;
	if (!cpu->merged_in)
		return;
	if (cpu->merged_in > ended) {
		cpu->merged_in -= ended;
		return;
	}
	cpu->merged_in = 0;
	e->merged += cpu->merged_of;
}

static __always_inline void add_packets(struct cpu *cpu, struct entry *e, __u32 packets, __u64 ns)
{
	if (cpu->delivered)
		e->own_ns += ns;
	else
		cpu->shared_ns += ns;
	count(cpu, e, packets);
	cpu->delivered = true;
	if (!cpu->timed)
		cpu->timed = 1;
}

__noinline int poll_deliver(struct cpu *cpu, const struct irq_key *key, __u32 packets, __u64 ns)
{
	__u32 at;

	if (!cpu || !key)
		return 0;
	if (cpu->over)
		share(cpu);
	at = find_entry(cpu, key) % IRQ_MAX_CAUSES;
	add_packets(cpu, &cpu->entry[at], packets, ns);
	cpu->last_at = at;
	return 0;
}

/* Without a time. */
__noinline int poll_count(struct cpu *cpu, const struct irq_key *key, __u32 packets)
{
	__u32 at;

	if (!cpu || !key)
		return 0;
	if (cpu->over)
		share(cpu);
	at = find_entry(cpu, key) % IRQ_MAX_CAUSES;
	count(cpu, &cpu->entry[at], packets);
	cpu->delivered = false;
	if (!cpu->timed)
		cpu->timed = 2;
	cpu->last_at = at;
	return 0;
}

/* The time until now is common. */
static __always_inline void poll_pass(struct cpu *cpu, __u64 ns)
{
	if (cpu->over)
		share(cpu);
	cpu->shared_ns += ns;
	cpu->delivered = false;
}

/*
 * Between two polls: whether the next one is sampled. A poll that started sampled is sampled to its
 * end, so that long polls are as frequent in the sample as among all polls.
 */
static __always_inline void poll_begin(struct cpu *cpu)
{
	bool now = skip;

	if (cpu->skipped == now)
		return;
	cpu->skipped = now;
	record_event(0, IRQ_SKIP, NULL, now);
}

/* Packets that did not arrive from a device belong to the poll. */
static __always_inline void name_devices(struct cpu *cpu, const struct irq_key *device)
{
	__u32 i;

	for (i = 0; i < IRQ_MAX_CAUSES && i < cpu->entries; i++) {
		if (!cpu->entry[i].key.device) {
			cpu->entry[i].key.device = device->device;
			cpu->entry[i].key.netns = device->netns;
		}
	}
}

/* Packets without an observed end, of a device with an XDP program, belong to the program. */
static __always_inline void count_taken(struct cpu *cpu, struct irq_key *device, __u32 packets)
{
	__u32 at;

	device->kind = IRQ_XDP;
	device->a = IRQ_VERDICT_UNKNOWN;
	at = find_entry(cpu, device) % IRQ_MAX_CAUSES;
	cpu->entry[at].packets += packets;
}

/*
 * Releases the time held for packets of a device, and holds the part of those now in GRO; returns
 * whether all packets are held. *left counts those that neither arrived nor were kept.
 */
static __always_inline bool hold(struct cpu *cpu, const struct irq_key *device, bool xdp, bool full,
				 __u32 work, __u32 *left)
{
	__u32 packets = cpu->arrived, arrived = packets + cpu->merged, taken = work, i;
	__u64 of_kept, of_arrived;
	/* The program at arrivals is not attached. */
	bool unobserved = !cpu->arrived && cpu->unannounced;

	if (cpu->held && cpu->held_key.device == device->device &&
	    cpu->held_key.netns == device->netns) {
		taken += cpu->held;
		cpu->shared_ns += cpu->held_ns;
		cpu->held = 0;
		cpu->held_ns = 0;
	}
	/*
	 * More than the driver counted: the sender or the device merged them, and they took the
	 * driver's time once.
	 */
	if (arrived > taken && cpu->merged) {
		arrived = cpu->arrived;
		for (i = 0; i < IRQ_MAX_CAUSES && i < cpu->entries; i++)
			cpu->entry[i].merged = 0;
	}
	/* GRO may keep some packets of a full poll: these cannot be distinguished. */
	if (xdp && !full && !cpu->skipped && !cpu->unannounced && arrived < taken)
		*left = taken - arrived;
	clear_arrivals(cpu);
	if (!full || xdp || cpu->skipped || cpu->held || arrived >= taken || unobserved)
		return false;
	cpu->held = taken - arrived;
	cpu->held_key.device = device->device;
	cpu->held_key.netns = device->netns;
	of_kept = (__u64)cpu->held * weight_of_merged(cpu);
	of_arrived =
	    (__u64)packets * MERGE_PACKET + (__u64)(arrived - packets) * weight_of_merged(cpu);
	cpu->held_ns = cpu->shared_ns * of_kept / (of_kept + of_arrived);
	cpu->shared_ns -= cpu->held_ns;
	return !arrived;
}

/* The end of a run: GRO released its packets, or they arrive unobserved. */
static __always_inline void release(struct cpu *cpu)
{
	if (!cpu->held)
		return;
	if (cpu->arrived) {
		cpu->shared_ns += cpu->held_ns;
	} else {
		cpu->held_key.kind = IRQ_UNATTRIBUTED;
		charge(cpu, &cpu->held_key, cpu->held_ns, 0);
	}
	cpu->held = 0;
	cpu->held_ns = 0;
}

/* `queue`: the id of the polled instance of a device with several receive queues, or 0. */
static __always_inline void poll_end(struct cpu *cpu, struct irq_key *device, __u32 queue, bool xdp,
				     bool full, __u32 work, __u64 ns)
{
	__u32 left = 0;
	bool all_kept;

	if (cpu->over)
		share(cpu);
	cpu->queue.kind = IRQ_QUEUE;
	cpu->queue.netns = device->netns;
	cpu->queue.device = queue ? device->device : 0;
	cpu->queue.a = queue;
	cpu->shared_ns += ns;
	cpu->delivered = false;
	cpu->last_sk = 0;
	cpu->last_skb = 0;
	cpu->last_dev = 0;
	cpu->taps_dev = 0;
	cpu->tapping = false;
	cpu->device = 0;
	cpu->netns = 0;
	name_devices(cpu, device);
	merge_learn(cpu, device, xdp, full, work, cpu->shared_ns);
	all_kept = hold(cpu, device, xdp, full, work, &left);
	if (left && cpu->entries)
		count_taken(cpu, device, left);
	if (cpu->entries < 2 && cpu->mixed)
		cpu->mixed--;
	if (!cpu->entries && !all_kept) {
		__u32 at;

		if (cpu->skipped)
			device->kind = IRQ_UNSAMPLED;
		else
			device->kind = work	    ? xdp ? IRQ_XDP : IRQ_UNATTRIBUTED
				       : cpu->freed ? IRQ_TX_COMPLETION
						    : IRQ_EMPTY_POLL;
		at = add_entry(cpu, device) % IRQ_MAX_CAUSES;
		cpu->entry[at].packets = work ? work : cpu->freed;
	}
	cpu->over = true;
	cpu->freed = 0;
	poll_begin(cpu);
}

static __always_inline void poll_reset(struct cpu *cpu)
{
	cpu->entries = 0;
	cpu->shared_ns = 0;
	cpu->over = false;
	cpu->delivered = false;
	cpu->timed = 0;
	cpu->freed = 0;
	clear_arrivals(cpu);
	cpu->held = 0;
	cpu->held_ns = 0;
	cpu->queue.device = 0;
	cpu->queue_ns = 0;
	cpu->queue_packets = 0;
	cpu->last_sk = 0;
	cpu->last_skb = 0;
	cpu->last_dev = 0;
	cpu->taps_dev = 0;
	cpu->tapping = false;
	cpu->device = 0;
	cpu->netns = 0;
}

static __always_inline void poll_finish(struct cpu *cpu, __u64 ns)
{
	struct irq_key loop = {.kind = cpu->skipped ? IRQ_UNSAMPLED : IRQ_EMPTY_POLL};

	cpu->shared_ns += ns;
	release(cpu);
	if (cpu->entries)
		share(cpu);
	else
		charge(cpu, &loop, cpu->shared_ns, 0);
	poll_reset(cpu);
}

#endif
