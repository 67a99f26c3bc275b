// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Budgets: packets that exceed a process's limit are dropped where they enter the network stack (tc
 * ingress), before protocols and sockets process them; or in the driver (XDP), before a socket
 * buffer exists.
 *
 * The kernel's socket look-up finds the receiver. So budgets apply to shared ports (SO_REUSEPORT),
 * wildcards and both families, with the kernel's rules for ports.
 */
#include <stdbool.h>
#include <stddef.h>
#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <linux/in.h>
#include <linux/in6.h>
#include <linux/ip.h>
#include <linux/ipv6.h>
#include <linux/pkt_cls.h>
#include "guard.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_endian.h>
#include "../../tracer/bpf/budgets.h"

/* The members that XDP reads from a socket, of the kernel's structures. */
#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

typedef struct {
	__s64 counter;
} atomic64_t;

struct sock_common___cookie {
	atomic64_t skc_cookie;
};

struct sock___cookie {
	struct sock_common___cookie __sk_common;
};

#pragma clang attribute pop

/* Linux 6.2. */
extern void *bpf_rdonly_cast(const void *object, __u32 type) __ksym __weak;

struct vlan {
	__be16 tci;
	__be16 protocol;
};

/*
 * The addresses of this network namespace's interfaces, IPv4 as ::ffff:a.b.c.d; written by the
 * loader. A packet to one of them has one receiver, which the look-up finds. Other packets may have
 * several receivers (broadcast, multicast) or are forwarded: a matching socket does not identify
 * their receiver.
 */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 65536);
	__type(key, struct in6_addr);
	__type(value, __u8);
} addresses SEC(".maps");

/* More fragments, or an offset. */
#define IP_FRAGMENT 0x3fff

struct bucket {
	struct bpf_spin_lock lock;
	__u32 epoch;
	__u64 epoch_since_ns;
	/* Processes that received packets in this epoch, and in the one before. */
	__u32 active, active_before;
	/* Processes that return share the part of one: when it is paid, and its epoch. */
	__u64 returning_until_ns;
	__u32 returning_epoch;
	struct guard_account account;
	struct guard_count count;
};

/* The credit in time that an account can accumulate: packets come in bursts. */
#define BURST_NS 10000000ULL

/* No debt lasts longer: a packet may cost more than the budget of seconds. */
#define MOST_DEBT_NS NSEC_PER_SEC

/* The cost of a packet while it is unknown: several times that on a slow machine. */
#define ASSUMED_NS_PER_PACKET 10000ULL

/* More packets than a few polls have are never charged: the ledger observes no end of them. */
#define MOST_UNCHARGED 1024

/* The last packets determine the assumed cost of the next one. */
#define RECENT_PACKETS 16

/* Processes that receive nothing for this time leave their share to others. */
#define EPOCH_NS 100000000ULL

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, GUARD_SLOTS);
	__type(key, __u32);
	__type(value, struct bucket);
} buckets SEC(".maps");

static __always_inline __u64 max(__u64 a, __u64 b)
{
	return a > b ? a : b;
}

static __always_inline __u64 min(__u64 a, __u64 b)
{
	return a < b ? a : b;
}

/* The part of a limit that is an account's. */
struct rate {
	__u64 ns_per_s;
	__u64 members; /* that have equal parts */
};

/* The time in which a rate pays for a cost. The bounds keep products below 2^64. */
static __always_inline __u64 time_for(__u64 cost_ns, const struct rate *rate)
{
	__u64 ns = min(cost_ns, NSEC_PER_SEC) * NSEC_PER_SEC / rate->ns_per_s;

	return min(min(ns, MOST_DEBT_NS) * rate->members, MOST_DEBT_NS);
}

static __always_inline void open_account(struct guard_account *account,
					 const struct guard_charges *charged, __u64 limited_at_ns,
					 __u64 paid_until_ns, __u64 ns_per_packet)
{
	account->limited_at_ns = limited_at_ns;
	account->paid_until_ns = paid_until_ns;
	account->charged = *charged;
	account->uncharged.ns = 0;
	account->uncharged.packets = 0;
	account->ns_per_packet = charged->packets ? charged->ns / charged->packets : ns_per_packet;
}

