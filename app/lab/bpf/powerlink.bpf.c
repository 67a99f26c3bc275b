// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * The wire between a managing and a controlled node of POWERLINK, like bpf/port.bpf.c for single
 * frames: passes all frames, and records the times of SoC, PReq and PRes, without checking their
 * content. Also the controlled node of the row `limit`.
 */
#include <linux/bpf.h>
#include <linux/types.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>
#include "devmap.h"

#define ETHERTYPE_POWERLINK 0x88ab

/* Message types; the highest bit is reserved. */
#define SOC  1
#define PREQ 3
#define PRES 4
#define TYPE 0x7f

/* An event is a time of CLOCK_MONOTONIC; its two highest bits hold the kind. */
#define KIND_SHIFT 62

struct message {
	__u8 destination[6];
	__u8 source[6];
	__be16 ethertype;
	__u8 type;
} __attribute__((packed));

struct wire_state {
	__u64 recording; /* set and cleared by the bench */
	__u64 next;	 /* events, including those without room */
	__u64 foreign;	 /* none are expected here; not passed on */
};

struct wire_state state;

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1); /* set before loading */
	__type(key, __u32);
	__type(value, __u64);
} events SEC(".maps");

DEVMAP(to_mn, 1);
DEVMAP(to_cn, 1);

/* Both ends write here, each on its own CPU. */
static __always_inline void note(__u64 kind, __u64 now)
{
	__u32 index;
	__u64 *event;

	if (!state.recording)
		return;
	index = __sync_fetch_and_add(&state.next, 1);
	event = bpf_map_lookup_elem(&events, &index);
	if (event)
		*event = kind << KIND_SHIFT | now;
}

/* The message type of a frame; 0: not POWERLINK. */
static __always_inline __u8 type_of(struct xdp_md *ctx)
{
	const struct message *m = (void *)(long)ctx->data;

	if ((const void *)(m + 1) > (const void *)(long)ctx->data_end ||
	    m->ethertype != bpf_htons(ETHERTYPE_POWERLINK)) {
		__sync_fetch_and_add(&state.foreign, 1);
		return 0;
	}
	return m->type & TYPE;
}

/* On the end of the wire at the managing node: the stamp is taken on exit. */
SEC("xdp")
int from_mn(struct xdp_md *ctx)
{
	__u8 type = type_of(ctx);

	if (!type)
		return XDP_DROP;
	if (type == SOC)
		note(1, bpf_ktime_get_ns());
	else if (type == PREQ)
		note(2, bpf_ktime_get_ns());
	return bpf_redirect_map(&to_cn, 0, XDP_DROP);
}

/* On the end of the wire at the controlled node: the stamp is taken on entry. */
SEC("xdp")
int from_cn(struct xdp_md *ctx)
{
	__u64 now = bpf_ktime_get_ns();
	__u8 type = type_of(ctx);

	if (!type)
		return XDP_DROP;
	if (type == PRES)
		note(3, now);
	return bpf_redirect_map(&to_mn, 0, XDP_DROP);
}

#define BROADCAST   255
#define OPERATIONAL 0xfd

/* The header of PReq and PRes. */
struct poll {
	struct message message;
	__u8 to;
	__u8 from;
	__u8 status; /* PReq: reserved */
	__u8 flags[2];
} __attribute__((packed));

/*
 * On the controlled node, in place of a back end: the minimum response delay. A poll becomes a
 * response with the poll's payload; all other frames go to the network stack.
 */
SEC("xdp")
int reflect(struct xdp_md *ctx)
{
	struct poll *p = (void *)(long)ctx->data;

	if ((const void *)(p + 1) > (const void *)(long)ctx->data_end ||
	    p->message.ethertype != bpf_htons(ETHERTYPE_POWERLINK) ||
	    (p->message.type & TYPE) != PREQ)
		return XDP_PASS;
	__builtin_memcpy(p->message.source, p->message.destination, sizeof(p->message.source));
	/* The multicast group of responses. */
	__builtin_memcpy(p->message.destination, "\x01\x11\x1e\x00\x00\x02",
			 sizeof(p->message.destination));
	p->message.type = PRES;
	p->from = p->to;
	p->to = BROADCAST;
	p->status = OPERATIONAL;
	p->flags[0] &= 1; /* the data is valid */
	p->flags[1] = 0;
	/* XDP_TX does not wake the peer of a veth. */
	return bpf_redirect(ctx->ingress_ifindex, 0);
}

char _license[] SEC("license") = "Dual BSD/GPL";
