/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Parse the headers of a frame from unchecked octets: all bounds checks are here. */
#ifndef ONBEAT_PARSE_H
#define ONBEAT_PARSE_H

#include <stdbool.h>
#include <linux/bpf.h>
#include <linux/types.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

#define ETHERTYPE_VLAN 0x8100
#define ETHERTYPE_QINQ 0x88a8
#define ETHERTYPE_RTAG 0xf1c1
#define ETHERTYPE_HSR  0x892f
#define ETHERTYPE_IPV4 0x0800
#define ETHERTYPE_IPV6 0x86dd
#define ADDRESSES      12 /* octets */
#define VID_MASK       0x0fff
#define PCP_SHIFT      13
#define PROTOCOL_TCP   6
#define PROTOCOL_UDP   17
#define PROTOCOL_SCTP  132

enum sequence_tag {
	TAG_NONE,
	TAG_R,	       /* the frame has an R-TAG */
	TAG_HSR,       /* the frame has an HSR tag, which is not read, written or removed */
	TAG_GENERATED, /* a number was drawn; the frame has no tag yet */
	TAG_TRUNCATED, /* an R-TAG's EtherType followed by less than an R-TAG */
};

struct vlan_tag {
	__be16 tpid;
	__be16 tci;
};

struct rtag {
	__be16 ethertype;
	__be16 reserved;
	__be16 sequence;
};

/* Parsed headers; the octets stay in the frame. */
struct headers {
	__u8 vlans;
	__u8 tag; /* enum sequence_tag */
	__u16 sequence;
	__u16 vid;	  /* of the outer VLAN tag; 0: none */
	__be16 ethertype; /* after all tags */
	__u16 payload;	  /* offset of the octets after the EtherType */
};

struct cursor {
	void *at;
	void *end;
};

/* The next `size` octets, or NULL if the frame ends before. */
static __always_inline void *take(struct cursor *c, __u32 size)
{
	void *p = c->at;

	if (p + size > c->end)
		return NULL;
	c->at = p + size;
	return p;
}

static __always_inline bool is_vlan(__be16 ethertype)
{
	return ethertype == bpf_htons(ETHERTYPE_VLAN) || ethertype == bpf_htons(ETHERTYPE_QINQ);
}

/* The octets of the longest headers: addresses, two VLAN tags, R-TAG, EtherType. */
#define LONGEST_HEADERS (ADDRESSES + 2 * 4 + 6 + 2)

/* As `take`; if `whole`, the frame does not end before. */
static __always_inline void *take_header(struct cursor *c, __u32 size, bool whole)
{
	void *p = c->at;

	if (!whole)
		return take(c, size);
	c->at = p + size;
	return p;
}

static __always_inline bool parse_tags(struct cursor *c, struct headers *h, bool whole)
{
	__be16 *ethertype = take_header(c, ADDRESSES + 2, whole), *tag;

	if (!whole && !ethertype)
		return false;
	ethertype += ADDRESSES / 2;
	h->vlans = 0;
	h->tag = TAG_NONE;
	h->sequence = 0;
	h->vid = 0;
	h->payload = ADDRESSES + 2;

	/* At most two tags; a third is payload of unknown type. */
#pragma unroll
	for (int i = 0; i < 2; i++) {
		if (!is_vlan(*ethertype))
			break;
		tag = take_header(c, 4, whole); /* with the EtherType that follows */
		if (!whole && !tag)
			return false;
		if (i == 0)
			h->vid = bpf_ntohs(tag[0]) & VID_MASK;
		h->vlans = i + 1;
		h->payload += sizeof(struct vlan_tag);
		ethertype = tag + 1;
	}

	if (*ethertype == bpf_htons(ETHERTYPE_RTAG) || *ethertype == bpf_htons(ETHERTYPE_HSR)) {
		bool hsr = *ethertype == bpf_htons(ETHERTYPE_HSR), ends;

		/* Either has four octets after its EtherType, then the next EtherType. */
		tag = take_header(c, 6, whole);
		ends = !whole && !tag;

		if (ends && hsr)
			return false;
		if (ends) {
			h->tag = TAG_TRUNCATED;
		} else if (hsr) {
			h->tag = TAG_HSR;
		} else {
			h->tag = TAG_R;
			h->sequence = bpf_ntohs(tag[1]);
		}
		if (!ends) {
			h->payload += sizeof(struct rtag);
			ethertype = tag + 2;
		}
	}
	h->ethertype = *ethertype;
	return true;
}

/*
 * Returns false if the frame is too short, or ends within a VLAN tag or HSR tag. One that ends
 * within an R-TAG is identified by the octets before it (802.1CB figure 6-1).
 */
static __always_inline bool parse_headers(struct cursor *c, struct headers *h)
{
	return parse_tags(c, h, false);
}

/*
 * The same: a frame of an Ethernet link is longer than all headers, and one comparison is
 * sufficient. The verifier has twice the paths to check.
 */
static __always_inline bool parse_headers_at_once(struct cursor *c, struct headers *h)
{
	if (c->at + LONGEST_HEADERS <= c->end)
		return parse_tags(c, h, true);
	return parse_tags(c, h, false);
}

#endif
