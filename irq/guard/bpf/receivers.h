/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Sockets that receive packets of interfaces. */
#ifndef ONBEAT_RECEIVERS_H
#define ONBEAT_RECEIVERS_H

#include "guard.h"
#include "kernel.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>

#define AF_INET	  2
#define AF_INET6  10
#define AF_PACKET 17
#define AF_XDP	  44

/* include/net/tcp_states.h */
#define TCP_CLOSE 7

#define SOCK_STREAM 1

/* The socket of an open file; NULL: it is none. */
static __always_inline struct sock *socket_of(struct file *file)
{
	struct socket *socket = bpf_sock_from_file(file);

	return socket ? socket->sk : NULL;
}

/* Others, such as those of netlink, receive nothing from interfaces. */
static __always_inline bool has_packets(const struct sock *sk)
{
	__u32 family = sk->__sk_common.skc_family;

	return family == AF_INET || family == AF_INET6 || family == AF_PACKET || family == AF_XDP;
}

/* Whether the socket can receive packets: false without a port or a connection. */
static __always_inline bool describe(struct sock *sk, struct guard_socket *to)
{
	const struct sock_common *common = &sk->__sk_common;
	struct net_device *device;

	to->family = common->skc_family;
	switch (to->family) {
	case AF_INET6:
		BPF_CORE_READ_INTO(&to->address, common, skc_v6_rcv_saddr);
		break;
	case AF_INET:
		*(__u32 *)to->address = common->skc_rcv_saddr;
		break;
	case AF_PACKET:
		if (!bpf_core_type_exists(struct packet_sock))
			return false;
		to->device = BPF_CORE_READ((struct packet_sock *)sk, ifindex);
		return true;
	case AF_XDP:
		if (!bpf_core_type_exists(struct xdp_sock))
			return false;
		device = BPF_CORE_READ((struct xdp_sock *)sk, dev);
		to->device = device ? BPF_CORE_READ(device, ifindex) : 0;
		return device;
	default:
		return false;
	}
	to->device = common->skc_bound_dev_if;
	if (!common->skc_num)
		return false;
	/* For datagram sockets this is the state without a peer. */
	return !(sk->sk_type == SOCK_STREAM && common->skc_state == TCP_CLOSE);
}

#endif
