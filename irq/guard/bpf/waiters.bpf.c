// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Processes that wait for packets: the sockets of a network namespace, the processes that have them
 * open, and the threads that read them. No program here runs per packet: the loader requests walks
 * over sockets and threads, and a reader is recorded when it reads.
 */
#include <stdbool.h>
#include <linux/bpf.h>
#include "guard.h"
#include "../../tracer/bpf/task.h"
#include <bpf/bpf_tracing.h>
#include <bpf/bpf_core_read.h>
#include "receivers.h"
#include "numbers.h"

/* The network namespace of the guarded interfaces, whose sockets are reported; */
const volatile __u32 netns;
/* or the sockets of all namespaces. */
const volatile bool everywhere;

/* kernel/sched: nice 0 is 120. */
#define DEFAULT_PRIO 120

/* Whether there are budgets. */
const volatile bool budgets;

static __always_inline bool is_elsewhere(const struct sock *sk)
{
	return sk->__sk_common.skc_net.net->ns.inum != netns;
}

#include "changes.h"
#include "foreign.h"

/* The last reader of a socket. */
struct known_reader {
	struct guard_reader reader;
	__u64 numbering; /* the value of numbering when the socket was numbered for it */
};

/* Freed with the socket. */
struct {
	__uint(type, BPF_MAP_TYPE_SK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct known_reader);
} readers SEC(".maps");

/*
 * Incremented when processes have new numbers: their sockets take these at the next read, as a scan
 * may reach the sockets late. Written by the loader.
 */
__u32 numbering;

/* Processes without a number that read a socket, until the loader reads the table. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, GUARD_PROCESSES);
	__type(key, __u32);
	__type(value, __u8);
} new_readers SEC(".maps");

SEC("tp_btf/sock_recv_length")
int BPF_PROG(on_sock_recv_length, struct sock *sk)
{
	__u64 now = bpf_get_current_pid_tgid();
	struct known_reader *known;
	struct known_reader read = {
	    .reader = {.pid = now >> 32, .tid = now},
	    .numbering = *(volatile __u32 *)&numbering,
	};
	__u32 pid = read.reader.pid;
	__u8 noted = 1;
	bool has_number;

	if (!has_packets(sk) || (!everywhere && is_elsewhere(sk)))
		return 0;
	known = bpf_sk_storage_get(&readers, sk, NULL, 0);
	if (known && known->reader.tid == read.reader.tid && known->numbering == read.numbering)
		return 0;
	note_change_of_process(pid);
	if (!known) {
		bpf_sk_storage_get(&readers, sk, &read, BPF_SK_STORAGE_GET_F_CREATE);
	} else {
		/* At once: the loader may read it now. */
		*(volatile __u64 *)&known->reader = *(__u64 *)&read.reader;
		known->numbering = read.numbering;
	}
	if (!budgets || is_elsewhere(sk))
		return 0;
	has_number = bpf_map_lookup_elem(&numbers, &pid);
	if (!has_number)
		bpf_map_update_elem(&new_readers, &pid, &noted, BPF_ANY);
	/*
	 * The socket has the limit of its process before a scan reaches it, and no longer that of
	 * the process that opened it.
	 */
	if (has_number || number_of_others() ||
	    (!known && bpf_sk_storage_get(&openers, sk, NULL, 0)))
		set_number(sk, pid);
	return 0;
}

/*
 * A reader that has exited has no number: the socket keeps the last one until another process reads
 * it. A reader without a budget removes the number when its own files are scanned.
 */
static __always_inline bool sets_number(__u32 reader, const struct task_struct *task)
{
	if (!reader)
		return false;
	if (bpf_map_lookup_elem(&numbers, &reader))
		return true;
	return reader == (__u32)task->tgid && !(task->flags & PF_EXITING);
}

/* Whether a file of a process is a socket that can receive packets; if so, describes it. */
static __always_inline bool receives(struct file *file, const struct task_struct *task,
				     struct guard_socket *entry)
{
	struct sock *sk = socket_of(file);
	struct known_reader *known;

	if (!sk)
		return false;
	entry->elsewhere = is_elsewhere(sk);
	if ((entry->elsewhere && !everywhere) || !describe(sk, entry))
		return false;
	known = bpf_sk_storage_get(&readers, sk, NULL, 0);
	if (known)
		*(__u64 *)&entry->reader = *(volatile __u64 *)&known->reader;
	/* Packets are dropped for the sockets of the interface's own namespace. */
	if (!budgets || entry->elsewhere)
		return true;
	if (sets_number(entry->reader.pid, task))
		set_number(sk, entry->reader.pid);
	else if (!known && sk->sk_type == SOCK_DGRAM && !(task->flags & PF_EXITING))
		set_number_of_opener(sk, task->tgid);
	return true;
}

/*
 * Other files have an empty entry now and then: the kernel returns to the loader, which bounds the
 * time of a scan, only with entries.
 */
#define FILES_PER_ENTRY 256

SEC("iter/task_file")
int each_file(struct bpf_iter__task_file *ctx)
{
	struct task_struct *task = ctx->task;
	struct file *file = ctx->file;
	struct guard_socket entry = {};

	if (!task || !file)
		return 0;
	if (receives(file, task, &entry))
		entry.pid = task->tgid;
	if (entry.pid || !(ctx->meta->seq_num % FILES_PER_ENTRY))
		bpf_seq_write(ctx->meta->seq, &entry, sizeof(entry));
	return 0;
}

SEC("iter/task")
int each_task(struct bpf_iter__task *ctx)
{
	struct task_struct *task = ctx->task;
	struct guard_thread entry = {};
	struct irq_owner owner;

	if (!task || task->flags & PF_KTHREAD)
		return 0;
	owner = owner_of(task);
	entry.pid = owner.pid;
	entry.tid = task->pid;
	entry.start_ticks = owner.start_ticks;
	entry.policy = task->policy;
	entry.priority = task->rt_priority;
	entry.nice = task->static_prio - DEFAULT_PRIO;
	entry.user = task->real_cred->uid.val;
	BPF_CORE_READ_INTO(&entry.name, task, comm);
	bpf_seq_write(ctx->meta->seq, &entry, sizeof(entry));
	return 0;
}

char _license[] SEC("license") = "Dual BSD/GPL";
