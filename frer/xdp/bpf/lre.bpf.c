// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * FRER and a link redundancy entity on one port of the entity: named streams first, then all other
 * frames.
 */
#include "ingress.h"
#include "lre.h"

SEC("xdp")
int lre_ingress(struct xdp_md *ctx)
{
	struct cursor c = {(void *)(long)ctx->data, (void *)(long)ctx->data_end};
	struct headers h;
	__u64 found;

	if (!parse_headers(&c, &h))
		return lre_frame(ctx, NULL);
	found = find_stream(ctx, &h, features, l2_shape);
	if (found)
		return protect(ctx, found, &h, features);
	return lre_frame(ctx, h.tag == TAG_TRUNCATED ? NULL : &h);
}

/* Of replicas of streams, and of copies for LAN B: any frame may come to either program. */
SEC("xdp/devmap")
int frer_egress(struct xdp_md *ctx)
{
	return lre_role == FRER_LRE_LAN_B ? finish_lan_b(ctx) : finish_replica(ctx, port);
}

SEC("xdp/devmap")
int lre_lan_b(struct xdp_md *ctx)
{
	return finish_lan_b(ctx);
}

/* Loaded for tests only: the kernel does not test-run programs of device maps. */
SEC("xdp")
int frer_egress_test(struct xdp_md *ctx)
{
	return finish_replica(ctx, port);
}

SEC("xdp")
int lre_lan_b_test(struct xdp_md *ctx)
{
	return finish_lan_b(ctx);
}

char _license[] SEC("license") = "Dual BSD/GPL";