/*
 * Replaces the assumed cost of packets by what the ledger has charged for them: the limit is one of
 * time, whatever a packet costs. Charges beyond the packets that passed are of packets that cannot
 * be dropped, and do not count.
 */
static __always_inline void correct(struct guard_account *account,
				    const struct guard_charges *charged, const struct rate *rate,
				    __u64 now)
{
	__u64 ns = charged->ns - account->charged.ns;
	__u64 packets = charged->packets - account->charged.packets;
	__u64 ended = min(packets, account->uncharged.packets);
	__u64 assumed = account->uncharged.ns, recent = min(ended, RECENT_PACKETS);

	if (!packets)
		return;
	account->charged = *charged;
	if (!ended)
		return;
	ns = ns / packets * ended;
	if (ended < account->uncharged.packets)
		assumed = assumed / account->uncharged.packets * ended;
	account->uncharged.packets -= ended;
	account->uncharged.ns -= assumed;
	account->ns_per_packet =
	    (account->ns_per_packet * (RECENT_PACKETS - recent) + ns / ended * recent) /
	    RECENT_PACKETS;
	if (ns > assumed)
		account->paid_until_ns =
		    min(max(account->paid_until_ns, now) + time_for(ns - assumed, rate),
			now + MOST_DEBT_NS);
	else
		account->paid_until_ns -= min(account->paid_until_ns, time_for(assumed - ns, rate));
}

static __always_inline bool is_credit(__u64 paid_until_ns, __u64 now)
{
	return max(paid_until_ns, now) - now <= BURST_NS;
}

static __always_inline bool has_credit(const struct guard_account *account, __u64 now)
{
	return is_credit(account->paid_until_ns, now);
}

/* Charges the assumed cost of a packet that passes. */
static __always_inline void pay(struct guard_account *account, const struct rate *rate, __u64 now)
{
	struct guard_charges *uncharged = &account->uncharged;

	account->paid_until_ns =
	    min(max(account->paid_until_ns, now) + time_for(account->ns_per_packet, rate),
		now + MOST_DEBT_NS);
	if (uncharged->packets >= MOST_UNCHARGED) {
		uncharged->packets /= 2;
		uncharged->ns /= 2;
	}
	uncharged->packets++;
	uncharged->ns += account->ns_per_packet;
}

static __always_inline void advance_epoch(struct bucket *bucket, __u64 now)
{
	if ((__s64)(now - bucket->epoch_since_ns) >= (__s64)EPOCH_NS) {
		bucket->active_before = bucket->active;
		bucket->active = 0;
		bucket->epoch++;
		bucket->epoch_since_ns = now;
	}
}

/*
 * Counts a process that receives packets, or all that return as one, and updates the number of
 * equal parts. Returns the number of epochs since its own, which becomes the present one.
 */
static __always_inline __u32 note_active(struct bucket *bucket, __u32 *epoch, struct rate *rate)
{
	__u32 idle = bucket->epoch - *epoch;

	if (idle)
		bucket->active++;
	*epoch = bucket->epoch;
	rate->members = max(max(bucket->active, bucket->active_before), 1);
	return idle;
}

/*
 * Whether a packet passes within the share of its process, an equal part of the limit for each
 * process that receives packets. The caller has the lock of the bucket, which is that of the share,
 * too.
 *
 * A process that is new, or received nothing for an epoch, has no more credit than all have in
 * common: a group does not gain by processes in turn. Those that return share the part of one
 * process, so that rare packets pass beside a flood. It is paid by assumed costs only.
 */
static __always_inline bool has_share(struct bucket *bucket, struct guard_member *member,
				      struct rate *rate, __u64 now)
{
	const struct guard_account *common = &bucket->account;
	struct guard_account *share = &member->share;
	struct guard_charges charged = member->charged;
	__u64 cost;
	__u32 idle;

	advance_epoch(bucket, now);
	idle = note_active(bucket, &member->epoch, rate);
	if (share->limited_at_ns != common->limited_at_ns) {
		open_account(share, &charged, common->limited_at_ns, 0, common->ns_per_packet);
		idle = 2;
	} else {
		correct(share, &charged, rate, now);
	}
	if (!has_credit(share, now))
		return false;
	if (idle <= 1)
		return true;
	share->paid_until_ns =
	    max(share->paid_until_ns, min(common->paid_until_ns, now + BURST_NS));
	note_active(bucket, &bucket->returning_epoch, rate);
	cost = time_for(share->ns_per_packet, rate);
	if (!is_credit(bucket->returning_until_ns, now)) {
		/* Its next packet would otherwise pass at once, as that of an active process. */
		share->paid_until_ns += cost;
		return false;
	}
	bucket->returning_until_ns = max(bucket->returning_until_ns, now) + cost;
	return true;
}

