// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * The interrupt ledger in the kernel: programs at tracepoints of softirqs, of the packets within,
 * and of the processes that read them.
 */
#include "interrupts.h"
#include "sockets.h"
#include "taps.h"
#include "packets.h"

SEC("tp_btf/softirq_entry")
int BPF_PROG(on_softirq_entry, unsigned int vector)
{
	struct cpu *cpu = this_cpu();

	if (!cpu)
		return 0;
	if (is_preempted(cpu))
		drop_preempted(cpu);
	softirq_enter(cpu, start_of_softirq(cpu, time_of(cpu)), vector);
	return 0;
}

SEC("tp_btf/softirq_exit")
int BPF_PROG(on_softirq_exit, unsigned int vector)
{
	struct cpu *cpu = this_cpu();
	struct irq_key runner = {};
	__u64 now;

	if (!cpu)
		return 0;
	if (is_preempted(cpu))
		proceed_if_current(cpu);
	if (is_preempted(cpu))
		return 0;
	now = time_of(cpu);
	runner_of(cpu, bpf_get_current_task_btf(), &runner);
	softirq_exit(cpu, end_of_softirq(cpu, now), vector, &runner);
	measure_tail(cpu, now);
	return 0;
}

/*
 * PREEMPT_RT: a switch from or to the task of a softirq or poll in progress. Meanwhile NAPI threads
 * wait for its lock, so that switches to them do not count either.
 */
static __always_inline bool switch_realtime(const struct task_struct *previous,
					    const struct task_struct *next)
{
	struct cpu *cpu = this_cpu();

	if (!cpu)
		return true;
	if (cpu->preempted) {
		if (cpu->preempted == (__u64)next)
			proceed(cpu, time_of(cpu));
		return true;
	}
	if (!previous->softirq_disable_cnt || !is_active(cpu))
		return false;
	preempt(cpu, previous, time_of(cpu));
	return true;
}

SEC("tp_btf/sched_switch")
int BPF_PROG(on_sched_switch, bool preempt, struct task_struct *previous, struct task_struct *next)
{
	bool out, in;
	struct cpu *cpu;
	__u64 now;

	if (!kept)
		return 0;
	if (is_realtime() && switch_realtime(previous, next))
		return 0;
	out = thread_kind(previous) == THREAD_NAPI;
	in = thread_kind(next) == THREAD_NAPI;
	if (!out && !in)
		return 0;
	cpu = this_cpu();
	if (!cpu)
		return 0;
	now = time_of(cpu);
	if (out)
		thread_out(cpu, now, previous->se.sum_exec_runtime);
	if (in)
		thread_in(cpu, now, next->se.sum_exec_runtime);
	return 0;
}

/*
 * Whether a poll requires no observation of arrivals: its packets are not merged, and have one
 * cause, whose device is known.
 */
static __always_inline bool is_simple(const struct cpu *cpu, bool xdp)
{
	const struct irq_key *key = &cpu->entry[0].key;

	if (cpu->over || !cpu->entries)
		return true;
	return cpu->entries == 1 && !xdp && !cpu->merged && key->device && key->kind <= IRQ_SOCKET;
}

SEC("tp_btf/napi_poll")
int BPF_PROG(on_napi_poll, struct napi_struct *napi, int work, int budget)
{
	struct cpu *cpu = this_cpu();
	struct irq_key key = {};
	struct net_device *device;
	bool xdp = false, full = work >= budget;
	__u32 queue = 0;
	__u64 now;

	if (!cpu)
		return 0;
	catch_up(cpu);
	if (!receives(cpu))
		return 0;
	now = time_of(cpu);
	device = napi->dev;
	if (device) {
		name_device(&key, device);
		if (device->real_num_rx_queues > 1)
			queue = napi->napi_id;
		xdp = has_xdp(device, XDP_MODE_DRV) || has_xdp(device, XDP_MODE_SKB);
		key.a = xdp;
	}
	key.b = full;
	if (!cpu->skipped) {
		cpu->totals.work += work;
		if (!is_simple(cpu, xdp))
			cpu->totals.complex += work;
	}
	end_rest(cpu);
	record_event(now, IRQ_POLL_END, &key, (__u64)queue << 32 | work);
	key.a = 0;
	key.b = 0;
	poll_end(cpu, &key, queue, xdp, full, work, point(cpu, now));
	settle_long_run(cpu, now);
	return 0;
}

/*
 * The number of packets that GRO, the sender or the device merged into it. Such a packet has data
 * in pages.
 */
static __always_inline __u32 merged_of(const struct sk_buff *skb)
{
	struct skb_shared_info *info;
	__u16 packets = 0;

	if (!skb->data_len)
		return 1;
	info = (struct skb_shared_info *)(skb->head + skb->end);
	BPF_CORE_READ_INTO(&packets, info, gso_segs);
	return packets ? packets : 1;
}

SEC("tp_btf/netif_receive_skb")
int BPF_PROG(on_netif_receive_skb, struct sk_buff *skb)
{
	struct cpu *cpu = receiving();
	struct net_device *device;
	struct irq_key key = {};
	__u32 packets;

	if (!cpu)
		return 0;
	device = skb->dev;
	/* A bridge passes a packet for its host to the protocols a second time; so does a veth that
	 * it was forwarded to. */
	if (cpu->last_skb == (__u64)skb && cpu->last_dev != (__u64)device) {
		cpu->totals.again++;
		if (has_taps(device))
			begin_taps(cpu, device);
		return 0;
	}
	cpu->last_skb = (__u64)skb;
	cpu->fresh = true;
	cpu->aborted = false;
	cpu->totals.arrived++;
	packets = merged_of(skb);
	arrive(cpu, packets);
	/* Often the same device as before, which cannot be freed during a poll. */
	if (record || cpu->last_dev != (__u64)device) {
		name_device(&key, device);
		record_event(0, IRQ_ARRIVE, &key, packets);
		if (cpu->device != key.device || cpu->netns != key.netns)
			cpu->last_sk = 0;
		cpu->device = key.device;
		cpu->netns = key.netns;
		cpu->last_dev = (__u64)device;
		cpu->tapped = has_taps(device);
	}
	if (inspect)
		expect(cpu, skb);
	if (cpu->tapped)
		begin_taps(cpu, device);
	return 0;
}

/*
 * A tick of the tracer's clock, for the algorithm of the paper. It runs in a hard interrupt, so it
 * only reads what the other programs write.
 */
SEC("perf_event")
int on_tick(void *ctx)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct cpu *cpu = this_cpu();
	struct irq_totals *t;
	struct irq_tick *tick;

	if (!cpu)
		return 0;
	t = &cpu->totals;
	tick = bpf_ringbuf_reserve(&ticks, sizeof(*tick), 0);
	if (!tick) {
		t->lost_events++;
		return 0;
	}
	__builtin_memset(tick, 0, sizeof(*tick));
	tick->cpu = bpf_get_smp_processor_id();
	if (task->pid)
		tick->running = owner_of(task);
	tick->packets = t->packets - cpu->ticked_packets;
	tick->bottom_half_ns = t->measured_ns - cpu->ticked_ns;
	cpu->ticked_packets = t->packets;
	cpu->ticked_ns = t->measured_ns;
	bpf_ringbuf_submit(tick, 0);
	return 0;
}

char _license[] SEC("license") = "Dual BSD/GPL";
