/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Packets that may reach no tracepoint: those of connections that only acknowledge or wait in a
 * socket's backlog, and those that the kernel answers. Their headers name their cause.
 */
#ifndef ONBEAT_PENDING_H
#define ONBEAT_PENDING_H

#include "flow.h"

#define ETH_P_IP   0x0800
#define ETH_P_ARP  0x0806
#define ETH_P_IPV6 0x86dd

#define PROTOCOL_HOP_BY_HOP 0
#define PROTOCOL_ICMP	    1
#define PROTOCOL_IGMP	    2
#define PROTOCOL_TCP	    6
#define PROTOCOL_ICMPV6	    58

/* Router solicitation to redirect. */
#define FIRST_OF_ND 133
#define LAST_OF_ND  137

#define SYN 0x02
#define ACK 0x10

struct ports {
	__be16 source, dest;
	__be32 sequence, acknowledged;
	__u8 offset, flags;
};

/* Headers without options; others are not inspected. */
struct ipv4_headers {
	__u8 version_length, rest[8], protocol;
	__u16 checksum;
	__u32 source, dest;
	struct ports ports;
};

struct ipv6_headers {
	__u32 flow;
	__u16 length;
	__u8 protocol, hops;
	__u64 source[2], dest[2];
	struct ports ports;
};

static __always_inline void of_tcp(struct pending *packet, struct flow *flow,
				   const struct ports *ports)
{
	flow->local_port = bpf_ntohs(ports->dest);
	flow->remote_port = ports->source;
	if ((ports->flags & (SYN | ACK)) == SYN) {
		packet->kind = IRQ_HANDSHAKE;
		packet->flow = listener_key(flow->netns, flow->local_port);
	} else {
		packet->kind = IRQ_CONNECTION;
		packet->flow = flow_key(flow);
	}
}

/* The class of a packet, if it may have no other end; false otherwise. */
static __always_inline bool classify(const struct cpu *cpu, const struct sk_buff *skb,
				     struct pending *packet)
{
	struct flow flow = {.netns = cpu->netns};

	switch (bpf_ntohs(skb->protocol)) {
	case ETH_P_ARP:
		packet->kind = IRQ_NEIGHBOR;
		return true;
	case ETH_P_IP: {
		struct ipv4_headers ip;

		if (bpf_probe_read_kernel(&ip, sizeof(ip), skb->data))
			return false;
		if (ip.protocol == PROTOCOL_ICMP || ip.protocol == PROTOCOL_IGMP) {
			packet->kind = IRQ_ICMP;
			return true;
		}
		if (ip.protocol != PROTOCOL_TCP || ip.version_length != 0x45)
			return false;
		flow.local[0] = ip.dest;
		flow.remote[0] = ip.source;
		of_tcp(packet, &flow, &ip.ports);
		return true;
	}
	case ETH_P_IPV6: {
		struct ipv6_headers ip;
		__u8 type;

		if (bpf_probe_read_kernel(&ip, sizeof(ip), skb->data))
			return false;
		type = *(__u8 *)&ip.ports;
		switch (ip.protocol) {
		case PROTOCOL_ICMPV6:
			packet->kind =
			    type >= FIRST_OF_ND && type <= LAST_OF_ND ? IRQ_NEIGHBOR : IRQ_ICMP;
			return true;
		case PROTOCOL_HOP_BY_HOP:
			packet->kind = IRQ_ICMP;
			return true;
		case PROTOCOL_TCP:
			__builtin_memcpy(flow.local, ip.dest, sizeof(flow.local));
			__builtin_memcpy(flow.remote, ip.source, sizeof(flow.remote));
			of_tcp(packet, &flow, &ip.ports);
			return true;
		}
		return false;
	}
	}
	return false;
}

/* Records an arrived packet whose end may not be observed. */
static __always_inline void expect(struct cpu *cpu, const struct sk_buff *skb)
{
	struct pending packet = {.skb = (__u64)skb};
	__u32 at;

	if (!classify(cpu, skb, &packet))
		return;
	if (cpu->pending_at >= cpu->pendings) {
		cpu->pending_at = 0;
		cpu->pendings = 0;
	}
	at = cpu->pendings;
	if (at >= IRQ_MAX_PENDING)
		return;
	cpu->pending[at] = packet;
	cpu->pendings = at + 1;
}

/* Finds cpu->ending: a pointer to a packet is no argument of a function that is checked by itself.
 */
__noinline int find_ended(struct cpu *cpu)
{
	__u32 i, first;
	__u64 skb;

	if (!cpu)
		return 0;
	first = cpu->pending_at;
	skb = cpu->ending;
	for (i = 0; i < IRQ_MAX_PENDING; i++) {
		struct pending *packet;
		__u32 at = first + i;

		if (at >= cpu->pendings)
			return 0;
		/* The compiler must not use the bounds from before for the index. */
		barrier_var(at);
		packet = &cpu->pending[at % IRQ_MAX_PENDING];
		if (packet->skb != skb)
			continue;
		packet->skb = 0;
		cpu->ended_flow = packet->flow;
		if (i)
			cpu->gap = true;
		else
			cpu->pending_at = at + 1;
		return packet->kind;
	}
	return 0;
}

/* The class of an expected packet, which has ended now; 0: it was not expected. */
static __always_inline __u32 ended(struct cpu *cpu, const void *skb)
{
	if (!cpu->pendings)
		return 0;
	cpu->ending = (__u64)skb;
	return find_ended(cpu);
}

/*
 * A generic XDP program gets a copy of a packet without room in front of it: the packet that
 * arrived last goes on under an address that is not known yet.
 */
static __always_inline void copied(struct cpu *cpu)
{
	__u32 last = cpu->pendings - 1;
	struct pending *packet;

	if (last >= IRQ_MAX_PENDING)
		return;
	packet = &cpu->pending[last];
	if (packet->skb == cpu->last_skb)
		packet->skb = last + 1;
	cpu->last_skb = last + 1;
}

/*
 * Ends the first expected packet of a connection whose address is at most this: a copy
 * (IRQ_MAX_PENDING), or any.
 */
__noinline int connection_ended(struct cpu *cpu, __u64 most)
{
	__u32 i;

	if (!cpu)
		return 0;
	for (i = 0; i < IRQ_MAX_PENDING && i < cpu->pendings; i++) {
		struct pending *packet = &cpu->pending[i];

		if (packet->skb && packet->skb <= most && packet->kind == IRQ_CONNECTION) {
			packet->skb = 0;
			return 1;
		}
	}
	return 0;
}

/* Sets the key of an expected packet; the device is already set. */
static __always_inline void for_class(struct irq_key *key, __u32 kind, __u64 flow)
{
	if (kind == IRQ_CONNECTION)
		for_flow(key, flow);
	else if (kind == IRQ_HANDSHAKE)
		for_listener(key, flow);
	else
		key->kind = kind;
}

#endif
