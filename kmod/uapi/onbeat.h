/* SPDX-License-Identifier: GPL-2.0-only WITH Linux-syscall-note */
/*
 * onbeat.ko: the generic real-time port in the kernel, user-space interface.
 *
 * Control uses the generic netlink family "onbeat", whose commands and attributes README.md
 * describes. Frames of claimed EtherTypes are delivered to packet sockets bound to the attached
 * interface and to ONBEAT_PROTOCOL.
 */
#ifndef _UAPI_ONBEAT_H
#define _UAPI_ONBEAT_H

#include <linux/types.h>

#define ONBEAT_GENL_NAME	"onbeat"
#define ONBEAT_GENL_VERSION	1

/* sll_protocol of a claimed frame: none of IEEE's, nor of <linux/if_ether.h>. */
#define ONBEAT_PROTOCOL		0x00be
/* sll_pkttype of a claimed and answered frame: PACKET_USER. */
#define ONBEAT_ANSWERED		6

/* Maximum number of octets from the start of a frame that a response filter compares. */
#define ONBEAT_MAX_FILTER	32
#define ONBEAT_MAX_ETHER_TYPES	64
#define ONBEAT_MAX_GROUPS	64
#define ONBEAT_MAX_SLOTS	65536
#define ONBEAT_MAX_RESPONSES	65536
/* Shorter cycles would occupy the CPU entirely. */
#define ONBEAT_MIN_PERIOD_NS	10000

enum onbeat_cmd {
	ONBEAT_CMD_UNSPEC,
	ONBEAT_CMD_ATTACH,
	ONBEAT_CMD_DETACH,
	ONBEAT_CMD_GET,
	ONBEAT_CMD_SLOT_SET,
	ONBEAT_CMD_SLOT_FREE,
	ONBEAT_CMD_SLOT_GET,
	ONBEAT_CMD_SEND,
	ONBEAT_CMD_LAUNCH,
	ONBEAT_CMD_CANCEL,
	ONBEAT_CMD_RESPOND,
	ONBEAT_CMD_RESPOND_STOP,
	ONBEAT_CMD_GROUPS,
	ONBEAT_CMD_CONFIRMATIONS,

	__ONBEAT_CMD_MAX,
	ONBEAT_CMD_MAX = __ONBEAT_CMD_MAX - 1
};

enum onbeat_attr {
	ONBEAT_A_UNSPEC,
	ONBEAT_A_PAD,
	ONBEAT_A_IFINDEX,
	ONBEAT_A_MODE,
	ONBEAT_A_CLOCK,
	ONBEAT_A_FLAGS,
	ONBEAT_A_ETHER_TYPES,
	ONBEAT_A_SWITCH_IFINDEX,
	ONBEAT_A_OWNER,
	ONBEAT_A_SLOT,
	ONBEAT_A_COOKIE,
	ONBEAT_A_FRAME,
	ONBEAT_A_TIME,
	ONBEAT_A_PERIOD,
	ONBEAT_A_RESPONSE,
	ONBEAT_A_VALUE,
	ONBEAT_A_MASK,
	ONBEAT_A_GROUPS,
	ONBEAT_A_CONFIRMATIONS,
	ONBEAT_A_COUNTERS,

	__ONBEAT_A_MAX,
	ONBEAT_A_MAX = __ONBEAT_A_MAX - 1
};

/* The method by which frames are passed to the driver. */
enum onbeat_mode {
	/* Bypasses the queueing discipline; drops the frame if the driver's queue is busy. */
	ONBEAT_MODE_DIRECT,
	/* Through the queueing discipline. */
	ONBEAT_MODE_QUEUE,
	/* By netpoll: launches are sent in the timer's hard interrupt. */
	ONBEAT_MODE_NETPOLL,

	__ONBEAT_MODE_MAX,
	ONBEAT_MODE_MAX = __ONBEAT_MODE_MAX - 1
};

enum onbeat_flags {
	/* Create a virtual interface for frames that are not claimed. */
	ONBEAT_FLAG_SWITCH	= 1 << 0,
	/* Notify the owner of the outcome of each frame. */
	ONBEAT_FLAG_CONFIRM	= 1 << 1,
};

/* In ONBEAT_A_COUNTERS, of an attachment or of a slot. */
enum onbeat_counter {
	ONBEAT_C_UNSPEC,
	ONBEAT_C_PAD,
	ONBEAT_C_SENT,
	ONBEAT_C_SEND_FAILURES,
	ONBEAT_C_RESPONSES,
	ONBEAT_C_MISSED_CYCLES,
	ONBEAT_C_MAX_LAUNCH_DELAY_NS,
	ONBEAT_C_CLAIMED,
	ONBEAT_C_PASSED,
	ONBEAT_C_LOST_CONFIRMATIONS,

	__ONBEAT_C_MAX,
	ONBEAT_C_MAX = __ONBEAT_C_MAX - 1
};

/* The cause of a transmission. */
enum onbeat_cause {
	ONBEAT_CAUSE_NOW,
	ONBEAT_CAUSE_AT,
	ONBEAT_CAUSE_CYCLE,
	ONBEAT_CAUSE_RESPONSE,
};

/* The outcome of a transmission. */
enum onbeat_outcome {
	ONBEAT_OUTCOME_DROPPED,
	/* The driver accepted the frame, and has released it. */
	ONBEAT_OUTCOME_SENT,
};

/* ONBEAT_A_CONFIRMATIONS is an array of these. */
struct onbeat_confirmation {
	/* As given with the frame. */
	__u64 cookie;
	/* Cycle: its number, from 0. */
	__u64 number;
	/* At, cycle: the due time, by the attachment's clock. */
	__u64 due_ns;
	/* Sent: the time at which the frame's memory was released, CLOCK_REALTIME. */
	__u64 released_ns;
	__u32 slot;
	/* enum onbeat_cause, enum onbeat_outcome */
	__u8 cause;
	__u8 outcome;
	__u16 reserved;
};

#endif /* _UAPI_ONBEAT_H */
