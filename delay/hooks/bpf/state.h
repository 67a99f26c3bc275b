/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The packets in transit, and the times at which they passed each point. */
#ifndef ONBEAT_STATE_H
#define ONBEAT_STATE_H

#include <stdbool.h>
#include <linux/bpf.h>
#include "hooks.h"
#include "kernel.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>

/* Maximum number of packets in transit: a power of two. */
#define SLOTS 16384
#define CPUS  4096

/* A packet without an event for this time is evicted if its slot is needed. */
#define EVICT_NS 5000000000ULL

/* Maximum time that packets are batched for a report. */
#define BATCH_NS 10000000ULL

/*
 * Set while packets are traced. Programs are attached and detached one after another; tracing
 * starts and stops at once.
 */
volatile bool kept;

/*
 * The driver has it: its buffer may be freed, reused and received again before the driver has
 * completed.
 */
#define LEAVING 1

/* A CPU reports the packet: no other CPU may, and the slot is not free yet. */
#define ENDING 2

struct packet {
	/* The address of its buffer, which owns the slot, LEAVING or ENDING. Only a CPU that has
	 * the buffer in hand reads the rest. */
	__u64 skb;
	/* The socket that received it, and its number there. */
	__u64 sk;
	__u64 number;
	/* The NIC's time stamp. */
	__u64 device;
	__u64 at[HOOKS_POINTS];
	__u32 task;
	__u32 depth;
	char comm[16];
	__u32 length;
	__u32 slot;
	__u16 cpu;
	__u8 fate;
	__u8 context;
} __attribute__((aligned(64)));

/*
 * A table indexed by the buffer's address: lookup needs no lock, and stale entries never fill it,
 * since the kernel reuses buffers.
 */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, SLOTS);
	__type(key, __u32);
	__type(value, struct packet);
} packets SEC(".maps");

/* The state of a CPU. */
struct cpu {
	struct hooks_cpu seen;
	/* The start of the last softirq that received. */
	__u64 softirq_ns;
	/* The buffer that the stack is processing, until its outcome is known, or it is freed. */
	__u64 current;
	/* The buffer that the driver has, and the slot of its packet. */
	__u64 leaving;
	__u32 leaving_slot;
} __attribute__((aligned(64)));

/* By number; the loader sets its size. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, CPUS);
	__type(key, __u32);
	__type(value, struct cpu);
} cpus SEC(".maps");

/* The last packet that a thread read and has not answered. */
struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct packet);
} reads SEC(".maps");

/* Maximum number of packets in a socket that are distinguished. */
#define QUEUED 64

/*
 * The datagrams of a socket, which are read in order of arrival. Since Linux 6.18 the kernel does
 * not report the free of a read datagram, but the read itself.
 */
struct queue {
	/* Datagrams that the socket received, traced or not. */
	__u64 given;
	/* The number of the next one to be read, by previous reads. */
	__u64 next;
	/* Buffers, by their number. */
	__u64 skb[QUEUED];
};

struct {
	__uint(type, BPF_MAP_TYPE_SK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct queue);
} queues SEC(".maps");

/* Reports of completed packets; the loader sets its size. */
struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 4096);
} reports SEC(".maps");

static __always_inline struct cpu *cpu_of(__u32 number)
{
	return bpf_map_lookup_elem(&cpus, &number);
}

/* NULL while no packets are traced. */
static __always_inline struct cpu *this_cpu(void)
{
	return kept ? cpu_of(bpf_get_smp_processor_id()) : NULL;
}

/*
 * Buffers are 256 octets apart and in pages; neighbors get separate slots. The verifier permits
 * conversion of a pointer to a number only by its lower half.
 */
static __always_inline __u32 slot_of(__u64 skb)
{
	__u32 low;

	asm("%0 = %1" : "=w"(low) : "w"((__u32)skb));
	return (low >> 8 ^ low >> 22) % SLOTS;
}

static __always_inline struct packet *slot_at(__u32 slot)
{
	return bpf_map_lookup_elem(&packets, &slot);
}

/* Returns the packet of a buffer; NULL if it is not traced. */
static __always_inline struct packet *find(__u64 skb)
{
	__u32 slot = slot_of(skb);
	struct packet *p = slot_at(slot);

	if (p && p->skb == skb)
		return p;
	p = slot_at(slot ^ 1);
	return p && p->skb == skb ? p : NULL;
}

/* Counts a completed packet of the CPU that received it. */
static __always_inline void end(const struct packet *p)
{
	struct cpu *cpu = cpu_of(p->cpu);

	if (!cpu)
		return;
	if (p->cpu == bpf_get_smp_processor_id())
		cpu->seen.ended_here++;
	else
		__sync_fetch_and_add(&cpu->seen.ended, 1);
}

