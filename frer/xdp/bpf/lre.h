/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * A link redundancy entity of PRP (IEC 62439-3, clause 4) on one of its ports: frames that match no
 * stream. frer/core/src/prp is the same in user space; tests compare both.
 *
 * Supervision frames, aliases and the age of entries are the loader's.
 */
#ifndef ONBEAT_LRE_H
#define ONBEAT_LRE_H

#include "host_port.h"
#include "resize.h"
#include "sources.h"

/* The role of the port, enum frer_lre_role. */
const volatile __u8 lre_role;
/* The number of the port towards the host. */
const volatile __u8 lre_host_port;
/*
 * In generic mode, frames are passed with their trailer, and lans.bpf.c sends them. The copies of a
 * frame share one buffer, so that they cannot differ. And the kernel sets the end of a buffer that
 * a program has shortened or extended 14 octets too far: what TCP appends there is corrupt.
 */
const volatile bool lre_passes_frames;

/*
 * Number a frame of the host, and send it on both LANs. The trailer is that of LAN A; the program
 * of the device map changes the copy for LAN B.
 */
static __always_inline int lre_from_host(struct xdp_md *ctx, const struct headers *h,
					 struct frer_lre *e, struct frer_lre_counters *counters)
{
	__u32 length = length_of(ctx), least = h->vlans ? MIN_TAGGED : MIN_UNTAGGED, size;
	struct trailer *trailer;
	struct redundancy r;
	__u64 now = lre_now_ns();

	read_addresses(ctx, &r);
	if (is_link_local(r.destination, h->ethertype)) {
		lre_count(counters, link_local);
		return XDP_DROP;
	}
	if (e->is_segment) {
		if (unlikely(is_supervision(&r, h->ethertype))) {
			hear(ctx, r.source);
			lre_count(counters, link_local);
			return XDP_DROP;
		}
		if (unlikely(is_blocked())) {
			lre_count(counters, blocked);
			return XDP_DROP;
		}
	}
	if (r.source != e->mac && !(r.source & GROUP_BIT))
		note_proxy(e, counters, r.source, now);
	if (e->is_segment && bpf_map_lookup_elem(&lre_proxies, &r.destination)) {
		lre_count(counters, local);
		return XDP_DROP;
	}
	if (now < e->silent_until_ns) {
		lre_count(counters, silent);
		return XDP_DROP;
	}
	least = length > least ? length : least;
	size = least + sizeof(*trailer) - lsdu_offset(h);
	if (size > MAX_LSDU) {
		lre_count(counters, too_long);
		return XDP_DROP;
	}
	if (!append(ctx, length, least + sizeof(*trailer) - length))
		return no_room(port);
	trailer = octets_at(ctx, least, sizeof(*trailer));
	if (!trailer)
		return no_room(port);
	trailer->sequence = bpf_htons(draw(e, period_of(e, now)));
	trailer->lan_and_size = bpf_htons(LAN_IDS << 13 | size);
	trailer->suffix = bpf_htons(ETHERTYPE_PRP);
	lre_count(counters, numbered);
	return lre_passes_frames ? XDP_PASS : bpf_redirect_map(&lre_lans, 0, BPF_F_BROADCAST);
}

/* Submit a supervision frame to the loader, unless too many are waiting already. */
static __noinline int submit(struct xdp_md *ctx, __u32 lan, __u64 now)
{
	struct frer_lre_supervision frame = {.at_ns = now, .lan = lan};
	__u64 length = length_of(ctx);

	if (length > sizeof(frame.octets))
		length = sizeof(frame.octets);
	frame.length = length;
	if (length < ADDRESSES + 2 || bpf_xdp_load_bytes(ctx, 0, frame.octets, length))
		return 0;
	return bpf_map_push_elem(&lre_supervision, &frame, BPF_ANY);
}

/* Pass a frame to prp_share, with what it is. */
static __always_inline int pass_marked(struct xdp_md *ctx, __u32 as)
{
	__u32 *mark;

	if (bpf_xdp_adjust_meta(ctx, -(int)sizeof(*mark)))
		return no_room(port);
	mark = (void *)(long)ctx->data_meta;
	if ((void *)(mark + 1) > (void *)(long)ctx->data)
		return no_room(port);
	*mark = as;
	return XDP_PASS;
}

