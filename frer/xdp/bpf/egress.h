/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Edits of replicas, and replication to egress ports. */
#ifndef ONBEAT_EGRESS_H
#define ONBEAT_EGRESS_H

#include "features.h"
#include "maps.h"
#include "parse.h"

/* Headers to rewrite. */
struct edit {
	__u32 mac[3]; /* destination, source; wire order */
	struct vlan_tag vlan[2];
	__u8 vlans;
	__u8 tag; /* enum sequence_tag */
	__u16 sequence;
	__be16 reserved; /* of a received R-TAG; kept */
	__u16 length;	 /* octets of the original headers */
};

static __always_inline bool begin_edit(struct xdp_md *ctx, const struct headers *h, struct edit *e)
{
	struct cursor c = {(void *)(long)ctx->data, (void *)(long)ctx->data_end};
	__u32 *mac = take(&c, ADDRESSES);
	struct vlan_tag *vlan;
	struct rtag *r;

	if (!mac)
		return false;
	e->mac[0] = mac[0];
	e->mac[1] = mac[1];
	e->mac[2] = mac[2];
	e->vlans = h->vlans;
	e->length = ADDRESSES;
#pragma unroll
	for (int i = 0; i < 2; i++) {
		if (i >= h->vlans)
			break;
		vlan = take(&c, sizeof(*vlan));
		if (!vlan)
			return false;
		e->vlan[i] = *vlan;
		e->length += sizeof(*vlan);
	}
	e->tag = h->tag;
	e->sequence = h->sequence;
	e->reserved = 0;
	if (h->tag == TAG_R) {
		r = take(&c, sizeof(*r));
		if (!r)
			return false;
		e->reserved = r->reserved;
		e->length += sizeof(*r);
	}
	return true;
}

static __always_inline void rewrite(struct edit *e, const struct frer_rewrite *to)
{
	__u16 tci;

	if (to->flags & FRER_REWRITE_DESTINATION)
		__builtin_memcpy(e->mac, to->destination, 6);
	if (to->flags & FRER_REWRITE_VLAN) {
		if (!e->vlans) {
			e->vlan[0].tpid = bpf_htons(ETHERTYPE_VLAN);
			e->vlan[0].tci = 0;
			e->vlans = 1;
		}
		/* PCP and DEI are kept. */
		tci = bpf_ntohs(e->vlan[0].tci);
		e->vlan[0].tci = bpf_htons((tci & ~VID_MASK) | to->vid);
	}
	if ((to->flags & FRER_REWRITE_NO_VLAN) && e->vlans) {
		e->vlan[0] = e->vlan[1];
		e->vlans--;
	}
	if ((to->flags & FRER_REWRITE_PRIORITY) && e->vlans) {
		tci = bpf_ntohs(e->vlan[0].tci) & ((1 << PCP_SHIFT) - 1);
		e->vlan[0].tci = bpf_htons(tci | to->priority << PCP_SHIFT);
	}
}

/* The sequence tag of a replica, given that of the frame. */
static __always_inline __u8 tag_after(__u8 tag, __u8 action)
{
	if (action == FRER_TAG_PUSH && tag == TAG_GENERATED)
		return TAG_R;
	return action == FRER_TAG_POP || tag == TAG_GENERATED ? TAG_NONE : tag;
}

/*
 * Write the headers before the EtherType that follows the original ones: the head of the frame is
 * resized once, then all headers are written once.
 */
static __always_inline bool end_edit(struct xdp_md *ctx, const struct edit *e)
{
	__u32 length = ADDRESSES + sizeof(struct vlan_tag) * e->vlans;
	struct vlan_tag *vlan;
	struct cursor c;
	struct rtag *r;
	__u32 *mac;

	if (e->tag == TAG_R)
		length += sizeof(struct rtag);
	if (length != e->length && bpf_xdp_adjust_head(ctx, (int)e->length - (int)length))
		return false;
	c.at = (void *)(long)ctx->data;
	c.end = (void *)(long)ctx->data_end;

	mac = take(&c, ADDRESSES);
	if (!mac)
		return false;
	mac[0] = e->mac[0];
	mac[1] = e->mac[1];
	mac[2] = e->mac[2];
#pragma unroll
	for (int i = 0; i < 2; i++) {
		if (i >= e->vlans)
			break;
		vlan = take(&c, sizeof(*vlan));
		if (!vlan)
			return false;
		*vlan = e->vlan[i];
	}
	if (e->tag == TAG_R) {
		r = take(&c, sizeof(*r));
		if (!r)
			return false;
		r->ethertype = bpf_htons(ETHERTYPE_RTAG);
		r->reserved = e->reserved;
		r->sequence = bpf_htons(e->sequence);
	}
	return true;
}

