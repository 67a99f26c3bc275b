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

/* An R-TAG that is cut off cannot be read: 10.8.11. */
static __always_inline void count_truncated(__u32 slot)
{
	struct frer_member_record *record = bpf_map_lookup_elem(&member_records, &slot);

	if (record)
		count(&record->enc_errored);
}

static __always_inline int protect(struct xdp_md *ctx, __u32 slot, struct headers *h)
{
	struct frer_member *member = bpf_map_lookup_elem(&members, &slot);
	struct frer_functions *functions;
	bool pass = true;

	if (!member)
		return XDP_DROP;
	count(&member->input);
	functions = &member->functions[member->active & 1];
	if (h->tag == TAG_TRUNCATED) {
		count_truncated(slot);
		pass = false;
	} else if (functions->individual != FRER_NONE || functions->recovery != FRER_NONE) {
		__u64 now = now_ns();

		pass = passes(functions->individual, h, now) && passes(functions->recovery, h, now);
	}
	if (!pass) {
		count(&member->dropped);
		return XDP_DROP;
	}
	if (functions->generator != FRER_NONE)
		generate(functions->generator, h);
	return replicate(ctx, functions->split, h, port);
}

SEC("xdp")
int frer_ingress(struct xdp_md *ctx)
{
	struct cursor c = {(void *)(long)ctx->data, (void *)(long)ctx->data_end};
	struct headers h;
	__u32 slot, msdu;

	if (!parse_headers(&c, &h))
		return unmatched(port);
	msdu = ADDRESSES + h.vlans * sizeof(struct vlan_tag);
	slot = identify(ctx, h.ethertype, h.payload | msdu << 16, h.vid, port);
	return slot == FRER_NONE ? unmatched(port) : protect(ctx, slot, &h);
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
