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

/*
 * The functions below are global: the verifier looks at each once, by itself, and not again for
 * every way through its caller, of which a list of shapes has many. Such functions may not return
 * a pointer, so they copy: true says that the frame is of the member stream in `found`.
 */

__noinline int find_ip(const struct headers *h, const struct ip_fields *ip, __u32 shape, __u32 port,
		       struct frer_member *found)
{
	struct frer_member *member;
	struct frer_ip_key key;
	int vid;

	if (!h || !ip || !found)
		return false;
	vid = key_vid(shape, outer_vid(h));
	if (vid < 0)
		return false;
	if ((shape & (FRER_SHAPE_SPORT | FRER_SHAPE_DPORT)) && !ip->has_ports)
		return false;
	__builtin_memset(&key, 0, sizeof(key));
	key.shape = shape;
	key.vid = vid;
	key.port = port;
	key.version = ip->version;
	__builtin_memcpy(key.mac, h->mac, 6);
	__builtin_memcpy(key.destination, ip->destination, 16);
	if (shape & FRER_SHAPE_IP_SRC)
		__builtin_memcpy(key.source, ip->source, 16);
	if (shape & FRER_SHAPE_DSCP)
		key.dscp = ip->dscp;
	if (shape & FRER_SHAPE_PROTO)
		key.protocol = ip->protocol;
	if (shape & FRER_SHAPE_SPORT)
		key.sport = ip->sport;
	if (shape & FRER_SHAPE_DPORT)
		key.dport = ip->dport;
	member = bpf_map_lookup_elem(&ip_streams, &key);
	if (!member)
		return false;
	*found = *member;
	return true;
}

__noinline int find_l2(const struct headers *h, __u32 shape, __u32 port, struct frer_member *found)
{
	struct frer_l2_key key = {.shape = shape, .port = port};
	struct frer_member *member;
	int vid;

	if (!h || !found)
		return false;
	vid = key_vid(shape, outer_vid(h));
	if (vid < 0)
		return false;
	key.vid = vid;
	if (shape & FRER_SHAPE_SOURCE)
		__builtin_memcpy(key.mac, (__u8 *)h->mac + 6, 6);
	else
		__builtin_memcpy(key.mac, h->mac, 6);
	member = bpf_map_lookup_elem(&l2_streams, &key);
	if (!member)
		return false;
	*found = *member;
	return true;
}

__noinline int read_ip(struct xdp_md *ctx, const struct headers *h, struct ip_fields *ip)
{
	struct cursor c = {(void *)(long)ctx->data, (void *)(long)ctx->data_end};

	/* The mask tells the verifier what parse_headers already knows. */
	return h && ip && take(&c, h->payload & 0x1f) &&
	       parse_ip(&c, h, bpf_xdp_get_buff_len(ctx) - h->payload, ip);
}

/* A frame is only looked into as far as the node's streams ask for. */
static __always_inline bool identify_ip(struct xdp_md *ctx, const struct headers *h,
					const struct frer_shapes *n, __u32 port,
					struct frer_member *found)
{
	struct ip_fields ip = {};

	if (!read_ip(ctx, h, &ip))
		return false;
	for (__u32 i = 0; i < FRER_MAX_SHAPES && i < n->ip_count; i++) {
		if (find_ip(h, &ip, n->ip[i], port, found))
			return true;
	}
	return false;
}

__noinline int identify(struct xdp_md *ctx, const struct headers *h, __u32 port,
			struct frer_member *found)
{
	struct frer_shapes *n;
	struct frer_node *nd;
	__u32 zero = 0;

	if (!h || !found)
		return false;
	nd = bpf_map_lookup_elem(&node, &zero);
	if (!nd)
		return false;
	n = &nd->shapes[nd->active & 1];
	if (n->ip_count && identify_ip(ctx, h, n, port, found))
		return true;
	for (__u32 i = 0; i < FRER_MAX_SHAPES && i < n->l2_count; i++) {
		if (find_l2(h, n->l2[i], port, found))
			return true;
	}
	return false;
}

#endif
