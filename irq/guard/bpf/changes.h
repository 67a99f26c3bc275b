/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What makes a new scan of a process necessary: its sockets and threads that come, change and go,
 * and threads whose scheduling changes. Not covered, and left to scans of all at longer intervals:
 * a socket that is passed to another process without a read, or bound by its first packet, and one
 * of packets (AF_PACKET, AF_XDP).
 *
 * In softirq the current process is any. Its scan finds nothing new; an accepted connection is that
 * of its process from the first read on.
 */
#ifndef ONBEAT_CHANGES_H
#define ONBEAT_CHANGES_H

#include "guard.h"
#include "kernel.h"
#include "numbers.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

#define SCHED_FIFO     1
#define SCHED_RR       2
#define SCHED_IDLE     5
#define SCHED_DEADLINE 6

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct guard_changes);
} changes SEC(".maps");

/* Wakes the loader, which polls it. One entry is enough: it reads the counts then. */
struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 4096);
} wakes SEC(".maps");

/* Processes to scan. The loader removes them. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, GUARD_CHANGED);
	__type(key, __u32);
	__type(value, __u8);
} changed SEC(".maps");

static __always_inline struct guard_changes *the_changes(void)
{
	__u32 first = 0;

	return bpf_map_lookup_elem(&changes, &first);
}

/* The loader empties the ring before it reads the counts. */
static __always_inline void wake(void)
{
	__u64 none = 0;

	if (!bpf_ringbuf_query(&wakes, BPF_RB_AVAIL_DATA))
		bpf_ringbuf_output(&wakes, &none, sizeof(none), 0);
}

static __always_inline void count_change(void)
{
	struct guard_changes *counts = the_changes();

	if (counts)
		__sync_fetch_and_add(&counts->count, 1);
	wake();
}

/*
 * Processes that wait, or may: others that start, exec or exit change nothing. Those that do not
 * wait are removed when they exit.
 */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, GUARD_WAITING);
	__type(key, __u32);
	__type(value, __u8);
} waiting SEC(".maps");

/* Without room in the table, all are scanned. */
static __always_inline void note_change_of_process(__u32 pid)
{
	struct guard_changes *counts;
	__u8 noted = 1;

	if (bpf_map_lookup_elem(&changed, &pid))
		return;
	if (bpf_map_update_elem(&changed, &pid, &noted, BPF_ANY)) {
		count_change();
		return;
	}
	counts = the_changes();
	if (counts)
		__sync_fetch_and_add(&counts->processes, 1);
	wake();
}

/*
 * Note a change of a process with the files of one that waits. A new process may have a budget. One
 * that starts during a scan of all may be missed by it: threads are read before files, by which its
 * parent is known to wait.
 */
static __always_inline void note_task(const struct task_struct *task, __u32 files_of)
{
	__u32 pid = task->tgid;
	bool of_waiting = bpf_map_lookup_elem(&waiting, &files_of);
	struct guard_changes *known = the_changes();
	__u8 waits = 1;

	if (!known || *(volatile __u64 *)&known->loader == pid)
		return;
	if (!of_waiting && !budgets && !*(volatile __u64 *)&known->scans)
		return;
	if (of_waiting && files_of != pid)
		bpf_map_update_elem(&waiting, &pid, &waits, BPF_ANY);
	note_change_of_process(pid);
}

static __always_inline void note_change(void)
{
	struct task_struct *task = bpf_get_current_task_btf();
	__u32 pid = task->tgid;
	__u8 waits = 1;

	/* It may fork before the loader knows that it waits. */
	bpf_map_update_elem(&waiting, &pid, &waits, BPF_ANY);
	note_change_of_process(pid);
}

SEC("cgroup/sock_create")
int on_sock_create(struct bpf_sock *sk)
{
	if (budgets)
		set_number_of_new(sk, bpf_get_current_pid_tgid() >> 32);
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
	if (everywhere || !is_elsewhere(sk))
		note_change();
	return 0;
}

