// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Frames of a port go to its AF_XDP socket; all others to the network stack, unchanged. */
#include "receive.h"

SEC("xdp")
int onbeat_xsk(struct xdp_md *ctx)
{
	struct frame f;

	return is_ours(ctx, &f) ? deliver(ctx, bpf_ktime_get_tai_ns()) : XDP_PASS;
}

char _license[] SEC("license") = "Dual BSD/GPL";
