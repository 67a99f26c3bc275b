/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The packets under way, and where each of them was when. */
#ifndef ONBEAT_STATE_H
#define ONBEAT_STATE_H

#include <stdbool.h>
#include <linux/bpf.h>
#include "hooks.h"
#include "kernel.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>

/* Packets that can be under way: a power of two. */
#define PLACES 16384
#define CPUS   4096

/* A packet that has not been seen for so long is forgotten where its place is wanted. */
#define FORGET_NS 5000000000ULL

/* Packets wait for each other so long to be told. */
#define BATCH_NS 10000000ULL

/* Whether packets are followed. The programs come and go one after another; they begin and end at
 * once. */
volatile bool kept;

/* The driver has it: its buffer may be freed, used again and come in again before the driver is
 * done. */
#define LEAVING 1

/* A CPU reports the packet: no other CPU may, and the slot is not free yet. */
#define ENDING 2

struct packet {
	/* The address of its buffer, which owns the slot, LEAVING or ENDING. Only a CPU that has
	 * the buffer in hand reads the rest. */
	__u64 skb;
	/* The socket that it was given to, and its number there. */
	__u64 sk;
	__u64 number;
	/* The NIC's stamp. */
	__u64 device;
	__u64 at[HOOKS_POINTS];
	__u32 task;
	__u32 depth;
	char comm[16];
	__u32 length;
	__u32 place;
	__u16 cpu;
	__u8 fate;
	__u8 context;
} __attribute__((aligned(64)));

/* A table whose place goes by the buffer's address: it is found without a lock, and is never full
 * of what is no more, since the kernel uses buffers again. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, PLACES);
	__type(key, __u32);
	__type(value, struct packet);
} packets SEC(".maps");

/* What a CPU is at. */
struct cpu {
	struct hooks_cpu seen;
	/* When a softirq began to receive, the last time. */
	__u64 softirq_ns;
	/* The buffer that the stack is at, until it is known what becomes of it, or it is freed. */
	__u64 current;
	/* The buffer that the driver has, and the place of its packet. */
	__u64 leaving;
	__u32 leaving_place;
} __attribute__((aligned(64)));

/* By number; the loader gives it its size. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, CPUS);
	__type(key, __u32);
	__type(value, struct cpu);
} cpus SEC(".maps");

/* What a thread read last and has not answered. */
struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct packet);
} reads SEC(".maps");

/* Packets in a socket that are told apart. */
#define QUEUED 64

/*
 * The datagrams of a socket, which are read in the order in which they came. Since Linux 6.18 the
 * end of a datagram that was read is not told, but that something was read is.
 */
struct queue {
	/* Datagrams that the socket was given, whether they are followed or not. */
	__u64 given;
	/* The number of the next one to be read, by what was read before. */
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

/* Packets that are gone; the loader gives it its size. */
struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 4096);
} told SEC(".maps");

static __always_inline struct cpu *cpu_of(__u32 number)
{
	return bpf_map_lookup_elem(&cpus, &number);
}

/* None while no packets are followed. */
static __always_inline struct cpu *this_cpu(void)
{
	return kept ? cpu_of(bpf_get_smp_processor_id()) : NULL;
}

/*
 * Buffers lie 256 octets apart and in pages; neighbours get places of their own. The verifier lets
 * a pointer become a number by its lower half alone.
 */
static __always_inline __u32 place_of(__u64 skb)
{
	__u32 low;

	asm("%0 = %1" : "=w"(low) : "w"((__u32)skb));
	return (low >> 8 ^ low >> 22) % PLACES;
}

static __always_inline struct packet *at_place(__u32 place)
{
	return bpf_map_lookup_elem(&packets, &place);
}

/* The packet of a buffer; none where it is not followed. */
static __always_inline struct packet *find(__u64 skb)
{
	__u32 place = place_of(skb);
	struct packet *p = at_place(place);

	if (p && p->skb == skb)
		return p;
	p = at_place(place ^ 1);
	return p && p->skb == skb ? p : NULL;
}

/* A packet is gone, from the sight of the CPU that it came by. */
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

static __always_inline void forget(struct packet *p)
{
	struct cpu *cpu = cpu_of(p->cpu);

	if (cpu)
		__sync_fetch_and_add(&cpu->seen.forgotten, 1);
	end(p);
}

static __always_inline __u64 last_seen(const struct packet *p)
{
	return p->at[HOOKS_RECEIVED] ?: p->at[HOOKS_ARRIVED];
}

/* Takes a place for a buffer where it is free, or its packet is long forgotten; else none. */
static __always_inline struct packet *take(__u32 place, __u64 skb, __u64 now)
{
	struct packet *p = at_place(place);
	__u64 whose;

	if (!p)
		return NULL;
	whose = p->skb;
	if (whose && now - last_seen(p) < FORGET_NS)
		return NULL;
	if (__sync_val_compare_and_swap(&p->skb, whose, skb) != whose)
		return NULL;
	if (whose)
		forget(p);
	p->place = place;
	return p;
}

/* A place for a buffer that has just come; none where there is no room. */
static __always_inline struct packet *claim(struct cpu *cpu, __u64 skb, __u64 now)
{
	__u32 place = place_of(skb);
	struct packet *p = find(skb);

	if (p) {
		/* The buffer was freed where nobody looks, and is used again. */
		forget(p);
		return p;
	}
	p = take(place, skb, now) ?: take(place ^ 1, skb, now);
	if (!p)
		cpu->seen.crowded++;
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

/* Gives a place back. */
static __always_inline void release(struct packet *p)
{
	*(volatile __u64 *)&p->skb = 0;
}

/* What is told of a packet whose last point is passed. */
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

/* Tells of a packet that is gone, in any context. User space looks now and then: waking it would
 * take longer than all the rest. */
static __always_inline void tell(struct cpu *cpu, const struct packet *p, __u8 fate, __u32 reason)
{
	struct hooks_packet *out = bpf_ringbuf_reserve(&told, sizeof(*out), 0);

	if (!out) {
		cpu->seen.untold++;
		return;
	}
	describe(out, p, fate, reason);
	bpf_ringbuf_submit(out, BPF_RB_NO_WAKEUP);
}

/* As tell, where bottom halves are off, so that nobody comes in between: together with others. */
static __always_inline void tell_in_batch(struct cpu *cpu, const struct packet *p, __u64 now)
{
	__u64 waiting = cpu->seen.waiting;

	if (waiting >= HOOKS_BATCH)
		return;
	if (!waiting)
		cpu->seen.waiting_ns = now;
	describe(&cpu->seen.batch[waiting], p, p->fate, 0);
	waiting++;
	if (waiting == HOOKS_BATCH || now - cpu->seen.waiting_ns > BATCH_NS) {
		if (bpf_ringbuf_output(&told, cpu->seen.batch, waiting * sizeof(cpu->seen.batch[0]),
				       BPF_RB_NO_WAKEUP))
			cpu->seen.untold += waiting;
		waiting = 0;
	}
	cpu->seen.waiting = waiting;
}

#endif
