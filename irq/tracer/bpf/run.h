/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Softirq runs, and hard interrupts within: irq/core/src/charge/ledger.rs. */
#ifndef ONBEAT_RUN_H
#define ONBEAT_RUN_H

#include "poll.h"

/*
 * Whether events are part of packet reception in softirq context: system calls and hard interrupts
 * pass the same points.
 */
static __always_inline bool receives(const struct cpu *cpu)
{
	bool rx = cpu->softirq ? cpu->softirq == NET_RX_SOFTIRQ + 1 : cpu->thread;

	return rx && !cpu->hardirqs && !is_preempted(cpu);
}

/* Whether a softirq or a NAPI thread runs. */
static __always_inline bool is_active(const struct cpu *cpu)
{
	return (cpu->softirq || cpu->thread) && !is_preempted(cpu);
}

/* Time since the last event. */
static __always_inline __u64 point(struct cpu *cpu, __u64 now)
{
	__u64 ns = now - cpu->mark_ns;

	cpu->mark_ns = now;
	cpu->run_ns += ns;
	return ns;
}

static __always_inline void begin(struct cpu *cpu, __u64 now)
{
	cpu->run_since_ns = now;
	cpu->run_ns = 0;
	cpu->mark_ns = now;
	cpu->hardirqs = 0;
	poll_reset(cpu);
	poll_begin(cpu);
}

/* Drops a run whose end was not observed. */
static __always_inline void abandon(struct cpu *cpu)
{
	poll_reset(cpu);
	cpu->softirq = 0;
}

/*
 * Charges the run until now to the runner. Time held for packets in GRO belongs to the next poll.
 */
static __always_inline void settle(struct cpu *cpu, __u64 now, const struct irq_key *runner)
{
	__u64 until = now - cpu->held_ns;

	charge(cpu, runner, cpu->run_ns - cpu->held_ns, 0);
	cpu->totals.measured_ns += until - cpu->run_since_ns;
	cpu->run_since_ns = until;
	cpu->run_ns = cpu->held_ns;
}

static __always_inline void end(struct cpu *cpu, __u64 now, const struct irq_key *runner)
{
	__u64 ns = point(cpu, now);

	if (!cpu->softirq || cpu->softirq == NET_RX_SOFTIRQ + 1) {
		poll_finish(cpu, ns);
	} else {
		struct irq_key vector = {.kind = IRQ_SOFTIRQ, .a = cpu->softirq - 1};

		charge(cpu, &vector, ns, 0);
	}
	settle(cpu, now, runner);
}

/*
 * A NAPI thread without competition runs for as long as packets arrive: after this much of its run
 * both sides of the accounts are updated although it still runs.
 */
#define LONG_RUN_NS 100000

static __always_inline void settle_long_run(struct cpu *cpu, __u64 now)
{
	struct irq_key runner = {.kind = IRQ_BY_NAPI_THREAD};

	if (cpu->softirq || cpu->run_ns < LONG_RUN_NS)
		return;
	poll_settle(cpu);
	settle(cpu, now, &runner);
}

static __always_inline void end_thread(struct cpu *cpu, __u64 now)
{
	struct irq_key runner = {.kind = IRQ_BY_NAPI_THREAD};

	if (cpu->thread && !cpu->softirq)
		end(cpu, now, &runner);
	abandon(cpu);
}

static __always_inline void thread_in(struct cpu *cpu, __u64 now, __u64 ran_before_ns)
{
	record_event(now, IRQ_THREAD_IN, NULL, 0);
	abandon(cpu);
	cpu->thread = true;
	cpu->thread_since_ns = now;
	cpu->thread_ran_ns = ran_before_ns - cpu->totals.hardirq_ns;
	begin(cpu, now);
}

static __always_inline void thread_out(struct cpu *cpu, __u64 now, __u64 ran_ns)
{
	/*
	 * The scheduler's run time includes the switch to the thread, and hard interrupts, unless
	 * the kernel accounts these (CONFIG_IRQ_TIME_ACCOUNTING): then the difference is too small,
	 * and the last event is the end.
	 */
	ran_ns = cpu->thread ? ran_ns - cpu->thread_ran_ns - cpu->totals.hardirq_ns : 0;
	record_event(now, IRQ_THREAD_OUT, NULL, ran_ns);
	if (ran_ns)
		now = cpu->thread_since_ns + ran_ns;
	if (now < cpu->mark_ns)
		now = cpu->mark_ns;
	end_thread(cpu, now);
	cpu->thread = false;
}

/*
 * PREEMPT_RT: a softirq, and a poll of a NAPI thread, hold a lock of the CPU, so that no other one
 * runs there until their task continues. Meanwhile the time of the CPU stops.
 */
static __always_inline void preempt(struct cpu *cpu, const struct task_struct *task, __u64 now)
{
	cpu->preempted = (__u64)task;
	cpu->preempted_at_ns = now;
	cpu->preempted_hardirq_ns = cpu->totals.hardirq_ns;
}

