/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Names and groups of processes, kept after their exit. Nothing here runs per packet: a process is
 * saved with its first row, when it starts to read a socket, and when it exits.
 */
#ifndef ONBEAT_NAMES_H
#define ONBEAT_NAMES_H

#include "state.h"
#include "task.h"

/* Maximum depth of a control group that is kept. */
#define MAX_DEPTH 32

/* The least recently used entries are evicted: those of processes that exited long ago. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 32768);
	__type(key, struct irq_owner);
	__type(value, struct irq_process);
} processes SEC(".maps");

/* By id. A group is often removed with its last process. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 8192);
	__type(key, __u64);
	__type(value, struct irq_cgroup);
} groups SEC(".maps");

/* The parents too: a lookup keeps an entry from eviction. */
static __noinline int save_groups(struct cgroup *group)
{
	struct irq_cgroup now;
	struct cgroup_subsys_state *parent;
	struct cgroup *up;
	__u64 id;
	__u32 i;

	for (i = 0; i < MAX_DEPTH && group; i++) {
		id = group->kn->id;
		parent = group->self.parent;
		up = parent ? parent->cgroup : NULL;
		if (!bpf_map_lookup_elem(&groups, &id)) {
			__builtin_memset(&now, 0, sizeof(now));
			now.parent = up ? up->kn->id : 0;
			bpf_probe_read_kernel_str(now.name, sizeof(now.name), group->kn->name);
			bpf_map_update_elem(&groups, &id, &now, BPF_ANY);
		}
		group = up;
	}
	return 0;
}

static __noinline int write_process(struct task_struct *task, __u32 exited)
{
	struct irq_owner owner = owner_of(task);
	struct irq_process now = {.exited = exited};
	struct cgroup *group = task->cgroups->dfl_cgrp;

	__builtin_memcpy(now.command, task->group_leader->comm, sizeof(now.command));
	now.cgroup = group->kn->id;
	now.user = task->real_cred->euid.val;
	bpf_map_update_elem(&processes, &owner, &now, BPF_ANY);
	return save_groups(group);
}

/* Saves a process at its first sight. */
static __always_inline void save_process(struct task_struct *task)
{
	struct irq_owner owner = owner_of(task);

	if (!bpf_map_lookup_elem(&processes, &owner))
		write_process(task, 0);
}

/* A process may have changed its name and its group since the first sight. */
static __always_inline void save_exit(struct task_struct *task)
{
	struct irq_owner owner = owner_of(task);

	if (bpf_map_lookup_elem(&processes, &owner))
		write_process(task, 1);
}

#endif
