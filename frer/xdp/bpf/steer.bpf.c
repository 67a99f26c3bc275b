// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Steering for a data plane in user space: frames of streams go to its AF_XDP sockets, all others
 * unmodified to the network stack. One instance of this program is loaded per port.
 */
#include "identify.h"

/* The port this instance serves. */
const volatile __u8 port;

/* By receive queue of the port's interface. */
struct {
	__uint(type, BPF_MAP_TYPE_XSKMAP);
	__uint(max_entries, FRER_MAX_QUEUES);
	__type(key, __u32);
	__type(value, __u32);
} sockets SEC(".maps");

/*
 * Write the arrival time before the frame if the driver has room for meta data: CLOCK_MONOTONIC.
 * Not with the resolution of a tick: frames of several ports are decided in this order.
 */
static __always_inline void stamp(struct xdp_md *ctx)
{
	__u64 *at;

	if (bpf_xdp_adjust_meta(ctx, -(int)sizeof(*at)))
		return;
	at = (void *)(long)ctx->data_meta;
	if ((void *)(at + 1) <= (void *)(long)ctx->data)
		*at = bpf_ktime_get_ns();
}

/* Count a frame of a receive queue that the interface got since its sockets were opened. */
static __always_inline int no_socket(__u32 port)
{
	struct frer_port_counters *counters = port_counters_of(port);

	if (counters)
		count(&counters->no_socket);
	return XDP_DROP;
}

SEC("xdp")
int frer_steer(struct xdp_md *ctx)
{
	struct cursor c = {(void *)(long)ctx->data, (void *)(long)ctx->data_end};
	struct headers h;
	__u32 msdu;
	int action;

	if (!parse_headers(&c, &h))
		return unmatched(port);
	msdu = ADDRESSES + h.vlans * sizeof(struct vlan_tag);
	if (!identify(ctx, h.ethertype, h.payload | msdu << 16, h.vid, port))
		return unmatched(port);
	stamp(ctx);
	/* The stack must not forward a stream's frame, even without a socket. */
	action = bpf_redirect_map(&sockets, ctx->rx_queue_index, XDP_DROP);
	return likely(action == XDP_REDIRECT) ? action : no_socket(port);
}

char _license[] SEC("license") = "Dual BSD/GPL";
