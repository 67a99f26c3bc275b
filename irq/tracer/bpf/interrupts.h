/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Programs at hard interrupts, and at the senders of those from other CPUs (IPI). */
#ifndef ONBEAT_INTERRUPTS_H
#define ONBEAT_INTERRUPTS_H

#include "owner.h"
#include "run.h"
#include <bpf/bpf_tracing.h>

/* The kernel's function for packets that another CPU takes; 0: unknown. */
const volatile __u64 at_rps_trigger_softirq;

/* include/linux/smp_types.h */
#define CSD_TYPE_TTWU	   0x30
#define CSD_FLAG_TYPE_MASK 0xf0

/* The sender of an interrupt. */
struct sender {
	__u64 owner; /* struct irq_owner, or a vector */
	__u32 by;    /* enum irq_sender */
	__u32 reason;
};

struct senders {
	struct sender reschedule, call;
};

/* The last senders to each CPU. The loader sets the size by the number of CPUs. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct senders);
} senders SEC(".maps");

/* The last sender to several CPUs. */
struct sender broadcast;

/*
 * The sender of an interrupt. A task that a softirq interrupts does not send its interrupts: a
 * wake-up while a packet is delivered is sent for the owner of the packet.
 */
static __always_inline void sent_from(struct cpu *cpu, struct sender *sender, __u32 reason)
{
	const struct task_struct *task;
	struct irq_owner owner = {};

	sender->reason = reason;
	if (cpu->hardirqs) {
		sender->by = IRQ_SENDER_INTERRUPT;
	} else if (receives(cpu) && cpu->last_sk && reason != IRQ_RPS) {
		const struct irq_key *key = &cpu->entry[cpu->last_at % IRQ_MAX_CAUSES].key;

		sender->by = IRQ_SENDER_PROCESS;
		owner.pid = key->a;
		owner.start_ticks = key->b;
	} else if (is_active(cpu)) {
		sender->by = IRQ_SENDER_SOFTIRQ;
		owner.pid = cpu->softirq ? cpu->softirq - 1 : NET_RX_SOFTIRQ;
	} else {
		task = bpf_get_current_task_btf();
		sender->by = task->pid ? IRQ_SENDER_PROCESS : IRQ_SENDER_IDLE;
		if (task->pid)
			owner = owner_of(task);
	}
	*(volatile __u64 *)&sender->owner = *(__u64 *)&owner;
}

/* A function is queued for another CPU; if this needs an interrupt, it is sent next. */
SEC("tp_btf/csd_queue_cpu")
int BPF_PROG(on_csd_queue_cpu, unsigned int target, unsigned long from, __u64 function,
	     struct __call_single_data *call)
{
	struct cpu *cpu = this_cpu();

	if (!cpu)
		return 0;
	/* The argument `function` cannot be read: its type is no struct. */
	if ((call->node.u_flags & CSD_FLAG_TYPE_MASK) == CSD_TYPE_TTWU)
		cpu->calling = IRQ_WAKE_UP;
	else if ((__u64)call->func == at_rps_trigger_softirq)
		cpu->calling = IRQ_RPS;
	else
		cpu->calling = IRQ_CALL;
	return 0;
}

SEC("tp_btf/ipi_send_cpu")
int BPF_PROG(on_ipi_send_cpu, unsigned int target, unsigned long from, __u64 function)
{
	struct cpu *cpu = this_cpu();
	struct senders *to;

	if (!cpu)
		return 0;
	to = bpf_map_lookup_elem(&senders, &target);
	if (!to)
		return 0;
	/* The scheduler names no function. */
	if (!function) {
		sent_from(cpu, &to->reschedule, IRQ_RESCHEDULE);
		return 0;
	}
	sent_from(cpu, &to->call, cpu->calling ? cpu->calling : IRQ_CALL);
	cpu->calling = 0;
	return 0;
}

SEC("tp_btf/ipi_send_cpumask")
int BPF_PROG(on_ipi_send_cpumask)
{
	struct cpu *cpu = this_cpu();

	if (cpu)
		sent_from(cpu, &broadcast, IRQ_BROADCAST);
	return 0;
}

