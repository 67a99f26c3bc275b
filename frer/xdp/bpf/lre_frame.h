/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Frames, tables and counters of link redundancy entities. */
#ifndef ONBEAT_LRE_FRAME_H
#define ONBEAT_LRE_FRAME_H

#include "clock.h"
#include "maps.h"
#include "parse.h"
#include "trailer.h"

#define SUPERVISION  0x01004e1501ULL /* 01:15:4e:00:01:xx, FIRST_FIVE */
#define MIN_UNTAGGED 60		     /* octets before the trailer */
#define MIN_TAGGED   64
#define LONGEST_LRE  0x3fff /* octets of any frame */

/* What a frame has of the protocol. */
struct redundancy {
	__u64 source;
	__u64 destination;
	__u16 sequence;
	bool has_number;
	__u8 lan; /* of the trailer: 0 or 1 */
};

TABLE(BPF_MAP_TYPE_ARRAY, lre, __u32, struct frer_lre, LINES);
TABLE(BPF_MAP_TYPE_HASH, lre_nodes, __u64, __u32, 0);
TABLE(BPF_MAP_TYPE_ARRAY, lre_sources, __u32, struct frer_lre_source, LINES);
TABLE(BPF_MAP_TYPE_ARRAY, lre_numbers, __u32, struct frer_lre_numbers, LINES);
TABLE(BPF_MAP_TYPE_LRU_HASH, lre_singles, __u64, struct frer_lre_single, 0);
TABLE(BPF_MAP_TYPE_HASH, lre_proxies, __u64, __u64, 0); /* to the time of the last frame */
TABLE(BPF_MAP_TYPE_PERCPU_ARRAY, lre_counters, __u32, struct frer_lre_counters, 0);
TABLE(BPF_MAP_TYPE_DEVMAP, lre_lans, __u32, struct bpf_devmap_val, 0);

struct {
	__uint(type, BPF_MAP_TYPE_QUEUE);
	__uint(max_entries, 1);
	__type(value, __u32);
} lre_free SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_QUEUE);
	__uint(max_entries, 1);
	__type(value, struct frer_lre_supervision);
} lre_supervision SEC(".maps");

#define lre_count(counters, name)                                                                  \
	do {                                                                                       \
		if (counters)                                                                      \
			(counters)->name++;                                                        \
	} while (0)

/* In the clock of the loader; in steps of the tick. */
static __always_inline __u64 lre_now_ns(void)
{
	return test_clock ? now_ns() : bpf_ktime_get_coarse_ns();
}

/* `size` octets of the frame from `at` on, or NULL if it ends before. */
static __always_inline void *octets_at(const struct xdp_md *ctx, __u32 at, __u32 size)
{
	void *p;

	if (at > LONGEST_LRE)
		return NULL;
	p = (void *)(long)ctx->data + at;
	/* The verifier knows the length from this pointer only. */
	asm volatile("" : "+r"(p));
	return p + size > (void *)(long)ctx->data_end ? NULL : p;
}

static __always_inline __u64 length_of(const struct xdp_md *ctx)
{
	__u64 length = (void *)(long)ctx->data_end - (void *)(long)ctx->data;

	/* The verifier does not know the result of a subtraction in 32 bits. */
	asm volatile("" : "+r"(length));
	return length;
}

/* Octets before the LSDU: addresses, VLAN tags and the EtherType after them. */
static __always_inline __u32 lsdu_offset(const struct headers *h)
{
	return ADDRESSES + 2 + h->vlans * sizeof(struct vlan_tag);
}

/* The frame has its headers. */
static __always_inline void read_addresses(const struct xdp_md *ctx, struct redundancy *r)
{
	void *head = (void *)(long)ctx->data;

	r->source = 0;
	r->destination = 0;
	if (head + ADDRESSES + 2 > (void *)(long)ctx->data_end)
		return;
	r->destination = *(__u64 *)head & MAC_MASK;
	r->source = *(__u64 *)(head + 6) & MAC_MASK;
}

static __always_inline void read_trailer(const struct xdp_md *ctx, const struct headers *h,
					 struct redundancy *r)
{
	__u32 length = length_of(ctx), offset = lsdu_offset(h);
	struct trailer *trailer;

	r->has_number = false;
	if (length < offset + sizeof(*trailer))
		return;
	trailer = octets_at(ctx, length - sizeof(*trailer), sizeof(*trailer));
	if (!trailer || !is_trailer(trailer, length - offset))
		return;
	r->sequence = bpf_ntohs(trailer->sequence);
	r->lan = !!(trailer->lan_and_size & bpf_htons(LAN_B));
	r->has_number = true;
}

static __always_inline bool is_supervision(const struct redundancy *r, __be16 ethertype)
{
	return (r->destination & FIRST_FIVE) == SUPERVISION &&
	       ethertype == bpf_htons(ETHERTYPE_PRP);
}

#endif
