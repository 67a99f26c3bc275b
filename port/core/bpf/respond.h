/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Automatic responses: the frame becomes its answer, and is sent by the driver. */
#ifndef ONBEAT_RESPOND_H
#define ONBEAT_RESPOND_H

#include "receive.h"

#define SHORTEST (ADDRESSES + 2)
#define ATTEMPTS 4

#define SHARED_ARRAY(name_, value_)                                                                \
	struct {                                                                                   \
		__uint(type, BPF_MAP_TYPE_ARRAY);                                                  \
		__uint(max_entries, 1); /* of slots: set by the loader */                          \
		__uint(map_flags, BPF_F_MMAPABLE);                                                 \
		__type(key, __u32);                                                                \
		__type(value, value_);                                                             \
	} name_ SEC(".maps")

SHARED_ARRAY(slots, struct port_slot);
SHARED_ARRAY(responses, struct port_responses);
SHARED_ARRAY(state, struct port_state);

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 4096); /* set by the loader */
} records SEC(".maps");

/* The start of a frame without its tag, and its response. */
struct request {
	__u64 start[PORT_FILTER_WORDS];
	__u32 length;  /* of the whole frame, without the tag */
	__u32 version; /* of the table of responses */
	__u32 found;
	__u32 slot;
	__u32 generation;
};

static __always_inline __u32 read_once(const __u32 *from)
{
	return *(const volatile __u32 *)from;
}

/* Ordered after earlier reads, on every machine. */
static __always_inline __u32 read_after(__u32 *from)
{
	return __sync_fetch_and_add(from, 0);
}

/* For the verifier: the checked bound applies to the register that is used. */
#define KEEP(variable) asm volatile("" : "+r"(variable))

/* Copies up to `room` octets of the frame, without its tag. */
static __always_inline bool copy_untagged(struct xdp_md *ctx, const struct frame *f, void *to,
					  __u32 room)
{
	__u32 from = f->tpid ? ADDRESSES + TAG : ADDRESSES;
	/*
	 * The length is at least that of an EtherType; makes this visible to the verifier of Linux
	 * 6.1.
	 */
	__u32 rest_but_one = f->length - from - 1;

	KEEP(rest_but_one);
	if (rest_but_one > room - ADDRESSES - 1)
		rest_but_one = room - ADDRESSES - 1;
	KEEP(rest_but_one);
	return !bpf_xdp_load_bytes(ctx, 0, to, ADDRESSES) &&
	       !bpf_xdp_load_bytes(ctx, from, to + ADDRESSES, rest_but_one + 1);
}

static long match_one(__u32 index, struct request *m)
{
	struct port_responses *all;
	struct port_filter *f;
	__u32 zero = 0;

	all = bpf_map_lookup_elem(&responses, &zero);
	if (!all || index >= PORT_MAX_RESPONSES)
		return 1;
	f = &all->tables[m->version % PORT_COPIES].filters[index];
	if (m->length < f->length)
		return 0;
#pragma unroll
	for (int i = 0; i < PORT_FILTER_WORDS; i++) {
		if ((m->start[i] & f->mask[i]) != f->value[i])
			return 0;
	}
	m->slot = f->slot;
	m->generation = f->generation;
	m->found = true;
	return 1;
}

/* Finds the oldest response to a frame. */
static __always_inline bool find(struct port_responses *all, struct request *m)
{
	m->found = false;
	m->version = read_once(&all->version.current);
	bpf_loop(all->tables[m->version % PORT_COPIES].count, match_one, m, 0);
	return m->found;
}

enum answer {
	ANSWERED,
	CHANGED, /* the process changed the data during the read */
	REFUSED, /* no room in the buffer for an answer longer than the frame */
};

/*
 * Some drivers leave no room after a frame (veth: what the sender's buffer happens to have). All
 * leave some before it, and the answer replaces the whole frame.
 */
static __always_inline bool resize(struct xdp_md *ctx, __u32 length)
{
	int more = (int)length - (int)bpf_xdp_get_buff_len(ctx);

	return !bpf_xdp_adjust_tail(ctx, more) || (more > 0 && !bpf_xdp_adjust_head(ctx, -more));
}

/* Replaces the received frame with the slot's frame. */
static __always_inline enum answer answer(struct xdp_md *ctx, struct port_responses *all,
					  struct request *m)
{
	struct port_slot *slot = bpf_map_lookup_elem(&slots, &m->slot);
	struct port_copy *copy;
	__u32 version, length;

