/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Data shared by the programs that trace packets through this host and their loader. Rust types
 * are generated from this file at build time; nothing here is written twice.
 */
#ifndef ONBEAT_ABI_HOOKS_H
#define ONBEAT_ABI_HOOKS_H

#include <linux/types.h>

/* Points on the path of a packet, in this order; not every packet passes every point. */
enum hooks_point {
	HOOKS_ARRIVED,	/* queued to a CPU by the device or by RPS */
	HOOKS_SOFTIRQ,	/* start of the softirq that processes it, if later */
	HOOKS_RECEIVED, /* the stack starts to process it */
	HOOKS_DECIDED,	/* its route is known, or it is in its socket */
	HOOKS_READ,	/* read by a process */
	HOOKS_QUEUED,	/* it, or the answer, is passed to the sending device */
	HOOKS_STARTED,	/* the driver starts to send it */
	HOOKS_SENT,	/* the driver has sent it */
	HOOKS_POINTS,
};

enum hooks_fate {
	HOOKS_FORWARDED,
	HOOKS_ANSWERED,		  /* by a process, on the socket that it was read from */
	HOOKS_ANSWERED_BY_KERNEL, /* while the kernel processed it: an echo reply */
	HOOKS_DELIVERED,	  /* read by a process; an answer is a packet of its own */
	HOOKS_DROPPED,
};

/* The context of the stack's work on a packet. */
enum hooks_context {
	HOOKS_IDLE,    /* a softirq, on an idle CPU */
	HOOKS_PROCESS, /* a softirq, in the time of the running task */
	HOOKS_KSOFTIRQD,
	HOOKS_NAPI_THREAD,
};

/* Packets per report; fewer at low rates, or if no driver reports them. */
#define HOOKS_BATCH 16

enum hooks_after {
	HOOKS_ABSENT = 0xffffffffU, /* no time: the packet did not pass there */
};

/* A report of a completed packet. */
struct hooks_packet {
	__u64 begin_ns;		      /* CLOCK_MONOTONIC, at the first point */
	__u64 device_ns;	      /* the NIC's stamp by its own clock; 0: none */
	__u32 after_ns[HOOKS_POINTS]; /* since begin_ns; up to 4.29 s; or enum hooks_after */
	__u32 task;		      /* running on the CPU that received it */
	char comm[16];		      /* its name */
	__u32 depth;  /* earlier packets pending on the same CPU; or enum hooks_after */
	__u32 length; /* octets, without the Ethernet header */
	__u32 reason; /* why it was dropped, enum skb_drop_reason */
	__u16 cpu;    /* received by this CPU */
	__u16 last_cpu;
	__u8 fate;    /* enum hooks_fate */
	__u8 context; /* enum hooks_context */
	__u16 unused;
};

/* Data of a CPU that user space reads. */
struct hooks_cpu {
	__u64 arrived;	  /* of the device at its driver, traced or not */
	__u64 received;	  /* of the device at the stack, likewise */
	__u64 begun;	  /* traced packets received by it */
	__u64 ended;	  /* of them, completed on another CPU */
	__u64 ended_here; /* and on this CPU */
	__u64 table_full; /* packets not traced: the table was full */
	__u64 evicted;	  /* packets whose trace was lost */
	__u64 unreported; /* completed packets not reported: the buffer was full */
	__u64 waiting_ns; /* time of the first packet in the batch */
	__u64 waiting;	  /* packets in the batch */
	struct hooks_packet batch[HOOKS_BATCH];
};

/* Conditions of the filter, which a packet must all meet. */
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
	__u32 what; /* set of enum hooks_condition */
	__u16 ethertype;
	__u16 port;
	__u8 protocol;
	__u8 unused[3];
	__u8 address[16];
};

#endif
