/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Data shared by the FRER programs in the kernel and their loader. Rust types are generated from
 * this file at build time; nothing here is written twice.
 *
 * Path of a frame through these tables:
 *   l2_index / ip_streams / mask_streams (key: port, shape, fields)  ->  one word, `found`:
 *     member       ->  struct frer_member: counters; individual recovery; struct frer_split
 *     state        ->  struct frer_generator or struct frer_recovery
 *   struct frer_split                          ->  port, or group of ports
 *
 * A member's functions are exchanged by one store: of `found`, or of the word of struct
 * frer_member that refers to split and individual recovery. No other data that a live entry
 * refers to changes in place, and unreferenced data is reused only when no program can still
 * read it. Counters and sequence state are the exception: only the programs write those. So are the
 * parameters of a recovery function, which change in steps (frer/xdp/bpf/history.h).
 */
#ifndef ONBEAT_ABI_FRER_H
#define ONBEAT_ABI_FRER_H

#include <linux/bpf.h>
#include <linux/types.h>

/*
 * Incremented with each change of a table's layout or meaning: state of another version is not
 * reused.
 */
#define FRER_ABI_VERSION 14

#define FRER_MAX_PORTS	64
#define FRER_MAX_QUEUES 256 /* receive queues of a port with AF_XDP sockets */
#define FRER_MAX_SHAPES 32
#define FRER_MAX_MASKS	8
#define FRER_SHAPE_SETS 4

/*
 * What the streams of a node use. Programs are loaded for a set of these, and for a shape if frames
 * are identified by a single one of layer 2; they must contain what an entry in the tables
 * requires.
 */
#define FRER_USES_GENERATION 0x01
#define FRER_USES_RECOVERY   0x02
#define FRER_USES_INDIVIDUAL 0x04
#define FRER_USES_EDIT	     0x08 /* frames are changed before replication */
#define FRER_USES_REWRITE    0x10 /* of these: other than by adding or removing an R-TAG */
#define FRER_USES_EGRESSES   0x20
#define FRER_USES_SHAPES     0x40 /* several shapes, IP or masks */
#define FRER_USES_ALL	     0x7f

/* The usual sets, at an end system's port and at the port of a path. */
#define FRER_USES_TO_GENERATE  (FRER_USES_GENERATION | FRER_USES_EDIT)
#define FRER_USES_TO_ELIMINATE (FRER_USES_RECOVERY | FRER_USES_EDIT)

/* "No such slot". */
#define FRER_NONE 0xffffffffU

/*
 * A shape selects the fields of an identification: a frame is looked up once per shape in use, in
 * the order of struct frer_node, which is the order of precedence.
 */
enum frer_vlan_class {
	FRER_VLAN_EXACT,    /* a VLAN tag with the key's VID */
	FRER_VLAN_ANY,	    /* a VLAN tag with any VID but 0 */
	FRER_VLAN_PRIORITY, /* no VLAN tag, or VID 0 */
	FRER_VLAN_ALL_VID,  /* no VLAN tag (key's VID 0), or one with the key's VID */
	FRER_VLAN_ALL,	    /* any */
};

#define FRER_SHAPE_VLAN	  0x0007 /* enum frer_vlan_class */
#define FRER_SHAPE_SOURCE 0x0008 /* layer 2: the source address instead of the destination's */
#define FRER_SHAPE_IP	  0x0010 /* destination address and the IP fields of the bits: */
#define FRER_SHAPE_IP_SRC 0x0020
#define FRER_SHAPE_DSCP	  0x0040
#define FRER_SHAPE_PROTO  0x0080
#define FRER_SHAPE_SPORT  0x0100
#define FRER_SHAPE_DPORT  0x0200
#define FRER_SHAPE_NONE	  0xffff

/* Composed, hashed and compared as words. */
struct frer_l2_key {
	__u64 address;	  /* MAC address, its first octet lowest; above it, VID | FRER_KEY */
	__u16 shape_port; /* shape; above it, 8 bits of port */
	__u16 zero[3];
};

