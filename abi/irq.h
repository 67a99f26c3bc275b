/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Data shared by the programs of the interrupt ledger and their loader. Rust types are generated
 * from this file at build time; nothing here is written twice.
 *
 * The programs implement irq/core/src/charge in C, and are tested against it.
 */
#ifndef ONBEAT_ABI_IRQ_H
#define ONBEAT_ABI_IRQ_H

#include <linux/types.h>

/* Maximum number of distinguished causes of one poll. */
#define IRQ_MAX_CAUSES 16

/* The kind of a row, which determines the meaning of its key's a and b. */
enum irq_kind {
	/* The beneficiary of the time. */
	IRQ_READER,    /* last reader of the socket: process id; start in clock ticks since boot */
	IRQ_OWNER,     /* process that has the unread socket open: the same */
	IRQ_LISTENER,  /* owner of the listening socket of a connection request: the same */
	IRQ_ESTIMATE,  /* owner of one of several packet sockets: the same */
	IRQ_SOCKET,    /* cookie, of a packet socket its address: low half; high half */
	IRQ_FORWARDED, /* index of the interface that sent the packet */
	IRQ_BRIDGED,   /* the same */
	IRQ_XDP,       /* packets that the XDP program of a device took: enum irq_verdict */
	IRQ_DROPPED,   /* enum skb_drop_reason */
	IRQ_KERNEL_SOCKET, /* packets for a socket of the kernel */
	IRQ_HANDSHAKE,	   /* connection requests without a known listener */
	IRQ_CONNECTION,	   /* packets of a connection without a known owner */
	IRQ_ICMP,	   /* ICMP and IGMP */
	IRQ_NEIGHBOR,	   /* ARP and neighbor discovery */
	IRQ_EMPTY_POLL,	   /* polls without packets */
	IRQ_TX_COMPLETION, /* polls that only released buffers of sent packets */
	IRQ_UNATTRIBUTED,  /* polls whose packets' outcome was not observed */
	IRQ_UNSAMPLED,	   /* unsampled polls; packets as counted by the driver */
	IRQ_SOFTIRQ,	   /* vector */
	/* The process that lost the time. */
	IRQ_BY_PROCESS, /* process id; start in clock ticks since boot */
	IRQ_BY_IDLE,
	IRQ_BY_KSOFTIRQD,
	IRQ_BY_NAPI_THREAD,
	/* A hard interrupt; packets: their number. */
	IRQ_LINE,   /* number of its line */
	IRQ_VECTOR, /* enum irq_vector */
	IRQ_IPI,    /* of another CPU. netns: enum irq_reason; device: enum irq_sender; a, b */
	/* The interrupted task, as IRQ_BY_PROCESS and the following kinds. */
	IRQ_INTERRUPTED_PROCESS,
	IRQ_INTERRUPTED_IDLE,
	IRQ_INTERRUPTED_KSOFTIRQD,
	IRQ_INTERRUPTED_NAPI_THREAD,
	/* Polls of one of several receive queues of a device, whose causes have the same time: id
	 * of its NAPI instance */
	IRQ_QUEUE,
};

/* What an XDP program decided for a packet. */
enum irq_verdict {
	IRQ_VERDICT_UNKNOWN, /* to drop it or to send it back, which the driver does not report */
	IRQ_VERDICT_DROP,
	IRQ_VERDICT_TX,
	IRQ_VERDICT_REDIRECT,
	IRQ_VERDICT_ABORTED, /* an error of the program, or of a transmission */
};

/* Interrupts of the CPU's own controller. */
enum irq_vector {
	IRQ_LOCAL_TIMER,
	IRQ_IRQ_WORK,
	IRQ_THERMAL,
};

/* The reason of an interrupt of another CPU. */
enum irq_reason {
	IRQ_RESCHEDULE, /* a task of higher priority */
	IRQ_WAKE_UP,	/* a wake-up on an idle CPU or one with another cache */
	IRQ_RPS,	/* packets */
	IRQ_CALL,	/* another function */
	IRQ_BROADCAST,	/* a function on several CPUs */
};

