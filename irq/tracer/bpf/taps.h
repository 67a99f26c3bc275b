/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Taps: packet sockets that receive all packets of a device, as that of tcpdump. A socket with a
 * ring reaches no tracepoint. The kernel passes a packet to its taps between its arrival and the
 * ingress of tc, and to the protocols afterwards.
 */
#ifndef ONBEAT_TAPS_H
#define ONBEAT_TAPS_H

#include "owner.h"
#include "run.h"

/* include/uapi/linux/bpf.h: other programs decide. */
#define TCX_NEXT (-1)

/*
 * The kernel's list of taps of all devices, or the structure with it (Linux 6.9); 0: unknown. Since
 * Linux 6.16 each network namespace has its own.
 */
const volatile __u64 at_ptype_all;
const volatile __u64 at_net_hotdata;

/* Devices with taps. The loader attaches the program at their ingress. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 1024);
	__type(key, struct irq_device);
	__type(value, struct irq_taps);
} tapped SEC(".maps");

static __always_inline __u64 common_taps(void)
{
	if (bpf_core_field_exists(struct net_hotdata, ptype_all))
		return at_net_hotdata
			   ? at_net_hotdata + bpf_core_field_offset(struct net_hotdata, ptype_all)
			   : 0;
	return at_ptype_all;
}

static __always_inline __u64 first_of(__u64 list)
{
	const struct list_head *head = (void *)list;

	return list ? (__u64)BPF_CORE_READ(head, next) : 0;
}

static __always_inline bool is_empty(const struct list_head *list)
{
	return (__u64)list->next == (__u64)list;
}

static __always_inline bool has_taps(const struct net_device *device)
{
	const struct net *net = device->nd_net.net;

	if (!is_empty(&device->ptype_all))
		return true;
	if (bpf_core_field_exists(net->ptype_all))
		return !is_empty(&net->ptype_all);
	return first_of(common_taps()) != common_taps();
}

/* Adds the taps of cpu->taps_list; only those of cpu->taps_net if it is given. */
__noinline int add_listed(struct cpu *cpu)
{
	__u64 list, net, next, sk;
	struct irq_socket_owner *owner;
	const struct packet_type *tap;
	struct irq_key *key;
	__u32 i;

	if (!cpu)
		return 0;
	list = *(volatile __u64 *)&cpu->taps_list;
	net = *(volatile __u64 *)&cpu->taps_net;
	next = first_of(list);
	for (i = 0; i < IRQ_MAX_TAPS && next && next != list; i++) {
		tap = (void *)(next - bpf_core_field_offset(struct packet_type, list));
		next = (__u64)BPF_CORE_READ(tap, list.next);
		if (net && (__u64)BPF_CORE_READ(tap, af_packet_net) != net)
			continue;
		if (cpu->taps >= IRQ_MAX_TAPS)
			return 0;
		key = &cpu->tap[cpu->taps++ % IRQ_MAX_TAPS];
		sk = (__u64)BPF_CORE_READ(tap, af_packet_priv);
		owner = bpf_map_lookup_elem(&socket_owners, &sk);
		key->kind = owner ? owner->kind : IRQ_SOCKET;
		key->a = owner ? owner->owner.pid : sk;
		key->b = owner ? owner->owner.start_ticks : sk >> 32;
		if (!owner)
			cpu->totals.unowned++;
		cpu->taps_hash = mix(cpu->taps_hash, sk);
	}
	return 0;
}

static __always_inline void add_taps(struct cpu *cpu, __u64 list, __u64 net)
{
	*(volatile __u64 *)&cpu->taps_list = list;
	*(volatile __u64 *)&cpu->taps_net = net;
	add_listed(cpu);
}

/* Finds the taps of a device: none until the loader has attached the program at its ingress. */
static __always_inline void find_taps(struct cpu *cpu, const struct net_device *device)
{
	const struct net *net = device->nd_net.net;
	struct irq_device key = {.netns = net->ns.inum, .index = device->ifindex};
	struct irq_taps *known = bpf_map_lookup_elem(&tapped, &key), new = {};
	__u32 i;

	cpu->taps = 0;
	cpu->taps_hash = 0;
	cpu->taps_dev = (__u64)device;
	add_taps(cpu, (__u64)&device->ptype_all, 0);
	if (bpf_core_field_exists(net->ptype_all))
		add_taps(cpu, (__u64)&net->ptype_all, 0);
	else
		add_taps(cpu, common_taps(), (__u64)net);
	if (!known) {
		if (cpu->taps)
			bpf_map_update_elem(&tapped, &key, &new, BPF_NOEXIST);
		cpu->taps = 0;
		return;
	}
	/* A new socket may have the address of an earlier one. */
	if (known->hash != cpu->taps_hash) {
		known->hash = cpu->taps_hash;
		cpu->totals.unowned++;
	}
	if (!known->attached)
		cpu->taps = 0;
	for (i = 0; i < IRQ_MAX_TAPS && i < cpu->taps; i++) {
		cpu->tap[i].netns = key.netns;
		cpu->tap[i].device = key.index;
		/* The time is divided equally, which is an estimate. */
		if (i && (cpu->tap[i].a != cpu->tap[0].a || cpu->tap[i].b != cpu->tap[0].b))
			cpu->tap[0].kind = IRQ_ESTIMATE;
	}
	for (i = 1; i < IRQ_MAX_TAPS && i < cpu->taps; i++)
		if (cpu->tap[0].kind == IRQ_ESTIMATE && cpu->tap[i].kind != IRQ_SOCKET)
			cpu->tap[i].kind = IRQ_ESTIMATE;
}

/* A packet arrived: its taps receive it now. */
static __always_inline void begin_taps(struct cpu *cpu, const struct net_device *device)
{
	__u64 now;

	if (cpu->taps_dev != (__u64)device)
		find_taps(cpu, device);
	if (!cpu->taps)
		return;
	cpu->tapping = true;
	now = time_of(cpu);
	record_event(now, IRQ_PASS, NULL, 0);
	poll_pass(cpu, point(cpu, now));
}

/* All taps received the packet. */
__noinline int end_taps(struct cpu *cpu)
{
	__u64 since, now, ns;
	__u32 i;

	if (!cpu)
		return 0;
	now = time_of(cpu);
	since = cpu->mark_ns;
	for (i = 0; i < IRQ_MAX_TAPS && i < cpu->taps; i++) {
		struct irq_key *key = &cpu->tap[i];
		__u64 until = since + (now - since) * (i + 1) / cpu->taps;

		record_event(until, IRQ_TAP, key, 1);
		ns = point(cpu, until);
		charge(cpu, key, ns, 1);
		cpu->queue_ns += ns;
		cpu->totals.packets++;
		cpu->totals.tapped++;
	}
	cpu->tapping = false;
	return 0;
}

SEC("tcx/ingress")
int on_ingress(struct __sk_buff *skb)
{
	struct cpu *cpu = this_cpu();

	if (cpu && cpu->tapping && receives(cpu))
		end_taps(cpu);
	return TCX_NEXT;
}

#endif