static __always_inline int lre_from_lan(struct xdp_md *ctx, const struct headers *h,
					struct frer_lre *e, struct frer_lre_counters *counters,
					__u32 lan)
{
	__u64 now = lre_now_ns(), interface = e->lan_mac[lan & 1];
	struct redundancy r;
	bool is_first;

	read_addresses(ctx, &r);
	read_trailer(ctx, h, &r);
	if (is_link_local(r.destination, h->ethertype) ||
	    (r.destination == interface && interface != e->mac)) {
		lre_count(counters, passed);
		return XDP_PASS;
	}
	if (is_own(e, e, &r, &r.source, now)) {
		lre_count(counters, own);
		if (r.has_number && r.lan != lan)
			lre_count(counters, own_of_other_lan);
		return XDP_DROP;
	}
	forget_proxy(e, &r.source);
	if (r.has_number && r.lan != lan)
		lre_count(counters, wrong_lan);
	is_first = note(ctx, counters, &r, &r.source, lan, now, period_of(e, now));
	if (is_supervision(&r, h->ethertype)) {
		lre_count(counters, supervision);
		if (submit(ctx, lan, now))
			lre_count(counters, unread_supervision);
		return XDP_DROP;
	}
	if (!r.has_number) {
		if (unlikely(is_blocked())) {
			lre_count(counters, blocked);
			/* The interface's own stack receives them. */
			return r.destination & GROUP_BIT ? pass_marked(ctx, NOT_SHARED) : XDP_DROP;
		}
		lre_count(counters, untagged);
		if (unlikely(h->tag != TAG_NONE))
			lre_count(counters, other_protocol);
		/* The interface's own stack receives them; prp_share copies them to the host. */
		if (r.destination & GROUP_BIT)
			return XDP_PASS;
		return bpf_redirect_map(&egress_ports, lre_host_port, XDP_DROP);
	}
	if (!is_first) {
		lre_count(counters, duplicates);
		return XDP_DROP;
	}
	if (unlikely(is_blocked())) {
		lre_count(counters, blocked);
		return XDP_DROP;
	}
	lre_count(counters, accepted);
	if (lre_passes_frames)
		return pass_marked(ctx, ACCEPTED);
	if (bpf_xdp_adjust_tail(ctx, -(int)sizeof(struct trailer)))
		return no_room(port);
	return bpf_redirect_map(&egress_ports, lre_host_port, XDP_DROP);
}

static __always_inline int lre_frame(struct xdp_md *ctx, const struct headers *h)
{
	__u32 zero = 0, role = lre_role;
	struct frer_lre_counters *counters = bpf_map_lookup_elem(&lre_counters, &role);
	struct frer_lre *e = bpf_map_lookup_elem(&lre, &zero);

	if (!e || !READ_ONCE(e->ports))
		return unmatched(port);
	if (!h) {
		lre_count(counters, malformed);
		return XDP_DROP;
	}
	if (role == FRER_LRE_HOST)
		return lre_from_host(ctx, h, e, counters);
	return lre_from_lan(ctx, h, e, counters, role == FRER_LRE_LAN_B);
}

/* Change the copy for LAN B. Replicas of streams leave there, too. */
static __always_inline int finish_lan_b(struct xdp_md *ctx)
{
	struct frer_meta *meta = (void *)(long)ctx->data_meta;
	struct trailer *trailer;

	if ((void *)(meta + 1) <= (void *)(long)ctx->data && meta->mark == FRER_META_MARK)
		return finish_replica(ctx, port);
	trailer = octets_at(ctx, length_of(ctx) - sizeof(*trailer), sizeof(*trailer));
	if (trailer && trailer->suffix == bpf_htons(ETHERTYPE_PRP) &&
	    bpf_ntohs(trailer->lan_and_size) >> 13 == LAN_IDS)
		trailer->lan_and_size |= bpf_htons(LAN_B);
	return XDP_PASS;
}

#endif
