/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The IP fields that IP Stream identification (802.1CB 6.7) reads. */
#ifndef ONBEAT_PARSE_IP_H
#define ONBEAT_PARSE_IP_H

#include <linux/ip.h>
#include <linux/ipv6.h>
#include "parse.h"

/*
 * Maximum number of extension headers to skip. RFC 8200 4.1 recommends an order of six that can be
 * skipped, with destination options twice.
 */
#define MAX_EXTENSIONS 6

#define EXTENSION_HOP_BY_HOP	 0
#define EXTENSION_ROUTING	 43
#define EXTENSION_FRAGMENT	 44
#define EXTENSION_AUTHENTICATION 51
#define EXTENSION_DESTINATION	 60

struct ip_fields {
	__u8 mac[6]; /* destination */
	__u8 source[16];
	__u8 destination[16];
	__u8 version;
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

/*
 * TCP, UDP and SCTP all start with source port and destination port. `length` octets of the packet
 * remain; octets after it are padding.
 */
static __always_inline bool parse_ports(struct cursor *c, __u32 length, struct ip_fields *ip)
{
	__be16 *ports;

	if (ip->protocol != PROTOCOL_UDP && ip->protocol != PROTOCOL_TCP &&
	    ip->protocol != PROTOCOL_SCTP)
		return true;
	ports = take(c, 4);
	if (!ports || length < 4)
		return false;
	ip->has_ports = true;
	ip->sport = ports[0];
	ip->dport = ports[1];
	return true;
}

static __always_inline bool parse_ipv4(struct cursor *c, __u32 length, struct ip_fields *ip)
{
	struct iphdr *header = take(c, sizeof(*header));
	__u32 header_length, total;

	if (!header || header->version != 4)
		return false;
	header_length = header->ihl * 4U;
	total = bpf_ntohs(header->tot_len);
	if (header_length < sizeof(*header) || total < header_length || total > length)
		return false;
	ip->version = 4;
	map_ipv4(ip->source, header->saddr);
	map_ipv4(ip->destination, header->daddr);
	ip->dscp = header->tos >> 2;
	ip->protocol = header->protocol;
	/* Only the first fragment has ports. */
	if (header->frag_off & bpf_htons(0x1fff))
		return true;
	return take(c, (header_length - sizeof(*header)) & 0x3c) &&
	       parse_ports(c, total - header_length, ip);
}

/* The octets common to all extension headers. */
struct extension {
	__u8 next;
	__u8 length; /* octets beyond, in units of 8; of the authentication header, of 4 */
	__be16 fragment;
	__u32 rest;
};

static __always_inline bool is_extension(__u8 next)
{
	return next == EXTENSION_HOP_BY_HOP || next == EXTENSION_ROUTING ||
	       next == EXTENSION_FRAGMENT || next == EXTENSION_AUTHENTICATION ||
	       next == EXTENSION_DESTINATION;
}

static __always_inline bool parse_ipv6(struct cursor *c, __u32 length, struct ip_fields *ip)
{
	struct ipv6hdr *header = take(c, sizeof(*header));
	struct extension *extension;
	__u32 left, beyond;
	__u8 next;

	if (!header || header->version != 6)
		return false;
	left = bpf_ntohs(header->payload_len);
	if (sizeof(*header) + left > length)
		return false;
	ip->version = 6;
	__builtin_memcpy(ip->source, &header->saddr, 16);
	__builtin_memcpy(ip->destination, &header->daddr, 16);
	ip->dscp = ((header->priority << 4) | (header->flow_lbl[0] >> 4)) >> 2;
	next = header->nexthdr;

	for (int i = 0; i < MAX_EXTENSIONS && is_extension(next); i++) {
		extension = take(c, sizeof(*extension));
		if (!extension || left < sizeof(*extension))
			return false;
		left -= sizeof(*extension);
		if (next == EXTENSION_FRAGMENT) {
			next = extension->next;
			/* A later fragment contains no header. */
			if (extension->fragment & bpf_htons(0xfff8)) {
				ip->protocol = next;
				return true;
			}
			continue;
		}
		beyond = extension->length * (next == EXTENSION_AUTHENTICATION ? 4U : 8U);
		next = extension->next;
		if (left < beyond || !take(c, beyond & 0x7fc))
			return false;
		left -= beyond;
	}
	ip->protocol = next;
	return !is_extension(next) && parse_ports(c, left, ip);
}

/*
 * Incomplete headers are treated as absent, as in user space: `length` octets follow the EtherType,
 * and neither packet nor header may exceed them.
 */
static __always_inline bool parse_ip(struct cursor *c, __be16 ethertype, __u32 length,
				     struct ip_fields *ip)
{
	if (ethertype == bpf_htons(ETHERTYPE_IPV4))
		return parse_ipv4(c, length, ip);
	if (ethertype == bpf_htons(ETHERTYPE_IPV6))
		return parse_ipv6(c, length, ip);
	return false;
}

#endif
