/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Budgets of a guard that uses this ledger: the ledger charges time to their numbers, and begins
 * their limits. The tables are the guard's: the loaders make all programs use the same ones.
 */
#ifndef ONBEAT_BUDGETS_H
#define ONBEAT_BUDGETS_H

#include "guard.h"
#include "irq.h"
#include <bpf/bpf_helpers.h>

#define NSEC_PER_SEC 1000000000ULL

/*
 * The receiver of a socket's packets by the socket's cookie, which is not reused. The oldest
 * entries are evicted.
 */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 16384);
	__type(key, __u64);
	__type(value, struct guard_receiver);
} cookies SEC(".maps");

/* The processes that have a budget. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, GUARD_PROCESSES);
	__type(key, __u32);
	__type(value, struct guard_member);
} numbers SEC(".maps");

/* Processes with the number of a group: their time counts, also once they have exited. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, GUARD_WAITING);
	__type(key, struct irq_owner);
	__type(value, __u32);
} inherited SEC(".maps");

/* The guarded interfaces: the packets of others are not dropped, and do not count. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 65536);
	__type(key, __u32);
	__type(value, __u8);
} guarded SEC(".maps");

/* The receiver of each socket's packets. */
struct {
	__uint(type, BPF_MAP_TYPE_SK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct guard_receiver);
} slots SEC(".maps");

/* By the remainder of a number. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, GUARD_SLOTS);
	__type(key, __u32);
	__type(value, struct guard_limit);
} limits SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, GUARD_SLOTS);
	__type(key, __u32);
	__type(value, struct guard_spent);
} spent SEC(".maps");

static __always_inline struct guard_limit *limit_at(__u32 slot)
{
	return bpf_map_lookup_elem(&limits, &slot);
}

static __always_inline struct guard_spent *spent_at(__u32 slot)
{
	return bpf_map_lookup_elem(&spent, &slot);
}

static __always_inline struct guard_member *member_of(__u32 pid)
{
	return bpf_map_lookup_elem(&numbers, &pid);
}

/* The number of all processes without an entry in numbers, while that is full; 0: it is not. */
static __always_inline __u32 number_of_others(void)
{
	struct guard_limit *others = limit_at(0);

	return others ? *(volatile __u64 *)&others->number : 0;
}

static __always_inline __u32 slot_of(__u32 number)
{
	return number & (GUARD_SLOTS - 1);
}

#endif
