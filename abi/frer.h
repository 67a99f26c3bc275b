/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What the FRER programs in the kernel and their loader share. Rust types are generated from this
 * file at build time; nothing here is written twice.
 *
 * A frame's way through these tables:
 *   ip_streams / mask_streams / l2_index (key: port, shape, fields)  ->  slot of a struct
 * frer_member functions.individual, functions.recovery  ->  struct frer_recovery
 *   functions.generator                       ->  struct frer_generator
 *   functions.split                           ->  struct frer_split -> port, or group of ports
 *
 * Nothing that a live entry refers to is ever changed in place: the loader writes new slots,
 * switches the referring entry by one store, and frees the old slots once no program can still
 * look at them. Counters and sequence state are the exception: only the programs write those.
 */
#ifndef ONBEAT_ABI_FRER_H
#define ONBEAT_ABI_FRER_H

#include <linux/bpf.h>
#include <linux/types.h>

/* Raised whenever a table's layout or meaning changes: state of another version is not taken over.
 */
#define FRER_ABI_VERSION 3

#define FRER_MAX_PORTS	   64
#define FRER_MAX_QUEUES	   256 /* of a port that AF_XDP sockets receive by */
#define FRER_MAX_SHAPES	   32
#define FRER_MAX_MASKS	   8
#define FRER_HISTORY_WORDS 16
#define FRER_MAX_HISTORY   1024

/* "No such function" in the slots of struct frer_member. */
#define FRER_NONE 0xffffffffU

/*
 * A shape says which fields an identification looks at: a frame is looked up once per shape in
 * use, in the order of struct frer_node, which is the order of precedence.
 */
enum frer_vlan_class {
	FRER_VLAN_EXACT,    /* a VLAN tag with the key's VID */
	FRER_VLAN_ANY,	    /* a VLAN tag with any VID but 0 */
	FRER_VLAN_PRIORITY, /* no VLAN tag, or VID 0 */
	FRER_VLAN_ALL_VID,  /* no VLAN tag (key's VID 0), or one with the key's VID */
	FRER_VLAN_ALL,	    /* whatever */
};

#define FRER_SHAPE_VLAN	  0x0007 /* enum frer_vlan_class */
#define FRER_SHAPE_SOURCE 0x0008 /* layer 2: the source address instead of the destination's */
#define FRER_SHAPE_IP	  0x0010 /* destination address and the IP fields named by: */
#define FRER_SHAPE_IP_SRC 0x0020
#define FRER_SHAPE_DSCP	  0x0040
#define FRER_SHAPE_PROTO  0x0080
#define FRER_SHAPE_SPORT  0x0100
#define FRER_SHAPE_DPORT  0x0200

/* In two words, which is how it is put together, hashed and compared. */
struct frer_l2_key {
	__u64 address;	  /* MAC address, its first octet lowest; above it, 16 bits of VID */
	__u32 shape_port; /* shape; above it, 16 bits of port */
	__u32 zero;
};

struct frer_ip_key {
	__u16 shape;
	__u16 vid;
	__u8 mac[6];
	__u8 port;
	__u8 dscp;
	__u8 protocol;
	__u8 version; /* 4 or 6: ::ffff:a.b.c.d is an IPv6 address too */
	__u8 zero[2];
	__be16 sport;
	__be16 dport;
	__u8 source[16]; /* IPv4 as ::ffff:a.b.c.d */
	__u8 destination[16];
};

/* What mask-and-match looks at: both addresses, then this many octets of the MSDU at most. */
#define FRER_MASK_MSDU 64
#define FRER_MASK_LEN  80 /* in whole words */

/* Masks that members have in common. */
struct frer_mask {
	__u64 id; /* a hash of what follows, never 0 */
	__u8 octets[FRER_MASK_LEN];
	__u32 msdu_length; /* a frame with a shorter MSDU does not match */
	__u32 zero;
};

struct frer_mask_key {
	__u64 mask; /* id of its masks */
	__u8 octets[FRER_MASK_LEN];
	__u32 port;
	__u32 zero;
};

#define FRER_REWRITE_DESTINATION 0x01
#define FRER_REWRITE_VLAN	 0x02 /* set the VID, or push a tag that has it */
#define FRER_REWRITE_NO_VLAN	 0x04 /* remove the outer tag */
#define FRER_REWRITE_PRIORITY	 0x08

struct frer_rewrite {
	__u8 flags;
	__u8 priority;
	__u16 vid;
	__u8 destination[6];
};

enum frer_tag_action {
	FRER_TAG_KEEP,
	FRER_TAG_PUSH, /* the frame leaves with an R-TAG, if it has a sequence number */
	FRER_TAG_POP,  /* the frame leaves without */
};

/*
 * Which member has a layer 2 key: a hash table with lines of eight entries. A key stands in the
 * first of its two lines that had room for it. Entry: above, its fingerprint, which is the hash's
 * lower half and once in a line; below, the member's slot + 1. 0: free.
 */
#define FRER_INDEX_ENTRIES 8
#define FRER_INDEX_FACTOR  0x9e3779b97f4a7c15ULL
#define FRER_INDEX_SECOND  12 /* the second line is told by the hash from this bit on */

struct frer_index_line {
	__u64 entry[FRER_INDEX_ENTRIES];
};

/* Slots, or FRER_NONE. */
struct frer_functions {
	__u32 generator;
	__u32 individual;
	__u32 recovery;
	__u32 split;
};

