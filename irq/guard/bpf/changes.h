/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What makes a new scan necessary: sockets and processes that come, change and go, and threads
 * whose scheduling changes. Not covered, and left to scans at longer intervals: a socket that is
 * passed to another process without a read, or bound by its first packet, and one of packets
 * (AF_PACKET, AF_XDP).
 */
#ifndef ONBEAT_CHANGES_H
#define ONBEAT_CHANGES_H

#include "guard.h"
#include "kernel.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

#define SCHED_FIFO     1
#define SCHED_RR       2
#define SCHED_IDLE     5
#define SCHED_DEADLINE 6

enum changes_entry {
	CHANGES_COUNT = 0,  /* of changes; read by the loader */
	CHANGES_LOADER = 1, /* its process, whose own threads are no reason for a scan */
	CHANGES_ENTRIES = 2,
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, CHANGES_ENTRIES);
	__type(key, __u32);
	__type(value, __u64);
} changes SEC(".maps");

static __always_inline void note_change(void)
{
	__u32 key = CHANGES_COUNT;
	__u64 *count = bpf_map_lookup_elem(&changes, &key);

	if (count)
		__sync_fetch_and_add(count, 1);
}

static __always_inline void note_change_of(const struct task_struct *task)
{
	__u32 key = CHANGES_LOADER;
	__u64 *loader = bpf_map_lookup_elem(&changes, &key);

	if (loader && *loader != (__u32)task->tgid)
		note_change();
}

SEC("cgroup/sock_create")
int on_sock_create(struct bpf_sock *sk)
{
	note_change();
	return 1;
}

SEC("cgroup/post_bind4")
int on_bind4(struct bpf_sock *sk)
{
	note_change();
	return 1;
}

SEC("cgroup/post_bind6")
int on_bind6(struct bpf_sock *sk)
{
	note_change();
	return 1;
}

/* Accepted connections are not created by a process. */
SEC("tp_btf/inet_sock_set_state")
int BPF_PROG(on_inet_sock_set_state, struct sock *sk, int before, int now)
{
	note_change();
	return 0;
}

SEC("tp_btf/sched_process_fork")
int BPF_PROG(on_fork, struct task_struct *parent, struct task_struct *child)
{
	note_change_of(parent);
	return 0;
}

SEC("tp_btf/sched_process_exec")
int BPF_PROG(on_exec, struct task_struct *task)
{
	note_change();
	return 0;
}

SEC("tp_btf/sched_process_exit")
int BPF_PROG(on_exit, struct task_struct *task)
{
	note_change_of(task);
	return 0;
}

/* Threads that wait, and NAPI threads; the first one without an id ends the table. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, GUARD_WATCHED);
	__type(key, __u32);
	__type(value, struct guard_watch);
} watched SEC(".maps");

/* Linux 6.2 */
extern struct task_struct *bpf_task_from_pid(__s32 pid) __ksym __weak;
extern void bpf_task_release(struct task_struct *task) __ksym __weak;

static __always_inline __u32 rank_of(const struct task_struct *task)
{
	switch (task->policy) {
	case SCHED_FIFO:
	case SCHED_RR:
		return GUARD_REALTIME << 16 | task->rt_priority;
	case SCHED_DEADLINE:
		return GUARD_DEADLINE << 16;
	case SCHED_IDLE:
		return GUARD_IDLE << 16;
	default:
		return GUARD_NORMAL << 16 | (task->static_prio - DEFAULT_PRIO + 20);
	}
}

static long check_one(__u32 at, void *unused)
{
	struct guard_watch *watch = bpf_map_lookup_elem(&watched, &at);
	struct task_struct *task;

	if (!watch || !watch->tid)
		return 1;
	task = bpf_task_from_pid(watch->tid);
	/* Its exit is a change of its own. */
	if (!task)
		return 0;
	if (rank_of(task) != watch->rank)
		note_change();
	bpf_task_release(task);
	return 0;
}

/* The loader runs it before it reads the number of changes. */
SEC("syscall")
int check_watched(void *unused)
{
	__u32 key = CHANGES_LOADER;
	__u64 *loader = bpf_map_lookup_elem(&changes, &key);

	if (loader)
		*loader = bpf_get_current_pid_tgid() >> 32;
	bpf_loop(GUARD_WATCHED, check_one, NULL, 0);
	return 0;
}

#endif
