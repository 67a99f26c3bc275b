/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What the programs that follow packets through this host and their loader share. Rust types are
 * generated from this file at build time; nothing here is written twice.
 */
#ifndef ONBEAT_ABI_HOOKS_H
#define ONBEAT_ABI_HOOKS_H

#include <linux/types.h>

/* Where a packet passes, in this order; not every packet passes everywhere. */
enum hooks_point {
	HOOKS_ARRIVED,	/* put into a CPU's queue by the device or by RPS */
	HOOKS_SOFTIRQ,	/* the softirq that found it began, if later than that */
	HOOKS_RECEIVED, /* the stack begins with it */
	HOOKS_DECIDED,	/* its route is found, or its socket has it */
	HOOKS_READ,	/* a process read it */
	HOOKS_QUEUED,	/* it, or the answer, is given to the device that sends it */
	HOOKS_STARTED,	/* the driver begins with it */
	HOOKS_SENT,	/* the driver is done */
	HOOKS_POINTS,
};

enum hooks_fate {
	HOOKS_FORWARDED,
	HOOKS_ANSWERED,		  /* by a process, on the socket that it was read from */
	HOOKS_ANSWERED_BY_KERNEL, /* while the kernel was at it: an echo reply */
	HOOKS_DELIVERED,	  /* read by a process; an answer comes as a packet of its own */
	HOOKS_DROPPED,
};

/* What the stack's work on a packet was done in. */
enum hooks_context {
	HOOKS_IDLE,    /* a softirq, on a CPU that had nothing else to do */
	HOOKS_PROCESS, /* a softirq, in the time of the task that ran */
	HOOKS_KSOFTIRQD,
	HOOKS_NAPI_THREAD,
};

/* Packets that are told at once; fewer where they come slowly, or are not told by a driver. */
#define HOOKS_BATCH 16

enum hooks_after {
	HOOKS_ABSENT = 0xffffffffU, /* no time: the packet did not pass there */
};

/* A packet, as it is told when it is gone. */
struct hooks_packet {
	__u64 begin_ns;		      /* CLOCK_MONOTONIC, at the first point */
	__u64 device_ns;	      /* the NIC's stamp by its own clock; 0 without */
	__u32 after_ns[HOOKS_POINTS]; /* since the begin; up to 4.29 s; or enum hooks_after */
	__u32 task;		      /* that ran where it was received */
	char comm[16];		      /* its name */
	__u32 depth;  /* packets before it that had come by the same CPU; or enum hooks_after */
	__u32 length; /* octets, without the Ethernet header */
	__u32 reason; /* why it was dropped, enum skb_drop_reason */
	__u16 cpu;    /* that received it */
	__u16 last_cpu;
	__u8 fate;    /* enum hooks_fate */
	__u8 context; /* enum hooks_context */
	__u16 unused;
};

/* What user space reads of a CPU. */
struct hooks_cpu {
	__u64 arrived;	  /* of the device at its driver, followed or not */
	__u64 received;	  /* of the device at the stack, likewise */
	__u64 begun;	  /* packets that came by it and are followed */
	__u64 ended;	  /* of them, packets that are gone, as another CPU saw it */
	__u64 ended_here; /* and as it saw itself */
	__u64 crowded;	  /* packets that found no room in the table */
	__u64 forgotten;  /* packets that were lost sight of */
	__u64 untold;	  /* packets gone that found no room in the buffer */
	__u64 waiting_ns; /* since when packets wait to be told together */
	__u64 waiting;	  /* how many do */
	struct hooks_packet batch[HOOKS_BATCH];
};

/* Which packets are looked at: those of which all that is said here is true. */
enum hooks_condition {
	HOOKS_ETHERTYPE = 1,
	HOOKS_PROTOCOL = 2,
	HOOKS_SOURCE = 4,
	HOOKS_TARGET = 8,
	HOOKS_EITHER_ADDRESS = 16, /* of either end */
	HOOKS_SOURCE_PORT = 32,
	HOOKS_TARGET_PORT = 64,
	HOOKS_EITHER_PORT = 128,
	HOOKS_IPV6 = 256, /* the address is of IPv6 */
};

struct hooks_filter {
	__u32 what; /* enum hooks_condition, several of them */
	__u16 ethertype;
	__u16 port;
	__u8 protocol;
	__u8 unused[3];
	__u8 address[16];
};

#endif