/*
 * What becomes of frames that are found by one key: a cache line. The loader writes the functions
 * that are not active, then makes them active: no frame ever sees half of them. The last word is
 * written last: without it the entry is no member's.
 */
struct frer_member {
	struct frer_functions functions[2];
	__u64 input;   /* 9.2.1 */
	__u64 dropped; /* of these: eliminated, or with an R-TAG that is cut off */
	__u64 address; /* of its layer 2 key */
	__u32 shape_port;
	__u32 active;
};

/* What a packet does not need to know of the member in the same slot. */
struct frer_member_record {
	__u64 owner;
	__u64 stream;	   /* owner of the stream it is a member of */
	__u64 enc_errored; /* 10.8.11 */
	__u64 retired;	   /* frames that the stream sent of members it no longer has */
};

struct frer_generator {
	__u64 next;   /* the low 16 bits are GenSeqNum */
	__u64 resets; /* 10.8.2 */
	__u64 owner;
	__u64 unused; /* two to a cache line: what a packet touches should fit into a cache */
};

#define FRER_RECOVERY_MATCH	 0x01
#define FRER_RECOVERY_TAKE_NOSEQ 0x02
#define FRER_RECOVERY_INDIVIDUAL 0x04

struct frer_recovery_config {
	__u64 timeout_ns; /* 0: never */
	__u16 flags;
	__u16 history_length;
	__u16 ring; /* bits of history in use: the power of two, 64 at least, that holds
		       history_length */
	__u16 zero;
};

/* Those that most packets leave alone; passed and discarded stand in struct frer_recovery. */
struct frer_recovery_counters {
	__u64 out_of_order;	 /* 10.8.3 */
	__u64 rogue;		 /* 10.8.4 */
	__u64 lost;		 /* 10.8.7 */
	__u64 tagless;		 /* 10.8.8 */
	__u64 resets;		 /* 10.8.9 */
	__u64 lost_before_first; /* of lost: numbers from before the first packet after a reset */
};

/*
 * Ordered by how often a packet touches it: with a history of up to 64 numbers the usual packet
 * stays within the first cache line.
 */
struct frer_recovery {
	struct bpf_spin_lock lock;
	__u16 recov_seq_num;
	__u8 take_any;
	__u8 running; /* the reset timer */
	__u64 restarted_ns;
	struct frer_recovery_config config;
	__u16 born;   /* history positions since the first packet after a reset */
	__u16 unborn; /* positions before it that are still 0 */
	__u32 zero;
	__u64 passed;			   /* 10.8.5 */
	__u64 discarded;		   /* 10.8.6 */
	__u64 history[FRER_HISTORY_WORDS]; /* number n stands at bit n mod ring */
	struct frer_recovery_counters counters;
	__u64 owner;
	__u64 unused[10]; /* an odd number of cache lines: first lines spread over all sets */
};

#define FRER_SPLIT_REWRITE  0x01 /* `up` or `rewrite` is to be done before replication */
#define FRER_SPLIT_EGRESSES 0x02 /* replicas differ: each port's egress program does its own */

/* Shared by all streams that leave alike. */
struct frer_split {
	__u64 ports;  /* set of egress ports */
	__u32 egress; /* slot in egresses of the lowest of these ports; the others follow */
	__u32 group;  /* slot in groups, where there is more than one port */
	__u8 count;
	__u8 port; /* where there is only one */
	__u8 flags;
	__u8 tag;
	struct frer_rewrite up; /* Active identification: what the upper layer is offered */
	struct frer_rewrite rewrite;
	__u32 zero[6]; /* a whole cache line */
};

struct frer_egress {
	struct frer_rewrite rewrite;
	__u8 tag;
	__u8 zero[5];
};

/* In front of a frame on its way from the ingress program to egress programs. */
struct frer_meta {
	__u32 split;
	__u32 zero;
};

struct frer_port_counters {
	__u64 unmatched; /* frames of no stream, given to the network stack */
	__u64 no_meta;	 /* replicas lost since the driver cannot carry metadata */
	__u64 no_room;	 /* frames lost since the driver leaves no room for a tag */
	__u64 zero;
};

/* Shapes and masks in use on the node, in order of precedence: IP, masks, layer 2. */
struct frer_shapes {
	__u32 ip_count;
	__u32 mask_count;
	__u32 l2_count;
	__u32 zero;
	__u16 ip[FRER_MAX_SHAPES];
	__u16 l2[FRER_MAX_SHAPES];
	struct frer_mask masks[FRER_MAX_MASKS];
};

/*
 * The one element of the node table. The loader writes the set of shapes that is not active, then
 * makes it active: no frame ever sees half a list.
 */
struct frer_node {
	__u64 test_now_ns; /* the clock of programs loaded for tests */
	__u32 active;
	__u32 abi_version;
	struct frer_shapes shapes[2];
};

/* Input of the control program, one at a time. */
enum frer_op {
	FRER_OP_EXPIRE,		 /* reset the recovery functions whose timer ran out */
	FRER_OP_RESET_RECOVERY,	 /* of one slot */
	FRER_OP_RESET_GENERATOR, /* of one slot */
	FRER_OP_CONFIGURE,	 /* give a recovery slot its configuration, and reset it */
};

struct frer_request {
	__u32 op;
	__u32 slot;
	__u64 count; /* FRER_OP_EXPIRE: how many slots from this one on */
	struct frer_recovery_config config;
};

#endif
