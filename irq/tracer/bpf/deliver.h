/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Charges packets at their ends. */
#ifndef ONBEAT_DELIVER_H
#define ONBEAT_DELIVER_H

#include "owner.h"
#include "run.h"
#include <bpf/bpf_tracing.h>

/*
 * A NAPI thread whose switch was not observed: because it ran already when the tracer started, or
 * because the kernel, now and then, reports no switch (observed with Linux 6.18). The scheduler's
 * account of it supplies the missing time.
 */
static __always_inline void catch_up(struct cpu *cpu)
{
	struct task_struct *task;

	if (is_preempted(cpu)) {
		proceed_if_current(cpu);
		return;
	}
	if (cpu->thread || cpu->softirq)
		return;
	task = bpf_get_current_task_btf();
	if (thread_kind(task) == THREAD_NAPI)
		thread_in(cpu, time_of(cpu), task->se.sum_exec_runtime);
}

/* The state of this CPU, if it receives packets in softirq context, and polls are sampled. */
static __always_inline struct cpu *receiving(void)
{
	struct cpu *cpu = this_cpu();

	if (!cpu)
		return NULL;
	catch_up(cpu);
	return receives(cpu) && !cpu->skipped ? cpu : NULL;
}

static __always_inline void name_device(struct irq_key *key, const struct net_device *device)
{
	key->device = device->ifindex;
	key->netns = device->nd_net.net->ns.inum;
}

/* Arrivals are not observed: the device of the last packet that the socket received. */
static __always_inline void name_by_socket(struct irq_key *key, const struct sock *sk)
{
	const struct sk_buff *last = sk->sk_receive_queue.prev;

	if ((__u64)last == (__u64)&sk->sk_receive_queue)
		return;
	key->device = last->skb_iif;
	key->netns = netns_of(sk);
}

static __always_inline void deliver_key(struct cpu *cpu, struct irq_key *key, __u32 packets)
{
	__u64 now;

	cpu->last_sk = 0;
	if (!is_only_cause(cpu, key)) {
		cpu->mixed = MIXED_POLLS;
	} else if (!cpu->mixed) {
		record_event(0, IRQ_COUNT, key, packets);
		poll_count(cpu, key, packets);
		return;
	}
	if (cpu->gap) {
		record_event(0, IRQ_COUNT, key, 0);
		cpu->delivered = false;
		cpu->gap = false;
	}
	now = time_of(cpu);
	record_event(now, IRQ_DELIVER, key, packets);
	poll_deliver(cpu, key, packets, point(cpu, now));
}

/* As deliver_key(), for a packet of the device of the last arrival. */
static __always_inline void deliver(struct cpu *cpu, struct irq_key *key, __u32 packets)
{
	key->device = cpu->device;
	key->netns = cpu->netns;
	deliver_key(cpu, key, packets);
}

/*
 * The end of a poll: packets without an observed end are charged to the cause that their headers
 * name. The rest is unattributed.
 */
__noinline int end_pending(struct cpu *cpu)
{
	struct irq_key key = {};
	__u32 i;

	if (!cpu)
		return 0;
	key.device = cpu->device;
	key.netns = cpu->netns;
	for (i = 0; i < IRQ_MAX_PENDING && i < cpu->pendings; i++) {
		if (!cpu->pending[i].skb)
			continue;
		key.a = 0;
		key.b = 0;
		for_class(&key, cpu->pending[i].kind, cpu->pending[i].flow);
		if (!is_only_cause(cpu, &key))
			cpu->mixed = MIXED_POLLS;
		cpu->totals.inspected++;
		record_event(0, IRQ_COUNT, &key, 1);
		poll_count(cpu, &key, 1);
	}
	return 0;
}

static __always_inline void end_rest(struct cpu *cpu)
{
	struct irq_key key = {.kind = IRQ_UNATTRIBUTED};
	__u32 left;

	if (cpu->pending_at < cpu->pendings)
		end_pending(cpu);
	left = cpu->outstanding;
	if (!left || !inspect || cpu->skipped)
		return;
	key.device = cpu->device;
	key.netns = cpu->netns;
	cpu->totals.inspected += left;
	record_event(0, IRQ_COUNT, &key, left);
	poll_count(cpu, &key, left);
}

/* A packet for a socket: often the same one as before, which requires no look-up. */
static __always_inline void deliver_to(struct cpu *cpu, struct sock *sk, __u32 packets)
{
	struct irq_key key = {};
	struct entry *e;
	__u64 now;

	if (cpu->last_sk == (__u64)sk) {
		e = &cpu->entry[cpu->last_at % IRQ_MAX_CAUSES];
		if (!cpu->mixed) {
			record_event(0, IRQ_COUNT, &e->key, packets);
			count(cpu, e, packets);
			return;
		}
		if (cpu->gap) {
			record_event(0, IRQ_COUNT, &e->key, 0);
			cpu->delivered = false;
			cpu->gap = false;
		}
		now = time_of(cpu);
		record_event(now, IRQ_DELIVER, &e->key, packets);
		add_packets(cpu, e, packets, point(cpu, now));
		return;
	}
	for_socket(cpu, sk, &key);
	key.device = cpu->device;
	key.netns = cpu->netns;
	if (!key.device)
		name_by_socket(&key, sk);
	deliver_key(cpu, &key, packets);
	cpu->last_sk = key.kind <= IRQ_LISTENER ? (__u64)sk : 0;
}

#endif