/*
 * Whether a packet may pass: GCRA, the virtual scheduling algorithm. It passes within the share of
 * its process, or by credit that others leave. The first uses the common credit as well, so that
 * all together keep the limit.
 */
static __always_inline bool may_pass(const struct guard_receiver *receiver)
{
	__u32 slot = slot_of(receiver->number);
	struct guard_limit *limit = limit_at(slot);
	struct guard_spent *spent_by = spent_at(slot), spent_now;
	struct rate all = {.members = 1}, share = {};
	struct guard_account *account;
	struct guard_member *member;
	struct bucket *bucket;
	bool pass, in_share = false;
	__u64 now;

	/* Of an earlier process, whose socket another one may have by now. */
	if (!limit || !spent_by || limit->number != receiver->number)
		return true;
	all.ns_per_s = limit->ns_per_s;
	if (!all.ns_per_s || spent_by->limited_at_ns <= limit->stopped_ns)
		return true;
	share.ns_per_s = all.ns_per_s;
	bucket = bpf_map_lookup_elem(&buckets, &slot);
	if (!bucket)
		return true;
	/* None: it has exited, or there was no room for it. */
	member = member_of(receiver->pid);
	if (member && member->number != receiver->number)
		member = NULL;
	account = &bucket->account;
	now = bpf_ktime_get_ns();
	bpf_spin_lock(&bucket->lock);
	spent_now = *spent_by;
	if (account->limited_at_ns != spent_now.limited_at_ns)
		open_account(account, &spent_now.charged, spent_now.limited_at_ns,
			     min(spent_now.window_since_ns + time_for(spent_now.window_ns, &all),
				 now + MOST_DEBT_NS),
			     ASSUMED_NS_PER_PACKET);
	else
		correct(account, &spent_now.charged, &all, now);
	pass = has_credit(account, now);
	if (member)
		in_share = has_share(bucket, member, &share, now);
	if (in_share)
		pay(&member->share, &share, now);
	if (pass || in_share) {
		pay(account, &all, now);
		bucket->count.passed++;
	} else {
		bucket->count.dropped++;
	}
	bpf_spin_unlock(&bucket->lock);
	return pass || in_share;
}

/* The hook that received the packet. */
enum stage {
	AT_TC,
	AT_XDP,
};

static __always_inline bool load(void *ctx, enum stage stage, __u32 at, void *to, __u32 octets)
{
	if (stage == AT_XDP)
		return !bpf_xdp_load_bytes(ctx, at, to, octets);
	return !bpf_skb_load_bytes(ctx, at, to, octets);
}

static __always_inline struct bpf_sock *find(void *ctx, struct bpf_sock_tuple *tuple, __u32 length,
					     __u8 protocol)
{
	if (protocol == IPPROTO_UDP)
		return bpf_sk_lookup_udp(ctx, tuple, length, BPF_F_CURRENT_NETNS, 0);
	return bpf_sk_lookup_tcp(ctx, tuple, length, BPF_F_CURRENT_NETNS, 0);
}

static __always_inline bool has_ports(__u8 protocol)
{
	return protocol == IPPROTO_UDP || protocol == IPPROTO_TCP;
}

static __always_inline bool is_local(const struct in6_addr *address)
{
	return bpf_map_lookup_elem(&addresses, address);
}

/* The first four octets of both UDP and TCP are the ports. */
static __always_inline struct bpf_sock *socket_v4(void *ctx, enum stage stage, __u32 at)
{
	struct in6_addr to = {.s6_addr = {[10] = 0xff, [11] = 0xff}};
	struct bpf_sock_tuple tuple = {};
	struct iphdr ip;

	if (!load(ctx, stage, at, &ip, sizeof(ip)) || !has_ports(ip.protocol))
		return NULL;
	/* Only the first fragment has ports: others pass. */
	if (ip.frag_off & bpf_htons(IP_FRAGMENT))
		return NULL;
	to.s6_addr32[3] = ip.daddr;
	if (!is_local(&to))
		return NULL;
	tuple.ipv4.saddr = ip.saddr;
	tuple.ipv4.daddr = ip.daddr;
	if (!load(ctx, stage, at + ip.ihl * 4, &tuple.ipv4.sport, 4))
		return NULL;
	return find(ctx, &tuple, sizeof(tuple.ipv4), ip.protocol);
}

