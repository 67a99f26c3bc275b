/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Stream identification (802.1CB clause 6): maps a frame to its member stream, if any. */
#ifndef ONBEAT_IDENTIFY_H
#define ONBEAT_IDENTIFY_H

#include "maps.h"
#include "parse_ip.h"

/* Number of lines in the first third of the index, a power of two, less one. */
const volatile __u32 index_mask;

/* The line of the index with all keys of the port, or FRER_NONE: it is searched first. */
const volatile __u32 port_line;

/*
 * The VID to look up a shape with, or -1 if the shape cannot match a frame with outer VID `vid`.
 * A tag with VID 0 carries a priority and no VLAN: it counts as no tag.
 */
static __always_inline int key_vid(__u16 shape, __u16 vid)
{
	switch (shape & FRER_SHAPE_VLAN) {
	case FRER_VLAN_EXACT:
		return vid ? vid : -1;
	case FRER_VLAN_ANY:
		return vid ? 0 : -1;
	case FRER_VLAN_PRIORITY:
		return vid ? -1 : 0;
	case FRER_VLAN_ALL_VID:
		return vid;
	default:
		return 0;
	}
}

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__,
	       "keys and hashes are made of a frame's octets as this byte order reads them");

/* Look up a layer 2 key in one line of the index. */
static __always_inline __u64 find_in_line(__u32 line, __u64 address, __u64 found_key)
{
	struct frer_index_line *entries = bpf_map_lookup_elem(&l2_index, &line);

	if (!entries)
		return 0;
#pragma unroll
	for (int i = 0; i < FRER_INDEX_ENTRIES; i++) {
		__u64 found = READ_ONCE(entries->entry[i].found);

		if (READ_ONCE(entries->entry[i].address) == address &&
		    found >> FRER_FOUND_KEY == found_key)
			return found;
	}
	return 0;
}

/* The line of an address: its last three octets number lines of two addresses. */
static __always_inline __u32 first_line(__u64 address)
{
	__u32 number = (__u32)(__builtin_bswap64(address) >> 16);
	__u64 rest = (address & 0xffffff) | address >> 48 << 24;

	return ((number & 0xffffff) >> 1) + (rest * FRER_INDEX_FACTOR >> 32);
}

static __always_inline __u64 find_l2(const __u32 *mac, __u16 frame_vid, __u32 shape, __u32 port)
{
	int vid = key_vid(shape, frame_vid);
	__u64 found_key = shape | port << 8 | FRER_FOUND;
	__u32 rest = 2 * index_mask + 1;
	__u64 address, hash, found;

	if (vid < 0)
		return 0;
	if (shape & FRER_SHAPE_SOURCE)
		address = mac[1] >> 16 | (__u64)mac[2] << 16;
	else
		address = mac[0] | (__u64)(mac[1] & 0xffff) << 32;
	address |= (__u64)(vid | FRER_KEY) << 48;
	if (port_line != FRER_NONE) {
		/* No load of it depends on the frame. */
		found = find_in_line(port_line, address, found_key);
		if (found)
			return found;
	}
	found = find_in_line(first_line(address) & index_mask, address, found_key);
	if (found)
		return found;
	hash = address ^ found_key * FRER_INDEX_FACTOR;
	hash = (hash ^ hash >> 32) * FRER_INDEX_FACTOR;
	hash = (hash ^ hash >> 32) * FRER_INDEX_FACTOR;
	found = find_in_line(index_mask + 1 + ((hash >> 32) & rest), address, found_key);
	if (found)
		return found;
	return find_in_line(index_mask + 1 + ((__u32)hash & rest), address, found_key);
}

/*
 * The functions below are global: the verifier checks each once, by itself, instead of once per
 * path through its caller, of which a list of shapes has many.
 */

__noinline __u64 find_ip(const struct ip_fields *ip, __u32 shape, __u32 frame_vid, __u32 port)
{
	struct frer_ip_key key;
	__u64 *found;
	int vid;

	if (!ip)
		return 0;
	vid = key_vid(shape, frame_vid);
	if (vid < 0)
		return 0;
	if ((shape & (FRER_SHAPE_SPORT | FRER_SHAPE_DPORT)) && !ip->has_ports)
		return 0;
	__builtin_memset(&key, 0, sizeof(key));
	key.shape = shape;
	key.vid = vid;
	key.port = port;
	key.version = ip->version;
	__builtin_memcpy(key.mac, ip->mac, 6);
	__builtin_memcpy(key.destination, ip->destination, 16);
	if (shape & FRER_SHAPE_IP_SRC)
		__builtin_memcpy(key.source, ip->source, 16);
	if (shape & FRER_SHAPE_DSCP)
		key.dscp = ip->dscp;
	if (shape & FRER_SHAPE_PROTO)
		key.protocol = ip->protocol;
	if (shape & FRER_SHAPE_SPORT)
		key.sport = ip->sport;
	if (shape & FRER_SHAPE_DPORT)
		key.dport = ip->dport;
	found = bpf_map_lookup_elem(&ip_streams, &key);
	return found ? READ_ONCE(*found) : 0;
}

