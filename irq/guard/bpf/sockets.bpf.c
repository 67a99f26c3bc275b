// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * All open sockets of all network namespaces, as `ss` lists them, each once for each process that
 * has it open. Loaded for an explanation only.
 */
#include <stdbool.h>
#include <linux/bpf.h>
#include "receivers.h"
#include <bpf/bpf_tracing.h>
#include <bpf/bpf_endian.h>

/* The network namespace of the guarded interfaces. */
const volatile __u32 netns;

static __always_inline void describe_peer(const struct sock_common *common,
					  struct guard_open_socket *to)
{
	to->port = common->skc_num;
	to->peer_port = bpf_ntohs(common->skc_dport);
	if (common->skc_family == AF_INET6)
		BPF_CORE_READ_INTO(&to->peer, common, skc_v6_daddr);
	else
		*(__u32 *)to->peer = common->skc_daddr;
}

SEC("iter/task_file")
int each_socket(struct bpf_iter__task_file *ctx)
{
	struct task_struct *task = ctx->task;
	struct file *file = ctx->file;
	struct guard_open_socket entry = {};
	struct sock *sk;

	if (!task || !file)
		return 0;
	sk = socket_of(file);
	if (!sk || !has_packets(sk))
		return 0;
	entry.receives = describe(sk, &entry.socket);
	entry.socket.pid = task->tgid;
	entry.netns = sk->__sk_common.skc_net.net->ns.inum;
	entry.socket.elsewhere = entry.netns != netns;
	entry.inode = file->f_inode->i_ino;
	entry.cookie = bpf_get_socket_cookie(sk);
	entry.protocol = sk->sk_protocol;
	if (entry.socket.family == AF_INET || entry.socket.family == AF_INET6)
		describe_peer(&sk->__sk_common, &entry);
	bpf_seq_write(ctx->meta->seq, &entry, sizeof(entry));
	return 0;
}

char _license[] SEC("license") = "Dual BSD/GPL";
