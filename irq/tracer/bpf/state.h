/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The state of a CPU, and the tables. */
#ifndef ONBEAT_STATE_H
#define ONBEAT_STATE_H

#include <stdbool.h>
#include <linux/bpf.h>
#include "irq.h"
#include "kernel.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>

/* The number of polls with a clock reading per packet, after one with several causes. */
#define MIXED_POLLS 16

/* Whether every event is recorded; for tests, since it costs more than all the rest. */
const volatile bool record;

/*
 * Whether the ledger is kept. Attaching and detaching the programs one after another may take long;
 * this starts and stops all at once.
 */
volatile bool kept;

/*
 * Whether the polls that start now are skipped: only their time is measured. The programs at
 * packets need not be attached then.
 */
volatile bool skip;

/*
 * Whether headers are read, for packets whose end no tracepoint reports. The program at consumed
 * packets is attached meanwhile.
 */
volatile bool inspect;

/*
 * The mean time of a hard interrupt that no tracepoint covers: from the interrupted task to the
 * handler, and back. The loader measures it.
 */
volatile __u64 entry_ns;

/* The maximum number of arrived packets whose end is awaited. */
#define IRQ_MAX_PENDING 64

/* A packet that may have no observed end. */
struct pending {
	__u64 skb;  /* 0: it has ended; up to IRQ_MAX_PENDING: a copy without an address */
	__u64 flow; /* key of flows; for IRQ_HANDSHAKE of listeners */
	__u32 kind; /* its class if it has no other end */
};

struct entry {
	struct irq_key key;
	__u32 packets;
	/* Packets that went into merged ones, beyond those counted. */
	__u32 merged;
	__u64 own_ns;
};

struct cpu {
	/* The first member: user space reads it. It clears the rest before the ledger is kept. */
	struct irq_totals totals;
	/* Whether a NAPI thread runs. */
	bool thread;
	/* The entries are those of a poll that is over, kept for the time after it. */
	bool over;
	/* The last event was a delivery. */
	bool delivered;
	/* The current poll started while polls were skipped. */
	bool skipped;
	/* One more than the current vector: zero, the initial value, is none. */
	__u32 softirq;
	/*
	 * Nesting depth of hard interrupts, and the start of the outermost; earlier ones are in the
	 * totals.
	 */
	__u32 hardirqs;
	__u64 hardirq_since_ns;
	/* Time in hard interrupts, and while a softirq was preempted: no time of this CPU. */
	__u64 away_ns;
	/*
	 * The preempted task of a softirq or of a poll, the time of the CPU at the preemption, and
	 * that of hard interrupts.
	 */
	__u64 preempted;
	__u64 preempted_at_ns;
	__u64 preempted_hardirq_ns;
	/* The end of the last hard interrupt or softirq. */
	__u64 left_ns;
	/*
	 * Remaining polls with a clock reading per packet, because a recent poll had several
	 * causes. With one cause no distinction is needed.
	 */
	__u32 mixed;
	/* Buffers that the current poll freed. */
	__u32 freed;
	/*
	 * Arrivals of the poll: packets as the protocols see them, and the additional packets
	 * merged into these.
	 */
	__u32 arrived;
	__u32 merged;
	/* Packets without a known cause so far. */
	__u32 outstanding;
	/*
	 * Counts down deliveries to that of a merged packet (1: the next one), of `merged_of`
	 * packets.
	 */
	__u32 merged_in;
	__u32 merged_of;
	/* Whether packets were delivered without an arrival. */
	bool unannounced;
	/* Packets that XDP passed to a socket, which is known later; and whether the packet that
	 * is dropped next is one that its program aborted. */
	__u32 to_socket;
	bool aborted;
	/* Of the last poll of a device: packets in GRO, and their part of its time. */
	__u32 held;
	__u64 held_ns;
	struct irq_key held_key;
	/* The first delivery of the poll: 0 none yet, 1 with a time, 2 without. */
	__u32 timed;
	/*
	 * Weight of merged packets of the last device that has or may hold any; 0: that of other
	 * packets.
	 */
	__u32 merged_weight;
	/* Of the last poll: its receive queue, without a device if that has only one. The time and
	 * the packets of the current poll that were charged. */
	struct irq_key queue;
	__u64 queue_ns;
	__u64 queue_packets;
	__u32 entries;
	/* Start of the thread's run; its run time before that, without hard interrupts. */
	__u64 thread_since_ns;
	__u64 thread_ran_ns;
	__u64 run_since_ns;
	__u64 run_ns;
	/* The time of the last event. */
	__u64 mark_ns;
	__u64 shared_ns;
	/* The totals at the last tick of the clock. */
	__u64 ticked_packets;
	__u64 ticked_ns;
	/* The socket of the last delivery in this poll, if it has an owner, and its entry. */
	__u64 last_sk;
	__u32 last_at;
	/* The last packet that arrived in this poll, and whether nothing happened to it yet. */
	__u64 last_skb;
	bool fresh;
	/* The device of the packets, and its address while a poll lasts. */
	__u64 last_dev;
	__u32 netns;
	__u32 device;
	/* The last process start that was converted: as the kernel has it, and in ticks. */
	__u64 start_boottime;
	__u32 start_ticks;
	struct entry entry[IRQ_MAX_CAUSES];
	/*
	 * Packets of the poll in the order of arrival, and the first that may not have ended. A
	 * delivery that overtakes others leaves a gap: the time until it is also theirs.
	 */
	__u32 pendings;
	__u32 pending_at;
	bool gap;
	/* The packet that ends, and its flow. */
	__u64 ending;
	__u64 ended_flow;
	struct pending pending[IRQ_MAX_PENDING];
	/* The number of the socket that receives a packet. */
	__u64 number;
	/* The reason of the next interrupt that this CPU sends to another one. */
	__u32 calling;
	/* The time of this CPU at the last hard interrupt. */
	__u64 interrupted_ns;
	/*
	 * The time that the ledger needs at the end of a softirq, after the clock reading; and the
	 * number of softirqs until it is measured again.
	 */
	__u64 tail_ns;
	__u32 tail_due;
	/*
	 * Whether the device of the last arrival has taps, and whether they receive a packet now.
	 * The taps of one device, while a poll lasts.
	 */
	bool tapped, tapping;
	__u32 taps;
	__u64 taps_dev, taps_list, taps_net;
	__u64 taps_hash;
	struct irq_key tap[IRQ_MAX_TAPS];
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct cpu);
} cpus SEC(".maps");