static __always_inline void name_sender(struct irq_key *key, const struct sender *sender,
					__u32 reason)
{
	__u64 word;

	key->kind = IRQ_IPI;
	key->netns = reason;
	if (!sender || !sender->by)
		return;
	word = *(volatile __u64 *)&sender->owner;
	key->netns = sender->reason;
	key->device = sender->by;
	key->a = ((struct irq_owner *)&word)->pid;
	key->b = ((struct irq_owner *)&word)->start_ticks;
}

/* To this CPU. */
static __always_inline struct senders *last_senders(void)
{
	__u32 number = bpf_get_smp_processor_id();

	return bpf_map_lookup_elem(&senders, &number);
}

static __always_inline int interrupt_begins(void)
{
	struct cpu *cpu = this_cpu();

	if (cpu)
		hardirq_enter(cpu);
	return 0;
}

static __always_inline int interrupt_ends(const struct irq_key *interrupt)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct irq_key interrupted = {};
	struct cpu *cpu = this_cpu();
	struct irq_owner owner;
	__u32 kind;

	if (!cpu)
		return 0;
	kind = runner_kind(task);
	interrupted.kind = kind - IRQ_BY_PROCESS + IRQ_INTERRUPTED_PROCESS;
	if (kind == IRQ_BY_PROCESS) {
		owner = owner_of(task);
		interrupted.a = owner.pid;
		interrupted.b = owner.start_ticks;
	}
	hardirq_exit(cpu, interrupt, &interrupted);
	return 0;
}

static __always_inline int vector_ends(__u32 vector)
{
	struct irq_key key = {.kind = IRQ_VECTOR, .a = vector};

	return interrupt_ends(&key);
}

SEC("tp_btf/irq_handler_entry")
int on_irq_handler_entry(void *ctx)
{
	return interrupt_begins();
}

SEC("tp_btf/irq_handler_exit")
int BPF_PROG(on_irq_handler_exit, int irq)
{
	struct irq_key key = {.kind = IRQ_LINE, .a = irq};

	return interrupt_ends(&key);
}

SEC("tp_btf/local_timer_entry")
int on_local_timer_entry(void *ctx)
{
	return interrupt_begins();
}

SEC("tp_btf/local_timer_exit")
int on_local_timer_exit(void *ctx)
{
	return vector_ends(IRQ_LOCAL_TIMER);
}

SEC("tp_btf/irq_work_entry")
int on_irq_work_entry(void *ctx)
{
	return interrupt_begins();
}

SEC("tp_btf/irq_work_exit")
int on_irq_work_exit(void *ctx)
{
	return vector_ends(IRQ_IRQ_WORK);
}

SEC("tp_btf/thermal_apic_entry")
int on_thermal_apic_entry(void *ctx)
{
	return interrupt_begins();
}

SEC("tp_btf/thermal_apic_exit")
int on_thermal_apic_exit(void *ctx)
{
	return vector_ends(IRQ_THERMAL);
}

SEC("tp_btf/reschedule_entry")
int on_reschedule_entry(void *ctx)
{
	return interrupt_begins();
}

SEC("tp_btf/reschedule_exit")
int on_reschedule_exit(void *ctx)
{
	struct senders *last = last_senders();
	struct irq_key key = {};

	name_sender(&key, last ? &last->reschedule : NULL, IRQ_RESCHEDULE);
	return interrupt_ends(&key);
}

SEC("tp_btf/call_function_single_entry")
int on_call_function_single_entry(void *ctx)
{
	return interrupt_begins();
}

SEC("tp_btf/call_function_single_exit")
int on_call_function_single_exit(void *ctx)
{
	struct senders *last = last_senders();
	struct irq_key key = {};

	name_sender(&key, last ? &last->call : NULL, IRQ_CALL);
	return interrupt_ends(&key);
}

SEC("tp_btf/call_function_entry")
int on_call_function_entry(void *ctx)
{
	return interrupt_begins();
}

SEC("tp_btf/call_function_exit")
int on_call_function_exit(void *ctx)
{
	struct irq_key key = {};

	name_sender(&key, &broadcast, IRQ_BROADCAST);
	return interrupt_ends(&key);
}

#endif
