/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Whether the host port of a RedBox is blocked: onbeat_frer::prp::HostPort. */
#ifndef ONBEAT_HOST_PORT_H
#define ONBEAT_HOST_PORT_H

#include "lre_frame.h"

/* onbeat_wire::prp::hello */
#define HELLO_TLV     200
#define HELLO_ON_LAN  1
#define HELLO_SERVES  2
#define TLV_NODE      20
#define TLV_REDBOX    30
#define PRP_VERSION_1 bpf_htons(1)

struct address_tlv {
	__u8 type;
	__u8 length;
	__u8 address[6];
};

struct hello {
	__u8 destination[6];
	__u8 source[6];
	__be16 ethertype;
	__be16 version;
	__be16 number;
	struct address_tlv node;
	struct address_tlv redbox;
	__u8 state_type;
	__u8 state_length;
	__u8 state;
	__u8 end[2];
} __attribute__((packed));

/* Whether a TLV of this type has the address of the frame's source. */
static __always_inline bool is_of_source(const struct address_tlv *tlv, const struct hello *hello,
					 __u8 type)
{
	bool is_equal = tlv->type == type && tlv->length == sizeof(tlv->address);

#pragma unroll
	for (int i = 0; i < (int)sizeof(tlv->address); i++)
		is_equal &= tlv->address[i] == hello->source[i];
	return is_equal;
}

static __always_inline bool is_hello(const struct hello *hello)
{
	return !(hello->source[0] & 1) && hello->version == PRP_VERSION_1 &&
	       is_of_source(&hello->node, hello, TLV_NODE) &&
	       is_of_source(&hello->redbox, hello, TLV_REDBOX) && hello->state_type == HELLO_TLV &&
	       hello->state_length == 1 && !hello->end[0] && !hello->end[1];
}

/* The greatest one has precedence: it hears a LAN, it serves, it has the smallest address. */
static __always_inline __u64 rank(bool is_on_lan, bool serves, __u64 address)
{
	/* Its first octet is the lowest one. */
	__u64 order = ~__builtin_bswap64(address) >> 16;

	return (__u64)is_on_lan << 63 | (__u64)serves << 62 | order;
}

/* Whether its process has sent no hello lately. */
static __always_inline bool is_silent(const struct frer_lre *e, __u64 now)
{
	return (__s64)(now - READ_ONCE(e->hello_ns)) > (__s64)FRER_LRE_OWN_SILENCE;
}

static __always_inline bool is_port_blocked(const struct frer_lre *e, __u64 now)
{
	return now < READ_ONCE(e->blocked_until_ns) ||
	       (READ_ONCE(e->blocked_by) && is_silent(e, now));
}

/* Note a supervision frame from the host port: HostPort::hear. Not static: verified once. */
__noinline int hear(struct xdp_md *ctx, __u64 source)
{
	__u32 zero = 0;
	struct frer_lre *e = bpf_map_lookup_elem(&lre, &zero);
	__u64 now = lre_now_ns(), until_ns, own_rank;
	struct hello hello;
	bool is_preceded;

	if (!e)
		return 0;
	if (source == e->mac) {
		WRITE_ONCE(e->blocked_by, source);
		WRITE_ONCE(e->blocked_until_ns, now + e->blocked_ns);
		return 1;
	}
	if (bpf_xdp_load_bytes(ctx, 0, &hello, sizeof(hello)) || !is_hello(&hello))
		return 0;
	WRITE_ONCE(e->other_ns, now);
	if (is_port_blocked(e, now) && READ_ONCE(e->blocked_by) == e->mac)
		return 0;
	until_ns = READ_ONCE(e->blocked_until_ns);
	own_rank = rank(READ_ONCE(e->is_on_lan), !is_port_blocked(e, now), e->mac);
	is_preceded = is_silent(e, now) || rank(hello.state & HELLO_ON_LAN,
						hello.state & HELLO_SERVES, source) > own_rank;
	if (is_preceded) {
		WRITE_ONCE(e->blocked_by, source);
		WRITE_ONCE(e->blocked_until_ns, now + e->blocked_ns);
	} else if (READ_ONCE(e->blocked_by) == source && now + e->yielding_ns < until_ns) {
		WRITE_ONCE(e->blocked_until_ns, now + e->yielding_ns);
	}
	return is_preceded;
}

/* Whether the host port is blocked. It keeps no value of its caller, whose stack is full
 * (Linux 6.1). */
__noinline int is_blocked(void)
{
	__u32 zero = 0;
	struct frer_lre *e = bpf_map_lookup_elem(&lre, &zero);

	return e && is_port_blocked(e, lre_now_ns());
}

#endif
