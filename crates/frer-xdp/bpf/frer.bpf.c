// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * FRER on one port: what its interface receives, and what replicas look like that leave by it.
 * One instance of these programs is loaded per port; all share the tables of maps.h.
 */
#include "egress.h"
#include "generate.h"
#include "identify.h"
#include "recover.h"

/* The port this instance serves. */
const volatile __u8 port;

/* Programs under test take the time from the node table. */
const volatile bool test_clock;

/* A time-out is told in milliseconds: the clock that costs next to nothing is good enough. */
static __always_inline __u64 now_ns(void)
{
	struct frer_node *n;
	__u32 zero = 0;

	if (!test_clock)
		return bpf_ktime_get_coarse_ns();
	n = bpf_map_lookup_elem(&node, &zero);
	return n ? n->test_now_ns : 0;
}

static __always_inline bool passes(__u32 slot, const struct headers *h, __u64 now)
{
	return slot == FRER_NONE || recover(slot, h->tag == TAG_R, h->sequence, now);
}

static __always_inline int protect(struct xdp_md *ctx, const struct frer_member *member,
				   struct headers *h, struct frer_port_counters *losses)
{
	struct frer_member_counters *counters =
	    bpf_map_lookup_elem(&member_counters, &member->counters);
	bool touched = false;

	if (counters) {
		count(&counters->input);
		if (h->tag == TAG_TRUNCATED)
			count(&counters->enc_errored);
	}
	if (h->tag == TAG_TRUNCATED)
		return XDP_DROP;
	if (member->individual != FRER_NONE || member->recovery != FRER_NONE) {
		__u64 now = now_ns();

		if (!passes(member->individual, h, now) || !passes(member->recovery, h, now))
			return XDP_DROP;
	}
	if (member->generator != FRER_NONE)
		generate(member->generator, h);
	if (member->up.flags) {
		rewrite(h, &member->up);
		touched = true;
	}
	return replicate(ctx, member->split, h, touched, losses);
}

SEC("xdp")
int frer_ingress(struct xdp_md *ctx)
{
	struct cursor c = {(void *)(long)ctx->data, (void *)(long)ctx->data_end};
	__u32 this_port = port;
	struct frer_port_counters *counters = bpf_map_lookup_elem(&port_counters, &this_port);
	struct frer_member member = {};
	struct headers h = {};

	if (!counters)
		return XDP_PASS;
	if (!parse_headers(&c, &h) || !identify(ctx, &h, port, &member)) {
		count(&counters->unmatched);
		return XDP_PASS;
	}
	return protect(ctx, &member, &h, counters);
}

SEC("xdp/devmap")
int frer_egress(struct xdp_md *ctx)
{
	return finish_replica(ctx, port);
}

/* Loaded for tests only: the kernel does not test-run programs of device maps. */
SEC("?xdp")
int frer_egress_test(struct xdp_md *ctx)
{
	return finish_replica(ctx, port);
}

char _license[] SEC("license") = "Dual BSD/GPL";