/* Its sender. */
enum irq_sender {
	IRQ_SENDER_UNKNOWN,
	IRQ_SENDER_PROCESS, /* a: process id; b: start in clock ticks since boot */
	IRQ_SENDER_SOFTIRQ, /* a: vector */
	IRQ_SENDER_INTERRUPT,
	IRQ_SENDER_IDLE,
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
	__u64 kind; /* IRQ_READER or IRQ_OWNER */
};

/* Maximum length of the name of a control group that is kept, with the final zero. */
#define IRQ_CGROUP_NAME 128

/* A process as of its first row, or of its exit. */
struct irq_process {
	char command[16];
	__u64 cgroup; /* id of its control group of version 2 */
	__u32 user;   /* effective user id */
	__u32 exited;
};

/* A control group. */
struct irq_cgroup {
	__u64 parent; /* id; 0: it is the root */
	char name[IRQ_CGROUP_NAME];
};

struct irq_amount {
	__u64 ns;
	__u64 packets;
};

/* Sums of a CPU. */
struct irq_totals {
	__u64 measured_ns;  /* softirqs, without hard interrupts within */
	__u64 hardirq_ns;   /* handlers */
	__u64 interrupt_ns; /* the same, with the estimated time around handlers */
	__u64 lost_ns;	    /* of rows without room */
	__u64 lost_events;  /* events without room */
	__u64 packets;	    /* delivered, forwarded, dropped: counted by the tick algorithm */
	__u64 arrived;	    /* passed to the protocols, in sampled polls */
	__u64 inspected;    /* of these: only their headers name their cause */
	__u64 again;	    /* the same packet from another device, in the same poll */
	__u64 unowned;	    /* packets for sockets without a known owner */
	__u64 work;	    /* packets of polls, as the driver counts them */
	__u64 complex;	    /* of these: of polls whose arrivals must be observed */
	__u64 exits;	    /* exited processes that owned sockets */
	__u64 tapped;	    /* packets of packet sockets, which others may receive too */
};

/* Maximum number of packet sockets of a device that share its time. */
#define IRQ_MAX_TAPS 8

struct irq_device {
	__u32 netns;
	__u32 index;
};

/* A device with packet sockets that receive all its packets. */
struct irq_taps {
	__u64 attached; /* whether the program at its ingress is */
	__u64 hash;	/* of the sockets' addresses */
};

/* A tick of a clock, and the activity of its CPU since the previous one. */
struct irq_tick {
	__u32 cpu;
	struct irq_owner running; /* the interrupted process; number 0: none */
	__u64 packets;
	__u64 bottom_half_ns;
};

/* Kinds of events, for a loader that reads them. */
enum irq_what {
	IRQ_THREAD_IN,
	IRQ_THREAD_OUT,	   /* value: its run time in ns by the scheduler */
	IRQ_SOFTIRQ_ENTER, /* key: IRQ_SOFTIRQ */
	IRQ_SOFTIRQ_EXIT,  /* key: process that lost the time; value: vector */
	IRQ_ARRIVE,	   /* key: netns, device; value: number of merged packets; no time */
	IRQ_ANNOUNCE,	   /* value: packets that XDP took before they arrived; no time */
	IRQ_DELIVER,	   /* key: beneficiary; value: packets */
	IRQ_COUNT,	   /* the same; no time */
	IRQ_POLL_END,	   /* key: netns, device; a: with XDP program; b: whether it received
			    * its maximum; value: work, and id of its queue << 32 */
	IRQ_FREE,	   /* a buffer is released; no time */
	IRQ_SKIP,	   /* value: whether the following polls are skipped; no time */
	IRQ_PASS,	   /* the time until now is common to the packets of the poll */
	IRQ_TAP,	   /* key: owner of a packet socket that received a packet */
};

struct irq_event {
	__u64 time_ns; /* of the CPU: CLOCK_MONOTONIC less hard interrupts */
	__u32 cpu;
	__u32 what; /* enum irq_what */
	struct irq_key key;
	__u64 value;
};

#endif