/* The frame's IP fields; its IP header follows the first `payload` octets. */
__noinline int read_ip(struct xdp_md *ctx, __u32 ethertype, __u32 payload, struct ip_fields *ip)
{
	struct cursor c = {(void *)(long)ctx->data, (void *)(long)ctx->data_end};
	__u8 *mac = take(&c, ADDRESSES);

	/* The mask shows the verifier a bound that parse_headers ensures. */
	if (!ip || !mac || !take(&c, (payload - ADDRESSES) & 0x1f))
		return false;
	__builtin_memcpy(ip->mac, mac, 6);
	return parse_ip(&c, ethertype, bpf_xdp_get_buff_len(ctx) - payload, ip);
}

__noinline __u64 identify_ip(struct xdp_md *ctx, __u32 ethertype, __u32 payload, __u32 vid,
			     __u32 port)
{
	struct ip_fields ip = {};
	struct frer_shapes *n;
	struct frer_node *nd;
	__u32 zero = 0;
	__u64 found;

	nd = bpf_map_lookup_elem(&node, &zero);
	if (!nd || !read_ip(ctx, ethertype, payload, &ip))
		return 0;
	n = &nd->shapes[nd->active % FRER_SHAPE_SETS];
	for (__u32 i = 0; i < FRER_MAX_SHAPES && i < n->ip_count; i++) {
		found = find_ip(&ip, n->ip[i], vid, port);
		if (found)
			return found;
	}
	return 0;
}

/* Look up the members with the masks at `index` of the node's list; the MSDU starts at `msdu`. */
__noinline __u64 find_mask(struct xdp_md *ctx, __u32 index, __u32 msdu, __u32 port)
{
	struct frer_mask_key key = {.port = port};
	__u64 *octets = (__u64 *)key.octets, *mask, *found;
	struct frer_mask *m;
	struct frer_node *nd;
	__u32 zero = 0, length;

	nd = bpf_map_lookup_elem(&node, &zero);
	if (!nd || index >= FRER_MAX_MASKS)
		return 0;
	m = &nd->shapes[nd->active % FRER_SHAPE_SETS].masks[index];
	mask = (__u64 *)m->octets;
	length = m->msdu_length;
	key.mask = m->id;
	if (bpf_xdp_load_bytes(ctx, 0, key.octets, ADDRESSES))
		return 0;
	if (length) {
		/*
		 * The loader ensures that it is not longer. From the comparison alone the
		 * verifier of Linux 6.1 does not infer that the length is not 0.
		 */
		length = ((length - 1) & (FRER_MASK_MSDU - 1)) + 1;
		if (bpf_xdp_load_bytes(ctx, msdu, key.octets + ADDRESSES, length))
			return 0;
	}
	for (int i = 0; i < FRER_MASK_LEN / 8; i++)
		octets[i] &= mask[i];
	found = bpf_map_lookup_elem(&mask_streams, &key);
	return found ? READ_ONCE(*found) : 0;
}

__noinline __u64 identify_masked(struct xdp_md *ctx, __u32 count, __u32 msdu, __u32 port)
{
	__u64 found;

	for (__u32 i = 0; i < FRER_MAX_MASKS && i < count; i++) {
		found = find_mask(ctx, i, msdu, port);
		if (found)
			return found;
	}
	return 0;
}

/*
 * The word of the frame's member (abi/frer.h), or 0. Only the fields that the node's streams
 * require are read. The lower half of `offsets` is the offset of the payload, the upper half that
 * of the MSDU.
 */
__noinline __u64 identify(struct xdp_md *ctx, __u32 ethertype, __u32 offsets, __u32 vid, __u32 port)
{
	struct cursor c = {(void *)(long)ctx->data, (void *)(long)ctx->data_end};
	struct frer_shapes *n;
	struct frer_node *nd;
	__u32 zero = 0;
	__u64 found;
	__u32 *mac;

	nd = bpf_map_lookup_elem(&node, &zero);
	if (!nd)
		return 0;
	n = &nd->shapes[nd->active % FRER_SHAPE_SETS];
	if (n->ip_count) {
		found = identify_ip(ctx, ethertype, offsets & 0xffff, vid, port);
		if (found)
			return found;
	}
	if (n->mask_count) {
		found = identify_masked(ctx, n->mask_count, offsets >> 16, port);
		if (found)
			return found;
	}
	mac = take(&c, ADDRESSES);
	if (!mac)
		return 0;
	for (__u32 i = 0; i < FRER_MAX_SHAPES && i < n->l2_count; i++) {
		found = find_l2(mac, vid, n->l2[i], port);
		if (found)
			return found;
	}
	return 0;
}

#endif