	if (!slot)
		return REFUSED;
	version = read_once(&slot->version.current);
	copy = &slot->copies[version % PORT_COPIES];
	length = read_once(&copy->length);
	if (length < SHORTEST || length > PORT_MAX_FRAME)
		return CHANGED;
	if (!resize(ctx, length))
		return REFUSED;
	KEEP(length);
	if (length < SHORTEST || length > PORT_MAX_FRAME)
		return CHANGED;
	if (bpf_xdp_store_bytes(ctx, 0, copy->octets, length))
		return REFUSED;
	if (read_after(&slot->version.begun) - version >= PORT_COPIES)
		return CHANGED;
	/* The response may be removed, and its slot hold another response's frame. */
	return read_after(&all->version.current) == m->version ? ANSWERED : CHANGED;
}

/* Answers the frame; returns false if it could not. The responses may change meanwhile. */
static __noinline bool respond(struct xdp_md *ctx, struct port_responses *all, struct request *m)
{
	for (int i = 0; i < ATTEMPTS; i++) {
		enum answer result = answer(ctx, all, m);

		if (result != CHANGED)
			return result == ANSWERED;
		/* The frame may be overwritten, but the octets for the filters were kept. */
		if (!find(all, m))
			return false;
	}
	return false;
}

/* Sends the frame that became an answer. */
static __always_inline int transmit(struct xdp_md *ctx, __u64 transmission)
{
	if (transmission == PORT_TRANSMIT_REDIRECT)
		return bpf_redirect(ctx->ingress_ifindex, 0);
	return XDP_TX;
}

/* Answers a frame without a record for the process. */
static __always_inline int respond_unreported(struct xdp_md *ctx, struct port_responses *all,
					      struct request *m, struct port_state *s,
					      __u64 transmission)
{
	if (respond(ctx, all, m)) {
		__sync_fetch_and_add(&s->answered_unreported, 1);
		return transmit(ctx, transmission);
	}
	__sync_fetch_and_add(&s->unanswered_unreported, 1);
	return XDP_DROP;
}

/*
 * Answers the frame by the driver, or delivers it to the port's socket if no response matches.
 * The answer uses the buffer: the received frame is passed to the process as a record.
 */
static __always_inline int respond_or_deliver(struct xdp_md *ctx, const struct frame *f, __u64 now)
{
	struct port_responses *all;
	struct port_record *record;
	struct port_state *s;
	struct request m = {};
	__u64 transmission, process;
	__u32 zero = 0;
	bool wakes;
	int action;

	all = bpf_map_lookup_elem(&responses, &zero);
	s = bpf_map_lookup_elem(&state, &zero);
	if (!all || !s)
		return XDP_ABORTED;
	transmission = *(volatile __u64 *)&s->transmission;
	if (transmission == PORT_TRANSMIT_NONE)
		return deliver(ctx, now);
	m.length = f->length - (f->tpid ? TAG : 0);
	if (!copy_untagged(ctx, f, m.start, sizeof(m.start)) || !find(all, &m))
		return deliver(ctx, now);

	/* The verifier of Linux 6.1 loses track of a reserved record: it is reserved once. */
	record = bpf_ringbuf_reserve(&records, sizeof(*record), 0);
	if (!record)
		return respond_unreported(ctx, all, &m, s, transmission);
	if (!copy_untagged(ctx, f, record->octets, sizeof(record->octets))) {
		bpf_ringbuf_discard(record, BPF_RB_NO_WAKEUP);
		return respond_unreported(ctx, all, &m, s, transmission);
	}
	record->received_ns = now;
	record->answered_ns = respond(ctx, all, &m) ? bpf_ktime_get_tai_ns() : 0;
	record->slot = m.slot;
	record->generation = m.generation;
	record->tpid = bpf_ntohs(f->tpid);
	record->tci = bpf_ntohs(f->tci);
	record->length = m.length;
	action = record->answered_ns ? transmit(ctx, transmission) : XDP_DROP;
	process = *(volatile __u64 *)&s->process;
	wakes = process == PORT_WAITS_FOR_ALL ||
		(process == PORT_WAITS_FOR_UNANSWERED && !record->answered_ns);
	bpf_ringbuf_submit(record, wakes ? BPF_RB_FORCE_WAKEUP : BPF_RB_NO_WAKEUP);
	return action;
}

#endif
