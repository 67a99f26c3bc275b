/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Programs at the ends of packets: sockets, drops, transmissions, and packets that the kernel
 * consumes. */
#ifndef ONBEAT_PACKETS_H
#define ONBEAT_PACKETS_H

#include "owner.h"
#include "run.h"
#include <bpf/bpf_tracing.h>

/* This kernel's kfree_skb reports the socket of the packet (Linux 6.11). */
const volatile bool drops_name_socket;

/* tcp_probe reports TCP packets; they need not be counted when a reader is notified. */
const volatile bool tcp_is_probed;

/*
 * A NAPI thread whose switch was not observed: because it ran already when the tracer started, or
 * because the kernel, now and then, reports no switch (observed with Linux 6.18). The scheduler's
 * account of it supplies the missing time.
 */
static __always_inline void catch_up(struct cpu *cpu)
{
	struct task_struct *task;

	if (is_preempted(cpu)) {
		proceed_if_current(cpu);
		return;
	}
	if (cpu->thread || cpu->softirq)
		return;
	task = bpf_get_current_task_btf();
	if (thread_kind(task) == THREAD_NAPI)
		thread_in(cpu, time_of(cpu), task->se.sum_exec_runtime);
}

/* The state of this CPU, if it receives packets in softirq context, and polls are sampled. */
static __always_inline struct cpu *receiving(void)
{
	struct cpu *cpu = this_cpu();

	if (!cpu)
		return NULL;
	catch_up(cpu);
	return receives(cpu) && !cpu->skipped ? cpu : NULL;
}

static __always_inline void name_device(struct irq_key *key, const struct net_device *device)
{
	key->device = device->ifindex;
	key->netns = device->nd_net.net->ns.inum;
}

/* Arrivals are not observed: the device of the last packet that the socket received. */
static __always_inline void name_by_socket(struct irq_key *key, const struct sock *sk)
{
	const struct sk_buff *last = sk->sk_receive_queue.prev;

	if ((__u64)last == (__u64)&sk->sk_receive_queue)
		return;
	key->device = last->skb_iif;
	key->netns = netns_of(sk);
}

static __always_inline void deliver_key(struct cpu *cpu, struct irq_key *key, __u32 packets)
{
	__u64 now;

	cpu->last_sk = 0;
	if (!is_only_cause(cpu, key)) {
		cpu->mixed = MIXED_POLLS;
	} else if (!cpu->mixed) {
		record_event(0, IRQ_COUNT, key, packets);
		poll_count(cpu, key, packets);
		return;
	}
	if (cpu->gap) {
		record_event(0, IRQ_COUNT, key, 0);
		cpu->delivered = false;
		cpu->gap = false;
	}
	now = time_of(cpu);
	record_event(now, IRQ_DELIVER, key, packets);
	poll_deliver(cpu, key, packets, point(cpu, now));
}

/* As deliver_key(), for a packet of the device of the last arrival. */
static __always_inline void deliver(struct cpu *cpu, struct irq_key *key, __u32 packets)
{
	key->device = cpu->device;
	key->netns = cpu->netns;
	deliver_key(cpu, key, packets);
}

/*
 * The end of a poll: packets without an observed end are charged to the cause that their headers
 * name. The rest is unattributed.
 */
__noinline int end_pending(struct cpu *cpu)
{
	struct irq_key key = {};
	__u32 i;

	if (!cpu)
		return 0;
	key.device = cpu->device;
	key.netns = cpu->netns;
	for (i = 0; i < IRQ_MAX_PENDING && i < cpu->pendings; i++) {
		if (!cpu->pending[i].skb)
			continue;
		key.a = 0;
		key.b = 0;
		for_class(&key, cpu->pending[i].kind, cpu->pending[i].flow);
		if (!is_only_cause(cpu, &key))
			cpu->mixed = MIXED_POLLS;
		cpu->totals.inspected++;
		record_event(0, IRQ_COUNT, &key, 1);
		poll_count(cpu, &key, 1);
	}
	return 0;
}

static __always_inline void end_rest(struct cpu *cpu)
{
	struct irq_key key = {.kind = IRQ_UNATTRIBUTED};
	__u32 left;

	if (cpu->pending_at < cpu->pendings)
		end_pending(cpu);
	left = cpu->outstanding;
	if (!left || !inspect || cpu->skipped)
		return;
	key.device = cpu->device;
	key.netns = cpu->netns;
	cpu->totals.inspected += left;
	record_event(0, IRQ_COUNT, &key, left);
	poll_count(cpu, &key, left);
}

static __always_inline bool has_xdp(const struct net_device *device, int mode)
{
	const struct bpf_xdp_entity *attached = &device->xdp_state[mode];

	return attached->prog || attached->link;
}

/* A packet for a socket: often the same one as before, which requires no look-up. */
static __always_inline void deliver_to(struct cpu *cpu, struct sock *sk, __u32 packets)
{
	struct irq_key key = {};
	struct entry *e;
	__u64 now;

	if (cpu->last_sk == (__u64)sk) {
		e = &cpu->entry[cpu->last_at % IRQ_MAX_CAUSES];
		if (!cpu->mixed) {
			record_event(0, IRQ_COUNT, &e->key, packets);
			count(cpu, e, packets);
			return;
		}
		if (cpu->gap) {
			record_event(0, IRQ_COUNT, &e->key, 0);
			cpu->delivered = false;
			cpu->gap = false;
		}
		now = time_of(cpu);
		record_event(now, IRQ_DELIVER, &e->key, packets);
		add_packets(cpu, e, packets, point(cpu, now));
		return;
	}
	for_socket(cpu, sk, &key);
	key.device = cpu->device;
	key.netns = cpu->netns;
	if (!key.device)
		name_by_socket(&key, sk);
	deliver_key(cpu, &key, packets);
	cpu->last_sk = key.kind <= IRQ_LISTENER ? (__u64)sk : 0;
}

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
	if (sk->sk_protocol == PROTOCOL_TCP) {
		if (sk->__sk_common.skc_state != TCP_LISTEN)
			packets = !tcp_is_probed;
		else if (cpu->pendings)
			handshake_ended(cpu);
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
	ended(cpu, skb);
	deliver_to(cpu, sk, 1);
	return 0;
}

/*
 * Whether an XDP program in the driver dropped a packet that the driver had as a socket buffer
 * (veth): it is freed before the protocols set skb_iif.
 */
static __always_inline bool dropped_by_xdp(const struct sk_buff *skb)
{
	return skb->dev && has_xdp(skb->dev, XDP_MODE_DRV);
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
		if (!dropped_by_xdp(skb))
			return 0;
		/* The device is the polled one. */
		key.kind = IRQ_XDP;
		deliver_key(cpu, &key, 1);
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
