/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ONBEAT_SLOTS_H
#define ONBEAT_SLOTS_H

/*
 * The number of the process that a socket is of; 0: none. waiters.bpf.c writes it, limit.bpf.c
 * reads it: the loader has both use one table.
 */
struct {
	__uint(type, BPF_MAP_TYPE_SK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, __u32);
} slots SEC(".maps");

#endif
