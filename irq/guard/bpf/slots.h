/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ONBEAT_SLOTS_H
#define ONBEAT_SLOTS_H

#include "guard.h"

/*
 * The receiver of each socket's packets. waiters.bpf.c writes it, limit.bpf.c reads it: the loader
 * makes both use one table.
 */
struct {
	__uint(type, BPF_MAP_TYPE_SK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct guard_receiver);
} slots SEC(".maps");

/*
 * The same by the socket's cookie, for XDP programs, which cannot read socket storage. A cookie is
 * not reused; the oldest entries are evicted.
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

#endif
