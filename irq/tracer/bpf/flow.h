/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Connections and listening sockets by their addresses, for packets that reach no socket. */
#ifndef ONBEAT_FLOW_H
#define ONBEAT_FLOW_H

#include "state.h"
#include <bpf/bpf_endian.h>

#define AF_INET	 2
#define AF_INET6 10

/* include/net/tcp_states.h */
#define TCP_ESTABLISHED	 1
#define TCP_SYN_SENT	 2
#define TCP_TIME_WAIT	 6
#define TCP_LISTEN	 10
#define TCP_NEW_SYN_RECV 12

struct flow_owner {
	struct irq_owner owner;
	__u64 kind;
};

/* By hash of addresses, ports and network namespace. The kernel evicts the oldest. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 65536);
	__type(key, __u64);
	__type(value, struct flow_owner);
} flows SEC(".maps");

/* Of listening TCP sockets, by listener_key(): the process that serves it. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 4096);
	__type(key, __u64);
	__type(value, struct irq_owner);
} listeners SEC(".maps");

/* Addresses of IPv6 in two parts; those of IPv4 in the first. */
struct flow {
	__u64 local[2], remote[2];
	__u32 netns;
	__u16 local_port; /* in the host's order */
	__be16 remote_port;
};

static __always_inline __u64 mix(__u64 hash, __u64 word)
{
	hash = (hash ^ word) * 0x9e3779b97f4a7c15ULL;
	return hash ^ hash >> 29;
}

/* 64 bits: two of a million flows have the same key with a probability of 2^-25. */
static __always_inline __u64 flow_key(const struct flow *flow)
{
	__u64 hash = mix(0, flow->local[0]);

	hash = mix(hash, flow->local[1]);
	hash = mix(hash, flow->remote[0]);
	hash = mix(hash, flow->remote[1]);
	return mix(hash,
		   (__u64)flow->netns << 32 | (__u32)flow->local_port << 16 | flow->remote_port);
}

static __always_inline __u64 listener_key(__u32 netns, __u16 port)
{
	return (__u64)netns << 32 | port;
}

static __always_inline __u32 netns_of(const struct sock *sk)
{
	return sk->__sk_common.skc_net.net->ns.inum;
}

static __always_inline __u64 flow_of_socket(const struct sock *sk)
{
	const struct sock_common *common = &sk->__sk_common;
	struct flow flow = {
	    .netns = netns_of(sk),
	    .local_port = common->skc_num,
	    .remote_port = common->skc_dport,
	};

	BPF_CORE_READ_INTO(&flow.local, common, skc_v6_rcv_saddr);
	BPF_CORE_READ_INTO(&flow.remote, common, skc_v6_daddr);
	/* Of a socket of both families, that has an IPv4 address as ::ffff:a.b.c.d. */
	if (common->skc_family != AF_INET6 ||
	    (!flow.local[0] && (__u32)flow.local[1] == bpf_htonl(0xffff))) {
		flow.local[0] = common->skc_rcv_saddr;
		flow.remote[0] = common->skc_daddr;
		flow.local[1] = 0;
		flow.remote[1] = 0;
	}
	return flow_key(&flow);
}

static __always_inline void remember_flow(const struct sock *sk, const struct owner_record *record)
{
	struct flow_owner owner = {.owner = record->owner, .kind = record->kind};
	__u64 key = flow_of_socket(sk);

	bpf_map_update_elem(&flows, &key, &owner, BPF_ANY);
}

static __always_inline void remember_listener(const struct sock *sk, const struct irq_owner *owner,
					      __u64 flags)
{
	__u64 key = listener_key(netns_of(sk), sk->__sk_common.skc_num);

	bpf_map_update_elem(&listeners, &key, owner, flags);
}

/*
 * The process that serves the port of a listening socket or of its unread connection: the last
 * that read a connection first. Several may have the listening socket open.
 */
static __always_inline struct irq_owner *server_of(const struct sock *sk)
{
	__u64 key = listener_key(netns_of(sk), sk->__sk_common.skc_num);

	return bpf_map_lookup_elem(&listeners, &key);
}

/* The cause of a packet of a flow; the device is already set. */
static __always_inline void for_flow(struct irq_key *key, __u64 flow)
{
	struct flow_owner *known = bpf_map_lookup_elem(&flows, &flow);

	if (!known) {
		key->kind = IRQ_CONNECTION;
		return;
	}
	key->kind = known->kind;
	key->a = known->owner.pid;
	key->b = known->owner.start_ticks;
}

/* The same of a connection request. */
static __always_inline void for_listener(struct irq_key *key, __u64 listener)
{
	struct irq_owner *owner = bpf_map_lookup_elem(&listeners, &listener);

	key->kind = owner ? IRQ_LISTENER : IRQ_HANDSHAKE;
	if (owner) {
		key->a = owner->pid;
		key->b = owner->start_ticks;
	}
}

#endif
