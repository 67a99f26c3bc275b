// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * FRER on one port: frames that its interface receives, and edits of replicas that it sends.
 * One instance of these programs is loaded per port; all share the tables of maps.h.
 */
#include "egress.h"
#include "generate.h"
#include "identify.h"
#include "recover_state.h"

/* The port this instance serves. */
const volatile __u8 port;

/* Programs under test take the time from the node table. */
const volatile bool test_clock;

/* Timeouts have a resolution of milliseconds: the cheap coarse clock is sufficient. */
static __always_inline __u64 now_ns(void)
{
	struct frer_node *n;
	__u32 zero = 0;

	if (!test_clock)
		return bpf_ktime_get_coarse_ns();
	n = bpf_map_lookup_elem(&node, &zero);
	return n ? n->test_now_ns : 0;
}

/* A truncated R-TAG cannot be decoded: 10.8.11. */
static __always_inline void count_truncated(__u32 slot)
{
	struct frer_member_record *record = bpf_map_lookup_elem(&member_records, &slot);

	if (record)
		count(&record->enc_errored);
}

/* Individual recovery of the member, then sequence recovery of the stream, in these slots. */
static __always_inline bool passes(__u32 individual, __u32 slot, const struct recovery *sequence,
				   const struct headers *h)
{
	__u32 number = h->tag == TAG_R ? h->sequence : NO_SEQUENCE;
	struct claim claim = {};
	__u64 now = now_ns();

	if (individual != FRER_NONE) {
		if (!recover_again(individual, number, now, &claim))
			return false;
		__builtin_memset(&claim, 0, sizeof(claim));
	}
	return !sequence->r || recover(slot, sequence, number, now, &claim);
}

static __always_inline int protect(struct xdp_md *ctx, __u64 found, struct headers *h)
{
	__u32 slot = found >> FRER_FOUND_MEMBER & FRER_MEMBER_MASK;
	__u32 kind = found >> FRER_FOUND_KIND & 3, state = found & FRER_STATE_MASK;
	struct frer_member *member = bpf_map_lookup_elem(&members, &slot);
	struct frer_generator *generator = NULL;
	struct recovery sequence = {};
	__u64 functions;
	bool pass = true;

	if (!member)
		return XDP_DROP;
	/*
	 * With many streams, none of these lines is in a near cache. An atomic addition waits for
	 * its line and blocks later accesses: prefetch both lines before.
	 */
	functions = READ_ONCE(member->functions);
	if (kind == FRER_STATE_RECOVERY) {
		if (!find_recovery(state, &sequence))
			return XDP_DROP;
		READ_ONCE(sequence.r->head);
	} else if (kind == FRER_STATE_GENERATOR) {
		generator = bpf_map_lookup_elem(&generators, &state);
		if (!generator)
			return XDP_DROP;
		READ_ONCE(generator->next);
	}

	count(&member->input);
	if (h->tag == TAG_TRUNCATED) {
		count_truncated(slot);
		pass = false;
	} else if (sequence.r || functions >> 32 != FRER_NONE) {
		pass = passes(functions >> 32, state, &sequence, h);
	}
	if (!pass) {
		count(&member->dropped);
		return XDP_DROP;
	}
	if (generator)
		generate(generator, h);
	return replicate(ctx, functions, h, port);
}

SEC("xdp")
int frer_ingress(struct xdp_md *ctx)
{
	struct cursor c = {(void *)(long)ctx->data, (void *)(long)ctx->data_end};
	struct headers h;
	__u64 found;
	__u32 msdu;

	if (!parse_headers(&c, &h))
		return unmatched(port);
	msdu = ADDRESSES + h.vlans * sizeof(struct vlan_tag);
	found = identify(ctx, h.ethertype, h.payload | msdu << 16, h.vid, port);
	return found ? protect(ctx, found, &h) : unmatched(port);
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
