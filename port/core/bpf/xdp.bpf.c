// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* As xsk.bpf.c; frames that match a response are answered in the driver. */
#include "respond.h"

SEC("xdp")
int onbeat_xdp(struct xdp_md *ctx)
{
	struct frame f;

	return is_ours(ctx, &f) ? respond_or_deliver(ctx, &f, bpf_ktime_get_tai_ns()) : XDP_PASS;
}

char _license[] SEC("license") = "Dual BSD/GPL";
