// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Programs around and in place of FRER: a source and a sink of frames, which all measured chains
 * share, and plain redirects, the baseline of FRER.
 */
#include <stdbool.h>
#include <linux/bpf.h>
#include <linux/types.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>
#include "devmap.h"

#define ETHERTYPE_VLAN 0x8100

struct header {
	__u8 destination[6];
	__u8 source[6];
	__be16 vlan;
	__be16 tci;
	__be16 ethertype;
};

/* Written by the bench before each run. One instance of the program runs on one CPU only. */
struct source_state {
	__u64 sent;
	__u32 interface; /* egress interface */
	__u32 end;	 /* the stream after the last; frames take them in turn */
	__u32 next;	 /* stream of the next frame */
	__u16 vid;
	__u16 ethertype;
	__u8 destination[6]; /* of stream 0; the last two octets hold the stream number */
	__u8 source[6];
	__u32 first; /* the first stream */
};

struct source_state state;

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u64);
} received SEC(".maps");

DEVMAP(to_path, 1);
DEVMAP(to_paths, 2);
DEVMAP(to_listener, 1);

/*
 * Run by BPF_PROG_TEST_RUN on live frames. The kernel reuses the same pages, which the chain has
 * modified: the whole header is rewritten.
 */
SEC("xdp")
int source(struct xdp_md *ctx)
{
	struct header *h = (void *)(long)ctx->data;
	__u32 stream = state.next;

	if ((void *)(h + 1) > (void *)(long)ctx->data_end)
		return XDP_ABORTED;
	state.next = stream + 1 < state.end ? stream + 1 : state.first;
	state.sent++;
	__builtin_memcpy(h->destination, state.destination, 4);
	h->destination[4] = stream >> 8;
	h->destination[5] = stream;
	__builtin_memcpy(h->source, state.source, 6);
	h->vlan = bpf_htons(ETHERTYPE_VLAN);
	h->tci = bpf_htons(state.vid);
	h->ethertype = bpf_htons(state.ethertype);
	return bpf_redirect(state.interface, 0);
}

/* Headers that `replay` sends, and the egress interface. */
struct replayed {
	__u32 interface;
	__u8 headers[42];
	__u16 unused;
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct replayed);
} replayed SEC(".maps");

/* Like `source`, with the same headers for all frames. */
SEC("xdp")
int replay(struct xdp_md *ctx)
{
	__u32 zero = 0;
	struct replayed *r = bpf_map_lookup_elem(&replayed, &zero);
	void *data = (void *)(long)ctx->data;

	if (!r || data + sizeof(r->headers) > (void *)(long)ctx->data_end)
		return XDP_ABORTED;
	__builtin_memcpy(data, r->headers, sizeof(r->headers));
	return bpf_redirect(r->interface, 0);
}

static __always_inline void receive(void)
{
	__u32 zero = 0;
	__u64 *count = bpf_map_lookup_elem(&received, &zero);

	if (count)
		(*count)++;
}

/* On the listener: counts arriving frames. */
SEC("xdp")
int sink(struct xdp_md *ctx)
{
	receive();
	return XDP_DROP;
}

/*
 * The same behind a network stack: packets are consumed, not dropped, as when a NIC has sent them.
 * A redirect without a target frees them this way.
 */
SEC("xdp")
int nic(struct xdp_md *ctx)
{
	receive();
	return XDP_REDIRECT;
}

/* On node A's port to the talker: one path. */
SEC("xdp")
int one_path(struct xdp_md *ctx)
{
	return bpf_redirect_map(&to_path, 0, XDP_DROP);
}

/* On node A's port to the talker: two paths. */
SEC("xdp")
int two_paths(struct xdp_md *ctx)
{
	return bpf_redirect_map(&to_paths, 0, BPF_F_BROADCAST);
}

/* On node B's port to path 1. */
SEC("xdp")
int deliver(struct xdp_md *ctx)
{
	return bpf_redirect_map(&to_listener, 0, XDP_DROP);
}

/* On node B's port to path 2: drops the copies that FRER would eliminate. */
SEC("xdp")
int discard(struct xdp_md *ctx)
{
	return XDP_DROP;
}

/*
 * FRER for the one stream of the source, and nothing else: the second limit. Key, history and
 * functions are constants, and no table is read. Numbers and recovery are those of several CPUs,
 * and the reset timer is checked; there are no counters, and a reset is not safe beside packets.
 */

#define ETHERTYPE_RTAG 0xf1c1
#define TIMEOUT_TICKS  1000
#define RING_WORDS     8 /* for a history of 64 numbers */

