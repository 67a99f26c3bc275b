/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The tables of one node, shared by the programs of all its ports. Sizes of 1 are set by the
 * loader from the configuration before the first load.
 */
#ifndef ONBEAT_MAPS_H
#define ONBEAT_MAPS_H

#include <stdbool.h>
#include <stddef.h>
#include "frer.h"
#include <bpf/bpf_helpers.h>

#define TABLE(kind, name_, key_, value_, flags_)                                                   \
	struct {                                                                                   \
		__uint(type, kind);                                                                \
		__uint(max_entries, 1);                                                            \
		__uint(map_flags, flags_);                                                         \
		__type(key, key_);                                                                 \
		__type(value, value_);                                                             \
	} name_ SEC(".maps")

/*
 * Arrays that can be mapped into memory start on a page, so that an entry of 64 octets is one cache
 * line and not a part of two. The loader maps those without a lock, to change one word of an entry
 * at a time.
 */
#define LINES BPF_F_MMAPABLE

TABLE(BPF_MAP_TYPE_ARRAY, node, __u32, struct frer_node, 0);
TABLE(BPF_MAP_TYPE_ARRAY, port_counters, __u32, struct frer_port_counters, 0);
TABLE(BPF_MAP_TYPE_ARRAY, l2_index, __u32, struct frer_index_line, LINES);
TABLE(BPF_MAP_TYPE_HASH, ip_streams, struct frer_ip_key, __u64, 0);
TABLE(BPF_MAP_TYPE_HASH, mask_streams, struct frer_mask_key, __u64, BPF_F_NO_PREALLOC);
TABLE(BPF_MAP_TYPE_ARRAY, members, __u32, struct frer_member, LINES);
TABLE(BPF_MAP_TYPE_ARRAY, member_records, __u32, struct frer_member_record, LINES);
TABLE(BPF_MAP_TYPE_ARRAY, skews, __u32, struct frer_skew, LINES);
TABLE(BPF_MAP_TYPE_ARRAY, arrivals_of, __u32, struct frer_arrivals, LINES);
TABLE(BPF_MAP_TYPE_ARRAY, generators, __u32, struct frer_generator, LINES);
TABLE(BPF_MAP_TYPE_ARRAY, generator_records, __u32, struct frer_generator_record, LINES);
TABLE(BPF_MAP_TYPE_ARRAY, recoveries, __u32, struct frer_recovery, LINES);
TABLE(BPF_MAP_TYPE_ARRAY, recovery_records, __u32, struct frer_recovery_record, LINES);
TABLE(BPF_MAP_TYPE_ARRAY, rings, __u32, struct frer_ring_line, LINES);
TABLE(BPF_MAP_TYPE_ARRAY, splits, __u32, struct frer_split, LINES);
TABLE(BPF_MAP_TYPE_ARRAY, egresses, __u32, struct frer_egress, 0);

/* By port: destinations of frames with one egress port. */
TABLE(BPF_MAP_TYPE_DEVMAP, egress_ports, __u32, struct bpf_devmap_val, 0);

/* By set of egress ports: destinations of frames with several, for one redirect. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY_OF_MAPS);
	__uint(max_entries, 1);
	__type(key, __u32);
	__array(
	    values, struct {
		    __uint(type, BPF_MAP_TYPE_DEVMAP);
		    __uint(max_entries, 1);
		    __type(key, __u32);
		    __type(value, struct bpf_devmap_val);
	    });
} groups SEC(".maps");

static __always_inline void count(__u64 *counter)
{
	__sync_fetch_and_add(counter, 1);
}

/* Read exactly once, at this point. */
#define READ_ONCE(x) (*(const volatile typeof(x) *)&(x))

#define WRITE_ONCE(x, value) (*(volatile typeof(x) *)&(x) = (value))

static __always_inline struct frer_port_counters *port_counters_of(__u32 port)
{
	return bpf_map_lookup_elem(&port_counters, &port);
}

/* Pass a frame without a stream to the network stack. */
static __always_inline int unmatched(__u32 port)
{
	struct frer_port_counters *counters = port_counters_of(port);

	if (counters)
		count(&counters->unmatched);
	return XDP_PASS;
}

#endif
