/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* What a frame looks like where it leaves, and where that is. */
#ifndef ONBEAT_EGRESS_H
#define ONBEAT_EGRESS_H

#include "maps.h"
#include "parse.h"

static __always_inline void rewrite(struct headers *h, const struct frer_rewrite *to)
{
	__u16 tci;

	if (!to->flags)
		return;
	if (to->flags & FRER_REWRITE_DESTINATION)
		__builtin_memcpy(h->mac, to->destination, 6);
	if (to->flags & FRER_REWRITE_VLAN) {
		if (!h->vlans) {
			h->vlan[0].tpid = bpf_htons(ETHERTYPE_VLAN);
			h->vlan[0].tci = 0;
			h->vlans = 1;
		}
		/* PCP and DEI stay as they are. */
		tci = bpf_ntohs(h->vlan[0].tci);
		h->vlan[0].tci = bpf_htons((tci & ~VID_MASK) | to->vid);
	}
	if ((to->flags & FRER_REWRITE_NO_VLAN) && h->vlans) {
		h->vlan[0] = h->vlan[1];
		h->vlans--;
	}
	if ((to->flags & FRER_REWRITE_PRIORITY) && h->vlans) {
		tci = bpf_ntohs(h->vlan[0].tci) & ((1 << PCP_SHIFT) - 1);
		h->vlan[0].tci = bpf_htons(tci | to->priority << PCP_SHIFT);
	}
}

static __always_inline void tag(struct headers *h, __u8 action)
{
	if (action == FRER_TAG_PUSH && h->tag == TAG_GENERATED)
		h->tag = TAG_R;
	else if (action == FRER_TAG_POP || h->tag == TAG_GENERATED)
		h->tag = TAG_NONE;
}

/*
 * Write `h` in front of the EtherType that ended the `length` octets it was parsed from: room for
 * all that came, went or changed is made once, then everything is written once. A global function:
 * the verifier looks at it once, by itself.
 */
static __always_inline int emit(struct xdp_md *ctx, const struct headers *h)
{
	struct vlan_tag *vlan;
	struct cursor c;
	struct rtag *r;
	__u32 length;
	__u32 *mac;

	if (!h)
		return false;
	length = 12 + 4 * h->vlans + (h->tag == TAG_R ? sizeof(struct rtag) : 0);
	if (length != h->length && bpf_xdp_adjust_head(ctx, (int)h->length - (int)length))
		return false;
	c.at = (void *)(long)ctx->data;
	c.end = (void *)(long)ctx->data_end;

	mac = take(&c, 12);
	if (!mac)
		return false;
	mac[0] = h->mac[0];
	mac[1] = h->mac[1];
	mac[2] = h->mac[2];
#pragma unroll
	for (int i = 0; i < 2; i++) {
		if (i >= h->vlans)
			break;
		vlan = take(&c, sizeof(*vlan));
		if (!vlan)
			return false;
		*vlan = h->vlan[i];
	}
	if (h->tag == TAG_R) {
		r = take(&c, sizeof(*r));
		if (!r)
			return false;
		r->ethertype = bpf_htons(ETHERTYPE_RTAG);
		r->reserved = h->reserved;
		r->sequence = bpf_htons(h->sequence);
	}
	return true;
}

/* Counts a frame that a driver's limits keep from leaving. */
static __always_inline int no_room(__u32 port)
{
	struct frer_port_counters *counters = port_counters_of(port);

	if (counters)
		count(&counters->no_room);
	return XDP_DROP;
}

static __always_inline int no_meta(__u32 port)
{
	struct frer_port_counters *counters = port_counters_of(port);

	if (counters)
		count(&counters->no_meta);
	return XDP_DROP;
}

/* Stream splitting (802.1CB 7.7): send the frame to every egress port of its stream. */
static __always_inline int replicate(struct xdp_md *ctx, __u32 slot, struct headers *h, __u32 port)
{
	struct frer_split *split = bpf_map_lookup_elem(&splits, &slot);
	struct frer_meta *meta;
	void *group;

	if (!split)
		return XDP_DROP;
	if (split->flags & FRER_SPLIT_TOUCH) {
		rewrite(h, &split->up);
		rewrite(h, &split->rewrite);
		tag(h, split->tag);
		if (!emit(ctx, h))
			return no_room(port);
	}
	if (split->count == 1)
		return bpf_redirect_map(&egress_ports, split->port, XDP_DROP);

	if (split->flags & FRER_SPLIT_EGRESSES) {
		if (bpf_xdp_adjust_meta(ctx, -(int)sizeof(*meta)))
			return no_meta(port);
		meta = (void *)(long)ctx->data_meta;
		if ((void *)(meta + 1) > (void *)(long)ctx->data)
			return no_meta(port);
		meta->split = slot;
		meta->zero = 0;
	}
	group = bpf_map_lookup_elem(&groups, &split->group);
	if (!group)
		return XDP_DROP;
	return bpf_redirect_map(group, 0, BPF_F_BROADCAST);
}

/* The replica that leaves by `port`, where replicas differ. */
static __always_inline int finish_replica(struct xdp_md *ctx, __u8 port)
{
	struct frer_meta *meta = (void *)(long)ctx->data_meta;
	struct frer_egress *egress;
	struct frer_split *split;
	struct headers h;
	struct cursor c;
	__u32 slot;

	if ((void *)(meta + 1) > (void *)(long)ctx->data)
		return XDP_DROP;
	slot = meta->split;
	split = bpf_map_lookup_elem(&splits, &slot);
	if (!split)
		return XDP_DROP;
	slot = split->egress + __builtin_popcountll(split->ports & ((1ULL << port) - 1));
	egress = bpf_map_lookup_elem(&egresses, &slot);
	if (!egress)
		return XDP_DROP;

	c.at = (void *)(long)ctx->data;
	c.end = (void *)(long)ctx->data_end;
	if (!parse_headers(&c, &h))
		return XDP_DROP;
	rewrite(&h, &egress->rewrite);
	tag(&h, egress->tag);
	return emit(ctx, &h) ? XDP_PASS : XDP_DROP;
}

#endif
