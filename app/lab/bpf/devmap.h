/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Targets of redirects: benches and scenarios set the interfaces. */
#ifndef ONBEAT_DEVMAP_H
#define ONBEAT_DEVMAP_H

#include <linux/bpf.h>
#include <linux/types.h>
#include <bpf/bpf_helpers.h>

#define DEVMAP(name_, entries)                                                                     \
	struct {                                                                                   \
		__uint(type, BPF_MAP_TYPE_DEVMAP);                                                 \
		__uint(max_entries, entries);                                                      \
		__type(key, __u32);                                                                \
		__type(value, __u32);                                                              \
	} name_ SEC(".maps")

#endif
