/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Sharing out the time of a poll: crates/irq/src/charge/poll.rs, which says why. */
#ifndef ONBEAT_POLL_H
#define ONBEAT_POLL_H

#include "state.h"

/*
 * What takes loops is in functions that are not static: the verifier looks at each of these once,
 * by itself, instead of once for every way that leads to it.
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
	}
	if (amount) {
		amount->ns += ns;
		amount->packets += packets;
		return 0;
	}
	cpu->totals.lost_ns += ns;
	return 0;
}

/* Charges the entries with their own time, their parts of the common one, and their packets. */
__noinline int share(struct cpu *cpu)
{
	__u64 weights = 0, left_ns, part_ns;
	__u32 i;

	if (!cpu)
		return 0;
	left_ns = cpu->shared_ns;
	for (i = 0; i < IRQ_MAX_CAUSES && i < cpu->entries; i++)
		weights += cpu->entry[i].packets;
	cpu->totals.packets += weights;
	for (i = 0; i < IRQ_MAX_CAUSES && i < cpu->entries; i++) {
		struct entry *e = &cpu->entry[i];

		/* What division leaves over is the last one's: nothing gets lost. */
		if (i + 1 == cpu->entries)
			part_ns = left_ns;
		else
			part_ns = weights ? cpu->shared_ns * e->packets / weights : 0;
		left_ns -= part_ns;
		charge(cpu, &e->key, e->own_ns + part_ns, e->packets);
		e->own_ns = 0;
		e->packets = 0;
	}
	cpu->entries = 0;
	cpu->shared_ns = 0;
	cpu->over = false;
	return 0;
}

/* Charges what there is. The entries stay for what comes after the poll, which is over. */
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

/* Whether all that the poll under way has brought has one cause, which is this one. */
__noinline int alone(struct cpu *cpu, const struct irq_key *key)
{
	if (!cpu || !key)
		return 0;
	return cpu->over || !cpu->entries || (cpu->entries == 1 && same(&cpu->entry[0].key, key));
}

static __always_inline void add_packets(struct cpu *cpu, struct entry *e, __u32 packets, __u64 ns)
{
	if (cpu->delivered)
		e->own_ns += ns;
	else
		cpu->shared_ns += ns;
	e->packets += packets;
	cpu->delivered = true;
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

/* The cause is alone. */
__noinline int poll_count(struct cpu *cpu, const struct irq_key *key, __u32 packets)
{
	if (!cpu || !key)
		return 0;
	if (cpu->over)
		share(cpu);
	if (!cpu->entries)
		add_entry(cpu, key);
	cpu->entry[0].packets += packets;
	cpu->delivered = false;
	cpu->last_at = 0;
	return 0;
}

/*
 * Between two polls: whether the next one is looked at. One that began while they are is, to its
 * end, so that long ones are among those looked at as often as they are among all.
 */
static __always_inline void poll_begin(struct cpu *cpu)
{
	bool now = skip;

	if (cpu->skipped == now)
		return;
	cpu->skipped = now;
	tell(0, IRQ_SKIP, NULL, now);
}

/* What did not come up from a device, such as packets that XDP gave to a socket, is the poll's. */
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

static __always_inline void poll_end(struct cpu *cpu, struct irq_key *device, bool xdp, __u32 work,
				     __u64 ns)
{
	if (cpu->over)
		share(cpu);
	cpu->shared_ns += ns;
	cpu->delivered = false;
	cpu->waking = 0;
	cpu->last_sk = 0;
	cpu->last_dev = 0;
	cpu->device = 0;
	cpu->netns = 0;
	name_devices(cpu, device);
	if (cpu->entries < 2 && cpu->mixed)
		cpu->mixed--;
	if (!cpu->entries) {
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
	cpu->freed = 0;
	cpu->waking = 0;
	cpu->last_sk = 0;
	cpu->last_dev = 0;
	cpu->device = 0;
	cpu->netns = 0;
}

static __always_inline void poll_finish(struct cpu *cpu, __u64 ns)
{
	struct irq_key loop = {.kind = cpu->skipped ? IRQ_UNSAMPLED : IRQ_EMPTY_POLL};

	cpu->shared_ns += ns;
	if (cpu->entries)
		share(cpu);
	else
		charge(cpu, &loop, cpu->shared_ns, 0);
	poll_reset(cpu);
}

#endif
