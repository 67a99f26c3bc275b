/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The packet filter. */
#ifndef ONBEAT_FILTER_H
#define ONBEAT_FILTER_H

#include "state.h"
#include <bpf/bpf_endian.h>

const volatile struct hooks_filter filter;

#define ETH_P_IP    0x0800
#define ETH_P_IPV6  0x86dd
#define IP_FRAGMENT 0x1fff

static __always_inline bool same_address(const __u8 *address, const volatile __u8 *wanted,
					 int octets)
{
	bool same = true;
	int i;

#pragma unroll
	for (i = 0; i < 16; i++)
		if (i < octets && address[i] != wanted[i])
			same = false;
	return same;
}

/* Returns true if source or destination match, as requested. */
static __always_inline bool one_of(__u32 what, __u32 source, __u32 target, __u32 either,
				   bool by_source, bool by_target)
{
	if (what & either)
		return by_source || by_target;
	return (!(what & source) || by_source) && (!(what & target) || by_target);
}

/* Reads the packet starting at its network header. */
static __always_inline bool wanted(const struct sk_buff *skb)
{
	__u32 what = filter.what, transport = 40;
	__u8 octets[72], protocol;
	bool four = false;
	bool first = true;
	__u16 ports[2];

	if (!what)
		return true;
	if (what & HOOKS_ETHERTYPE && skb->protocol != bpf_htons(filter.ethertype))
		return false;
	if (!(what & ~HOOKS_ETHERTYPE))
		return true;
	if (bpf_probe_read_kernel(octets, sizeof(octets), skb->data))
		return false;
	if (skb->protocol == bpf_htons(ETH_P_IP)) {
		transport = (octets[0] & 0xf) * 4;
		protocol = octets[9];
		first = !(((octets[6] << 8) | octets[7]) & IP_FRAGMENT);
		four = true;
	} else if (skb->protocol == bpf_htons(ETH_P_IPV6)) {
		protocol = octets[6];
	} else {
		return false;
	}
	if (what & HOOKS_PROTOCOL && protocol != filter.protocol)
		return false;
	if (what & (HOOKS_SOURCE | HOOKS_TARGET | HOOKS_EITHER_ADDRESS)) {
		bool six = what & HOOKS_IPV6, by_source, by_target;

		if (six == four)
			return false;
		if (six) {
			by_source = same_address(octets + 8, filter.address, 16);
			by_target = same_address(octets + 24, filter.address, 16);
		} else {
			by_source = same_address(octets + 12, filter.address, 4);
			by_target = same_address(octets + 16, filter.address, 4);
		}
		if (!one_of(what, HOOKS_SOURCE, HOOKS_TARGET, HOOKS_EITHER_ADDRESS, by_source,
			    by_target))
			return false;
	}
	if (what & (HOOKS_SOURCE_PORT | HOOKS_TARGET_PORT | HOOKS_EITHER_PORT)) {
		if (!first || transport < 20 || transport > 60)
			return false;
		if (bpf_probe_read_kernel(ports, sizeof(ports), skb->data + transport))
			return false;
		if (!one_of(what, HOOKS_SOURCE_PORT, HOOKS_TARGET_PORT, HOOKS_EITHER_PORT,
			    ports[0] == bpf_htons(filter.port), ports[1] == bpf_htons(filter.port)))
			return false;
	}
	return true;
}

#endif
