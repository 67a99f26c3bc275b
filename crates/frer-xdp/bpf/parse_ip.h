/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The IP fields that IP Stream identification (802.1CB 6.7) looks at. */
#ifndef ONBEAT_PARSE_IP_H
#define ONBEAT_PARSE_IP_H

#include <linux/ip.h>
#include <linux/ipv6.h>
#include "parse.h"

/* Extension headers walked before giving up on the next protocol. */
#define MAX_EXTENSIONS 6

struct ip_fields {
	__u8 source[16];
	__u8 destination[16];
	__u8 dscp;
	__u8 protocol;
	bool has_ports;
	__be16 sport;
	__be16 dport;
};

static __always_inline void map_ipv4(__u8 *to, __be32 address)
{
	__u32 *words = (__u32 *)to;

	words[0] = 0;
	words[1] = 0;
	words[2] = bpf_htonl(0x0000ffff);
	words[3] = address;
}

/* TCP, UDP and SCTP all begin with source port and destination port. */
static __always_inline void parse_ports(struct cursor *c, struct ip_fields *ip)
{
	__be16 *ports;

	if (ip->protocol != PROTOCOL_UDP && ip->protocol != PROTOCOL_TCP &&
	    ip->protocol != PROTOCOL_SCTP)
		return;
	ports = take(c, 4);
	if (!ports)
		return;
	ip->has_ports = true;
	ip->sport = ports[0];
	ip->dport = ports[1];
}

static __always_inline bool parse_ipv4(struct cursor *c, struct ip_fields *ip)
{
	struct iphdr *header = take(c, sizeof(*header));

	if (!header || header->version != 4 || header->ihl < 5)
		return false;
	map_ipv4(ip->source, header->saddr);
	map_ipv4(ip->destination, header->daddr);
	ip->dscp = header->tos >> 2;
	ip->protocol = header->protocol;
	/* Only the first fragment has ports. */
	if (header->frag_off & bpf_htons(0x1fff))
		return true;
	if (take(c, (header->ihl * 4U - sizeof(*header)) & 0x3c))
		parse_ports(c, ip);
	return true;
}

struct extension {
	__u8 next;
	__u8 length; /* in units of 8 octets, the first not counted */
	__be16 fragment;
	__u32 rest;
};

static __always_inline bool parse_ipv6(struct cursor *c, struct ip_fields *ip)
{
	struct ipv6hdr *header = take(c, sizeof(*header));
	struct extension *extension;
	__u8 next;

	if (!header || header->version != 6)
		return false;
	__builtin_memcpy(ip->source, &header->saddr, 16);
	__builtin_memcpy(ip->destination, &header->daddr, 16);
	ip->dscp = ((header->priority << 4) | (header->flow_lbl[0] >> 4)) >> 2;
	next = header->nexthdr;

	for (int i = 0; i < MAX_EXTENSIONS; i++) {
		/* Hop-by-hop, routing, fragment, destination options. */
		if (next != 0 && next != 43 && next != 44 && next != 60) {
			ip->protocol = next;
			parse_ports(c, ip);
			return true;
		}
		extension = take(c, sizeof(*extension));
		if (!extension)
			break;
		if (next == 44) {
			next = extension->next;
			if (extension->fragment & bpf_htons(0xfff8)) {
				ip->protocol = next;
				return true;
			}
			continue;
		}
		next = extension->next;
		if (!take(c, extension->length * 8U))
			break;
	}
	ip->protocol = next;
	return true;
}

static __always_inline bool parse_ip(struct cursor *c, const struct headers *h,
				     struct ip_fields *ip)
{
	if (h->ethertype == bpf_htons(ETHERTYPE_IPV4))
		return parse_ipv4(c, ip);
	if (h->ethertype == bpf_htons(ETHERTYPE_IPV6))
		return parse_ipv6(c, ip);
	return false;
}

#endif
