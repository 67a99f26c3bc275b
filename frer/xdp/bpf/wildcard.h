/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The wildcards of a node on one of its ports: frames that match no stream, with R-TAGs.
 * frer/core/src/wildcard.rs is the same in user space; tests compare both.
 */
#ifndef ONBEAT_WILDCARD_H
#define ONBEAT_WILDCARD_H

#include "sources.h"

TABLE(BPF_MAP_TYPE_ARRAY, lre_scopes, __u32, struct frer_lre_scopes, LINES);

/* By wildcard: its paths, for one redirect. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY_OF_MAPS);
	__uint(max_entries, 1);
	__type(key, __u32);
	__array(
	    values, struct {
		    __uint(type, BPF_MAP_TYPE_DEVMAP);
		    __uint(max_entries, 2);
		    __type(key, __u32);
		    __type(value, struct bpf_devmap_val);
	    });
} lre_paths SEC(".maps");

/* The wildcard of a frame and the role of this port in it, or 0. */
static __always_inline __u32 scope_of(const struct frer_lre_scopes *scopes, const struct headers *h)
{
	__u32 places = READ_ONCE(scopes->vlans);

	if (!h->vlans || !places)
		return READ_ONCE(scopes->all);
	for (__u32 i = 0; i < FRER_WILDCARDS && i < places; i++) {
		__u64 found = READ_ONCE(scopes->of_vlan[i]);

		if (found && found >> FRER_SCOPE_VLAN == h->vid)
			return found;
	}
	return READ_ONCE(scopes->all);
}

static __always_inline __u64 key_of(__u32 entity, __u64 mac)
{
	return (__u64)entity << FRER_LRE_KEY_SHIFT | mac;
}

static __always_inline struct frer_lre_counters *counters_of(__u32 found)
{
	__u32 at = (found >> FRER_SCOPE_ENTITY) * FRER_LRE_ROLES + (found & FRER_SCOPE_ROLE);

	return bpf_map_lookup_elem(&lre_counters, &at);
}

/* Number a frame of the host, and send it on both paths. */
static __always_inline int wildcard_from_host(struct xdp_md *ctx, const struct headers *h,
					      struct frer_lre *e, struct frer_lre *first,
					      struct frer_lre_counters *counters, __u32 entity)
{
	__u64 now = lre_now_ns();
	struct redundancy r;
	__u64 destination;
	void *paths;

	read_addresses(ctx, &r);
	if (is_link_local(r.destination, h->ethertype)) {
		lre_count(counters, link_local);
		return XDP_DROP;
	}
	if (h->tag != TAG_NONE) {
		lre_count(counters, tagged);
		return XDP_DROP;
	}
	if (r.source != e->mac && !(r.source & GROUP_BIT))
		note_proxy(e, counters, key_of(entity, r.source), now);
	destination = key_of(entity, r.destination);
	if (e->is_segment && bpf_map_lookup_elem(&lre_proxies, &destination)) {
		lre_count(counters, local);
		return XDP_DROP;
	}
	if (now < first->silent_until_ns) {
		lre_count(counters, silent);
		return XDP_DROP;
	}
	paths = bpf_map_lookup_elem(&lre_paths, &entity);
	if (!paths || !push_tag(ctx, h->vlans, draw(first, period_of(first, now))))
		return no_room(port);
	lre_count(counters, numbered);
	return bpf_redirect_map(paths, 0, BPF_F_BROADCAST);
}

static __always_inline int wildcard_from_path(struct xdp_md *ctx, const struct headers *h,
					      struct frer_lre *e, struct frer_lre *first,
					      struct frer_lre_counters *counters, __u32 entity,
					      __u32 lan)
{
	__u64 now = lre_now_ns(), key;
	struct redundancy r;

	read_addresses(ctx, &r);
	key = key_of(entity, r.source);
	r.sequence = h->sequence;
	r.has_number = true;
	r.lan = lan;
	if (is_link_local(r.destination, h->ethertype)) {
		lre_count(counters, passed);
		return XDP_PASS;
	}
	if (is_own(e, first, &r, &key, now)) {
		lre_count(counters, own);
		return XDP_DROP;
	}
	forget_proxy(e, &key);
	if (!note(ctx, counters, &r, &key, lan, now, period_of(first, now))) {
		lre_count(counters, duplicates);
		return XDP_DROP;
	}
	if (!pop_tag(ctx, h->vlans))
		return no_room(port);
	lre_count(counters, accepted);
	return bpf_redirect_map(&egress_ports, (e->ports >> 16 & 0xff) - 1, XDP_DROP);
}

static __always_inline int wildcard_frame(struct xdp_md *ctx, const struct headers *h)
{
	__u32 at = port, first_at = 0, found, entity, role;
	struct frer_lre_scopes *scopes = bpf_map_lookup_elem(&lre_scopes, &at);
	struct frer_lre_counters *counters;
	struct frer_lre *e, *first;
	struct redundancy r;

	if (!scopes)
		return unmatched(port);
	if (unlikely(h->ethertype == bpf_htons(ETHERTYPE_PRP) && h->tag != TAG_R)) {
		/* The peer uses PRP. */
		read_addresses(ctx, &r);
		counters = counters_of(READ_ONCE(scopes->first));
		if (is_supervision(&r, h->ethertype))
			lre_count(counters, other_protocol);
	}
	found = scope_of(scopes, h);
	role = found & FRER_SCOPE_ROLE;
	entity = found >> FRER_SCOPE_ENTITY;
	first = bpf_map_lookup_elem(&lre, &first_at);
	e = bpf_map_lookup_elem(&lre, &entity);
	/* Frames on a path without an R-TAG are those of its own stack. */
	if (!role || !e || !first || !READ_ONCE(e->ports) ||
	    (role != FRER_LRE_HOST && h->tag != TAG_R))
		return unmatched(port);
	counters = counters_of(found);
	if (role == FRER_LRE_HOST)
		return wildcard_from_host(ctx, h, e, first, counters, entity);
	return wildcard_from_path(ctx, h, e, first, counters, entity, role == FRER_LRE_LAN_B);
}

#endif
