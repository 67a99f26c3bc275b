/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Selection of the port's frames, and their delivery to its socket. */
#ifndef ONBEAT_RECEIVE_H
#define ONBEAT_RECEIVE_H

#include <stdbool.h>
#include <linux/bpf.h>
#include "port.h"
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

#define ADDRESSES      12 /* octets */
#define TAG	       4
#define ETHERTYPE_VLAN 0x8100
#define ETHERTYPE_QINQ 0x88a8
#define BROADCAST      0xffffffffffffULL
#define GROUP	       1 /* bit of an address whose first octet is lowest */

/* Set by the loader. A bit per EtherType: one lookup, whatever their number. */
const volatile __u64 ether_types[1024];
const volatile __u64 own_address;

/* By receive queue: there is one. */
struct {
	__uint(type, BPF_MAP_TYPE_XSKMAP);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u32);
} sockets SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 64);
	__type(key, __u64);
	__type(value, __u8);
} multicast SEC(".maps");

struct frame {
	__u32 length; /* with the tag */
	__be16 tpid;  /* 0: no tag */
	__be16 tci;
};

static __always_inline bool is_wanted(__u64 address)
{
	if (address == own_address || address == BROADCAST)
		return true;
	return (address & GROUP) && bpf_map_lookup_elem(&multicast, &address);
}

/*
 * Returns true if the frame is the port's: by the EtherType after at most one VLAN tag, and the
 * address.
 */
static __always_inline bool is_ours(struct xdp_md *ctx, struct frame *f)
{
	void *data = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end;
	__be16 *field = data;
	__u64 address;
	__u16 type;

	if (data + ADDRESSES + 2 > end)
		return false;
	address = field[0] | (__u64)field[1] << 16 | (__u64)field[2] << 32;
	f->length = end - data;
	f->tpid = 0;
	f->tci = 0;
	type = bpf_ntohs(field[6]);
	if (type == ETHERTYPE_VLAN || type == ETHERTYPE_QINQ) {
		if (data + ADDRESSES + TAG + 2 > end)
			return false;
		f->tpid = field[6];
		f->tci = field[7];
		type = bpf_ntohs(field[8]);
	}
	return (ether_types[type / 64] >> (type % 64) & 1) && is_wanted(address);
}

/* To the port's socket; to the network stack without one. */
static __always_inline int deliver(struct xdp_md *ctx, __u64 now)
{
	/* A driver without metadata: the process detects that there is none. */
	if (!bpf_xdp_adjust_meta(ctx, -(int)sizeof(struct port_meta))) {
		void *data = (void *)(long)ctx->data;
		struct port_meta *meta = (void *)(long)ctx->data_meta;

		if ((void *)(meta + 1) > data)
			return XDP_ABORTED;
		meta->received_ns = now;
	}
	return bpf_redirect_map(&sockets, ctx->rx_queue_index, XDP_PASS);
}

#endif
