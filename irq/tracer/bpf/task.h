/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* A process as user space knows it. */
#ifndef ONBEAT_TASK_H
#define ONBEAT_TASK_H

#include "irq.h"
#include "kernel.h"
#include <bpf/bpf_helpers.h>

/* As /proc/PID/stat has the start of a process: clock ticks of 10 ms since boot. */
#define TICK_NS 10000000ULL

static __always_inline struct irq_owner owner_of(const struct task_struct *task)
{
	struct irq_owner owner = {
	    .pid = task->tgid,
	    .start_ticks = task->group_leader->start_boottime / TICK_NS,
	};

	return owner;
}

#endif
