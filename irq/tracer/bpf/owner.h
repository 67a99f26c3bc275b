/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The owner of a packet, and the task on whose time a softirq runs. */
#ifndef ONBEAT_OWNER_H
#define ONBEAT_OWNER_H

#include "pending.h"
#include "names.h"
#include "spend.h"

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
	/* Of the packets that a CPU queued (Linux 6.10, always with PREEMPT_RT). */
	if (task->comm[0] == 'b' && task->comm[1] == 'a' && task->comm[2] == 'c' &&
	    task->comm[3] == 'k' && task->comm[4] == 'l')
		return THREAD_NAPI;
	if (task->comm[0] == 'k' && task->comm[1] == 's' && task->comm[2] == 'o' &&
	    task->comm[3] == 'f' && task->comm[4] == 't')
		return THREAD_KSOFTIRQD;
	return THREAD_OTHER;
}

static __always_inline __u32 runner_kind(const struct task_struct *task)
{
	if (!task->pid)
		return IRQ_BY_IDLE;
	switch (thread_kind(task)) {
	case THREAD_NAPI:
		return IRQ_BY_NAPI_THREAD;
	case THREAD_KSOFTIRQD:
		return IRQ_BY_KSOFTIRQD;
	default:
		return IRQ_BY_PROCESS;
	}
}

static __always_inline void runner_of(struct cpu *cpu, const struct task_struct *task,
				      struct irq_key *key)
{
	struct irq_owner owner;

	key->kind = runner_kind(task);
	if (key->kind != IRQ_BY_PROCESS)
		return;
	owner = owner_on(cpu, task);
	key->a = owner.pid;
	key->b = owner.start_ticks;
}

/* The loader walks over open files soon. */
static __always_inline void request_walk(void)
{
	struct cpu *cpu = this_cpu();

	if (cpu)
		cpu->totals.unowned++;
}

/* Records the process that has a socket open, if its owner is not known yet. */
static __always_inline void record_owner(struct sock *sk, struct task_struct *task)
{
	struct owner_record now = {.kind = IRQ_OWNER};

	save_process(task);
	if (is_realtime()) {
		/* No memory can be allocated where preemption is off: a walk finds the owner. */
		request_walk();
		return;
	}
	now.owner = owner_of(task);
	bpf_sk_storage_get(&owners, sk, &now, BPF_SK_STORAGE_GET_F_CREATE);
}

#define AF_PACKET 17
#define AF_XDP	  44

static __always_inline bool is_packet_socket(const struct sock *sk)
{
	return sk->__sk_common.skc_family == AF_PACKET;
}

/* The number of a socket: its cookie; of a packet socket its address, by which a device knows it.
 */
static __always_inline __u64 number_of(struct sock *sk)
{
	return is_packet_socket(sk) ? (__u64)sk : bpf_get_socket_cookie(sk);
}

/* By its number: packets that it received before are charged to its owner when they are read. */
static __always_inline void note(struct sock *sk, const struct owner_record *record)
{
	struct irq_socket_owner owner = {.owner = record->owner, .kind = record->kind};
	__u64 number = number_of(sk);

	/* Packets of a ring are not read by system calls. */
	if (is_packet_socket(sk))
		owner.kind = IRQ_OWNER;
	bpf_map_update_elem(&socket_owners, &number, &owner, BPF_ANY);
}

/* Whether a socket has this reader by its number. */
static __always_inline bool is_noted(struct sock *sk, const struct owner_record *record)
{
	__u64 number = number_of(sk);
	struct irq_socket_owner *known = bpf_map_lookup_elem(&socket_owners, &number);

	return known && known->kind == IRQ_READER && known->owner.pid == record->owner.pid &&
	       known->owner.start_ticks == record->owner.start_ticks;
}

/* Records the reader of a socket, if it has changed. */
static __always_inline void record_reader(struct sock *sk, struct task_struct *task)
{
	struct owner_record *known = bpf_sk_storage_get(&owners, sk, NULL, 0);
	__u64 start = task->group_leader->start_boottime;
	struct owner_record now = {.kind = IRQ_READER, .start_boottime = start, .noted = true};
	bool another;

	if (known && known->owner.pid == (__u32)task->tgid && known->start_boottime == start)
		return;
	now.owner = owner_of(task);
	if (!known && is_realtime() && is_noted(sk, &now))
		return;
	save_process(task);
	another = known && known->kind == IRQ_OWNER;
	if (!known) {
		/* As in record_owner(); packets are charged to the noted reader. */
		if (!is_realtime())
			bpf_sk_storage_get(&owners, sk, &now, BPF_SK_STORAGE_GET_F_CREATE);
		note(sk, &now);
	} else {
		if (known->kind != IRQ_READER && known->noted)
			note(sk, &now);
		/*
		 * At once: another CPU may charge a packet to it. Two concurrent readers may leave
		 * the start of one with the id of the other; the next reader corrects that.
		 */
		*(volatile __u64 *)&known->owner = *(__u64 *)&now.owner;
		known->kind = IRQ_READER;
		known->start_boottime = start;
	}
	if (sk->sk_protocol == PROTOCOL_TCP) {
		remember_flow(sk, &now);
		/* The connection of a listening socket that another process opened. */
		if (another)
			remember_listener(sk, &now.owner, BPF_EXIST);
	}
}

/* Sets the key of a packet for a socket; the device is already set. */
static __always_inline void for_socket(struct cpu *cpu, struct sock *sk, struct irq_key *key)
{
	__u8 state = sk->__sk_common.skc_state;
	struct owner_record *record;
	__u64 word, number;

	/* These are not whole sockets. */
	if (state == TCP_TIME_WAIT || state == TCP_NEW_SYN_RECV) {
		for_flow(key, flow_of_socket(sk));
		return;
	}
	record = bpf_sk_storage_get(&owners, sk, NULL, 0);
	if (!record && BPF_CORE_READ_BITFIELD(sk, sk_kern_sock)) {
		key->kind = IRQ_KERNEL_SOCKET;
		return;
	}
	/*
	 * The first reader of a socket of datagrams is often another process than the one that
	 * opened it, and gets the packets before its read.
	 */
	if (!record ||
	    (record->kind == IRQ_OWNER && !record->replaced && sk->sk_protocol != PROTOCOL_TCP)) {
		/* Only from memory is an address a number. */
		*(volatile __u64 *)&cpu->number = number_of(sk);
		number = *(volatile __u64 *)&cpu->number;
		key->kind = IRQ_SOCKET;
		key->a = number;
		key->b = number >> 32;
		keep_receiver(sk, number);
		if (!record) {
			cpu->totals.unowned++;
		} else if (!record->noted) {
			record->noted = 1;
			note(sk, record);
		}
		return;
	}
	word = *(volatile __u64 *)&record->owner;
	if (record->kind == IRQ_OWNER && sk->sk_protocol == PROTOCOL_TCP) {
		struct irq_owner *server = server_of(sk);

		if (server)
			word = *(volatile __u64 *)server;
	}
	key->kind = state == TCP_LISTEN ? IRQ_LISTENER : record->kind;
	key->a = ((struct irq_owner *)&word)->pid;
	key->b = ((struct irq_owner *)&word)->start_ticks;
}

#endif
