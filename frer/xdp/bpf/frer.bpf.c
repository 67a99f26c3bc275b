// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * FRER on one port: frames that its interface receives, and edits of replicas that it sends.
 * One instance of these programs is loaded per port; all share the tables of maps.h.
 */
#include "ingress.h"

/* For any set of features. */
SEC("xdp")
int frer_ingress(struct xdp_md *ctx)
{
	return ingress(ctx, features, l2_shape, false);
}

/*
 * For the usual sets, if all streams are identified by destination and VLAN: frames are tagged and
 * replicated, or eliminated and untagged.
 */
static __always_inline int ingress_usual(struct xdp_md *ctx, const __u32 uses)
{
	struct cursor c = {(void *)(long)ctx->data, (void *)(long)ctx->data_end};
	struct headers h;

	if (only_member != FRER_NONE && likely(parse_only(&c, &h, uses)))
		return protect_only(ctx, &h, uses);
	return ingress(ctx, uses, FRER_VLAN_EXACT, true);
}

SEC("xdp")
int frer_generate(struct xdp_md *ctx)
{
	return ingress_usual(ctx, FRER_USES_TO_GENERATE);
}

SEC("xdp")
int frer_eliminate(struct xdp_md *ctx)
{
	return ingress_usual(ctx, FRER_USES_TO_ELIMINATE);
}

SEC("xdp")
int frer_generate_rewrite(struct xdp_md *ctx)
{
	return ingress_usual(ctx, FRER_USES_TO_GENERATE | FRER_USES_REWRITE);
}

SEC("xdp")
int frer_eliminate_rewrite(struct xdp_md *ctx)
{
	return ingress_usual(ctx, FRER_USES_TO_ELIMINATE | FRER_USES_REWRITE);
}

SEC("xdp")
int frer_eliminate_individual(struct xdp_md *ctx)
{
	return ingress_usual(ctx, FRER_USES_TO_ELIMINATE | FRER_USES_INDIVIDUAL);
}

SEC("xdp")
int frer_eliminate_both(struct xdp_md *ctx)
{
	return ingress_usual(ctx,
			     FRER_USES_TO_ELIMINATE | FRER_USES_INDIVIDUAL | FRER_USES_REWRITE);
}

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