/* Set in the upper 16 bits of the address of every key: no key's address is 0 or FRER_LEAVING. */
#define FRER_KEY     0x8000
#define FRER_LEAVING 1

struct frer_ip_key {
	__u16 shape;
	__u16 vid;
	__u8 mac[6];
	__u8 port;
	__u8 dscp;
	__u8 protocol;
	__u8 version; /* 4 or 6: ::ffff:a.b.c.d is an IPv6 address, too */
	__u8 zero[2];
	__be16 sport;
	__be16 dport;
	__u8 source[16]; /* IPv4 as ::ffff:a.b.c.d */
	__u8 destination[16];
};

/* Input of mask-and-match: both addresses, then this number of octets of the MSDU at most. */
#define FRER_MASK_MSDU 64
#define FRER_MASK_LEN  80 /* in whole words */

/* Masks shared by members. */
struct frer_mask {
	__u64 id; /* a hash of the following fields, never 0 */
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
	FRER_TAG_PUSH, /* sent with an R-TAG, if the frame has a sequence number */
	FRER_TAG_POP,  /* sent without */
};

/*
 * The result of a lookup, in one word: in the upper bits FRER_FOUND and, for a layer 2 key, shape
 * and port; then 24 bits, the member's slot; then two bits, the kind of function whose state most
 * frames of the member use, and 22 bits, that function's slot. 0: no stream.
 */
#define FRER_FOUND	  0x8000
#define FRER_FOUND_KEY	  48
#define FRER_FOUND_MEMBER 24
#define FRER_FOUND_KIND	  22
#define FRER_MEMBER_MASK  0xffffff
#define FRER_STATE_MASK	  0x3fffff

enum frer_state {
	FRER_STATE_NONE,
	FRER_STATE_GENERATOR,
	FRER_STATE_RECOVERY,
};

/*
 * The index of layer 2 keys: lines of four entries. A key is in one of three lines. The first is
 * selected by its address, so that the members of a stream at several ports share a line, and
 * consecutive addresses fill lines in sequence; the others, after the first third of the index, by
 * a hash of the whole key.
 *
 * A leaving entry has `found` 0 and the address FRER_LEAVING, until no program can have read its
 * former address: no program ever combines the address of one key with the result of another.
 */
#define FRER_INDEX_ENTRIES 4
#define FRER_INDEX_FACTOR  0x9e3779b97f4a7c15ULL

struct frer_index_entry {
	__u64 address;
	__u64 found;
};

struct frer_index_line {
	struct frer_index_entry entry[FRER_INDEX_ENTRIES];
};

/*
 * The functions of a member except its state, in one word. From the lowest bit: 22 bits, the slot
 * of its split; 22 bits, that of its individual recovery, all ones for none. A split that only adds
 * or removes an R-TAG is direct: the rest of the word is what programs need of it. Bits 46 and 47
 * are its tag action, 16 bits its port, or its group if it has several.
 */
#define FRER_FUNCTIONS_SLOT	  0x3fffff
#define FRER_FUNCTIONS_INDIVIDUAL 22
#define FRER_FUNCTIONS_DIRECT	  0x100000000000ULL
#define FRER_FUNCTIONS_GROUP	  0x200000000000ULL
#define FRER_FUNCTIONS_TAG	  46
#define FRER_FUNCTIONS_TARGET	  48

/*
 * The outcome of frames found by one key, beside their function in `found`. With the record's, the
 * counters are the input of 9.2.1. They count frames of receive queue 0 of a driver that processes
 * the frames of a queue one at a time: only one program writes them, and needs no atomic addition.
 */
struct frer_member {
	__u64 passed;
	__u64 dropped;	 /* eliminated, or with a truncated R-TAG */
	__u64 functions; /* FRER_FUNCTIONS_* */
	__u64 owner;	 /* 0: the slot is free */
};

/* Data of the member in the same slot that packets do not need. */
struct frer_member_record {
	__u64 stream;	    /* owner of the stream it is a member of */
	__u64 recovery;	    /* slot of its frames' sequence recovery, or FRER_NONE */
	__u64 enc_errored;  /* 10.8.11 */
	__u64 unjudged;	    /* of dropped frames: not by sequence recovery */
	__u64 former_input; /* input of former slots of the member */
	__u64 retired;	    /* frames sent by former slots of the stream */
	__u64 passed;	    /* of all other queues and drivers */
	__u64 dropped;
};

