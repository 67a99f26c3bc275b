/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ONBEAT_SLOTS_H
#define ONBEAT_SLOTS_H

#include "../../tracer/bpf/budgets.h"

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

#endif
