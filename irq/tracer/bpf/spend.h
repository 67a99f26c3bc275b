/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Charges time to budgets. */
#ifndef ONBEAT_SPEND_H
#define ONBEAT_SPEND_H

#include "budgets.h"
#include "state.h"

/* The network namespace whose devices' packets count; 0: there are no budgets. */
const volatile __u32 budget_netns;

/* The number of the process that causes time; 0: none. */
static __always_inline __u32 number_of_process(const struct irq_key *key)
{
	struct irq_owner process = {.pid = key->a, .start_ticks = key->b};
	struct guard_member *member = bpf_map_lookup_elem(&numbers, &process.pid);
	__u32 *inherits;

	if (member)
		return member->number;
	inherits = bpf_map_lookup_elem(&inherited, &process);
	return inherits ? *inherits : number_of_others();
}

/* That of the socket that received packets, which no process has read yet; 0: none. */
static __always_inline __u32 number_of_socket(const struct irq_key *key)
{
	__u64 cookie = key->a | (__u64)key->b << 32;
	struct guard_receiver *receiver = bpf_map_lookup_elem(&cookies, &cookie);

	return receiver ? receiver->number : 0;
}

static __always_inline void begin_limit(volatile struct guard_spent *to, __u64 now)
{
	volatile struct guard_spent *any = spent_at(0);

	to->limited_at_ns = now;
	if (any)
		any->limited_at_ns = now;
}

/*
 * Only time with the evidence of a reader, or of the only process that has an unread socket open,
 * counts. A number whose time in a window exceeds its budget is limited from now on: limit.bpf.c
 * does that.
 */
static __always_inline void spend(const struct irq_key *key, __u64 ns, __u64 packets)
{
	volatile struct guard_limit *budget;
	volatile struct guard_spent *to;
	__u64 now = bpf_ktime_get_ns();
	__u32 number;

	number = key->kind == IRQ_READER ? number_of_process(key) : number_of_socket(key);
	budget = limit_at(slot_of(number));
	to = spent_at(slot_of(number));
	if (!number || !budget || !to || budget->number != number || !budget->ns_per_s)
		return;
	__sync_fetch_and_add(&to->ns, ns);
	__sync_fetch_and_add(&to->packets, packets);
	/* Two CPUs at once may lose a charge of a window: another one follows. */
	if (now - to->window_since_ns >= GUARD_WINDOW_NS) {
		to->window_since_ns = now;
		to->window_ns = 0;
	}
	__sync_fetch_and_add(&to->window_ns, ns);
	if (to->window_ns > budget->ns_per_s / (1000000000 / GUARD_WINDOW_NS) &&
	    to->limited_at_ns <= budget->ended_ns)
		begin_limit(to, now);
}

/* Whether a key may be of a budget. */
static __always_inline bool is_spent(const struct irq_key *key)
{
	return budget_netns && key->netns == budget_netns &&
	       (key->kind == IRQ_READER || key->kind == IRQ_SOCKET);
}

#endif
