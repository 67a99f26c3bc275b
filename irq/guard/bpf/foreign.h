/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Interrupts of others on the CPUs of the guarded interfaces: of devices, of packets in softirq,
 * and from other CPUs (IPI). They are counted by source. A source with many of them in a second is
 * reported once, and again after a minute with fewer.
 */
#ifndef ONBEAT_FOREIGN_H
#define ONBEAT_FOREIGN_H

#include "changes.h"

/* Written by the loader, which loads no program of this file without CPUs. */
const volatile __u64 guarded_cpus[GUARD_CPU_WORDS];

#define SECOND_NS 1000000000ULL
#define QUIET_NS  (60 * SECOND_NS)

/* include/linux/smp_types.h */
#define CSD_TYPE_TTWU	   0x30
#define CSD_FLAG_TYPE_MASK 0xf0

struct source_count {
	__u64 start_ns; /* of the present second */
	__u64 above_ns; /* when it last had too many */
	__u64 count;
};

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, GUARD_SOURCES);
	__type(key, struct guard_interrupt_key);
	__type(value, struct source_count);
} sources SEC(".maps");

static __always_inline bool is_guarded(__u32 cpu)
{
	__u32 word = cpu / 64;

	if (word >= GUARD_CPU_WORDS)
		return false;
	/* The compiler must not use the comparison, which the verifier does not follow. */
	barrier_var(word);
	return guarded_cpus[word % GUARD_CPU_WORDS] >> (cpu % 64) & 1;
}

const char format_of_function[] = "%ps";

static __always_inline void count_interrupt(const struct guard_interrupt_key *source, __u32 from)
{
	struct source_count *known, new = {.start_ns = bpf_ktime_get_ns()};
	struct guard_interrupts report = {.source = *source, .from = from};
	__u64 now = new.start_ns, above_ns;

	known = bpf_map_lookup_elem(&sources, source);
	if (!known) {
		bpf_map_update_elem(&sources, source, &new, BPF_NOEXIST);
		known = bpf_map_lookup_elem(&sources, source);
		if (!known)
			return;
	}
	if (now - known->start_ns >= SECOND_NS) {
		known->start_ns = now;
		known->count = 0;
	}
	if (__sync_fetch_and_add(&known->count, 1) + 1 != GUARD_INTERRUPTS)
		return;
	above_ns = known->above_ns;
	known->above_ns = now;
	if (above_ns && now - above_ns < QUIET_NS)
		return;
	report.interval_ns = now - known->start_ns;
	if (source->kind == GUARD_CALL)
		bpf_snprintf((char *)report.function, sizeof(report.function), format_of_function,
			     (void *)&report.source.id, sizeof(report.source.id));
	/* Without room it is reported in the next second. */
	if (bpf_ringbuf_output(&wakes, &report, sizeof(report), 0))
		known->above_ns = 0;
}

SEC("tp_btf/irq_handler_entry")
int BPF_PROG(on_line, int irq)
{
	struct guard_interrupt_key source = {
	    .cpu = bpf_get_smp_processor_id(), .kind = GUARD_LINE, .id = irq};

	if (is_guarded(source.cpu))
		count_interrupt(&source, 0);
	return 0;
}

/* A NAPI thread is scheduled, and interrupts nothing. Packets for themselves are no device's. */
SEC("tp_btf/napi_poll")
int BPF_PROG(on_poll, struct napi_struct *napi)
{
	struct guard_interrupt_key source = {.cpu = bpf_get_smp_processor_id(), .kind = GUARD_POLL};
	struct net_device *device;

	if (!is_guarded(source.cpu) || napi->thread == bpf_get_current_task_btf())
		return 0;
	device = napi->dev;
	if (!device || !device->ifindex)
		return 0;
	source.id = (__u64)device->nd_net.net->ns.inum << 32 | (__u32)device->ifindex;
	count_interrupt(&source, 0);
	return 0;
}

/* The thread that this CPU wakes: the interrupt for it is sent next. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct guard_reader);
} waking SEC(".maps");

static __always_inline struct guard_reader *woken_thread(void)
{
	__u32 first = 0;

	return bpf_map_lookup_elem(&waking, &first);
}

SEC("tp_btf/sched_waking")
int BPF_PROG(on_waking, struct task_struct *task)
{
	struct guard_reader *woken = woken_thread();

	if (woken) {
		woken->pid = task->tgid;
		woken->tid = task->pid;
	}
	return 0;
}

/* Those of threads that wait for packets, and of the guard itself, are its purpose. */
static __always_inline void count_wake_up(__u32 cpu, const struct guard_reader *woken)
{
	struct guard_interrupt_key source = {.cpu = cpu, .kind = GUARD_WAKE_UP};
	struct guard_changes *known = the_changes();
	__u32 tid = woken ? woken->tid : 0;

	if (woken && bpf_map_lookup_elem(&watched, &tid))
		return;
	if (woken && known && *(volatile __u64 *)&known->loader == woken->pid)
		return;
	source.id = tid;
	count_interrupt(&source, 0);
}

/* A function for another CPU. The argument with it cannot be read: its type is no struct. */
SEC("tp_btf/csd_queue_cpu")
int BPF_PROG(on_call, unsigned int target, unsigned long at, __u64 unused,
	     struct __call_single_data *call)
{
	struct guard_interrupt_key source = {.cpu = target, .kind = GUARD_CALL};
	struct task_struct *task;

	if (!is_guarded(target))
		return 0;
	if ((call->node.u_flags & CSD_FLAG_TYPE_MASK) == CSD_TYPE_TTWU) {
		count_wake_up(target, woken_thread());
		return 0;
	}
	/* A copy: a pointer is no key. */
	BPF_CORE_READ_INTO(&source.id, call, func);
	task = bpf_get_current_task_btf();
	count_interrupt(&source, task->pid);
	return 0;
}

/* The scheduler names no function. A thread that was woken elsewhere is not the reason. */
SEC("tp_btf/ipi_send_cpu")
int BPF_PROG(on_ipi, unsigned int target, unsigned long at, __u64 function)
{
	struct guard_reader *woken;
	struct task_struct *task;
	bool is_there = false;

	if (function || !is_guarded(target))
		return 0;
	woken = woken_thread();
	task = woken ? bpf_task_from_pid(woken->tid) : NULL;
	if (task) {
		is_there = task->thread_info.cpu == target;
		bpf_task_release(task);
	}
	count_wake_up(target, is_there ? woken : NULL);
	return 0;
}

#endif