/*
 * All edits of a split before replication. A global function: the verifier checks it once, by
 * itself.
 */
__noinline int edit(struct xdp_md *ctx, const struct headers *h, const struct frer_split *split)
{
	struct edit e = {};

	if (!h || !split || !begin_edit(ctx, h, &e))
		return false;
	rewrite(&e, &split->up);
	rewrite(&e, &split->rewrite);
	e.tag = tag_after(e.tag, split->tag);
	return end_edit(ctx, &e);
}

/*
 * The usual edit adds or removes an R-TAG: the `length` octets before it, a compile-time constant,
 * move by the length of a tag.
 */

static __always_inline void move_head(void *to, const void *from, __u32 length)
{
	__u64 first = *(__u64 *)from;
	__u32 then = *(__u32 *)(from + 8);
	__u32 outer = 0, inner = 0;

	if (length > ADDRESSES)
		outer = *(__u32 *)(from + 12);
	if (length > ADDRESSES + 4)
		inner = *(__u32 *)(from + 16);
	*(__u64 *)to = first;
	*(__u32 *)(to + 8) = then;
	if (length > ADDRESSES)
		*(__u32 *)(to + 12) = outer;
	if (length > ADDRESSES + 4)
		*(__u32 *)(to + 16) = inner;
}

static __always_inline bool push_behind(struct xdp_md *ctx, __u32 length, __u16 sequence)
{
	struct rtag *r;
	void *head;

	if (bpf_xdp_adjust_head(ctx, -(int)sizeof(*r)))
		return false;
	head = (void *)(long)ctx->data;
	if (head + length + sizeof(*r) > (void *)(long)ctx->data_end)
		return false;
	move_head(head, head + sizeof(*r), length);
	r = head + length;
	r->ethertype = bpf_htons(ETHERTYPE_RTAG);
	r->reserved = 0;
	r->sequence = bpf_htons(sequence);
	return true;
}

static __always_inline bool pop_behind(struct xdp_md *ctx, __u32 length)
{
	void *head = (void *)(long)ctx->data;

	if (head + length + sizeof(struct rtag) > (void *)(long)ctx->data_end)
		return false;
	move_head(head + sizeof(struct rtag), head, length);
	return !bpf_xdp_adjust_head(ctx, sizeof(struct rtag));
}

/* Whether a VLAN tag follows the addresses. */
static __always_inline bool is_tagged(const struct xdp_md *ctx)
{
	const struct vlan_tag *vlan = (void *)(long)ctx->data + ADDRESSES;

	return (void *)(vlan + 1) <= (void *)(long)ctx->data_end && is_vlan(vlan->tpid);
}

/* Set the VLAN ID of a tagged frame, whose outer tag keeps PCP and DEI. */
static __always_inline bool set_vid(struct xdp_md *ctx, __be16 vid)
{
	struct vlan_tag *vlan = (void *)(long)ctx->data + ADDRESSES;

	if ((void *)(vlan + 1) > (void *)(long)ctx->data_end)
		return false;
	vlan->tci = (vlan->tci & bpf_htons((__u16)~VID_MASK)) | vid;
	return true;
}

static __always_inline bool push_tag(struct xdp_md *ctx, __u8 vlans, __u16 sequence)
{
	if (vlans == 0)
		return push_behind(ctx, ADDRESSES, sequence);
	if (vlans == 1)
		return push_behind(ctx, ADDRESSES + 4, sequence);
	return push_behind(ctx, ADDRESSES + 8, sequence);
}

static __always_inline bool pop_tag(struct xdp_md *ctx, __u8 vlans)
{
	if (vlans == 0)
		return pop_behind(ctx, ADDRESSES);
	if (vlans == 1)
		return pop_behind(ctx, ADDRESSES + 4);
	return pop_behind(ctx, ADDRESSES + 8);
}

/* Apply the edits common to all replicas. */
static __always_inline bool change(struct xdp_md *ctx, __u32 tag, const struct frer_split *split,
				   const struct headers *h, const __u32 uses)
{
	if (USES(REWRITE) && split && split->flags & FRER_SPLIT_REWRITE) {
		struct headers copy = *h;

		return edit(ctx, &copy, split);
	}
	if (h->tag == TAG_GENERATED && tag == FRER_TAG_PUSH)
		return push_tag(ctx, h->vlans, h->sequence);
	if (h->tag == TAG_R && tag == FRER_TAG_POP)
		return pop_tag(ctx, h->vlans);
	return true;
}

