// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Programs around and in place of FRER: a reflector of probes, and nodes that only redirect them,
 * the baseline of round trips through FRER. Frames with a VLAN tag belong to streams; others
 * go to the network stack, as in a node.
 */
#include <linux/bpf.h>
#include <linux/types.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>
#include "devmap.h"

#define ETHERTYPE_VLAN 0x8100

struct ethernet {
	__u8 destination[6];
	__u8 source[6];
	__be16 ethertype;
};

/* Group address of the return stream; written before the programs are attached. */
__u8 back[8];

DEVMAP(to_paths, 2);
DEVMAP(to_host, 1);

static __always_inline struct ethernet *of_a_stream(struct xdp_md *ctx)
{
	struct ethernet *eth = (void *)(long)ctx->data;

	if ((void *)(eth + 1) > (void *)(long)ctx->data_end ||
	    eth->ethertype != bpf_htons(ETHERTYPE_VLAN))
		return NULL;
	return eth;
}

/*
 * On the listener: returns every probe, in softirq, as a kernel answers a ping. It redirects to the
 * ingress interface instead of XDP_TX, which on a veth leaves frames queued at a peer without an
 * XDP program, such as a node over packet sockets (veth_xdp_flush).
 */
SEC("xdp")
int answer(struct xdp_md *ctx)
{
	struct ethernet *eth = of_a_stream(ctx);

	if (!eth)
		return XDP_PASS;
	__builtin_memcpy(eth->destination, back, 6);
	return bpf_redirect(ctx->ingress_ifindex, 0);
}

/* On a node's port to its host: to both paths. */
SEC("xdp")
int replicate(struct xdp_md *ctx)
{
	if (!of_a_stream(ctx))
		return XDP_PASS;
	return bpf_redirect_map(&to_paths, 0, BPF_F_BROADCAST);
}

/* On a node's port to path 1. */
SEC("xdp")
int deliver(struct xdp_md *ctx)
{
	if (!of_a_stream(ctx))
		return XDP_PASS;
	return bpf_redirect_map(&to_host, 0, XDP_DROP);
}

/* On a node's port to path 2: drops the copies that FRER would eliminate. */
SEC("xdp")
int eliminate(struct xdp_md *ctx)
{
	return of_a_stream(ctx) ? XDP_DROP : XDP_PASS;
}

char _license[] SEC("license") = "Dual BSD/GPL";