/*
 * The skew of paths: one number of these or, with long histories, of a multiple of these is
 * measured, in units of ns (frer/core/src/paths.rs).
 */
#define FRER_SAMPLED	      128
#define FRER_ARRIVALS	      8
#define FRER_SKEW_UNIT	      64
#define FRER_SKEW_CLASSES     27
#define FRER_SKEW_FIRST_LIMIT 7

/* The arrivals of the member in the same slot. */
struct frer_skew {
	__u32 first;			/* of measured numbers: delivered the first copy */
	__u32 greatest;			/* time after the first copy */
	__u16 behind;			/* greatest distance of a copy from the highest number */
	__u16 later[FRER_SKEW_CLASSES]; /* later copies, by class of time after the first */
};

/*
 * The first copies of measured numbers of the recovery function in the same slot. From the highest
 * bit: 32 bits of time, 16 bits of the member's slot, the number.
 */
struct frer_arrivals {
	__u64 first[FRER_ARRIVALS];
};

/* In `next`: several program runs may draw numbers at a time, whatever their programs assume. */
#define FRER_GENERATOR_SHARED 0x8000000000000000ULL

struct frer_generator {
	__u64 next; /* the low 16 bits are GenSeqNum */
};

struct frer_generator_record {
	__u64 owner;
	__u64 resets; /* 10.8.2 */
};

#define FRER_RECOVERY_MATCH	 0x01
#define FRER_RECOVERY_TAKE_NOSEQ 0x02
#define FRER_RECOVERY_INDIVIDUAL 0x04
#define FRER_RECOVERY_MOVING	 0x08 /* the former ring decides */
#define FRER_RECOVERY_BOTH	 0x10 /* numbers are claimed in the former ring, then in `ring` */
#define FRER_RECOVERY_EXTENDING	 0x20 /* the history becomes longer */

struct frer_recovery_config {
	__u64 timeout_ns; /* 0: never */
	__u16 flags;
	__u16 history_length;
	__u16 ring_mask;   /* words of the ring less one: a power of two, less one */
	__u16 former_mask; /* the same of the former ring; equal unless the function moves */
	__u32 ring;	   /* with more than FRER_INLINE_WORDS words: its first line in rings */
	__u32 former_ring;
};

/*
 * A position is a sequence number extended by laps of the number space, so that it does not wrap
 * around with the number; the first number after a reset is in the first lap. The explorer of
 * frer/xdp/tests compiles with fewer bits.
 */
#ifndef FRER_NUMBER_BITS
#define FRER_NUMBER_BITS     16
#define FRER_LAP_BITS	     12
#define FRER_GENERATION_BITS 8
#define FRER_SEEN_BITS	     32 /* numbers in a word of the ring */
#define FRER_SEEN_SHIFT	     5
#define FRER_SEEN_MASK	     0xffffffffULL
#define FRER_MAX_HISTORY     32768
#endif
#define FRER_NUMBER_MASK     ((1 << FRER_NUMBER_BITS) - 1)
#define FRER_FIRST_LAP	     (1 << FRER_NUMBER_BITS)
#define FRER_POSITION_BITS   (FRER_NUMBER_BITS + FRER_LAP_BITS)
#define FRER_POSITION_MASK   ((1 << FRER_POSITION_BITS) - 1)
#define FRER_GENERATION_MASK ((1 << FRER_GENERATION_BITS) - 1)
#define FRER_EPOCH_BITS	     (FRER_POSITION_BITS - FRER_SEEN_SHIFT)
#define FRER_EPOCH_MASK	     ((1 << FRER_EPOCH_BITS) - 1)

/*
 * The head of a recovery function, in one word. From the lowest bit: a number that changes with
 * each change of the head; flags; the first number since the reset, which is not in the ring; a
 * position; the generation, which a reset increments. RecovSeqNum is the last seen number of the
 * position's epoch: the position is that number or one before it.
 */
