// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Frames of a PRP node and the network stacks of its interfaces, at their tc ingress.
 *
 * prp_shield	A LAN, with packet sockets: its stack receives no multicast frame with a trailer.
 *		The node delivers it to the host, once; sockets receive copies before this program.
 *		Otherwise the stack would answer ARP requests for the host by the address of the
 *		interface, and receivers of broadcasts would receive each one up to three times.
 * prp_share	A LAN, with XDP: multicast frames without a trailer are those of nodes without
 *		redundancy, for the host and for the interface's own stack. In generic mode, frames
 *		that lre_ingress accepted are the host's, without their trailer.
 * prp_copies	The port towards the host, with XDP in generic mode: sends the copies of a frame.
 *
 * Unicast frames are left alone: those to other addresses end in the stack by themselves.
 */
#include <stdbool.h>
#include <stddef.h>
#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <linux/pkt_cls.h>
#include <bpf/bpf_helpers.h>
#include "trailer.h"

/* The kernel has removed the first VLAN tag. */
static __always_inline __u32 lsdu_offset(__be16 protocol)
{
	if (protocol == bpf_htons(ETH_P_8021Q) || protocol == bpf_htons(ETH_P_8021AD))
		return ETH_HLEN + 4;
	return ETH_HLEN;
}

/* Changed while the programs run: attached again, both would share each frame. */
volatile __u32 host_ifindex;  /* of prp_share */
volatile __u32 lan_a_ifindex; /* of prp_copies; 0: missing */
volatile __u32 lan_b_ifindex;
/* LANs in generic mode, where lre_ingress passes accepted frames; 0: none. */
volatile __u32 accepting_a_ifindex;
volatile __u32 accepting_b_ifindex;

/* Whether a frame is multicast, and of no protocol of one link: none of those has a trailer. */
static __always_inline bool is_shared(const struct ethhdr *eth)
{
	__u64 destination = 0;

	__builtin_memcpy(&destination, eth->h_dest, sizeof(eth->h_dest));
	return destination & GROUP_BIT && !is_link_local(destination, eth->h_proto);
}

/* Whether a frame has a trailer. */
static __always_inline bool read_trailer(struct __sk_buff *skb, const struct ethhdr *eth,
					 struct trailer *trailer)
{
	if (skb->len < ETH_HLEN + sizeof(*trailer) ||
	    bpf_skb_load_bytes(skb, skb->len - sizeof(*trailer), trailer, sizeof(*trailer)))
		return false;
	return is_trailer(trailer, skb->len - lsdu_offset(eth->h_proto));
}

static __always_inline bool has_trailer(struct __sk_buff *skb, const struct ethhdr *eth)
{
	struct trailer trailer;

	return read_trailer(skb, eth, &trailer);
}

static __always_inline bool is_marked(const struct __sk_buff *skb, __u32 as)
{
	__u32 *mark = (void *)(long)skb->data_meta;

	return (void *)(mark + 1) <= (void *)(long)skb->data && *mark == as;
}

/* A frame keeps its metadata over a veth: only lre_ingress on this interface marks it. */
static __always_inline bool is_accepted(const struct __sk_buff *skb)
{
	__u32 interface = skb->ifindex;

	return (interface == accepting_a_ifindex || interface == accepting_b_ifindex) &&
	       is_marked(skb, ACCEPTED);
}

SEC("tcx/ingress")
int prp_shield(struct __sk_buff *skb)
{
	struct ethhdr eth;

	if (bpf_skb_load_bytes(skb, 0, &eth, sizeof(eth)) || !is_shared(&eth))
		return TC_ACT_UNSPEC;
	return has_trailer(skb, &eth) ? TC_ACT_SHOT : TC_ACT_UNSPEC;
}

SEC("tcx/ingress")
int prp_share(struct __sk_buff *skb)
{
	bool accepted = is_accepted(skb), shared = !is_marked(skb, NOT_SHARED);
	struct ethhdr eth;

	if (bpf_skb_load_bytes(skb, 0, &eth, sizeof(eth)))
		return TC_ACT_UNSPEC;
	if (accepted && has_trailer(skb, &eth)) {
		if (bpf_skb_change_tail(skb, skb->len - sizeof(struct trailer), 0))
			return TC_ACT_SHOT;
		return bpf_redirect(host_ifindex, 0);
	}
	if (shared && is_shared(&eth) && !has_trailer(skb, &eth))
		bpf_clone_redirect(skb, host_ifindex, 0);
	return TC_ACT_UNSPEC;
}

/* Other frames than those that lre_ingress has numbered are left to the stack. */
SEC("tcx/ingress")
int prp_copies(struct __sk_buff *skb)
{
	__u32 length = skb->len, at = length - sizeof(struct trailer);
	struct trailer trailer;
	struct ethhdr eth;

	if (bpf_skb_load_bytes(skb, 0, &eth, sizeof(eth)) || !read_trailer(skb, &eth, &trailer))
		return TC_ACT_UNSPEC;
	/* Correct the end of the buffer: Linux as a PRP node looks for the trailer there. */
	if (bpf_skb_change_tail(skb, at, 0) || bpf_skb_change_tail(skb, length, 0) ||
	    bpf_skb_store_bytes(skb, at, &trailer, sizeof(trailer), 0))
		return TC_ACT_SHOT;
	bpf_clone_redirect(skb, lan_a_ifindex, 0);
	trailer.lan_and_size |= bpf_htons(LAN_B);
	if (bpf_skb_store_bytes(skb, at, &trailer, sizeof(trailer), 0))
		return TC_ACT_SHOT;
	return bpf_redirect(lan_b_ifindex, 0);
}

char _license[] SEC("license") = "Dual BSD/GPL";
