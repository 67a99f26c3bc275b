/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Packets that the XDP program of a device takes. Not every driver reports those that it drops or
 * sends back: they are what remains of a poll.
 */
#ifndef ONBEAT_XDP_H
#define ONBEAT_XDP_H

#include "deliver.h"

#define XDP_TX	     3
#define XDP_REDIRECT 4

static __always_inline bool has_xdp(const struct net_device *device, int mode)
{
	const struct bpf_xdp_entity *attached = &device->xdp_state[mode];

	return attached->prog || attached->link;
}

/* Whether the program of a device is a generic one, which gets packets after their arrival. */
static __always_inline bool is_generic(const struct net_device *device)
{
	return has_xdp(device, XDP_MODE_SKB) && !has_xdp(device, XDP_MODE_DRV);
}

static __always_inline void taken_by_xdp(struct cpu *cpu, const struct net_device *device,
					 __u32 verdict, __u32 packets)
{
	struct irq_key key = {.kind = IRQ_XDP, .a = verdict};

	if (!is_generic(device))
		announce(cpu, packets);
	name_device(&key, device);
	deliver_key(cpu, &key, packets);
}

/* The kernel freed the buffer of a packet, also after it reported that the program aborted. */
static __always_inline void dropped_by_xdp(struct cpu *cpu, const struct net_device *device)
{
	bool aborted = cpu->aborted;

	cpu->aborted = false;
	if (!aborted)
		taken_by_xdp(cpu, device, IRQ_VERDICT_DROP, 1);
}

/* A generic program's packet always has a buffer, which is freed after a report of an error. */
static __always_inline void dropped_by_generic(struct cpu *cpu, const struct net_device *device)
{
	__u32 verdict = cpu->aborted ? IRQ_VERDICT_ABORTED : IRQ_VERDICT_DROP;

	cpu->aborted = false;
	taken_by_xdp(cpu, device, verdict, 1);
}

/* Why a program drops a packet is not reported; other drops have a reason. */
static __always_inline bool has_no_other_reason(__u32 reason)
{
	return reason == bpf_core_enum_value(enum skb_drop_reason, SKB_DROP_REASON_NOT_SPECIFIED) ||
	       reason == bpf_core_enum_value(enum skb_drop_reason, SKB_DROP_REASON_XDP);
}

SEC("tp_btf/xdp_redirect")
int BPF_PROG(on_xdp_redirect, const struct net_device *device, const struct bpf_prog *program,
	     const void *target, int error, enum bpf_map_type map)
{
	struct cpu *cpu = receiving();

	if (!cpu)
		return 0;
	if (is_generic(device) && cpu->last_skb)
		ended(cpu, (void *)cpu->last_skb);
	if (map != BPF_MAP_TYPE_XSKMAP) {
		taken_by_xdp(cpu, device, IRQ_VERDICT_REDIRECT, 1);
	} else if (!is_generic(device)) {
		announce(cpu, 1);
		cpu->to_socket++;
	}
	return 0;
}

SEC("tp_btf/xdp_redirect_err")
int BPF_PROG(on_xdp_redirect_err, const struct net_device *device)
{
	struct cpu *cpu = receiving();

	if (!cpu)
		return 0;
	if (is_generic(device))
		cpu->aborted = true;
	else
		taken_by_xdp(cpu, device, IRQ_VERDICT_ABORTED, 1);
	return 0;
}

SEC("tp_btf/xdp_bulk_tx")
int BPF_PROG(on_xdp_bulk_tx, const struct net_device *device, int sent, int dropped)
{
	struct cpu *cpu = receiving();

	if (!cpu)
		return 0;
	if (sent > 0)
		taken_by_xdp(cpu, device, IRQ_VERDICT_TX, sent);
	if (dropped > 0)
		taken_by_xdp(cpu, device, IRQ_VERDICT_ABORTED, dropped);
	return 0;
}

SEC("tp_btf/xdp_exception")
int BPF_PROG(on_xdp_exception, const struct net_device *device, const struct bpf_prog *program,
	     __u32 verdict)
{
	struct cpu *cpu = receiving();

	/* Some drivers report a failed redirection here, too. */
	if (!cpu || verdict == XDP_REDIRECT)
		return 0;
	if (is_generic(device)) {
		cpu->aborted = true;
		return 0;
	}
	taken_by_xdp(cpu, device, IRQ_VERDICT_ABORTED, 1);
	cpu->aborted = verdict != XDP_TX;
	return 0;
}

#endif