#define FRER_TOUCH_MASK	     0xffULL
#define FRER_HEAD_TAKE_ANY   0x100ULL
#define FRER_HEAD_RUNNING    0x200ULL /* the reset timer */
#define FRER_HEAD_YOUNG	     0x400ULL /* the first number is in the window */
#define FRER_HEAD_EXPIRING   0x800ULL /* a CPU decides whether the timer has expired */
#define FRER_HEAD_FIRST	     12
#define FRER_HEAD_POSITION   28
#define FRER_HEAD_GENERATION (FRER_HEAD_POSITION + FRER_POSITION_BITS)

/*
 * A word of the ring: the numbers seen of one epoch, which are consecutive and start at a multiple
 * of their count; above them the tag: the epoch, above it the generation of the head. Epoch n is in
 * word n modulo the number of words. The ring holds two windows and one word at least: a number
 * ahead of the window does not replace a word of the window.
 */
#define FRER_INLINE_WORDS 8

/* Two cache lines: with a history of up to 112 numbers most packets use only these. */
struct frer_recovery {
	__u64 head;
	__u64 restarted_ns; /* of the reset timer */
	struct frer_recovery_config config;
	/*
	 * 10.8.5 and 10.8.6 of individual recovery. For sequence recovery, those of slots of
	 * members that are free by now; slots in use count for themselves.
	 */
	__u64 passed;
	__u64 discarded;
	__u64 usual_passed; /* not in `passed`: of individual match recovery, by match_usual */
	__u64 ring[FRER_INLINE_WORDS];
};

/* A line of a ring that is longer. */
struct frer_ring_line {
	__u64 word[FRER_INLINE_WORDS];
};

/*
 * Data of the recovery function in the same slot that most packets do not use. The counters of lost
 * numbers (10.8.7) follow from sums over the former generations, which each reset adds to, and from
 * the head: lost = distance - numbers that passed, but not by match recovery, + seen; of these from
 * before the first number since a reset = early_distance - early_passed + early_seen.
 */
struct frer_recovery_record {
	__u64 out_of_order;   /* 10.8.3 */
	__u64 rogue;	      /* 10.8.4 */
	__u64 tagless;	      /* 10.8.8 */
	__u64 tagless_passed; /* of these and of `passed` */
	__u64 resets;	      /* 10.8.9 */
	__u64 distance;	      /* positions from the first number to RecovSeqNum */
	__u64 seen;	      /* numbers in the window at the reset */
	__u64 early_distance; /* positions before the first number that left the window */
	__u64 early_seen;     /* of `seen`: before the first number */
	__u64 early_passed;   /* passed numbers before the first number */
	__u64 contended;      /* packets passed unjudged: all tries failed */
	__u64 matched;	      /* of `passed`: by match recovery */
	__u64 lost_shown;     /* the most lost numbers that were ever reported */
	__u64 owner;
	__u64 gap_ns; /* the longest time between accepted packets since it was last taken */
	__u64 zero;
};

#define FRER_SPLIT_REWRITE  0x01 /* apply `up` or `rewrite` before replication */
#define FRER_SPLIT_EGRESSES 0x02 /* replicas differ: egress programs rewrite them */

/* Shared by all streams with the same egress. */
struct frer_split {
	__u64 ports;  /* set of egress ports */
	__u32 egress; /* slot in egresses of the lowest of these ports; the others follow */
	__u32 group;  /* slot in groups, with more than one port */
	__u8 count;
	__u8 port; /* with one port */
	__u8 flags;
	__u8 tag;
	struct frer_rewrite up; /* Active identification: fields passed to the upper layer */
	struct frer_rewrite rewrite;
	__u32 zero[6]; /* a whole cache line */
};

struct frer_egress {
	struct frer_rewrite rewrite;
	__u8 tag;
	__u8 zero[5];
};

/* Metadata before a frame between the ingress program and egress programs. */
struct frer_meta {
	__u32 split;
	__u32 mark; /* FRER_META_MARK */
};

#define FRER_META_MARK 0xf3e20001U

