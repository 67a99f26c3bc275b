/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Automatic responses: the frame becomes its answer, and is sent by the driver. */
#ifndef ONBEAT_RESPOND_H
#define ONBEAT_RESPOND_H

#include "receive.h"

#define SHORTEST       (ADDRESSES + 2)
#define ATTEMPTS       4
#define INLINE_FILTERS 2
#define MINIMUM	       60 /* octets of a frame */

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
	union {
		__u64 words[PORT_FILTER_WORDS];
		__u32 halves[2 * PORT_FILTER_WORDS];
	} start;
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

/* For the verifier: the checked bound applies to the register that is used. */
#define KEEP(variable) asm volatile("" : "+r"(variable))

/*
 * Orders later reads after earlier ones, on every machine. An atomic operation on a shared
 * variable would also take its cache line from the process.
 */
static __always_inline void read_barrier(void)
{
	__u64 own = 0, former = __sync_fetch_and_add(&own, 1);

	/* An operation without a result does not order on every machine. */
	KEEP(former);
}

/* Copies `count` octets, but at most `room`; makes the bound visible to the verifier of Linux 6.1.
 */
static __always_inline bool load(struct xdp_md *ctx, __u32 from, void *to, __u32 count, __u32 room)
{
	__u32 count_but_one = count - 1;

	KEEP(count_but_one);
	if (count_but_one > room - 1)
		count_but_one = room - 1;
	KEEP(count_but_one);
	return !bpf_xdp_load_bytes(ctx, from, to, count_but_one + 1);
}

/* Copies a frame of minimum length: without a helper, whose code is in no cache between two
 * requests. */
static __always_inline void copy_minimum(void *to, const void *from)
{
	const __u64 *words = from;
	__u64 *copies = to;

#pragma unroll
	for (int i = 0; i < MINIMUM / 8; i++)
		copies[i] = words[i];
	*(__u32 *)(to + MINIMUM / 8 * 8) = *(const __u32 *)(from + MINIMUM / 8 * 8);
}

/* Copies up to `room` octets of the frame, without its tag. */
static __always_inline bool copy_untagged(struct xdp_md *ctx, const struct frame *f, void *to,
					  __u32 room)
{
	const __u32 rest = ADDRESSES + TAG;

	if (!f->tpid)
		return load(ctx, 0, to, f->length, room);
	return !bpf_xdp_load_bytes(ctx, 0, to, ADDRESSES) &&
	       load(ctx, rest, to + ADDRESSES, f->length - rest, room - ADDRESSES);
}

/* Reads the octets that filters compare; those after the end of the frame are 0. */
static __always_inline bool read_start(struct xdp_md *ctx, const struct frame *f, struct request *m)
{
	const void *data = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end;
	const __u32 *from = data;

	if (f->tpid || data + sizeof(m->start) > end)
		return copy_untagged(ctx, f, &m->start, sizeof(m->start));
#pragma unroll
	for (int i = 0; i < 2 * PORT_FILTER_WORDS; i++)
		m->start.halves[i] = from[i];
	return true;
}

static __always_inline bool matches(const struct port_filter *f, struct request *m)
{
	if (m->length < f->length)
		return false;
#pragma unroll
	for (int i = 0; i < PORT_FILTER_WORDS; i++) {
		if ((m->start.words[i] & f->mask[i]) != f->value[i])
			return false;
	}
	m->slot = f->slot;
	m->generation = f->generation;
	m->found = true;
	return true;
}

static long match_one(__u32 index, struct request *m)
{
	struct port_responses *all;
	__u32 zero = 0;

	all = bpf_map_lookup_elem(&responses, &zero);
	index += INLINE_FILTERS;
	if (!all || index >= PORT_MAX_RESPONSES)
		return 1;
	return matches(&all->tables[m->version % PORT_COPIES].filters[index], m);
}

