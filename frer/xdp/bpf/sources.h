/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Numbers, stations and sources of an entity: what lre.h and wildcard.h share. */
#ifndef ONBEAT_SOURCES_H
#define ONBEAT_SOURCES_H

#include "discard.h"
#include "lre_frame.h"

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
				       __u64 key, __u64 now)
{
	__u64 *last = bpf_map_lookup_elem(&lre_proxies, &key);

	if (last) {
		WRITE_ONCE(*last, now);
		return;
	}
	if (READ_ONCE(e->stations) >= e->max_sources ||
	    bpf_map_update_elem(&lre_proxies, &key, &now, BPF_ANY))
		lre_count(counters, unknown_proxies);
	else
		__sync_fetch_and_add(&e->stations, 1);
	WRITE_ONCE(e->has_proxies, 1);
}

/* A station that moved to a LAN from behind the host port. */
static __always_inline void forget_proxy(struct frer_lre *e, const __u64 *key)
{
	if (READ_ONCE(e->has_proxies) && bpf_map_lookup_elem(&lre_proxies, key) &&
	    !bpf_map_delete_elem(&lre_proxies, key))
		__sync_fetch_and_add(&e->stations, -1);
}

/*
 * Whether a frame was sent by this node, with the numbers of `first`:
 * onbeat_frer::prp::Lre::is_own. `key`: of its source, here and below.
 */
static __always_inline bool is_own(struct frer_lre *e, struct frer_lre *first,
				   const struct redundancy *r, const __u64 *key, __u64 now)
{
	__u64 *last;

	if (r->source == e->mac)
		return true;
	/* A number that was not drawn lately, or none: it is a station that has moved. */
	if (!READ_ONCE(e->has_proxies) || !r->has_number)
		return false;
	last = bpf_map_lookup_elem(&lre_proxies, key);
	/* Another CPU can be a step of the clock ahead. */
	return last && (__s64)(now - READ_ONCE(*last)) < (__s64)(2 * first->period_ns) &&
	       is_recent(first, r->sequence, period_of(first, now));
}

/* A new entry of a source, or FRER_NONE. A program on another CPU may add the same one. */
static __noinline __u32 add_source(__u64 key)
{
	__u32 entity = key >> FRER_LRE_KEY_SHIFT, slot, *known;
	struct frer_lre *e = bpf_map_lookup_elem(&lre, &entity);
	struct frer_lre_source *source;

	if (!e || READ_ONCE(e->sources) >= e->max_sources || bpf_map_pop_elem(&lre_free, &slot))
		return FRER_NONE;
	source = bpf_map_lookup_elem(&lre_sources, &slot);
	if (!source)
		return FRER_NONE;
	WRITE_ONCE(source->owner, FRER_LRE_SOURCE | key);
	if (!bpf_map_update_elem(&lre_nodes, &key, &slot, BPF_NOEXIST)) {
		__sync_fetch_and_add(&e->sources, 1);
		return slot;
	}
	WRITE_ONCE(source->owner, 0);
	bpf_map_push_elem(&lre_free, &slot, BPF_ANY);
	known = bpf_map_lookup_elem(&lre_nodes, &key);
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
static __always_inline bool note(const struct xdp_md *ctx, struct frer_lre_counters *counters,
				 const struct redundancy *r, const __u64 *key, __u32 lan, __u64 now,
				 __u32 period)
{
	__u64 owner = FRER_LRE_SOURCE | *key, alias, *newest;
	__u32 *known = bpf_map_lookup_elem(&lre_nodes, key), slot;
	struct frer_lre_numbers *numbers;
	struct frer_lre_record *record;
	struct frer_lre_source *source;
	bool is_alias;

	if (!known && !r->has_number) {
		note_single(r->source, lan, now);
		return true;
	}
	slot = known ? *known : add_source(*key);
	source = bpf_map_lookup_elem(&lre_sources, &slot);
	alias = source ? READ_ONCE(source->alias) : 0;
	is_alias = alias && (alias & MAC_MASK) == r->source;
	/* The entry may be that of another source by now. */
	if (!source || (!is_alias && READ_ONCE(source->owner) != owner)) {
		/* Twice rather than never. What has no number has no second copy. */
		if (r->has_number)
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
	if (!r->has_number) {
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
	return !numbers || discard_accepts(newest, numbers->word, r->sequence, period);
}

#endif
