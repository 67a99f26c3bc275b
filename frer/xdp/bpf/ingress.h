/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* FRER on one port: frames that its interface receives. */
#ifndef ONBEAT_INGRESS_H
#define ONBEAT_INGRESS_H

#include "clock.h"
#include "egress.h"
#include "generate.h"
#include "identify.h"
#include "recover_state.h"
#include "paths.h"

/* The port this instance serves. */
const volatile __u8 port;

/* The driver processes the frames of a receive queue one at a time. */
const volatile bool serial_queues;

/* Count a frame that is dropped before sequence recovery. A truncated R-TAG: 10.8.11. */
static __always_inline bool drop_unjudged(__u32 member, bool truncated)
{
	struct frer_member_record *record = bpf_map_lookup_elem(&member_records, &member);

	if (record && truncated)
		count(&record->enc_errored);
	if (record)
		count(&record->unjudged);
	return false;
}

static __always_inline __u32 number_of(const struct headers *h)
{
	return h->tag == TAG_R ? h->sequence : NO_SEQUENCE;
}

/* Whether only this program processes frames of the port, one at a time. */
static __always_inline bool is_serial(const struct xdp_md *ctx)
{
	return serial_queues && likely(!ctx->rx_queue_index);
}

/* Whether a frame passes the individual recovery of its member, if it has one, in this slot. */
static __always_inline bool passes_member(const struct xdp_md *ctx, __u32 member, __u32 individual,
					  const struct headers *h, const __u32 uses)
{
	struct recovery f;

	if (h->tag == TAG_TRUNCATED)
		return drop_unjudged(member, true);
	if (!USES(INDIVIDUAL) || individual == FRER_FUNCTIONS_SLOT ||
	    !find_recovery(individual, &f))
		return true;
	return recover_individual(individual, &f, number_of(h), now_ns(), is_serial(ctx)) ||
	       drop_unjudged(member, false);
}

/*
 * The only counter of most frames: an atomic addition takes some 8 ns, a sixth of the time of a
 * program.
 */
static __always_inline void count_outcome(const struct xdp_md *ctx, __u32 slot,
					  struct frer_member *member, bool pass)
{
	struct frer_member_record *record;
	__u64 *counter;

	if (is_serial(ctx)) {
		counter = pass ? &member->passed : &member->dropped;
		WRITE_ONCE(*counter, READ_ONCE(*counter) + 1);
		return;
	}
	record = bpf_map_lookup_elem(&member_records, &slot);
	if (record)
		count(pass ? &record->passed : &record->dropped);
}

/* Measure the paths of a stream by some of its numbers. */
static __always_inline void measure(__u32 slot, __u32 member, __u32 sequence, bool pass)
{
	if (unlikely(!(sequence & (FRER_SAMPLED - 1))) && sequence != NO_SEQUENCE)
		record_path(slot, member, sequence, pass);
}

static __always_inline int protect(struct xdp_md *ctx, __u64 found, struct headers *h,
				   const __u32 uses)
{
	__u32 slot = found >> FRER_FOUND_MEMBER & FRER_MEMBER_MASK, individual;
	__u32 kind = found >> FRER_FOUND_KIND & 3, state = found & FRER_STATE_MASK;
	struct frer_member *member = bpf_map_lookup_elem(&members, &slot);
	struct frer_generator *generator;
	struct replication replication;
	struct recovery sequence;
	__u64 functions;
	bool pass;

	if (!member)
		return XDP_DROP;
	/* With many streams, none of these lines is in a near cache: load both at once. */
	functions = READ_ONCE(member->functions);
	individual = functions >> FRER_FUNCTIONS_INDIVIDUAL & FRER_FUNCTIONS_SLOT;
	if (USES(RECOVERY) && kind == FRER_STATE_RECOVERY) {
		if (!find_recovery(state, &sequence))
			return XDP_DROP;
		READ_ONCE(sequence.r->head);
		pass = passes_member(ctx, slot, individual, h, uses);
		if (pass) {
			pass = recover(state, &sequence, number_of(h), now_ns());
			measure(state, slot, number_of(h), pass);
		}
	} else if (USES(GENERATION) && kind == FRER_STATE_GENERATOR) {
		generator = bpf_map_lookup_elem(&generators, &state);
		if (!generator)
			return XDP_DROP;
		READ_ONCE(generator->next);
		pass = passes_member(ctx, slot, individual, h, uses);
		if (pass)
			generate(ctx, generator, h);
	} else {
		pass = passes_member(ctx, slot, individual, h, uses);
	}
	count_outcome(ctx, slot, member, pass);
	if (!pass || !find_replication(functions, &replication))
		return XDP_DROP;
	return replicate(ctx, &replication, h, port, uses);
}