static __always_inline void proceed(struct cpu *cpu, __u64 now)
{
	__sync_fetch_and_add(&cpu->away_ns, now - cpu->preempted_at_ns);
	/* The thread's run time does not contain these. */
	cpu->thread_ran_ns -= cpu->totals.hardirq_ns - cpu->preempted_hardirq_ns;
	cpu->left_ns = cpu->preempted_at_ns;
	cpu->interrupted_ns = 0;
	cpu->preempted = 0;
}

/* The task of the preempted softirq runs, and the switch to it was not observed. */
static __always_inline void proceed_if_current(struct cpu *cpu)
{
	if (cpu->preempted == (__u64)bpf_get_current_task_btf())
		proceed(cpu, time_of(cpu));
}

/*
 * Before a softirq starts: one that is preempted then is dropped, in a kernel without such a lock
 * (since Linux 6.18 if it is configured so).
 */
static __always_inline void drop_preempted(struct cpu *cpu)
{
	proceed_if_current(cpu);
	if (!cpu->preempted)
		return;
	proceed(cpu, time_of(cpu));
	cpu->totals.lost_ns += cpu->run_ns;
	abandon(cpu);
	cpu->thread = false;
}

/*
 * The start of a softirq: with the end of the hard interrupt that raised it, whose programs and
 * whose exit are then part of the softirq.
 */
#define EXIT_OF_INTERRUPT_NS 1000

static __always_inline __u64 start_of_softirq(const struct cpu *cpu, __u64 now)
{
	__u64 since = cpu->interrupted_ns;

	if (is_realtime())
		return now;
	return now - since < EXIT_OF_INTERRUPT_NS && since >= cpu->mark_ns ? since : now;
}

/* The time of the ledger itself at the end of a softirq is measured in one of this many. */
#define TAIL_EVERY	64
#define MOST_OF_TAIL_NS 2000

/* A NAPI thread continues at once: its next event must not be earlier. */
static __always_inline __u64 end_of_softirq(const struct cpu *cpu, __u64 now)
{
	return cpu->thread ? now : now + cpu->tail_ns;
}

static __always_inline void measure_tail(struct cpu *cpu, __u64 read)
{
	__u64 ns;

	if (cpu->tail_due--)
		return;
	cpu->tail_due = TAIL_EVERY - 1;
	ns = time_of(cpu) - read;
	if (ns < MOST_OF_TAIL_NS)
		cpu->tail_ns = (3 * cpu->tail_ns + ns) / 4;
}

static __always_inline void softirq_enter(struct cpu *cpu, __u64 now, __u32 vector)
{
	struct irq_key key = {.kind = IRQ_SOFTIRQ, .a = vector};

	record_event(now, IRQ_SOFTIRQ_ENTER, &key, 0);
	end_thread(cpu, now);
	cpu->softirq = vector + 1;
	begin(cpu, now);
}

static __always_inline void softirq_exit(struct cpu *cpu, __u64 now, __u32 vector,
					 const struct irq_key *runner)
{
	record_event(now, IRQ_SOFTIRQ_EXIT, runner, vector);
	if (cpu->softirq == vector + 1)
		end(cpu, now, runner);
	abandon(cpu);
	cpu->left_ns = now;
	if (cpu->thread)
		begin(cpu, now);
}

static __always_inline void hardirq_enter(struct cpu *cpu)
{
	if (cpu->hardirqs++)
		return;
	cpu->hardirq_since_ns = bpf_ktime_get_ns();
	cpu->interrupted_ns = cpu->hardirq_since_ns - cpu->away_ns;
}

/*
 * The time around the handler that the task loses, and no softirq or NAPI thread: at most the time
 * since the last interrupt, since several that are pending enter and leave once.
 */
static __always_inline __u64 around_handler(const struct cpu *cpu)
{
	__u64 since = cpu->interrupted_ns - cpu->left_ns;

	if (is_active(cpu) || cpu->interrupted_ns < cpu->left_ns)
		return 0;
	return since < entry_ns ? since : entry_ns;
}

static __always_inline void hardirq_exit(struct cpu *cpu, const struct irq_key *interrupt,
					 const struct irq_key *interrupted)
{
	__u64 ns;

	/* None: the tracer started in the middle of it. */
	if (!cpu->hardirqs || --cpu->hardirqs)
		return;
	ns = bpf_ktime_get_ns() - cpu->hardirq_since_ns;
	cpu->totals.hardirq_ns += ns;
	cpu->away_ns += ns;
	if (interrupted->kind != IRQ_INTERRUPTED_IDLE)
		ns += around_handler(cpu);
	cpu->left_ns = cpu->interrupted_ns;
	cpu->totals.interrupt_ns += ns;
	charge(cpu, interrupt, ns, 1);
	charge(cpu, interrupted, ns, 0);
}

#endif
