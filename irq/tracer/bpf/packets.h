/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Programs at the ends of packets: sockets, drops, transmissions, and packets that the kernel
 * consumes. */
#ifndef ONBEAT_PACKETS_H
#define ONBEAT_PACKETS_H

#include "xdp.h"

/* This kernel's kfree_skb reports the socket of the packet (Linux 6.11). */
const volatile bool drops_name_socket;

/* tcp_probe reports TCP packets; they need not be counted when a reader is notified. */
const volatile bool tcp_is_probed;

SEC("tp_btf/sk_data_ready")
int BPF_PROG(on_sk_data_ready, struct sock *sk)
{
	struct cpu *cpu = receiving();
	__u32 packets = 1;

	if (!cpu)
		return 0;
	/* A tap: its time is charged when all of them received the packet. */
	if (cpu->tapping && is_packet_socket(sk))
		return 0;
	if (sk->__sk_common.skc_family == AF_XDP) {
		/* A generic program passes packets, which have arrived, one by one. */
		packets = cpu->to_socket ?: !!cpu->device;
		cpu->to_socket = 0;
	} else if (sk->sk_protocol == PROTOCOL_TCP) {
		if (sk->__sk_common.skc_state != TCP_LISTEN)
			packets = !tcp_is_probed;
		else if (cpu->pendings)
			/* The last packet of its handshake. */
			connection_ended(cpu, ~0ULL);
	}
	deliver_to(cpu, sk, packets);
	return 0;
}

SEC("tp_btf/tcp_probe")
int BPF_PROG(on_tcp_probe, struct sock *sk, struct sk_buff *skb)
{
	struct cpu *cpu = receiving();

	if (!cpu)
		return 0;
	if (!ended(cpu, skb) && cpu->pendings)
		connection_ended(cpu, IRQ_MAX_PENDING);
	deliver_to(cpu, sk, 1);
	return 0;
}

/* Whether taps receive a packet, and a buffer is that of one of them. */
static __always_inline bool is_of_tap(const struct cpu *cpu, const struct sk_buff *skb)
{
	return cpu->tapping && cpu->last_skb != (__u64)skb;
}

SEC("tp_btf/kfree_skb")
int on_kfree_skb(__u64 *ctx)
{
	struct cpu *cpu = receiving();
	struct irq_key key = {.kind = IRQ_DROPPED};
	struct sock *sk = NULL;
	struct sk_buff *skb;
	__u32 kind;

	if (!cpu)
		return 0;
	skb = (struct sk_buff *)ctx[0];
	if (is_of_tap(cpu, skb))
		return 0;
	if (!skb->skb_iif) {
		/* An answer that cannot be sent is part of the packet that it answers. */
		if (skb->dev && has_xdp(skb->dev, XDP_MODE_DRV) && has_no_other_reason(ctx[2]))
			dropped_by_xdp(cpu, skb->dev);
		return 0;
	}
	if (has_no_other_reason(ctx[2]) && skb->skb_iif == skb->dev->ifindex &&
	    is_generic(skb->dev)) {
		ended(cpu, (void *)cpu->last_skb);
		dropped_by_generic(cpu, skb->dev);
		return 0;
	}
	kind = ended(cpu, skb);
	if (drops_name_socket)
		sk = (struct sock *)ctx[3];
	if (sk) {
		deliver_to(cpu, sk, 1);
		return 0;
	}
	/* A connection that is over discards packets without a socket. */
	if (kind == IRQ_CONNECTION)
		for_flow(&key, cpu->ended_flow);
	if (key.kind == IRQ_DROPPED || key.kind == IRQ_CONNECTION) {
		key.kind = IRQ_DROPPED;
		key.a = ctx[2];
	}
	deliver(cpu, &key, 1);
	return 0;
}

/*
 * A buffer whose packet was consumed: by the kernel, if the packet arrived in this poll. In a poll
 * without packets it is a transmitted one: the driver frees the buffers that the device has
 * completed.
 */
SEC("tp_btf/consume_skb")
int BPF_PROG(on_consume_skb, struct sk_buff *skb)
{
	struct cpu *cpu = receiving();
	struct irq_key key = {};
	__u32 kind;

	if (!cpu || is_of_tap(cpu, skb))
		return 0;
	if (cpu->fresh && cpu->last_skb == (__u64)skb && is_generic(skb->dev)) {
		cpu->fresh = false;
		copied(cpu);
		return 0;
	}
	kind = ended(cpu, skb);
	if (kind) {
		cpu->totals.inspected++;
		for_class(&key, kind, cpu->ended_flow);
		deliver(cpu, &key, 1);
	} else {
		record_event(0, IRQ_FREE, NULL, 0);
		cpu->freed++;
	}
	return 0;
}

/*
 * A transmitted packet that was received before. It may still have its sender's socket: a bridge
 * does not remove that from packets of a veth (Linux 6.12).
 */
SEC("tp_btf/net_dev_start_xmit")
int BPF_PROG(on_net_dev_start_xmit, struct sk_buff *skb, struct net_device *device)
{
	struct cpu *cpu = receiving();
	struct irq_key key = {.kind = IRQ_FORWARDED};

	if (!cpu || !skb->skb_iif)
		return 0;
	ended(cpu, skb);
	if (BPF_CORE_READ_BITFIELD(device, priv_flags) & IFF_BRIDGE_PORT)
		key.kind = IRQ_BRIDGED;
	key.a = device->ifindex;
	deliver(cpu, &key, 1);
	return 0;
}

#endif