/* For the only member of the port: the same without what the port does not use. */
static __always_inline int protect_only(struct xdp_md *ctx, struct headers *h, const __u32 uses)
{
	__u32 slot = only_member, state = only_state, individual = only_individual;
	struct frer_member *member = bpf_map_lookup_elem(&members, &slot);
	struct replication replication = {
	    .tag = USES(GENERATION) ? FRER_TAG_PUSH : FRER_TAG_POP,
	};
	struct frer_generator *generator;
	struct recovery sequence;
	bool pass = true;

	if (unlikely(!member || !find_target(&replication, only_group, only_target)))
		return XDP_DROP;
	if (USES(RECOVERY)) {
		if (unlikely(!find_recovery(state, &sequence)))
			return XDP_DROP;
		pass = passes_member(ctx, slot, individual, h, uses);
		if (pass) {
			pass = recover(state, &sequence, h->sequence, now_ns());
			measure(state, slot, h->sequence, pass);
		}
	} else {
		generator = bpf_map_lookup_elem(&generators, &state);
		if (unlikely(!generator))
			return XDP_DROP;
		generate(ctx, generator, h);
	}
	count_outcome(ctx, slot, member, pass);
	if (!pass || (USES(REWRITE) && !set_vid(ctx, only_new_vid)))
		return XDP_DROP;
	return replicate(ctx, &replication, h, port, uses);
}

/* Parse a frame of the only member of the port, with one VLAN tag; false for any other. */
static __always_inline bool parse_only(const struct cursor *c, struct headers *h, const __u32 uses)
{
	const struct vlan_tag *vlan = c->at + ADDRESSES;
	const struct rtag *r = (const void *)(vlan + 1);

	if (unlikely(c->at + LONGEST_HEADERS > c->end))
		return false;
	if (unlikely((*(const __u64 *)c->at & 0xffffffffffff) != only_destination))
		return false;
	if (unlikely(vlan->tpid != bpf_htons(ETHERTYPE_VLAN) ||
		     (vlan->tci & bpf_htons(VID_MASK)) != only_vid))
		return false;
	h->vlans = 1;
	if (USES(RECOVERY)) {
		h->tag = TAG_R;
		h->sequence = bpf_ntohs(r->sequence);
		return r->ethertype == bpf_htons(ETHERTYPE_RTAG);
	}
	h->tag = TAG_NONE;
	return !is_vlan(r->ethertype) && r->ethertype != bpf_htons(ETHERTYPE_HSR) &&
	       r->ethertype != bpf_htons(ETHERTYPE_RTAG);
}

/* The stream of a frame, or 0. */
static __always_inline __u64 find_stream(struct xdp_md *ctx, const struct headers *h,
					 const __u32 uses, const __u16 shape)
{
	__u32 *mac = (void *)(long)ctx->data;
	__u32 msdu = ADDRESSES + h->vlans * sizeof(struct vlan_tag);

	if (USES(SHAPES))
		return identify(ctx, h->ethertype, h->payload | msdu << 16, h->vid, port);
	return shape != FRER_SHAPE_NONE ? find_l2(mac, h->vid, shape, port) : 0;
}

static __always_inline int ingress(struct xdp_md *ctx, const __u32 uses, const __u16 shape,
				   const bool at_once)
{
	struct cursor c = {(void *)(long)ctx->data, (void *)(long)ctx->data_end};
	struct headers h;
	__u64 found;

	if (!(at_once ? parse_headers_at_once(&c, &h) : parse_headers(&c, &h)))
		return unmatched(port);
	found = find_stream(ctx, &h, uses, shape);
	return found ? protect(ctx, found, &h, uses) : unmatched(port);
}

#endif