/* Count a frame that the driver's limits prevent from being sent. */
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

/* Where and how the replicas of a frame are sent. */
struct replication {
	const struct frer_split *split; /* NULL: direct */
	void *group;			/* NULL: one port */
	__u32 slot;			/* of the split */
	__u8 tag;
	__u8 port;
};

static __always_inline bool find_target(struct replication *r, bool several, __u32 target)
{
	r->port = target;
	r->group = several ? bpf_map_lookup_elem(&groups, &target) : NULL;
	return !several || r->group;
}

/* Find the replication of a member with this word. */
static __always_inline bool find_replication(__u64 functions, struct replication *r)
{
	__u32 target = functions >> FRER_FUNCTIONS_TARGET;
	bool several = functions & FRER_FUNCTIONS_GROUP;

	r->slot = functions & FRER_FUNCTIONS_SLOT;
	r->tag = functions >> FRER_FUNCTIONS_TAG & 3;
	r->split = NULL;
	if (!(functions & FRER_FUNCTIONS_DIRECT)) {
		r->split = bpf_map_lookup_elem(&splits, &r->slot);
		if (!r->split)
			return false;
		several = r->split->count > 1;
		target = several ? r->split->group : r->split->port;
		r->tag = r->split->tag;
	}
	return find_target(r, several, target);
}

/* Stream splitting (802.1CB 7.7): send the frame to every egress port of its stream. */
static __always_inline int replicate(struct xdp_md *ctx, const struct replication *r,
				     const struct headers *h, __u32 port, const __u32 uses)
{
	struct frer_meta *meta;

	if (USES(EDIT) && !change(ctx, r->tag, r->split, h, uses))
		return no_room(port);
	if (!r->group)
		return bpf_redirect_map(&egress_ports, r->port, XDP_DROP);

	if (USES(EGRESSES) && r->split && r->split->flags & FRER_SPLIT_EGRESSES) {
		if (bpf_xdp_adjust_meta(ctx, -(int)sizeof(*meta)))
			return no_meta(port);
		meta = (void *)(long)ctx->data_meta;
		if ((void *)(meta + 1) > (void *)(long)ctx->data)
			return no_meta(port);
		meta->split = r->slot;
		meta->mark = FRER_META_MARK;
	}
	return bpf_redirect_map(r->group, 0, BPF_F_BROADCAST);
}

/* Edit the replica that leaves by `port`, if replicas differ. */
static __always_inline int finish_replica(struct xdp_md *ctx, __u8 port)
{
	struct frer_meta *meta = (void *)(long)ctx->data_meta;
	struct frer_egress *egress;
	struct frer_split *split;
	struct headers h;
	struct cursor c;
	struct edit e = {};
	__u32 slot;

	/*
	 * A frame without edits. The kernel sends the frames of a poll to an interface together,
	 * and runs the program of the first one for all of them: entries of an interface have one
	 * program.
	 */
	if ((void *)(meta + 1) > (void *)(long)ctx->data || meta->mark != FRER_META_MARK)
		return XDP_PASS;
	slot = meta->split;
	/* A frame keeps it over a veth: it would grow with each node, up to the kernel's limit. */
	if (bpf_xdp_adjust_meta(ctx, sizeof(*meta)))
		return XDP_DROP;
	split = bpf_map_lookup_elem(&splits, &slot);
	if (!split)
		return XDP_DROP;
	slot = split->egress + __builtin_popcountll(split->ports & ((1ULL << port) - 1));
	egress = bpf_map_lookup_elem(&egresses, &slot);
	if (!egress)
		return XDP_DROP;

	/* The usual edit: another VID. The headers behind it stay in place. */
	if (egress->rewrite.flags == FRER_REWRITE_VLAN && egress->tag != FRER_TAG_POP &&
	    is_tagged(ctx))
		return set_vid(ctx, bpf_htons(egress->rewrite.vid)) ? XDP_PASS : XDP_DROP;

	c.at = (void *)(long)ctx->data;
	c.end = (void *)(long)ctx->data_end;
	if (!parse_headers(&c, &h) || !begin_edit(ctx, &h, &e))
		return XDP_DROP;
	rewrite(&e, &egress->rewrite);
	e.tag = tag_after(e.tag, egress->tag);
	return end_edit(ctx, &e) ? XDP_PASS : XDP_DROP;
}

#endif