/*
 * Allocated at the start: in an interrupt there may be no memory for a row. The loader sets the
 * size by the number of CPUs.
 */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_HASH);
	__uint(max_entries, 4096);
	__type(key, struct irq_key);
	__type(value, struct irq_amount);
} rows SEC(".maps");

/* The owner of a socket. */
struct owner_record {
	struct irq_owner owner;
	/* Of a reader: its start as the kernel has it. */
	__u64 start_boottime;
	__u32 kind; /* IRQ_READER or IRQ_OWNER */
	/* Whether socket_owners has it; and whether it succeeded an owner that exited. */
	bool noted, replaced;
	/* The last walk that found the owner with the socket open, and the last that found another
	 * process.
	 */
	__u32 walk;
	__u32 other_walk;
	struct irq_owner other;
};

/* Freed with the socket. A connection starts with the owner of its listening socket. */
struct {
	__uint(type, BPF_MAP_TYPE_SK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC | BPF_F_CLONE);
	__type(key, int);
	__type(value, struct owner_record);
} owners SEC(".maps");

/* By cookie: the owner of a socket that received packets before it was read. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 65536);
	__type(key, __u64);
	__type(value, struct irq_socket_owner);
} socket_owners SEC(".maps");

/* The loader sets the size if it reads events. */
struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 4096);
} events SEC(".maps");

/* The loader sets the size if it reads ticks. */
struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 4096);
} ticks SEC(".maps");

/* None while the ledger is not kept. */
static __always_inline struct cpu *this_cpu(void)
{
	__u32 zero = 0;

	return kept ? bpf_map_lookup_elem(&cpus, &zero) : NULL;
}

/* PREEMPT_RT: softirqs run in tasks, which are preempted. */
static __always_inline bool is_realtime(void)
{
	return bpf_core_field_exists(struct task_struct, softirq_disable_cnt);
}

/* Whether the task of a softirq, or of a poll, waits for its CPU. */
static __always_inline bool is_preempted(const struct cpu *cpu)
{
	return is_realtime() && cpu->preempted;
}

/* The time of a CPU, which does not advance in hard interrupts and while a softirq is preempted. */
static __always_inline __u64 time_of(struct cpu *cpu)
{
	volatile __u64 *away_ns = &cpu->away_ns;
	__u64 before = *away_ns, now = bpf_ktime_get_ns();

	/* An interrupt came in between; a second one at once is rare, and its error small. */
	if (*away_ns != before) {
		before = *away_ns;
		now = bpf_ktime_get_ns();
	}
	return now - before;
}

static __always_inline void record_event(__u64 now, __u32 what, const struct irq_key *key,
					 __u64 value)
{
	struct irq_event *event;
	struct cpu *cpu;

	if (!record)
		return;
	event = bpf_ringbuf_reserve(&events, sizeof(*event), 0);
	if (!event) {
		cpu = this_cpu();
		if (cpu)
			cpu->totals.lost_events++;
		return;
	}
	__builtin_memset(event, 0, sizeof(*event));
	event->time_ns = now;
	event->cpu = bpf_get_smp_processor_id();
	event->what = what;
	if (key)
		event->key = *key;
	event->value = value;
	bpf_ringbuf_submit(event, 0);
}

#endif
