/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The number of a socket: that of the process that receives its packets. This is its last reader. A
 * datagram socket that no process has read yet belongs to the process that has it open, if it is
 * the only one: of several, it is not known which one will read it.
 */
#ifndef ONBEAT_NUMBERS_H
#define ONBEAT_NUMBERS_H

#include "guard.h"
#include "kernel.h"
#include "../../tracer/bpf/budgets.h"
#include <bpf/bpf_helpers.h>

#define SOCK_DGRAM 2

/* The process that has a socket open that no process has read; freed with the socket. */
struct opener {
	__u32 pid;
	__u32 is_shared; /* not 0: processes of several limits have it open */
};

struct {
	__uint(type, BPF_MAP_TYPE_SK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct opener);
} openers SEC(".maps");

static __always_inline void set_receiver(void *sk, struct guard_receiver receiver)
{
	struct guard_receiver *known = bpf_sk_storage_get(&slots, sk, NULL, 0);
	__u64 cookie;

	if (!known && receiver.number)
		known = bpf_sk_storage_get(&slots, sk, &receiver, BPF_SK_STORAGE_GET_F_CREATE);
	if (!known)
		return;
	/* At once: a program may read it now. */
	*(volatile __u64 *)known = *(__u64 *)&receiver;
	cookie = bpf_get_socket_cookie(sk);
	if (receiver.number)
		bpf_map_update_elem(&cookies, &cookie, &receiver, BPF_ANY);
	else
		bpf_map_delete_elem(&cookies, &cookie);
}

/* Of a socket that this process reads. */
static __always_inline void set_number(void *sk, __u32 pid)
{
	struct guard_member *member = member_of(pid);
	struct guard_receiver receiver = {.pid = pid};

	receiver.number = member ? member->number : number_of_others();
	set_receiver(sk, receiver);
}

/* Of a datagram socket that this process has open, and that no process has read. */
static __always_inline void set_number_of_opener(void *sk, __u32 pid)
{
	struct guard_member *member = member_of(pid), *other;
	struct opener *opener, new = {.pid = pid};
	struct guard_receiver receiver = {.pid = pid};
	__u32 first;

	opener = bpf_sk_storage_get(&openers, sk, &new, BPF_SK_STORAGE_GET_F_CREATE);
	if (!opener)
		return;
	first = opener->pid;
	if (first != pid && !opener->is_shared) {
		other = member_of(first);
		if (!member || !other || member->number != other->number)
			opener->is_shared = 1;
	}
	receiver.number = member && !opener->is_shared ? member->number : 0;
	set_receiver(sk, receiver);
}

/* Of a new socket: before any scan, it has the limit of its process. */
static __always_inline void set_number_of_new(struct bpf_sock *sk, __u32 pid)
{
	if (sk->type == SOCK_DGRAM && member_of(pid))
		set_number_of_opener(sk, pid);
}

#endif
