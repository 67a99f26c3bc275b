// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Budgets: what a process receives above its limit is dropped where the packet enters the network
 * stack, before protocols and sockets spend time on it.
 *
 * Whose a packet is, the kernel's own look-up of sockets says. So it holds for shared ports
 * (SO_REUSEPORT), wildcards and both families, and there is no second idea of what a port means.
 */
#include <stdbool.h>
#include <stddef.h>
#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <linux/in.h>
#include <linux/ip.h>
#include <linux/ipv6.h>
#include <linux/pkt_cls.h>
#include "guard.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_endian.h>
#include "slots.h"

/* More fragments, or an offset. */
#define IP_FRAGMENT 0x3fff

/* Written by the loader while the programs run. */
struct guard_limit limits[GUARD_SLOTS];
/* Limits that are not 0: without any, no packet is looked at. */
__u32 limited;

struct bucket {
	struct bpf_spin_lock lock;
	/* When the credit was used up, or would have been: what is owed lies ahead of now. */
	__u64 paid_until_ns;
	struct guard_count count;
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, GUARD_SLOTS);
	__type(key, __u32);
	__type(value, struct bucket);
} buckets SEC(".maps");

/* Whether a packet of the slot's process may pass: GCRA, the virtual scheduling algorithm. */
static __always_inline bool may_pass(__u32 slot)
{
	volatile struct guard_limit *limit = &limits[slot & (GUARD_SLOTS - 1)];
	__u64 ns_per_packet = limit->ns_per_packet, burst_ns = limit->burst_ns;
	__u64 now = bpf_ktime_get_ns(), until;
	struct bucket *bucket;
	bool pass;

	if (!ns_per_packet)
		return true;
	bucket = bpf_map_lookup_elem(&buckets, &slot);
	if (!bucket)
		return true;
	bpf_spin_lock(&bucket->lock);
	until = bucket->paid_until_ns;
	if (until < now)
		until = now;
	pass = until - now <= burst_ns;
	if (pass) {
		bucket->paid_until_ns = until + ns_per_packet;
		bucket->count.passed++;
	} else {
		bucket->count.dropped++;
	}
	bpf_spin_unlock(&bucket->lock);
	return pass;
}

static __always_inline struct bpf_sock *find(struct __sk_buff *skb, struct bpf_sock_tuple *tuple,
					     __u32 length, __u8 protocol)
{
	if (protocol == IPPROTO_UDP)
		return bpf_sk_lookup_udp(skb, tuple, length, BPF_F_CURRENT_NETNS, 0);
	return bpf_sk_lookup_tcp(skb, tuple, length, BPF_F_CURRENT_NETNS, 0);
}

static __always_inline bool has_ports(__u8 protocol)
{
	return protocol == IPPROTO_UDP || protocol == IPPROTO_TCP;
}

/* Ports are the first four octets of UDP and TCP alike. */
static __always_inline struct bpf_sock *receiver_v4(struct __sk_buff *skb)
{
	struct bpf_sock_tuple tuple = {};
	struct iphdr ip;

	if (bpf_skb_load_bytes(skb, ETH_HLEN, &ip, sizeof(ip)) || !has_ports(ip.protocol))
		return NULL;
	/* Only the first fragment has ports: these go on as they are. */
	if (ip.frag_off & bpf_htons(IP_FRAGMENT))
		return NULL;
	tuple.ipv4.saddr = ip.saddr;
	tuple.ipv4.daddr = ip.daddr;
	if (bpf_skb_load_bytes(skb, ETH_HLEN + ip.ihl * 4, &tuple.ipv4.sport, 4))
		return NULL;
	return find(skb, &tuple, sizeof(tuple.ipv4), ip.protocol);
}

static __always_inline struct bpf_sock *receiver_v6(struct __sk_buff *skb)
{
	struct bpf_sock_tuple tuple = {};
	struct ipv6hdr ip;

	/* What has extension headers goes on as it is. */
	if (bpf_skb_load_bytes(skb, ETH_HLEN, &ip, sizeof(ip)) || !has_ports(ip.nexthdr))
		return NULL;
	__builtin_memcpy(tuple.ipv6.saddr, &ip.saddr, sizeof(ip.saddr));
	__builtin_memcpy(tuple.ipv6.daddr, &ip.daddr, sizeof(ip.daddr));
	if (bpf_skb_load_bytes(skb, ETH_HLEN + sizeof(ip), &tuple.ipv6.sport, 4))
		return NULL;
	return find(skb, &tuple, sizeof(tuple.ipv6), ip.nexthdr);
}

SEC("tcx/ingress")
int guard_ingress(struct __sk_buff *skb)
{
	struct bpf_sock *sk;
	__u32 *known, slot;

	if (!*(volatile __u32 *)&limited)
		return TC_ACT_UNSPEC;
	if (skb->protocol == bpf_htons(ETH_P_IP))
		sk = receiver_v4(skb);
	else if (skb->protocol == bpf_htons(ETH_P_IPV6))
		sk = receiver_v6(skb);
	else
		return TC_ACT_UNSPEC;
	if (!sk)
		return TC_ACT_UNSPEC;
	known = bpf_sk_storage_get(&slots, sk, NULL, 0);
	slot = known ? *known : 0;
	bpf_sk_release(sk);
	return !slot || may_pass(slot) ? TC_ACT_UNSPEC : TC_ACT_SHOT;
}

char _license[] SEC("license") = "Dual BSD/GPL";
