/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Data shared by the guard's programs and their loader: the processes that wait for packets, and
 * the limits of early drops. Rust types are generated from this file at build time; nothing here
 * is written twice.
 */
#ifndef ONBEAT_ABI_GUARD_H
#define ONBEAT_ABI_GUARD_H

#include <linux/types.h>

enum guard_size {
	/* One more than the highest limit; limits count from 1. */
	GUARD_SLOTS = 256,
	/* Maximum number of processes with a limit, exclusive or shared. */
	GUARD_PROCESSES = 65536,
	/* Maximum number of watched threads. */
	GUARD_WATCHED = 1024,
	/* Maximum number of processes that wait and are known to programs. */
	GUARD_WAITING = 16384,
	/* Maximum number of changed processes that are scanned one by one. */
	GUARD_CHANGED = 256,
	/* Interrupts of one source and CPU in a second that are reported. */
	GUARD_INTERRUPTS = 100,
	/* A budget is that of a window of this many nanoseconds, at any rate within. */
	GUARD_WINDOW_NS = 100000000,
	/* Maximum number of sources of interrupts, and of words of a set of CPUs. */
	GUARD_SOURCES = 1024,
	GUARD_CPU_WORDS = 16,
};

/* The thread that last read from a socket. */
struct guard_reader {
	__u32 pid; /* its process; 0: none was observed */
	__u32 tid;
} __attribute__((aligned(8)));

/* An open socket that can receive packets. */
struct guard_socket {
	struct guard_reader reader;
	__u32 pid;    /* a process that has it open */
	__u32 device; /* index of the interface that it is bound to; 0: none */
	__u32 family;
	__u32 elsewhere;  /* in another network namespace than the guarded interfaces */
	__u8 address[16]; /* local; of IPv4 the first four octets */
};

/* An open socket, as `ss` shows it. */
struct guard_open_socket {
	struct guard_socket socket;
	__u64 inode;
	__u64 cookie;
	__u8 peer[16]; /* as address */
	__u32 netns;   /* the inode of its network namespace */
	__u32 protocol;
	__u16 port;
	__u16 peer_port; /* 0: not connected */
	__u32 receives;	 /* it can receive packets */
};

/* A thread of a process. */
struct guard_thread {
	__u32 pid;
	__u32 tid;
	__u32 start_ticks; /* of the process, since boot, as in /proc/PID/stat */
	__u32 policy;	   /* SCHED_* */
	__u32 priority;	   /* of the real-time policies */
	__s32 nice;	   /* of the others */
	__u32 user;	   /* real, in the host's first user namespace */
	__u8 name[16];
};

/* The kind of scheduling in the high half of a rank. */
enum guard_rank {
	GUARD_NORMAL = 0,   /* with the nice value, plus 20 */
	GUARD_REALTIME = 1, /* with the priority */
	GUARD_DEADLINE = 2,
	GUARD_IDLE = 3,
};

/* Packets, and the softirq time that the ledger charged for them. */
struct guard_charges {
	__u64 ns;
	__u64 packets;
};

/* The account of a limit, or of a process's share of it; written under the lock of the limit. */
struct guard_account {
	__u64 limited_at_ns; /* the start of that limit */
	__u64 paid_until_ns; /* when its credit is used up: later than now if packets exceeded it */
	struct guard_charges charged;	/* as last applied */
	struct guard_charges uncharged; /* packets that have passed since, at their assumed cost */
	__u64 ns_per_packet;		/* the recent cost of a packet */
};

/* A process with a budget. The loader writes the first three; the rest is of programs. */
struct guard_member {
	__u32 number;	   /* of its limit */
	__u32 grouped;	   /* not 0: new children have it as well */
	__u32 start_ticks; /* of the process: its id may be used again */
	__u32 epoch;	   /* of its last packet */
	struct guard_charges charged;
	struct guard_account share;
};

/* The receiver of a socket's packets. */
struct guard_receiver {
	__u32 number; /* of its limit; 0: none */
	__u32 pid;    /* the process that reads it, or has it open */
};

/* Counts of changes, and what programs know of the loader. */
struct guard_changes {
	__u64 count;	 /* of those that require a scan of all */
	__u64 processes; /* of those of processes */
	__u64 loader;	 /* its process, whose own threads are no reason for a scan */
	__u64 scans;	 /* not 0: during a scan of all, before waiting processes are known */
};

/* What interrupts a CPU of the guarded interfaces. */
enum guard_interrupt {
	GUARD_LINE = 0,	   /* a device; id: number of its line */
	GUARD_POLL = 1,	   /* a NAPI instance in softirq; id: device, and network namespace << 32 */
	GUARD_WAKE_UP = 2, /* from another CPU; id: the woken thread, 0: unknown */
	GUARD_CALL = 3,	   /* from another CPU; id: address of the function */
};

struct guard_interrupt_key {
	__u32 cpu;
	__u32 kind; /* enum guard_interrupt */
	__u64 id;
};

/* GUARD_INTERRUPTS interrupts of one source within a second. */
struct guard_interrupts {
	struct guard_interrupt_key source;
	__u32 from; /* the last calling thread */
	__u32 reserved;
	__u64 interval_ns; /* from the first to the last one */
	__u8 function[64]; /* name of that of GUARD_CALL, with a 0 at its end */
};

/*
 * The budget of a process, or of processes that share it; written by the loader. The first entry
 * has the number of all processes without one of their own, and the time at which the last limit
 * stopped.
 */
struct guard_limit {
	__u64 stopped_ns; /* limits that started until this time have stopped */
	__u64 ns_per_s;	  /* 0: none */
	__u64 number;	  /* those of former processes do not have it */
};

/*
 * What the ledger charged to a number; written by the ledger, and cleared for a new number. The
 * first entry has the time at which the last limit of any number started.
 */
struct guard_spent {
	struct guard_charges charged;
	__u64 window_since_ns;
	__u64 window_ns; /* charged in this window */
	__u64 limited_at_ns;
};

/* The packets of a limit. */
struct guard_count {
	__u64 passed;
	__u64 dropped;
};

#endif
