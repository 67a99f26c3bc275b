/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Programs that keep the owners of sockets. None runs per packet, except at the reads of a process.
 */
#ifndef ONBEAT_SOCKETS_H
#define ONBEAT_SOCKETS_H

#include "owner.h"
#include <bpf/bpf_tracing.h>

#define AF_UNIX	   1
#define AF_NETLINK 16

/* Number of the current walk over open files, and whether it replaces owners that it did not find.
 */
volatile __u32 walk;
volatile bool replace;

/* Processes that opened a socket, until they exit. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 16384);
	__type(key, __u32);
	__type(value, __u8);
} opened SEC(".maps");

static __always_inline void note_opener(const struct task_struct *task)
{
	__u32 pid = task->tgid;
	__u8 yes = 1;

	if (!bpf_map_lookup_elem(&opened, &pid))
		bpf_map_update_elem(&opened, &pid, &yes, BPF_ANY);
}

/* A process creates a socket of IPv4 or IPv6. */
SEC("cgroup/sock_create")
int on_sock_create(struct bpf_sock *sk)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct owner_record now = {.kind = IRQ_OWNER};

	if (!kept)
		return 1;
	now.owner = owner_of(task);
	bpf_sk_storage_get(&owners, sk, &now, BPF_SK_STORAGE_GET_F_CREATE);
	save_process(task);
	note_opener(task);
	return 1;
}

/*
 * A process that listens or connects has the socket open. An established connection is remembered
 * by its addresses.
 */
SEC("tp_btf/inet_sock_set_state")
int BPF_PROG(on_inet_sock_set_state, struct sock *sk, int before, int now)
{
	struct owner_record *record;

	if (!kept || sk->sk_protocol != PROTOCOL_TCP)
		return 0;
	if (now != TCP_LISTEN && now != TCP_SYN_SENT && now != TCP_ESTABLISHED)
		return 0;
	record = bpf_sk_storage_get(&owners, sk, NULL, 0);
	if (!record && now != TCP_ESTABLISHED) {
		struct task_struct *task = bpf_get_current_task_btf();

		if (task->flags & PF_KTHREAD)
			return 0;
		record_owner(sk, task);
		note_opener(task);
		record = bpf_sk_storage_get(&owners, sk, NULL, 0);
	}
	if (!record)
		return 0;
	if (now == TCP_ESTABLISHED)
		remember_flow(sk, record);
	else if (now == TCP_LISTEN)
		remember_listener(sk, &record->owner, BPF_ANY);
	return 0;
}

SEC("tp_btf/sock_recv_length")
int BPF_PROG(on_sock_recv_length, struct sock *sk)
{
	if (kept && sk->__sk_common.skc_family != AF_UNIX)
		record_reader(sk, bpf_get_current_task_btf());
	return 0;
}

/* Its sockets may still be open in other processes: the next walk finds these. */
SEC("tp_btf/sched_process_exit")
int BPF_PROG(on_sched_process_exit, struct task_struct *task)
{
	struct cpu *cpu = this_cpu();
	__u32 pid = task->tgid;

	if (!cpu || task->pid != task->tgid)
		return 0;
	save_exit(task);
	if (!bpf_map_delete_elem(&opened, &pid))
		cpu->totals.exits++;
	return 0;
}

/*
 * Of a socket that several processes have open, the recorded owner stays. If a complete walk did
 * not find it, a second one replaces it by a process that the first found.
 */
static __always_inline void found_open(struct sock *sk, struct task_struct *task)
{
	struct owner_record *record = bpf_sk_storage_get(&owners, sk, NULL, 0);
	struct irq_owner owner = owner_of(task);

	if (!record) {
		struct owner_record now = {.kind = IRQ_OWNER, .owner = owner, .walk = walk};

		bpf_sk_storage_get(&owners, sk, &now, BPF_SK_STORAGE_GET_F_CREATE);
		save_process(task);
		record = bpf_sk_storage_get(&owners, sk, NULL, 0);
		if (!record)
			return;
	}
	if (record->owner.pid == owner.pid && record->owner.start_ticks == owner.start_ticks) {
		record->walk = walk;
	} else if (!replace) {
		record->other = owner;
		record->other_walk = walk;
		save_process(task);
	} else if (record->walk != walk && record->other_walk == walk) {
		*(volatile __u64 *)&record->owner = *(__u64 *)&record->other;
		record->start_boottime = 0;
		record->kind = IRQ_OWNER;
		record->replaced = true;
		record->walk = walk;
	}
	if (is_packet_socket(sk)) {
		record->noted = true;
		note(sk, record);
		note_opener(task);
		return;
	}
	if (sk->sk_protocol != PROTOCOL_TCP)
		return;
	if (sk->__sk_common.skc_state == TCP_LISTEN)
		remember_listener(sk, &record->owner, BPF_NOEXIST);
	else if (sk->__sk_common.skc_dport)
		remember_flow(sk, record);
}

SEC("iter/task_file")
int each_file(struct bpf_iter__task_file *ctx)
{
	struct task_struct *task = ctx->task;
	struct file *file = ctx->file;
	struct socket *socket;
	struct sock *sk;

	if (!task || !file)
		return 0;
	socket = bpf_sock_from_file(file);
	if (!socket)
		return 0;
	sk = socket->sk;
	if (!sk || sk->__sk_common.skc_family == AF_UNIX ||
	    sk->__sk_common.skc_family == AF_NETLINK)
		return 0;
	found_open(sk, task);
	return 0;
}

#endif