struct frer_port_counters {
	__u64 unmatched; /* frames without a stream, passed to the network stack */
	__u64 no_meta;	 /* replicas lost since the driver cannot carry metadata */
	__u64 no_room;	 /* frames lost since the driver leaves no room for a tag */
	__u64 no_socket; /* frames lost since their receive queue has no AF_XDP socket */
};

/*
 * The port of an interface, in any network namespace. It is in the first free line from the one
 * with the number of ifindex, modulo the lines; a line that was used is never empty again.
 */
#define FRER_OUTPUT_PORTS 1024 /* lines */
#define FRER_OUTPUT_TRIES 8

struct frer_output_port {
	__u32 namespace; /* inode of the namespace; 0: released */
	__u32 ifindex;	 /* 0: empty */
	__u32 port;
	__u32 zero;
};

/* By port and CPU: frames that XDP programs redirected to the interface. */
struct frer_output {
	__u64 sent;
	__u64 refused; /* by the driver */
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
 * The one element of the node table. The loader writes an unused set of shapes, then activates it:
 * no frame is ever processed with a partial list.
 */
struct frer_node {
	__u64 test_now_ns; /* the clock of programs loaded for tests */
	__u32 active;
	__u32 abi_version;
	struct frer_shapes shapes[FRER_SHAPE_SETS];
};

/*
 * The link redundancy entity of a PRP node (IEC 62439-3), or those of wildcards (802.1CB 7.8), in
 * tables of their own (frer/xdp/bpf/lre.h, wildcard.h):
 *   lre_nodes (source)  ->  slot  ->  struct frer_lre_source, struct frer_lre_numbers
 *   lre_scopes (port)  ->  by VLAN: entity, role of the port
 *
 * The first entity has the number space of the node. Sources and stations are those of an entity:
 * addresses are integers with the first octet lowest, and keys have the number of the entity above
 * them.
 *
 * Programs take slots from the queue lre_free. The loader returns them, once no program refers to
 * them.
 */
#define FRER_LRE_SOURCE	     0x1000000000000ULL /* with an address: there is one */
#define FRER_LRE_LAN_SHIFT   49			/* of an alias */
#define FRER_LRE_KEY_SHIFT   56			/* of the entity, in keys of sources and stations */
#define FRER_WILDCARDS	     16			/* at most */
#define FRER_LRE_ENTITIES    32		   /* none is used again in the same change; PRP: one */
#define FRER_LRE_WORDS	     4096	   /* of the numbers of a source */
#define FRER_LRE_PERIODS     4		   /* with a known first number of this node */
#define FRER_LRE_SUPERVISION 128	   /* octets kept of a supervision frame */
#define FRER_LRE_WAITING     256	   /* such frames waiting for the loader */
#define FRER_LRE_OWN_SILENCE 4000000000ULL /* ns: onbeat_frer::prp::OWN_SILENCE_NS */

/* The function of a port in the entity. */
enum frer_lre_role {
	FRER_LRE_NONE,
	FRER_LRE_LAN_A,
	FRER_LRE_LAN_B,
	FRER_LRE_HOST,
	FRER_LRE_ROLES,
};

/*
 * The wildcards of a port. Each is a role, and above it the number of the entity; 0: none. Words
 * are changed one at a time.
 */
#define FRER_SCOPE_ENTITY 8
#define FRER_SCOPE_ROLE	  0xff
#define FRER_SCOPE_VLAN	  32 /* in `of_vlan`: the VLAN id above the wildcard */

struct frer_lre_scopes {
	__u64 all;   /* of frames in no wildcard of a VLAN */
	__u64 first; /* that has this port as a path */
	__u64 vlans; /* places in use, of */
	__u64 of_vlan[FRER_WILDCARDS];
};

struct frer_lre {
	__u64 mac;	  /* of the node */
	__u64 lan_mac[2]; /* of the interfaces of LAN A and LAN B */
	__u64 period_ns;  /* half of EntryForgetTime */
	__u64 silent_until_ns;
	__u64 is_segment; /* stations behind the host port hear each other */
	__u64 has_proxies;
	__u64 ports; /* numbers plus 1 of LAN A, LAN B and host, from the lowest octet; 0: no entity
		      */
	__u64 drawn; /* numbers; the next one is its lowest 16 bits */
	__u64
	    started[FRER_LRE_PERIODS]; /* period, and below it `drawn` at its start, 32 bits each */
	/* Supervision frames by LAN, counted by the loader: they outlive it. */
	__u64 invalid_supervision[2];
	__u64 foreign_claims[2];
	/* Of a RedBox: onbeat_frer::prp::HostPort. */
	__u64 blocked_until_ns;
	__u64 blocked_by; /* address; 0: the silence after a start */
	__u64 hello_ns;	  /* the last own one */
	__u64 is_on_lan;  /* as in it */
	__u64 other_ns;	  /* the last one of another RedBox; 0: none */
	/* onbeat_frer::prp::HostPortTimes */
	__u64 blocked_ns;
	__u64 yielding_ns;
	__u64 owner;	   /* of a wildcard: a hash of its name; 0: none */
	__u64 sources;	   /* about; the loader corrects it */
	__u64 stations;	   /* likewise */
	__u64 max_sources; /* of each */
};

/* What a node sent on one LAN. */
struct frer_lre_record {
	__u64 last_ns; /* 0: nothing */
	__u64 tagged;
	__u64 untagged;
	__u64 wrong_lan;
};

/* A node that sends trailers. */
struct frer_lre_source {
	__u64 owner;	    /* FRER_LRE_SOURCE and its key; 0: free */
	__u64 alias;	    /* FRER_LRE_SOURCE, its address on one LAN, and that LAN */
	__u64 newest;	    /* bpf/discard.h */
	__u64 contradicted; /* a frame showed that the alias is another node */
	struct frer_lre_record lans[2];
	__u64 heard[2]; /* LANs on which the owner is a source */
	__u64 zero[2];
};

struct frer_lre_numbers {
	__u64 word[FRER_LRE_WORDS];
};

/* A station without redundancy, by LAN. */
struct frer_lre_single {
	__u64 last_ns[2];
	__u64 untagged[2];
};

/* By entity, role and CPU. */
struct frer_lre_counters {
	__u64 passed; /* from a LAN; onbeat_frer::prp::LanCounters */
	__u64 own;
	__u64 own_of_other_lan;
	__u64 accepted;
	__u64 duplicates;
	__u64 untagged;
	__u64 supervision;
	__u64 unread_supervision; /* of them, without room in the queue */
	__u64 wrong_lan;
	__u64 without_entry;
	__u64 malformed;
	__u64 numbered; /* from the host; onbeat_frer::prp::HostCounters */
	__u64 tagged;
	__u64 silent;
	__u64 link_local;
	__u64 local;
	__u64 too_long;
	__u64 blocked;	      /* of either */
	__u64 other_protocol; /* of those without a trailer */
	__u64 unknown_proxies;
};

/* A supervision frame for the loader. */
struct frer_lre_supervision {
	__u64 at_ns;
	__u32 lan; /* 0 or 1 */
	__u32 length;
	__u8 octets[FRER_LRE_SUPERVISION];
};

/* Input of the control program, one at a time. */
enum frer_op {
	FRER_OP_EXPIRE,		 /* reset the recovery functions whose timer expired */
	FRER_OP_RESET_RECOVERY,	 /* of one slot */
	FRER_OP_RESET_GENERATOR, /* of one slot */
	FRER_OP_CONFIGURE,	 /* configure a recovery slot, and reset it */
	FRER_OP_COPY_RING,	 /* of a slot, from the former ring to the present one */
	FRER_OP_SET_HISTORY,	 /* of a slot, and keep its state */
};

/* The control program's answer to FRER_OP_COPY_RING and FRER_OP_SET_HISTORY: repeat it. */
#define FRER_AGAIN 3

struct frer_request {
	__u32 op;
	__u32 slot;
	__u64 count; /* FRER_OP_EXPIRE: number of slots from this one on */
	__u64 head;  /* FRER_OP_SET_HISTORY: the head of at least one grace period ago */
	struct frer_recovery_config config;
};

#endif