/* Finds the oldest response to a frame. */
static __noinline bool find(struct port_responses *all, struct request *m)
{
	const struct port_table *table;
	__u64 count;

	m->found = false;
	m->version = read_once(&all->version.current);
	table = &all->tables[m->version % PORT_COPIES];
	count = table->count;
	/* The loop of the kernel calls a function per filter: more than a comparison costs. */
#pragma unroll
	for (__u32 i = 0; i < INLINE_FILTERS; i++) {
		if (i >= count)
			return false;
		if (matches(&table->filters[i], m))
			return true;
	}
	if (count > INLINE_FILTERS)
		bpf_loop(count - INLINE_FILTERS, match_one, m, 0);
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
	int more = (int)length - (int)(ctx->data_end - ctx->data);

	return !more || !bpf_xdp_adjust_tail(ctx, more) ||
	       (more > 0 && !bpf_xdp_adjust_head(ctx, -more));
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
	if (length == MINIMUM) {
		void *data = (void *)(long)ctx->data;

		if (data + MINIMUM > (void *)(long)ctx->data_end)
			return REFUSED;
		copy_minimum(data, copy->octets);
	} else if (bpf_xdp_store_bytes(ctx, 0, copy->octets, length)) {
		return REFUSED;
	}
	read_barrier();
	if (read_once(&slot->version.begun) - version >= PORT_COPIES)
		return CHANGED;
	/* The response may be removed, and its slot hold another response's frame. */
	return read_once(&all->version.current) == m->version ? ANSWERED : CHANGED;
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

/* Copies the frame to a record with space for `room` octets. */
static __always_inline bool copy_to_record(struct xdp_md *ctx, const struct frame *f,
					   struct port_record *record, __u32 room)
{
	void *data = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end;

	if (f->tpid || f->length != MINIMUM || data + MINIMUM > end)
		return copy_untagged(ctx, f, record->octets, room);
	copy_minimum(record->octets, data);
	return true;
}

/* Answers a frame, and passes it to the process as a record: the answer uses its buffer. */
static __always_inline int respond_reported(struct xdp_md *ctx, const struct frame *f, __u64 now,
					    struct port_responses *all, struct request *m,
					    struct port_state *s, __u64 transmission,
					    const __u32 room)
{
	struct port_record *record = bpf_ringbuf_reserve(&records, sizeof(*record) + room, 0);
	__u64 process;
	bool wakes;
	int action;

	if (!record)
		return respond_unreported(ctx, all, m, s, transmission);
	/* A second check of `record` for NULL would fail on Linux 6.1. */
	if (!copy_to_record(ctx, f, record, room)) {
		bpf_ringbuf_discard(record, BPF_RB_NO_WAKEUP);
		return respond_unreported(ctx, all, m, s, transmission);
	}
	record->received_ns = now;
	record->answered_ns = respond(ctx, all, m) ? bpf_ktime_get_tai_ns() : 0;
	record->slot = m->slot;
	record->generation = m->generation;
	record->tpid = bpf_ntohs(f->tpid);
	record->tci = bpf_ntohs(f->tci);
	record->length = m->length;
	action = record->answered_ns ? transmit(ctx, transmission) : XDP_DROP;
	process = *(volatile __u64 *)&s->process;
	wakes = process == PORT_WAITS_FOR_ALL ||
		(process == PORT_WAITS_FOR_UNANSWERED && !record->answered_ns);
	bpf_ringbuf_submit(record, wakes ? BPF_RB_FORCE_WAKEUP : BPF_RB_NO_WAKEUP);
	return action;
}

/*
 * Prepares the answer to a request, which often follows another frame of the port by some
 * microseconds (POWERLINK: SoC, then PReq): since the last cycle, its memory and code have left the
 * caches of this CPU. Reads the frame of the oldest response, and reserves a record without use:
 * only in an empty ring, so that it never takes the room of a request.
 */
static __always_inline void prepare(const struct port_responses *all)
{
	const struct port_table *table =
	    &all->tables[read_once(&all->version.current) % PORT_COPIES];
	__u32 index = read_once(&table->filters[0].slot), read;
	const struct port_copy *copy;
	const struct port_slot *slot;
	struct port_record *record;

	if (!table->count)
		return;
	slot = bpf_map_lookup_elem(&slots, &index);
	if (!slot)
		return;
	copy = &slot->copies[read_once(&slot->version.current) % PORT_COPIES];
	read = read_once(&copy->length) + read_once((const __u32 *)(copy->octets + MINIMUM));
	KEEP(read);
	if (bpf_ringbuf_query(&records, BPF_RB_AVAIL_DATA))
		return;
	record = bpf_ringbuf_reserve(&records, sizeof(*record) + PORT_SHORT_RECORD, 0);
	if (!record)
		return;
	*(volatile __u64 *)&record->received_ns = 0;
	bpf_ringbuf_discard(record, BPF_RB_NO_WAKEUP);
}

/* Answers the frame by the driver, or delivers it to the port's socket if no response matches. */
static __always_inline int respond_or_deliver(struct xdp_md *ctx, const struct frame *f, __u64 now)
{
	struct port_responses *all;
	struct port_state *s;
	struct request m = {};
	__u64 transmission;
	__u32 zero = 0;

	all = bpf_map_lookup_elem(&responses, &zero);
	s = bpf_map_lookup_elem(&state, &zero);
	if (!all || !s)
		return XDP_ABORTED;
	transmission = *(volatile __u64 *)&s->transmission;
	if (transmission == PORT_TRANSMIT_NONE)
		return deliver(ctx, now);
	m.length = f->length - (f->tpid ? TAG : 0);
	if (!read_start(ctx, f, &m) || !find(all, &m)) {
		prepare(all);
		return deliver(ctx, now);
	}
	/* The ring reserves constant sizes. Short records are spread over fewer pages. */
	if (m.length <= PORT_SHORT_RECORD)
		return respond_reported(ctx, f, now, all, &m, s, transmission, PORT_SHORT_RECORD);
	return respond_reported(ctx, f, now, all, &m, s, transmission, PORT_MAX_FRAME);
}

#endif
