// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * The wire between a managing and a controlled node: passes requests and responses, and records
 * the time of each. It is outside of the measured path, and the same for every back
 * end.
 */
#include <linux/bpf.h>
#include <linux/types.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>
#include "devmap.h"

#define FRAME_LEN	    60
#define ETHERTYPE_POWERLINK 0x88ab

struct ethernet {
	__u8 destination[6];
	__u8 source[6];
	__be16 ethertype;
};

/*
 * Written by the bench between two rounds. Each is written by one program on one CPU at a time; its
 * own cache line avoids false sharing with the CPU of the other program.
 */
struct direction {
	__u64 count;   /* valid frames, each with a stamp */
	__u64 wrong;   /* of the EtherType, but with wrong octets, or no room for the stamp */
	__u64 foreign; /* all other frames: none are expected here; not passed on */
	__u8 expected[FRAME_LEN];
	__u8 padding[44];
} __attribute__((aligned(128)));

struct wire_state {
	struct direction request;
	struct direction response;
};

struct wire_state state;

/* Nanoseconds of CLOCK_MONOTONIC; max_entries is set before loading. */
#define STAMPS(name_)                                                                              \
	struct {                                                                                   \
		__uint(type, BPF_MAP_TYPE_ARRAY);                                                  \
		__uint(max_entries, 1);                                                            \
		__type(key, __u32);                                                                \
		__type(value, __u64);                                                              \
	} name_ SEC(".maps")

STAMPS(requests);
STAMPS(responses);
DEVMAP(to_mn, 1);
DEVMAP(to_cn, 1);

static __always_inline int is_expected(struct xdp_md *ctx, const __u8 *expected)
{
	const __u32 *found = (const void *)(long)ctx->data;
	const __u32 *wanted = (const void *)expected;

	if ((const __u8 *)found + FRAME_LEN > (const __u8 *)(long)ctx->data_end)
		return 0;
	/* A helper returns the length: the verifier merges two bounds on one pointer into an
	 * equality, from which it learns nothing. */
	if (bpf_xdp_get_buff_len(ctx) != FRAME_LEN)
		return 0;
	for (int i = 0; i < FRAME_LEN / 4; i++)
		if (found[i] != wanted[i])
			return 0;
	return 1;
}

/* `arrived`: stamp taken on entry; 0: take it on exit. */
static __always_inline int cross(struct xdp_md *ctx, struct direction *direction, void *stamps,
				 void *onward, __u64 arrived)
{
	const struct ethernet *eth = (void *)(long)ctx->data;
	__u32 index = direction->count;
	__u64 *stamp;

	if ((const void *)(eth + 1) > (const void *)(long)ctx->data_end ||
	    eth->ethertype != bpf_htons(ETHERTYPE_POWERLINK)) {
		direction->foreign++;
		return XDP_DROP;
	}
	stamp = bpf_map_lookup_elem(stamps, &index);
	if (stamp && is_expected(ctx, direction->expected)) {
		direction->count++;
		*stamp = arrived ? arrived : bpf_ktime_get_ns();
	} else {
		direction->wrong++;
	}
	return bpf_redirect_map(onward, 0, XDP_DROP);
}

/* On the end of the wire at the managing node. */
SEC("xdp")
int request(struct xdp_md *ctx)
{
	return cross(ctx, &state.request, &requests, &to_cn, 0);
}

/* On the end of the wire at the controlled node. */
SEC("xdp")
int response(struct xdp_md *ctx)
{
	return cross(ctx, &state.response, &responses, &to_mn, bpf_ktime_get_ns());
}

/* On the controlled node, in place of a back end: the minimum response delay. */
SEC("xdp")
int reflect(struct xdp_md *ctx)
{
	return XDP_TX;
}

char _license[] SEC("license") = "Dual BSD/GPL";
