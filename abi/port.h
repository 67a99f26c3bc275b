/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Data shared by the XDP programs of a port and the process that owns it. Rust types are generated
 * from this file at build time.
 */
#ifndef ONBEAT_ABI_PORT_H
#define ONBEAT_ABI_PORT_H

#include <linux/types.h>

/* A UMEM chunk of 2048 octets without XDP's headroom of 256, less 4 for a tag and 4 to align. */
#define PORT_MAX_FRAME	   1784
#define PORT_MAX_RESPONSES 128
#define PORT_FILTER_WORDS  4
#define PORT_COPIES	   4

/* Metadata before a frame in the UMEM. */
struct port_meta {
	__u64 received_ns; /* CLOCK_TAI; never 0 */
};

/*
 * Data that the process changes while a program may read it exists in PORT_COPIES copies. Version
 * n is copy n mod PORT_COPIES. The process writes `begun`, then the copy, then `current`. A
 * program reads `current`, then the copy, then `begun`: the copy was consistent unless `begun` is
 * PORT_COPIES ahead.
 */
struct port_version {
	__u32 begun;
	__u32 current;
	__u64 zero[7]; /* a cache line of its own */
};

struct port_copy {
	__u32 length;
	__u32 zero;
	__u8 octets[PORT_MAX_FRAME];
};

struct port_slot {
	struct port_version version;
	struct port_copy copies[PORT_COPIES];
};

/* Octets of a frame without its outer VLAN tag, starting at the destination address. */
struct port_filter {
	__u64 value[PORT_FILTER_WORDS];
	__u64 mask[PORT_FILTER_WORDS];
	__u32 length;
	__u32 slot;
	__u32 generation; /* of the slot */
	__u32 zero;
};

/* Oldest first. */
struct port_table {
	__u64 count;
	struct port_filter filters[PORT_MAX_RESPONSES];
};

struct port_responses {
	struct port_version version;
	struct port_table tables[PORT_COPIES];
};

/* Octets of a short record: with the header of the ring buffer, two cache lines. */
#define PORT_SHORT_RECORD 88

/* A frame that matched a response. */
struct port_record {
	__u64 received_ns; /* CLOCK_TAI */
	__u64 answered_ns; /* CLOCK_TAI; 0: not answered */
	__u32 slot;
	__u32 generation;
	__u16 tpid; /* of the removed VLAN tag; 0: none */
	__u16 tci;
	__u16 length; /* on the medium, without the tag */
	__u16 zero;
	__u8 octets[]; /* at least `length`, up to PORT_MAX_FRAME */
};

/* How the program sends an answer. */
enum port_transmission {
	PORT_TRANSMIT,		/* XDP_TX */
	PORT_TRANSMIT_REDIRECT, /* XDP_REDIRECT to the interface: on a veth, it wakes the peer's
				   NAPI */
	PORT_TRANSMIT_NONE,	/* not at all, as the driver would drop it: frames are delivered */
};

/* The state of the process. A wakeup costs response time: more than the answer itself. */
enum port_process {
	PORT_AWAKE,
	PORT_WAITS_FOR_ALL,	   /* woken for each request */
	PORT_WAITS_FOR_UNANSWERED, /* woken for requests that it must answer itself */
};

struct port_state {
	__u64 process;		     /* enum port_process */
	__u64 answered_unreported;   /* no room for a record */
	__u64 unanswered_unreported; /* neither answered nor reported */
	__u64 transmission;	     /* enum port_transmission */
	__u64 zero[4];
};

#endif