static __always_inline struct bpf_sock *socket_v6(void *ctx, enum stage stage, __u32 at)
{
	struct bpf_sock_tuple tuple = {};
	struct ipv6hdr ip;

	/* Packets with extension headers pass. */
	if (!load(ctx, stage, at, &ip, sizeof(ip)) || !has_ports(ip.nexthdr))
		return NULL;
	if (!is_local(&ip.daddr))
		return NULL;
	__builtin_memcpy(tuple.ipv6.saddr, &ip.saddr, sizeof(ip.saddr));
	__builtin_memcpy(tuple.ipv6.daddr, &ip.daddr, sizeof(ip.daddr));
	if (!load(ctx, stage, at + sizeof(ip), &tuple.ipv6.sport, 4))
		return NULL;
	return find(ctx, &tuple, sizeof(tuple.ipv6), ip.nexthdr);
}

static __always_inline struct bpf_sock *find_socket(void *ctx, enum stage stage, __be16 protocol,
						    __u32 at)
{
	if (protocol == bpf_htons(ETH_P_IP))
		return socket_v4(ctx, stage, at);
	if (protocol == bpf_htons(ETH_P_IPV6))
		return socket_v6(ctx, stage, at);
	return NULL;
}

/* The receiver of a socket's packets; its number is 0: no limit. */
static __always_inline struct guard_receiver receiver_of(struct bpf_sock *sk, enum stage stage)
{
	struct guard_receiver none = {}, *known;
	struct sock___cookie *known_by;
	__u64 cookie;

	if (stage == AT_TC) {
		known = bpf_sk_storage_get(&slots, sk, NULL, 0);
	} else {
		known_by = bpf_rdonly_cast(sk, bpf_core_type_id_kernel(struct sock___cookie));
		cookie = known_by->__sk_common.skc_cookie.counter;
		known = bpf_map_lookup_elem(&cookies, &cookie);
	}
	return known ? *known : none;
}

static __always_inline bool may_enter(void *ctx, enum stage stage, __be16 protocol, __u32 at)
{
	struct bpf_sock *sk = find_socket(ctx, stage, protocol, at);
	struct guard_receiver receiver;

	if (!sk)
		return true;
	receiver = receiver_of(sk, stage);
	bpf_sk_release(sk);
	return !receiver.number || may_pass(&receiver);
}

/* Without any limit, no packet is inspected. */
static __always_inline bool any_limited(void)
{
	volatile struct guard_limit *all = limit_at(0);
	volatile struct guard_spent *last = spent_at(0);

	return all && last && last->limited_at_ns > all->stopped_ns;
}

SEC("tcx/ingress")
int guard_ingress(struct __sk_buff *skb)
{
	if (!any_limited())
		return TC_ACT_UNSPEC;
	return may_enter(skb, AT_TC, skb->protocol, ETH_HLEN) ? TC_ACT_UNSPEC : TC_ACT_SHOT;
}

SEC("xdp.frags")
int guard_xdp(struct xdp_md *ctx)
{
	__u32 at = ETH_HLEN;
	struct ethhdr eth;
	struct vlan vlan;
	__be16 protocol;

	if (!any_limited())
		return XDP_PASS;
	if (!load(ctx, AT_XDP, 0, &eth, sizeof(eth)))
		return XDP_PASS;
	protocol = eth.h_proto;
	/* Further on, the driver or the stack has removed the tag. */
	if (protocol == bpf_htons(ETH_P_8021Q)) {
		if (!load(ctx, AT_XDP, at, &vlan, sizeof(vlan)))
			return XDP_PASS;
		protocol = vlan.protocol;
		at += sizeof(vlan);
	}
	return may_enter(ctx, AT_XDP, protocol, at) ? XDP_PASS : XDP_DROP;
}

char _license[] SEC("license") = "Dual BSD/GPL";