/* A new process has the group of its parent: before the loader knows it, it has the limit. */
static __always_inline void inherit(const struct task_struct *parent,
				    const struct task_struct *child)
{
	__u32 from = parent->tgid, pid = child->tgid;
	struct guard_member *member, same = {};
	struct irq_owner process;

	if (!budgets || child->pid != child->tgid)
		return;
	member = bpf_map_lookup_elem(&numbers, &from);
	if (!member || !member->grouped)
		return;
	same.number = member->number;
	same.grouped = 1;
	process = owner_of(child);
	same.start_ticks = process.start_ticks;
	bpf_map_update_elem(&numbers, &pid, &same, BPF_ANY);
	bpf_map_update_elem(&inherited, &process, &same.number, BPF_ANY);
}

SEC("tp_btf/sched_process_fork")
int BPF_PROG(on_fork, struct task_struct *parent, struct task_struct *child)
{
	inherit(parent, child);
	note_task(child, parent->tgid);
	return 0;
}

SEC("tp_btf/sched_process_exec")
int BPF_PROG(on_exec, struct task_struct *task)
{
	note_task(task, task->tgid);
	return 0;
}

SEC("tp_btf/sched_process_exit")
int BPF_PROG(on_exit, struct task_struct *task)
{
	__u32 pid = task->tgid;

	note_task(task, pid);
	if (task->pid == (int)pid)
		bpf_map_delete_elem(&waiting, &pid);
	/* The first thread may exit before the others. */
	if (budgets && !task->signal->live.counter)
		bpf_map_delete_elem(&numbers, &pid);
	return 0;
}

/* Threads that wait, and NAPI threads, with what their scheduling was. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, GUARD_WATCHED);
	__type(key, __u32);   /* id of the thread */
	__type(value, __u32); /* enum guard_rank */
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

static __always_inline void check_rank(const struct task_struct *task, __u32 watched_rank)
{
	if (rank_of(task) == watched_rank)
		return;
	/* Another process has set a NAPI thread. */
	if (task->flags & PF_KTHREAD)
		count_change();
	else
		note_change_of_process(task->tgid);
}

static long check_one(void *map, const __u32 *tid, __u32 *rank, void *unused)
{
	struct task_struct *task = bpf_task_from_pid(*tid);

	/* Its exit is a change of its own. */
	if (!task)
		return 0;
	check_rank(task, *rank);
	bpf_task_release(task);
	return 0;
}

/* A thread that runs again, perhaps at another priority. */
SEC("tp_btf/sched_switch")
int BPF_PROG(on_switch, bool preempt, struct task_struct *prev, struct task_struct *next)
{
	__u32 tid = next->pid;
	__u32 *rank = bpf_map_lookup_elem(&watched, &tid);

	if (rank)
		check_rank(next, *rank);
	return 0;
}

/* Threads that sleep are compared at this interval. */
#define CHECK_NS 100000000ULL

struct check {
	struct bpf_timer timer;
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct check);
} checks SEC(".maps");

static int on_check(void *map, __u32 *key, struct check *check)
{
	bpf_for_each_map_elem(&watched, check_one, NULL, 0);
	bpf_timer_start(&check->timer, CHECK_NS, 0);
	return 0;
}

#define CLOCK_MONOTONIC 1

/* False on PREEMPT_RT, which has no timers for programs: the loader compares now and then. */
const volatile bool has_timers;

SEC("syscall")
int check_now(void *unused)
{
	bpf_for_each_map_elem(&watched, check_one, NULL, 0);
	return 0;
}

/* The loader runs it once. Not 0: the kernel refuses the timer. */
SEC("syscall")
int start_checks(void *unused)
{
	struct guard_changes *known = the_changes();
	struct check *check;
	__u32 first = 0;

	if (known)
		known->loader = bpf_get_current_pid_tgid() >> 32;
	if (!has_timers)
		return 0;
	check = bpf_map_lookup_elem(&checks, &first);
	if (!check || bpf_timer_init(&check->timer, &checks, CLOCK_MONOTONIC))
		return 1;
	if (bpf_timer_set_callback(&check->timer, on_check))
		return 1;
	return bpf_timer_start(&check->timer, CHECK_NS, 0) ? 1 : 0;
}

#endif
