/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The part of the kernel's structures that the programs read. The loader relocates each field to
 * its offset in the running kernel.
 */
#ifndef ONBEAT_KERNEL_H
#define ONBEAT_KERNEL_H

#include <linux/types.h>
#include "namespace.h"

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct bpf_prog;

struct bpf_xdp_link;

/* A program is attached by netlink, or by a link: the other pointer is then NULL. */
struct bpf_xdp_entity {
	struct bpf_prog *prog;
	struct bpf_xdp_link *link;
};

struct net_device {
	unsigned long priv_flags : 32;
	int ifindex;
	possible_net_t nd_net;
	struct list_head ptype_all;
	unsigned int real_num_rx_queues;
	struct bpf_xdp_entity xdp_state[3];
};

/* A receiver of packets before the protocols: a packet socket. */
struct packet_type {
	struct net *af_packet_net;
	void *af_packet_priv;
	struct list_head list;
};

struct net_hotdata {
	struct list_head ptype_all;
};

struct in6_addr {
	__u8 in6_u[16];
};

struct sock_common {
	__u32 skc_daddr;
	__u32 skc_rcv_saddr;
	__be16 skc_dport;
	__u16 skc_num;
	unsigned short skc_family;
	volatile unsigned char skc_state;
	int skc_bound_dev_if;
	possible_net_t skc_net;
	struct in6_addr skc_v6_daddr;
	struct in6_addr skc_v6_rcv_saddr;
};

struct sk_buff;

struct sk_buff_head {
	struct sk_buff *prev;
	__u32 qlen;
};

struct sock {
	struct sock_common __sk_common;
	struct sk_buff_head sk_receive_queue;
	__u8 sk_kern_sock : 1;
	__u16 sk_type;
	__u16 sk_protocol;
};

struct udp_sock {
	struct sk_buff_head reader_queue;
};

struct socket {
	struct sock *sk;
};

struct packet_sock {
	int ifindex;
};

struct xdp_sock {
	struct net_device *dev;
};

struct inode {
	unsigned long i_ino;
};

struct file {
	struct inode *f_inode;
};

struct sk_buff {
	struct sock *sk;
	struct net_device *dev;
	int skb_iif;
	unsigned int len;
	unsigned int data_len;
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
	unsigned short gso_segs;
	struct skb_shared_hwtstamps hwtstamps;
};

struct task_struct;

struct napi_struct {
	struct net_device *dev;
	unsigned int napi_id;
	struct task_struct *thread;
};

struct sched_entity {
	__u64 sum_exec_runtime;
};

struct kernfs_node {
	const char *name;
	__u64 id;
};

struct cgroup;

struct cgroup_subsys_state {
	struct cgroup *cgroup;
	struct cgroup_subsys_state *parent;
};

struct cgroup {
	struct cgroup_subsys_state self;
	struct kernfs_node *kn;
};

/* dfl_cgrp: the group of the hierarchy of version 2. */
struct css_set {
	struct cgroup *dfl_cgrp;
};

struct cred {
	struct {
		__u32 val;
	} uid, euid;
};

struct signal_struct {
	struct {
		int counter;
	} live; /* threads */
};

struct thread_info {
	__u32 cpu;
};

struct task_struct {
	struct thread_info thread_info;
	struct sched_entity se;
	unsigned int flags;
	int pid;
	int tgid;
	char comm[16];
	struct task_struct *group_leader;
	__u64 start_boottime;
	unsigned int policy;
	unsigned int rt_priority;
	int static_prio;
	const struct cred *real_cred;
	struct signal_struct *signal;
	struct css_set *cgroups;
	/* On PREEMPT_RT only: nesting of sections that hold the softirq lock of the CPU. */
	int softirq_disable_cnt;
};

struct __call_single_node {
	unsigned int u_flags;
};

struct __call_single_data {
	struct __call_single_node node;
	void *func;
};

struct seq_file;

struct bpf_iter_meta {
	struct seq_file *seq;
	__u64 seq_num;
};

struct bpf_iter__task {
	struct bpf_iter_meta *meta;
	struct task_struct *task;
};

struct bpf_iter__task_file {
	struct bpf_iter_meta *meta;
	struct task_struct *task;
	__u32 fd;
	struct file *file;
};

#pragma clang attribute pop

/* include/linux/sched.h */
#define PF_EXITING 0x00000004
#define PF_KTHREAD 0x00200000
/* include/linux/netdevice.h */
#define IFF_BRIDGE_PORT (1 << 9)
#define XDP_MODE_SKB	0
#define XDP_MODE_DRV	1

/* include/linux/net.h, include/linux/socket.h */
#define SOCK_DGRAM  2
#define IPPROTO_UDP 17
#define MSG_PEEK    2

/* include/net/dropreason-core.h: numbers differ between kernels. */
enum skb_drop_reason {
	SKB_DROP_REASON_NOT_SPECIFIED,
	SKB_DROP_REASON_XDP,
};

/* include/linux/skbuff.h: in place of the stamp there is where the driver keeps it. */
#define SKBTX_HW_TSTAMP_NETDEV (1 << 5)

/* kernel/softirq.c */
#define NET_RX_SOFTIRQ 3

#endif
