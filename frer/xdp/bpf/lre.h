/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * A link redundancy entity of PRP (IEC 62439-3, clause 4) on one of its ports: frames that match no
 * stream. frer/core/src/prp is the same in user space; tests compare both.
 *
 * Supervision frames, aliases and the age of entries are the loader's.
 */
#ifndef ONBEAT_LRE_H
#define ONBEAT_LRE_H

#include "discard.h"
#include "host_port.h"
#include "lre_frame.h"
#include "resize.h"

static __always_inline __u32 period_of(const struct frer_lre *e, __u64 now)
{
	return now / (e->period_ns ?: 1);
}

/* Draw a number. The first one of each period is noted, to recognize own frames that return. */
static __always_inline __u16 draw(struct frer_lre *e, __u32 period)
{
	__u64 *at = &e->started[period % FRER_LRE_PERIODS];
	__u64 started = READ_ONCE(*at);

	if (started >> 32 != period)
		__sync_val_compare_and_swap(at, started,
					    (__u64)period << 32 | (__u32)READ_ONCE(e->drawn));
	return __sync_fetch_and_add(&e->drawn, 1);
}

/* Whether a number was drawn in this period or the former one. */
static __always_inline bool is_recent(struct frer_lre *e, __u16 number, __u32 period)
{
	__u64 started = READ_ONCE(e->started[(period - 1) % FRER_LRE_PERIODS]);
	__u32 drawn = READ_ONCE(e->drawn);

	if (started >> 32 != (__u32)(period - 1)) {
		started = READ_ONCE(e->started[period % FRER_LRE_PERIODS]);
		if (started >> 32 != period)
			return false;
	}
	return (__u16)(drawn - 1 - number) < drawn - (__u32)started;
}

/* Note a station behind the host port. With a full table its frames pass nevertheless. */
static __always_inline void note_proxy(struct frer_lre *e, struct frer_lre_counters *counters,
				       __u64 mac, __u64 now)
{
	__u64 *last = bpf_map_lookup_elem(&lre_proxies, &mac);

	if (last) {
		WRITE_ONCE(*last, now);
		return;
	}
	if (bpf_map_update_elem(&lre_proxies, &mac, &now, BPF_ANY))
		lre_count(counters, unknown_proxies);
	WRITE_ONCE(e->has_proxies, 1);
}

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

/* Whether a frame was sent by this node: onbeat_frer::prp::Lre::is_own. */
static __always_inline bool is_own(struct frer_lre *e, const struct redundancy *r, __u64 now)
{
	__u64 *last;

	if (r->source == e->mac)
		return true;
	/* A number that was not drawn lately, or none: it is a station that has moved. */
	if (!READ_ONCE(e->has_proxies) || !r->has_trailer)
		return false;
	last = bpf_map_lookup_elem(&lre_proxies, &r->source);
	/* Another CPU can be a step of the clock ahead. */
	return last && (__s64)(now - READ_ONCE(*last)) < (__s64)(2 * e->period_ns) &&
	       is_recent(e, r->sequence, period_of(e, now));
}

/* A new entry of a source, or FRER_NONE. A program on another CPU may add the same one. */
static __noinline __u32 add_source(__u64 mac)
{
	struct frer_lre_source *source;
	__u32 slot, *known;

	if (bpf_map_pop_elem(&lre_free, &slot))
		return FRER_NONE;
	source = bpf_map_lookup_elem(&lre_sources, &slot);
	if (!source)
		return FRER_NONE;
	WRITE_ONCE(source->owner, FRER_LRE_SOURCE | mac);
	if (!bpf_map_update_elem(&lre_nodes, &mac, &slot, BPF_NOEXIST))
		return slot;
	WRITE_ONCE(source->owner, 0);
	bpf_map_push_elem(&lre_free, &slot, BPF_ANY);
	known = bpf_map_lookup_elem(&lre_nodes, &mac);
	return known ? *known : FRER_NONE;
}

