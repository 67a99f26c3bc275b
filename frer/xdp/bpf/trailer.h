/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The PRP trailer (IEC 62439-3), and protocols that are never redundant. */
#ifndef ONBEAT_TRAILER_H
#define ONBEAT_TRAILER_H

#include <stdbool.h>
#include <linux/types.h>
#include <bpf/bpf_endian.h>

#define ETHERTYPE_PRP  0x88fb
#define ETHERTYPE_PTP  0x88f7
#define ETHERTYPE_LLDP 0x88cc

/* Addresses are integers with the first octet lowest. */
#define MAC_MASK     0xffffffffffffULL
#define GROUP_BIT    1ULL	     /* of the first octet */
#define BRIDGE_GROUP 0x0000c28001ULL /* 01:80:c2:00:00:0x */
#define FIRST_FIVE   0xffffffffffULL /* octets */

#define LAN_IDS	 (0xa >> 1) /* of both, without the lowest bit */
#define LAN_B	 0x1000	    /* the lowest bit of the LAN id */
#define MAX_LSDU 0x0fff

/* Metadata of a frame that lre_ingress accepted for the host, and passed with its trailer. */
#define ACCEPTED 0x5052500a
/* Metadata of a frame that is not for the host now, but for the stack of the LAN's interface. */
#define NOT_SHARED 0x5052500b

struct trailer {
	__be16 sequence;
	__be16 lan_and_size;
	__be16 suffix;
};

/* Whether six octets at the end of an LSDU of this length are a trailer. */
static __always_inline bool is_trailer(const struct trailer *trailer, __u32 lsdu)
{
	__u16 field = bpf_ntohs(trailer->lan_and_size);

	return trailer->suffix == bpf_htons(ETHERTYPE_PRP) && field >> 13 == LAN_IDS &&
	       (field & MAX_LSDU) == lsdu;
}

/* Protocols of one link: 802.1Q table 8-1, IEEE 1588 annex F, LLDP. */
static __always_inline bool is_link_local(__u64 destination, __be16 ethertype)
{
	return ((destination & FIRST_FIVE) == BRIDGE_GROUP && !(destination >> 44)) ||
	       ethertype == bpf_htons(ETHERTYPE_PTP) || ethertype == bpf_htons(ETHERTYPE_LLDP);
}

#endif
