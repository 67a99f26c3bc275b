/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Headers of a frame, out of octets nobody has checked: every bounds check stands here. */
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
#define VID_MASK       0x0fff
#define PCP_SHIFT      13
#define PROTOCOL_TCP   6
#define PROTOCOL_UDP   17
#define PROTOCOL_SCTP  132

enum sequence_tag {
	TAG_NONE,
	TAG_R,	       /* an R-TAG stands in the frame */
	TAG_HSR,       /* an HSR tag does: its number is not ours to read, write or remove */
	TAG_GENERATED, /* a number was drawn; no tag stands in the frame yet */
	TAG_TRUNCATED, /* an R-TAG's EtherType with less than an R-TAG behind it */
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

struct headers {
	__u32 mac[3]; /* destination, source: as they stand */
	struct vlan_tag vlan[2];
	__u8 vlans;
	__u8 tag; /* enum sequence_tag */
	__u16 sequence;
	__be16 reserved;  /* of an R-TAG that came in: it leaves as it was */
	__be16 ethertype; /* behind all tags */
	__u16 length;	  /* octets that a change writes anew: addresses, VLAN tags and R-TAG */
	__u16 payload;	  /* octets in front of what follows the EtherType */
};

struct cursor {
	void *at;
	void *end;
};

/* The next `size` octets, or NULL where the frame ends before. */
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

/*
 * False: too short to be a frame, or it ends within a VLAN tag or HSR tag. One that ends within an
 * R-TAG can still be told by what stands in front of that (802.1CB figure 6-1).
 */
static __always_inline bool parse_headers(struct cursor *c, struct headers *h)
{
	__u32 *mac = take(c, 12);
	__be16 *ethertype, *tag;

	if (!mac)
		return false;
	h->mac[0] = mac[0];
	h->mac[1] = mac[1];
	h->mac[2] = mac[2];
	h->vlans = 0;
	h->tag = TAG_NONE;
	h->sequence = 0;
	h->reserved = 0;
	h->length = 12;

	ethertype = take(c, 2);
	if (!ethertype)
		return false;

		/* Two tags at most; a third is payload of a kind we do not know. */
#pragma unroll
	for (int i = 0; i < 2; i++) {
		if (!is_vlan(*ethertype))
			break;
		tag = take(c, 4); /* with the EtherType that follows */
		if (!tag)
			return false;
		h->vlan[i].tpid = *ethertype;
		h->vlan[i].tci = tag[0];
		h->vlans = i + 1;
		h->length += 4;
		ethertype = tag + 1;
	}
	h->payload = h->length + 2;

	if (*ethertype == bpf_htons(ETHERTYPE_RTAG) || *ethertype == bpf_htons(ETHERTYPE_HSR)) {
		bool hsr = *ethertype == bpf_htons(ETHERTYPE_HSR);

		/* Either has four octets behind its EtherType; with the EtherType that follows. */
		tag = take(c, 6);
		if (!tag && hsr)
			return false;
		if (!tag) {
			h->tag = TAG_TRUNCATED;
		} else if (hsr) {
			h->tag = TAG_HSR;
		} else {
			h->tag = TAG_R;
			h->reserved = tag[0];
			h->sequence = bpf_ntohs(tag[1]);
			h->length += sizeof(struct rtag);
		}
		if (tag) {
			h->payload += sizeof(struct rtag);
			ethertype = tag + 2;
		}
	}
	h->ethertype = *ethertype;
	return true;
}

/* VID of the outer tag; 0 where there is none. */
static __always_inline __u16 outer_vid(const struct headers *h)
{
	return h->vlans ? bpf_ntohs(h->vlan[0].tci) & VID_MASK : 0;
}

#endif
