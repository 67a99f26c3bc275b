/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Frames that become longer, in buffers without room behind them. */
#ifndef ONBEAT_RESIZE_H
#define ONBEAT_RESIZE_H

#include "lre_frame.h"

/* Octets moved at once. */
#define CHUNK 64

struct movement {
	struct xdp_md *ctx;
	__u64 length; /* of the frame */
	__u64 by;     /* octets */
	__u64 failed;
};

/* A number of octets, known to the verifier. That of Linux 6.1 learns no "not 0" by comparisons. */
static __always_inline __u64 from_1_to_chunk(__u64 octets)
{
	asm volatile("" : "+r"(octets));
	return ((octets - 1) & (CHUNK - 1)) + 1;
}

static long move_chunk(__u32 index, struct movement *m)
{
	__u64 at = (__u64)index * CHUNK, size = m->length - at;
	__u8 chunk[CHUNK];

	if (at >= m->length)
		return 1;
	if (size > CHUNK)
		size = CHUNK;
	size = from_1_to_chunk(size);
	if (bpf_xdp_load_bytes(m->ctx, at + m->by, chunk, size) ||
	    bpf_xdp_store_bytes(m->ctx, at, chunk, size)) {
		m->failed = true;
		return 1;
	}
	return 0;
}

/* Move all octets of a frame to its start. */
static __noinline int move_to_start(struct xdp_md *ctx, __u32 length, __u32 by)
{
	struct movement m = {.ctx = ctx, .length = length, .by = by};

	bpf_loop(LONGEST_LRE / CHUNK + 1, move_chunk, &m, 0);
	return !m.failed;
}

/* A function of its own: Linux 6.1 has no room on the stack for both arrays. */
static __noinline int clear(struct xdp_md *ctx, __u32 at, __u32 size)
{
	__u8 zeros[CHUNK] = {};

	return bpf_xdp_store_bytes(ctx, at, zeros, from_1_to_chunk(size));
}

/*
 * Append octets of 0. A buffer of the network stack is often without room behind the frame; before
 * it, there is the headroom of XDP.
 */
static __always_inline bool append(struct xdp_md *ctx, __u32 length, __u32 more)
{
	/* The kernel clears the new octets. */
	if (likely(!bpf_xdp_adjust_tail(ctx, more)))
		return true;
	return !bpf_xdp_adjust_head(ctx, -(int)more) && move_to_start(ctx, length, more) &&
	       !clear(ctx, length, more);
}

#endif
