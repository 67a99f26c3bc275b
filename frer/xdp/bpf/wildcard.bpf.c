// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* FRER and wildcards on one port: named streams first, then all other frames. */
#include "ingress.h"
#include "wildcard.h"

SEC("xdp")
int wildcard_ingress(struct xdp_md *ctx)
{
	struct cursor c = {(void *)(long)ctx->data, (void *)(long)ctx->data_end};
	struct headers h;
	__u64 found;

	if (!parse_headers(&c, &h))
		return unmatched(port);
	found = find_stream(ctx, &h, features, l2_shape);
	if (found)
		return protect(ctx, found, &h, features);
	/* A frame that ends within its headers is in no wildcard. */
	return h.tag == TAG_TRUNCATED ? unmatched(port) : wildcard_frame(ctx, &h);
}

/* Of replicas of streams. */
SEC("xdp/devmap")
int frer_egress(struct xdp_md *ctx)
{
	return finish_replica(ctx, port);
}

/* Loaded for tests only: the kernel does not test-run programs of device maps. */
SEC("xdp")
int frer_egress_test(struct xdp_md *ctx)
{
	return finish_replica(ctx, port);
}

char _license[] SEC("license") = "Dual BSD/GPL";
