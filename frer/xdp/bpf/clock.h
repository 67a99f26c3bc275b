/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The clock of timeouts. */
#ifndef ONBEAT_CLOCK_H
#define ONBEAT_CLOCK_H

#include "maps.h"

/* The period of the kernel's tick. */
const volatile __u64 tick_ns;

/* Programs under test take the time from the node table. */
const volatile bool test_clock;

/*
 * Timeouts have a resolution of milliseconds. The number of ticks is a load; the kernel's coarse
 * clock has the same resolution, and costs a call.
 */
static __always_inline __u64 now_ns(void)
{
	struct frer_node *n;
	__u32 zero = 0;

	if (!test_clock)
		return bpf_jiffies64() * tick_ns;
	n = bpf_map_lookup_elem(&node, &zero);
	return n ? n->test_now_ns : 0;
}

#endif
