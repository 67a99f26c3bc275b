// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Frames that left by the ports of a node. The programs of frer.bpf.c hand a frame to a set of
 * ports at once, and the kernel reports no result to them.
 */
#include <linux/types.h>
#include "frer.h"
#include "namespace.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct net_device {
	int ifindex;
	possible_net_t nd_net;
};

struct sk_buff {
	struct net_device *dev;
};

struct bpf_prog;

#pragma clang attribute pop

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, FRER_OUTPUT_PORTS);
	__uint(map_flags, BPF_F_MMAPABLE); /* searched by the loader */
	__type(key, __u32);
	__type(value, struct frer_output_port);
} output_ports SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct frer_output);
} outputs SEC(".maps");

/* For each frame or batch of any program on this machine: cheaper than a hash table. */
static __always_inline struct frer_output *output_of(const struct net_device *to)
{
	__u32 ifindex = to->ifindex, line, port;
	struct frer_output_port *found;

#pragma unroll
	for (int try = 0; try < FRER_OUTPUT_TRIES; try++) {
		line = (ifindex + try) % FRER_OUTPUT_PORTS;
		found = bpf_map_lookup_elem(&output_ports, &line);
		if (!found || !found->ifindex)
			return NULL;
		if (found->ifindex == ifindex && found->namespace == to->nd_net.net->ns.inum) {
			port = found->port;
			return bpf_map_lookup_elem(&outputs, &port);
		}
	}
	return NULL;
}

/* A driver took some frames of native programs, and refused others. */
SEC("tp_btf/xdp_devmap_xmit")
int BPF_PROG(frer_sent_native, const struct net_device *from, const struct net_device *to, int sent,
	     int refused)
{
	struct frer_output *output = output_of(to);

	if (output) {
		output->sent += sent;
		output->refused += refused;
	}
	return 0;
}

/* A frame of a generic program is sent, unless the tracepoint below follows. */
SEC("fentry/generic_xdp_tx")
int BPF_PROG(frer_sent_generic, struct sk_buff *frame)
{
	struct frer_output *output = output_of(frame->dev);

	if (output)
		output->sent++;
	return 0;
}

/* Native programs of a node never transmit by the receiving interface. */
SEC("tp_btf/xdp_exception")
int BPF_PROG(frer_refused_generic, const struct net_device *to, const struct bpf_prog *program,
	     __u32 action)
{
	struct frer_output *output = action == XDP_TX ? output_of(to) : NULL;

	if (output) {
		output->sent--;
		output->refused++;
	}
	return 0;
}

char _license[] SEC("license") = "Dual BSD/GPL";