static __always_inline void evict(struct packet *p)
{
	struct cpu *cpu = cpu_of(p->cpu);

	if (cpu)
		__sync_fetch_and_add(&cpu->seen.evicted, 1);
	end(p);
}

static __always_inline __u64 last_seen(const struct packet *p)
{
	return p->at[HOOKS_RECEIVED] ?: p->at[HOOKS_ARRIVED];
}

/* Claims a slot for a buffer if it is free, or its packet is stale; else NULL. */
static __always_inline struct packet *take(__u32 slot, __u64 skb, __u64 now)
{
	struct packet *p = slot_at(slot);
	__u64 whose;

	if (!p)
		return NULL;
	whose = p->skb;
	if (whose && now - last_seen(p) < EVICT_NS)
		return NULL;
	if (__sync_val_compare_and_swap(&p->skb, whose, skb) != whose)
		return NULL;
	if (whose)
		evict(p);
	p->slot = slot;
	return p;
}

/* Claims a slot for a received buffer; NULL if there is no room. */
static __always_inline struct packet *claim(struct cpu *cpu, __u64 skb, __u64 now)
{
	__u32 slot = slot_of(skb);
	struct packet *p = find(skb);

	if (p) {
		/* The buffer was freed without a tracepoint, and is reused. */
		evict(p);
		return p;
	}
	p = take(slot, skb, now) ?: take(slot ^ 1, skb, now);
	if (!p)
		cpu->seen.table_full++;
	return p;
}

/*
 * Claims the end of a packet. Two CPUs may reach it at once: since Linux 6.18 a datagram that one
 * CPU has read is freed by the CPU that allocated it.
 */
static __always_inline bool claim_end(struct packet *p, __u64 skb)
{
	return __sync_val_compare_and_swap(&p->skb, skb, ENDING) == skb;
}

/* Releases a slot. */
static __always_inline void release(struct packet *p)
{
	*(volatile __u64 *)&p->skb = 0;
}

/* Fills the report of a packet that has passed its last point. */
static __always_inline void describe(struct hooks_packet *out, const struct packet *p, __u8 fate,
				     __u32 reason)
{
	__u64 begin = p->at[HOOKS_ARRIVED] ?: p->at[HOOKS_RECEIVED];
	int i;

	out->begin_ns = begin;
	out->device_ns = p->device;
#pragma unroll
	for (i = 0; i < HOOKS_POINTS; i++) {
		__u64 after = p->at[i] - begin;

		out->after_ns[i] = !p->at[i]		  ? HOOKS_ABSENT
				   : after < HOOKS_ABSENT ? after
							  : HOOKS_ABSENT - 1;
	}
	out->task = p->task;
	__builtin_memcpy(out->comm, p->comm, sizeof(out->comm));
	out->depth = p->depth;
	out->length = p->length;
	out->reason = reason;
	out->cpu = p->cpu;
	out->last_cpu = bpf_get_smp_processor_id();
	out->fate = fate;
	out->context = p->context;
	out->unused = 0;
}

/*
 * Reports a completed packet, in any context. User space polls: a wakeup would take longer than
 * all the rest.
 */
static __always_inline void report(struct cpu *cpu, const struct packet *p, __u8 fate, __u32 reason)
{
	struct hooks_packet *out = bpf_ringbuf_reserve(&reports, sizeof(*out), 0);

	if (!out) {
		cpu->seen.unreported++;
		return;
	}
	describe(out, p, fate, reason);
	bpf_ringbuf_submit(out, BPF_RB_NO_WAKEUP);
}

/* As report, with softirqs disabled, so that it is not interrupted: in a batch. */
static __always_inline void report_in_batch(struct cpu *cpu, const struct packet *p, __u64 now)
{
	__u64 waiting = cpu->seen.waiting;

	if (waiting >= HOOKS_BATCH)
		return;
	if (!waiting)
		cpu->seen.waiting_ns = now;
	describe(&cpu->seen.batch[waiting], p, p->fate, 0);
	waiting++;
	if (waiting == HOOKS_BATCH || now - cpu->seen.waiting_ns > BATCH_NS) {
		if (bpf_ringbuf_output(&reports, cpu->seen.batch,
				       waiting * sizeof(cpu->seen.batch[0]), BPF_RB_NO_WAKEUP))
			cpu->seen.unreported += waiting;
		waiting = 0;
	}
	cpu->seen.waiting = waiting;
}

#endif
