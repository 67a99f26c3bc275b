/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What the programs that keep the interrupt ledger and their loader share. Rust types are generated
 * from this file at build time; nothing here is written twice.
 *
 * The programs are irq/core/src/charge in C, and are tested against it.
 */
#ifndef ONBEAT_ABI_IRQ_H
#define ONBEAT_ABI_IRQ_H

#include <linux/types.h>

/* Causes of one poll that are told apart until it is over. */
#define IRQ_MAX_CAUSES 16

/* What a row counts, and what its key's a and b are. */
enum irq_kind {
	/* For whom time was spent. */
	IRQ_PROCESS,	   /* process id; start in clock ticks since boot */
	IRQ_SOCKET,	   /* cookie: low half; high half */
	IRQ_FORWARDED,	   /* index of the interface by which the packet left */
	IRQ_BRIDGED,	   /* the same */
	IRQ_XDP,	   /* packets that did not come up from a device with an XDP program */
	IRQ_DROPPED,	   /* enum skb_drop_reason */
	IRQ_KERNEL_SOCKET, /* packets for a socket of the kernel */
	IRQ_EMPTY_POLL,	   /* polls without packets */
	IRQ_TX_COMPLETION, /* polls that only gave back buffers of packets that were sent */
	IRQ_UNATTRIBUTED,  /* polls whose packets came to no end that is observed */
	IRQ_UNSAMPLED,	   /* polls that were not looked at; packets as the driver counts them */
	IRQ_SOFTIRQ,	   /* vector */
	/* On whose time. */
	IRQ_BY_PROCESS, /* process id; start in clock ticks since boot */
	IRQ_BY_IDLE,
	IRQ_BY_KSOFTIRQD,
	IRQ_BY_NAPI_THREAD,
};

struct irq_key {
	__u32 kind;   /* enum irq_kind */
	__u32 netns;  /* inode of the network namespace of the device */
	__u32 device; /* its interface index; 0 for none */
	__u32 a;
	__u32 b;
};

/* A process. */
struct irq_owner {
	__u32 pid;
	__u32 start_ticks; /* since boot, as in /proc/PID/stat */
} __attribute__((aligned(8)));

/* The owner of a socket. */
struct irq_socket_owner {
	struct irq_owner owner;
	__u64 inferred; /* not 0: it did not read, but a packet for the socket woke it */
};

struct irq_amount {
	__u64 ns;
	__u64 packets;
};

/* Sums of a CPU. */
struct irq_totals {
	__u64 measured_ns; /* bottom halves, without hard interrupts within */
	__u64 hardirq_ns;
	__u64 lost_ns;	   /* rows that found no room */
	__u64 lost_events; /* events that found no room */
	__u64 packets;	   /* delivered, forwarded, dropped: what the algorithm of ticks counts */
	__u64 arrived;	   /* handed to the protocols, where they were looked at */
};

/* A tick of a clock, and what had happened on its CPU since the one before. */
struct irq_tick {
	__u32 cpu;
	struct irq_owner running; /* who was interrupted; number 0: nobody */
	__u64 packets;
	__u64 bottom_half_ns;
};

/* What happened, for a loader that wants to see it. */
enum irq_what {
	IRQ_THREAD_IN,
	IRQ_THREAD_OUT,	   /* value: ns that the scheduler says it ran */
	IRQ_SOFTIRQ_ENTER, /* key: IRQ_SOFTIRQ */
	IRQ_SOFTIRQ_EXIT,  /* key: on whose time; value: vector */
	IRQ_ARRIVE,	   /* key: netns, device; value: of how many it was merged; no time */
	IRQ_DELIVER,	   /* key: for whom; value: packets */
	IRQ_COUNT,	   /* the same; no time */
	IRQ_POLL_END,	   /* key: netns, device; a: whether XDP looks first; b: whether it took
			    * as many as it might; value: work */
	IRQ_FREE,	   /* a buffer is given back; no time */
	IRQ_SKIP,	   /* value: whether the polls from here on are not looked at; no time */
};

struct irq_event {
	__u64 time_ns; /* of the CPU: CLOCK_MONOTONIC less hard interrupts */
	__u32 cpu;
	__u32 what; /* enum irq_what */
	struct irq_key key;
	__u64 value;
};

#endif
