/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The owner of a packet, and the task on whose time a softirq runs. */
#ifndef ONBEAT_OWNER_H
#define ONBEAT_OWNER_H

#include "state.h"
#include "task.h"

enum thread {
	THREAD_OTHER,
	THREAD_NAPI,
	THREAD_KSOFTIRQD,
};

/* As owner_of(), which divides: the same few processes recur. */
static __always_inline struct irq_owner owner_on(struct cpu *cpu, const struct task_struct *task)
{
	__u64 start = task->group_leader->start_boottime;
	struct irq_owner owner = {.pid = task->tgid};

	if (start != cpu->start_boottime) {
		cpu->start_ticks = start / TICK_NS;
		cpu->start_boottime = start;
	}
	owner.start_ticks = cpu->start_ticks;
	return owner;
}

/* Only the kernel names its own threads. */
static __always_inline enum thread thread_kind(const struct task_struct *task)
{
	if (!(task->flags & PF_KTHREAD))
		return THREAD_OTHER;
	if (task->comm[0] == 'n' && task->comm[1] == 'a' && task->comm[2] == 'p' &&
	    task->comm[3] == 'i' && task->comm[4] == '/')
		return THREAD_NAPI;
	if (task->comm[0] == 'k' && task->comm[1] == 's' && task->comm[2] == 'o' &&
	    task->comm[3] == 'f' && task->comm[4] == 't')
		return THREAD_KSOFTIRQD;
	return THREAD_OTHER;
}

static __always_inline void runner_of(struct cpu *cpu, const struct task_struct *task,
				      struct irq_key *key)
{
	struct irq_owner owner;

	if (!task->pid) {
		key->kind = IRQ_BY_IDLE;
		return;
	}
	switch (thread_kind(task)) {
	case THREAD_NAPI:
		key->kind = IRQ_BY_NAPI_THREAD;
		return;
	case THREAD_KSOFTIRQD:
		key->kind = IRQ_BY_KSOFTIRQD;
		return;
	default:
		owner = owner_on(cpu, task);
		key->kind = IRQ_BY_PROCESS;
		key->a = owner.pid;
		key->b = owner.start_ticks;
	}
}

/* Records the reader of a socket, if it has changed. */
static __always_inline void record_reader(struct sock *sk, const struct task_struct *task)
{
	struct reader *known = bpf_sk_storage_get(&owners, sk, NULL, 0), now;
	struct irq_socket_owner owner = {};
	__u64 start = task->group_leader->start_boottime, cookie;

	if (known && known->owner.pid == (__u32)task->tgid && known->start_boottime == start)
		return;
	now.owner = owner_of(task);
	now.start_boottime = start;
	if (!known) {
		bpf_sk_storage_get(&owners, sk, &now, BPF_SK_STORAGE_GET_F_CREATE);
		cookie = bpf_get_socket_cookie(sk);
		owner.owner = now.owner;
		bpf_map_update_elem(&socket_owners, &cookie, &owner, BPF_ANY);
	} else {
		/*
		 * At once: another CPU may charge a packet to it. Two concurrent readers may leave
		 * the start of one with the id of the other; the next reader corrects that.
		 */
		*(volatile __u64 *)&known->owner = *(__u64 *)&now.owner;
		known->start_boottime = start;
	}
}

/* Sets the key of a packet for a socket; the device is already set. */
static __always_inline void for_socket(struct cpu *cpu, struct sock *sk, struct irq_key *key)
{
	struct reader *reader = bpf_sk_storage_get(&owners, sk, NULL, 0);
	__u64 word, cookie;

	cpu->waking = 0;
	if (reader) {
		word = *(volatile __u64 *)&reader->owner;
		key->kind = IRQ_PROCESS;
		key->a = ((struct irq_owner *)&word)->pid;
		key->b = ((struct irq_owner *)&word)->start_ticks;
	} else if (BPF_CORE_READ_BITFIELD(sk, sk_kern_sock)) {
		key->kind = IRQ_KERNEL_SOCKET;
	} else {
		cookie = bpf_get_socket_cookie(sk);
		key->kind = IRQ_SOCKET;
		key->a = cookie;
		key->b = cookie >> 32;
		cpu->waking = cookie;
	}
}

#endif