struct tagged {
	__u8 destination[6];
	__u8 source[6];
	__be16 vlan;
	__be16 tci;
	__be16 rtag;
	__be16 reserved;
	__be16 sequence;
	__be16 ethertype;
};

/* As much as a tag. */
#define TAG 6

struct specialized_state {
	__u64 next;
	__u64 pad[7];
	__u64 ticks;		/* of the last packet that passed */
	__u64 head;		/* the last number that passed */
	__u64 ring[RING_WORDS]; /* numbers seen: epoch above 32 bits */
};

struct specialized_state specialized SEC(".data.specialized");

static __always_inline bool is_stream(const void *data)
{
	const struct header *h = data;

	return *(__u32 *)h->destination == *(__u32 *)state.destination &&
	       *(__u16 *)(h->destination + 4) == *(__u16 *)(state.destination + 4) &&
	       h->vlan == bpf_htons(ETHERTYPE_VLAN) &&
	       (h->tci & bpf_htons(0xfff)) == bpf_htons(state.vid);
}

/* On node A's port to the talker. */
SEC("xdp")
int specialized_generate(struct xdp_md *ctx)
{
	void *data = (void *)(long)ctx->data;
	struct tagged *t;
	__u64 number;

	if (data + sizeof(struct header) > (void *)(long)ctx->data_end || !is_stream(data))
		return XDP_PASS;
	number = __sync_fetch_and_add(&specialized.next, 1);
	if (bpf_xdp_adjust_head(ctx, -TAG))
		return XDP_DROP;
	t = (void *)(long)ctx->data;
	if ((void *)(t + 1) > (void *)(long)ctx->data_end)
		return XDP_DROP;
	*(__u64 *)t = *(__u64 *)((void *)t + TAG);
	*(__u64 *)((void *)t + 8) = *(__u64 *)((void *)t + TAG + 8);
	t->rtag = bpf_htons(ETHERTYPE_RTAG);
	t->reserved = 0;
	t->sequence = bpf_htons(number);
	return bpf_redirect_map(&to_paths, 0, BPF_F_BROADCAST);
}

static __always_inline bool specialized_passes(__u16 number)
{
	__u64 now = bpf_jiffies64(), word, next, bit = 1ULL << (number & 31);
	__u64 tag = (__u64)(number >> 5 | 0x10000) << 32;
	__u64 *at = &specialized.ring[number >> 5 & (RING_WORDS - 1)];

	if (now - specialized.ticks >= TIMEOUT_TICKS)
		for (int i = 0; i < RING_WORDS; i++)
			specialized.ring[i] = 0;
	word = *(volatile __u64 *)at;
	if (word >> 32 == tag >> 32) {
		if (word & bit)
			return false;
		next = word | bit;
	} else {
		next = tag | bit;
	}
	if (__sync_val_compare_and_swap(at, word, next) != word)
		return false;
	if (specialized.ticks != now)
		specialized.ticks = now;
	specialized.head = number;
	return true;
}

/* On node B's ports to the paths. */
SEC("xdp")
int specialized_eliminate(struct xdp_md *ctx)
{
	struct tagged *t = (void *)(long)ctx->data;
	__u64 first, then;

	if ((void *)(t + 1) > (void *)(long)ctx->data_end || !is_stream(t) ||
	    t->rtag != bpf_htons(ETHERTYPE_RTAG))
		return XDP_PASS;
	if (!specialized_passes(bpf_ntohs(t->sequence)))
		return XDP_DROP;
	first = *(__u64 *)t;
	then = *(__u64 *)((void *)t + 8);
	*(__u64 *)((void *)t + TAG) = first;
	*(__u64 *)((void *)t + TAG + 8) = then;
	if (bpf_xdp_adjust_head(ctx, TAG))
		return XDP_DROP;
	return bpf_redirect_map(&to_listener, 0, XDP_DROP);
}

/* By interface index; each interface has one queue. */
struct {
	__uint(type, BPF_MAP_TYPE_XSKMAP);
	__uint(max_entries, 4096);
	__type(key, __u32);
	__type(value, __u32);
} to_sockets SEC(".maps");

/* On a port of a bare forwarder over AF_XDP. */
SEC("xdp")
int to_socket(struct xdp_md *ctx)
{
	return bpf_redirect_map(&to_sockets, ctx->ingress_ifindex, XDP_DROP);
}

char _license[] SEC("license") = "Dual BSD/GPL";
