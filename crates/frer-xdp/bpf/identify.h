/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Stream identification (802.1CB clause 6): which member stream a frame is of, if any. */
#ifndef ONBEAT_IDENTIFY_H
#define ONBEAT_IDENTIFY_H

#include "maps.h"
#include "parse_ip.h"

/*
 * The VID to look up a shape with, or -1 where the shape cannot match a frame whose outer VID is
 * `vid`. A tag with VID 0 carries a priority and no VLAN: it counts as no tag.
 */
static __always_inline int key_vid(__u16 shape, __u16 vid)
{
	switch (shape & FRER_SHAPE_VLAN) {
	case FRER_VLAN_EXACT:
		return vid ? vid : -1;
	case FRER_VLAN_ANY:
		return vid ? 0 : -1;
	case FRER_VLAN_PRIORITY:
		return vid ? -1 : 0;
	case FRER_VLAN_ALL_VID:
		return vid;
	default:
		return 0;
	}
}

static __always_inline struct frer_member *identify_ip(struct xdp_md *ctx, const struct headers *h,
						       const struct frer_shapes *n, __u8 port)
{
	struct cursor c = { (void *)(long)ctx->data, (void *)(long)ctx->data_end };
	struct ip_fields ip = {};
	struct frer_member *member;
	struct frer_ip_key key;

	/* The mask tells the verifier what parse_headers already knows. */
	if (!take(&c, (h->length & 0x1f) + sizeof(h->ethertype)) || !parse_ip(&c, h, &ip))
		return NULL;
	for (__u32 i = 0; i < FRER_MAX_SHAPES && i < n->ip_count; i++) {
		__u16 shape = n->ip[i];
		int vid = key_vid(shape, outer_vid(h));

		if (vid < 0)
			continue;
		if ((shape & (FRER_SHAPE_SPORT | FRER_SHAPE_DPORT)) && !ip.has_ports)
			continue;
		__builtin_memset(&key, 0, sizeof(key));
		key.shape = shape;
		key.vid = vid;
		key.port = port;
		__builtin_memcpy(key.mac, h->mac, 6);
		__builtin_memcpy(key.destination, ip.destination, 16);
		if (shape & FRER_SHAPE_IP_SRC)
			__builtin_memcpy(key.source, ip.source, 16);
		if (shape & FRER_SHAPE_DSCP)
			key.dscp = ip.dscp;
		if (shape & FRER_SHAPE_PROTO)
			key.protocol = ip.protocol;
		if (shape & FRER_SHAPE_SPORT)
			key.sport = ip.sport;
		if (shape & FRER_SHAPE_DPORT)
			key.dport = ip.dport;
		member = bpf_map_lookup_elem(&ip_streams, &key);
		if (member)
			return member;
	}
	return NULL;
}

static __always_inline struct frer_member *identify_l2(const struct headers *h,
						       const struct frer_shapes *n, __u8 port)
{
	struct frer_l2_key key = { .port = port };
	struct frer_member *member;

	for (__u32 i = 0; i < FRER_MAX_SHAPES && i < n->l2_count; i++) {
		__u16 shape = n->l2[i];
		int vid = key_vid(shape, outer_vid(h));

		if (vid < 0)
			continue;
		key.shape = shape;
		key.vid = vid;
		if (shape & FRER_SHAPE_SOURCE)
			__builtin_memcpy(key.mac, (__u8 *)h->mac + 6, 6);
		else
			__builtin_memcpy(key.mac, h->mac, 6);
		member = bpf_map_lookup_elem(&l2_streams, &key);
		if (member)
			return member;
	}
	return NULL;
}

/*
 * True: the frame is of the member stream that `found` then describes. A global function: the
 * verifier looks at it once, by itself. It may not return a pointer, so it copies.
 */
__noinline int identify(struct xdp_md *ctx, const struct headers *h, __u32 port,
			struct frer_member *found)
{
	struct frer_member *member = NULL;
	struct frer_shapes *n;
	struct frer_node *nd;
	__u32 zero = 0;

	if (!h || !found)
		return false;
	nd = bpf_map_lookup_elem(&node, &zero);
	if (!nd)
		return false;
	n = &nd->shapes[nd->active & 1];
	if (n->ip_count)
		member = identify_ip(ctx, h, n, port);
	if (!member)
		member = identify_l2(h, n, port);
	if (!member)
		return false;
	*found = *member;
	return true;
}

#endif
