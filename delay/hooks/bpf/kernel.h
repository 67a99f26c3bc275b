/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The part of the kernel's structures that the programs look at. Where each field is, the loader
 * takes from the running kernel.
 */
#ifndef ONBEAT_KERNEL_H
#define ONBEAT_KERNEL_H

#include <linux/types.h>
#include "namespace.h"

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct net_device {
	int ifindex;
	possible_net_t nd_net;
};

struct sk_buff_head {
	__u32 qlen;
};

struct sock {
	struct sk_buff_head sk_receive_queue;
	__u8 sk_kern_sock : 1;
	__u16 sk_type;
	__u16 sk_protocol;
};

struct udp_sock {
	struct sk_buff_head reader_queue;
};

struct sk_buff {
	struct sock *sk;
	struct net_device *dev;
	int skb_iif;
	unsigned int len;
	__be16 protocol;
	unsigned char *head, *data;
	/* From the head on, what buffers share. */
	unsigned int end;
};

struct skb_shared_hwtstamps {
	__s64 hwtstamp;
};

struct skb_shared_info {
	__u8 tx_flags;
	struct skb_shared_hwtstamps hwtstamps;
};

struct task_struct {
	unsigned int flags;
	int pid;
	char comm[16];
};

#pragma clang attribute pop

/* include/linux/sched.h */
#define PF_KTHREAD 0x00200000

/* include/linux/net.h, include/linux/socket.h */
#define SOCK_DGRAM  2
#define IPPROTO_UDP 17
#define MSG_PEEK    2

/* include/linux/skbuff.h: in place of the stamp there is where the driver keeps it. */
#define SKBTX_HW_TSTAMP_NETDEV (1 << 5)

/* kernel/softirq.c */
#define NET_RX_SOFTIRQ 3

#endif
