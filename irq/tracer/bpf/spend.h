/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Charges time to budgets, and starts their limits. */
#ifndef ONBEAT_SPEND_H
#define ONBEAT_SPEND_H

#include "budgets.h"
#include "state.h"

/* The network namespace of the guarded interfaces; 0: there are no budgets. */
const volatile __u32 budget_netns;

/* Whether packets are dropped before the kernel merges them. */
const volatile bool budget_unmerged;

/* The number that a charge is for, and the process among those that share it. */
struct payer {
	__u32 number; /* 0: none */
	struct guard_member *member;
};

/* By the last reader of a socket. */
static __always_inline struct payer payer_of_process(const struct irq_key *key)
{
	struct irq_owner process = {.pid = key->a, .start_ticks = key->b};
	struct payer payer = {.member = member_of(process.pid)};
	__u32 *number;

	if (payer.member && payer.member->start_ticks == process.start_ticks) {
		payer.number = payer.member->number;
		return payer;
	}
	payer.member = NULL;
	number = bpf_map_lookup_elem(&inherited, &process);
	payer.number = number ? *number : number_of_others();
	return payer;
}

/* By a socket whose reader is not known. */
static __always_inline struct payer payer_of_socket(const struct irq_key *key)
{
	__u64 cookie = key->a | (__u64)key->b << 32;
	struct guard_receiver *receiver = bpf_map_lookup_elem(&cookies, &cookie);
	struct payer payer = {};

	if (!receiver || !receiver->number)
		return payer;
	payer.number = receiver->number;
	payer.member = member_of(receiver->pid);
	if (payer.member && payer.member->number != payer.number)
		payer.member = NULL;
	return payer;
}

/* A socket receives packets whose entry by its cookie may have been evicted. */
static __always_inline void keep_receiver(struct sock *sk, __u64 cookie)
{
	struct guard_receiver *known;

	if (!budget_netns || bpf_map_lookup_elem(&cookies, &cookie))
		return;
	known = bpf_sk_storage_get(&slots, sk, NULL, 0);
	if (known && known->number)
		bpf_map_update_elem(&cookies, &cookie, known, BPF_ANY);
}

static __always_inline void add_charges(struct guard_charges *to, __u64 ns, __u64 packets)
{
	__sync_fetch_and_add(&to->ns, ns);
	__sync_fetch_and_add(&to->packets, packets);
}

static __always_inline void start_limit(struct guard_spent *spent_by, __u64 now)
{
	struct guard_spent *last = spent_at(0);

	*(volatile __u64 *)&spent_by->limited_at_ns = now;
	if (last)
		*(volatile __u64 *)&last->limited_at_ns = now;
}

/* Adds time to the window of a number. Two CPUs at once may lose a charge: another one follows. */
static __always_inline void add_to_window(struct guard_spent *spent_by,
					  const struct guard_limit *limit, __u64 ns)
{
	__u64 now = bpf_ktime_get_ns();

	if ((__s64)(now - spent_by->window_since_ns) >= GUARD_WINDOW_NS) {
		spent_by->window_since_ns = now;
		spent_by->window_ns = 0;
	}
	__sync_fetch_and_add(&spent_by->window_ns, ns);
	if (spent_by->window_ns > limit->ns_per_s / (NSEC_PER_SEC / GUARD_WINDOW_NS) &&
	    spent_by->limited_at_ns <= limit->stopped_ns)
		start_limit(spent_by, now);
}

/*
 * Only packets of guarded interfaces count, with the evidence of a reader, or of the only process
 * that has an unread socket open. A number whose time in a window exceeds its budget is limited
 * from now on.
 */
__noinline int spend(const struct irq_key *key, __u64 ns, __u64 packets)
{
	struct guard_limit *limit;
	struct guard_spent *spent_by;
	struct payer payer = {};
	__u32 device;

	if (!budget_netns || !key || key->netns != budget_netns)
		return 0;
	if (key->kind == IRQ_READER)
		payer = payer_of_process(key);
	else if (key->kind == IRQ_SOCKET)
		payer = payer_of_socket(key);
	if (!payer.number)
		return 0;
	device = key->device;
	limit = limit_at(slot_of(payer.number));
	spent_by = spent_at(slot_of(payer.number));
	if (!limit || !spent_by || limit->number != payer.number ||
	    !bpf_map_lookup_elem(&guarded, &device))
		return 0;
	add_charges(&spent_by->charged, ns, packets);
	if (payer.member)
		add_charges(&payer.member->charged, ns, packets);
	add_to_window(spent_by, limit, ns);
	return 0;
}

#endif
