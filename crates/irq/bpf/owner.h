/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Who a packet is for, and on whose time a bottom half runs. */
#ifndef ONBEAT_OWNER_H
#define ONBEAT_OWNER_H

#include "state.h"
#include "task.h"

enum thread {
	THREAD_OTHER,
	THREAD_NAPI,
	THREAD_KSOFTIRQD,
};

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

static __always_inline void runner_of(const struct task_struct *task, struct irq_key *key)
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
		owner = owner_of(task);
		key->kind = IRQ_BY_PROCESS;
		key->a = owner.pid;
		key->b = owner.start_ticks;
	}
}

/* Notes who reads a socket, where that is news. */
static __always_inline void read_by(struct sock *sk, const struct task_struct *task)
{
	struct irq_owner now = owner_of(task), *known;
	__u64 cookie;

	known = bpf_sk_storage_get(&owners, sk, NULL, 0);
	if (!known) {
		bpf_sk_storage_get(&owners, sk, &now, BPF_SK_STORAGE_GET_F_CREATE);
		cookie = bpf_get_socket_cookie(sk);
		bpf_map_update_elem(&found, &cookie, &now, BPF_ANY);
	} else if (known->pid != now.pid || known->start_ticks != now.start_ticks) {
		/* At once: another CPU may charge a packet to it. */
		*(volatile __u64 *)known = *(__u64 *)&now;
	}
}

/* The key of a packet for a socket; the device is in it already. */
static __always_inline void for_socket(struct cpu *cpu, struct sock *sk, struct irq_key *key)
{
	__u64 *owner = bpf_sk_storage_get(&owners, sk, NULL, 0), word, cookie;

	cpu->waking = 0;
	if (owner) {
		word = *(volatile __u64 *)owner;
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