/* A station without a trailer and without an entry: its record only informs. */
static __always_inline void note_single(__u64 mac, __u32 lan, __u64 now)
{
	struct frer_lre_single *single = bpf_map_lookup_elem(&lre_singles, &mac), new = {};

	if (single) {
		WRITE_ONCE(single->last_ns[lan & 1], now);
		__sync_fetch_and_add(&single->untagged[lan & 1], 1);
		return;
	}
	new.last_ns[lan & 1] = now;
	new.untagged[lan & 1] = 1;
	bpf_map_update_elem(&lre_singles, &mac, &new, BPF_NOEXIST);
}

/* Note a frame from a LAN; returns whether it is the first copy. */
static __always_inline bool note(const struct xdp_md *ctx, const struct frer_lre *e,
				 struct frer_lre_counters *counters, const struct redundancy *r,
				 __u32 lan, __u64 now)
{
	__u64 owner = FRER_LRE_SOURCE | r->source, alias, *newest;
	__u32 *known = bpf_map_lookup_elem(&lre_nodes, &r->source), slot;
	struct frer_lre_numbers *numbers;
	struct frer_lre_record *record;
	struct frer_lre_source *source;
	bool is_alias;

	if (!known && !r->has_trailer) {
		note_single(r->source, lan, now);
		return true;
	}
	slot = known ? *known : add_source(r->source);
	source = bpf_map_lookup_elem(&lre_sources, &slot);
	alias = source ? READ_ONCE(source->alias) : 0;
	is_alias = alias && (alias & MAC_MASK) == r->source;
	/* The entry may be that of another source by now. */
	if (!source || (!is_alias && READ_ONCE(source->owner) != owner)) {
		/* Twice rather than never. What has no trailer has no second copy. */
		if (r->has_trailer)
			lre_count(counters, without_entry);
		return true;
	}
	/* Until the loader ends the alias, the numbers of neither source discard. */
	if (unlikely(alias && (READ_ONCE(source->contradicted) ||
			       is_alias != (alias >> FRER_LRE_LAN_SHIFT == lan)))) {
		WRITE_ONCE(source->contradicted, 1);
		return true;
	}
	record = &source->lans[lan & 1];
	WRITE_ONCE(record->last_ns, now);
	if (!is_alias && !source->heard[lan & 1])
		WRITE_ONCE(source->heard[lan & 1], 1);
	if (!r->has_trailer) {
		__sync_fetch_and_add(&record->untagged, 1);
		return true;
	}
	if (is_serial(ctx))
		WRITE_ONCE(record->tagged, READ_ONCE(record->tagged) + 1);
	else
		__sync_fetch_and_add(&record->tagged, 1);
	if (unlikely(r->lan != lan))
		__sync_fetch_and_add(&record->wrong_lan, 1);
	numbers = bpf_map_lookup_elem(&lre_numbers, &slot);
	newest = &source->newest;
	return !numbers || discard_accepts(newest, numbers->word, r->sequence, period_of(e, now));
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
	if (is_own(e, &r, now)) {
		lre_count(counters, own);
		if (r.has_trailer && r.lan != lan)
			lre_count(counters, own_of_other_lan);
		return XDP_DROP;
	}
	/* A station that moved here from behind the host port. */
	if (READ_ONCE(e->has_proxies) && bpf_map_lookup_elem(&lre_proxies, &r.source))
		bpf_map_delete_elem(&lre_proxies, &r.source);
	if (r.has_trailer && r.lan != lan)
		lre_count(counters, wrong_lan);
	is_first = note(ctx, e, counters, &r, lan, now);
	if (is_supervision(&r, h->ethertype)) {
		lre_count(counters, supervision);
		if (submit(ctx, lan, now))
			lre_count(counters, unread_supervision);
		return XDP_DROP;
	}
	if (!r.has_trailer) {
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

/* Change the copy for LAN B. */
static __always_inline int finish_lan_b(struct xdp_md *ctx)
{
	struct trailer *trailer =
	    octets_at(ctx, length_of(ctx) - sizeof(*trailer), sizeof(*trailer));

	if (!trailer)
		return XDP_DROP;
	trailer->lan_and_size |= bpf_htons(LAN_B);
	return XDP_PASS;
}

#endif
