/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The state of recovery functions in tables, and the accesses of recover.h to it. */
#ifndef ONBEAT_RECOVER_STATE_H
#define ONBEAT_RECOVER_STATE_H

#include "maps.h"

#define RECOVER_GLOBAL __noinline

/* Whether the machine may perform loads in another order than the program has. */
#ifdef __TARGET_ARCH_x86
#define WEAK_ORDER false
#else
#define WEAK_ORDER true
#endif

struct recovery {
	struct frer_recovery *r;
};

/*
 * Acquire. Where loads are in order, a plain one is sufficient; elsewhere, BPF of the supported
 * kernels has no weaker access with an order than an atomic addition.
 */
static __always_inline __u64 recover_load(__u64 *at)
{
	return WEAK_ORDER ? __sync_fetch_and_add(at, 0) : READ_ONCE(*at);
}

/* Ordered with all other accesses. Returns the former value. */
static __always_inline __u64 recover_cas(__u64 *at, __u64 old, __u64 new)
{
	return __sync_val_compare_and_swap(at, old, new);
}

static __always_inline void recover_count(__u64 *at, __u64 number)
{
	__sync_fetch_and_add(at, number);
}

static __always_inline bool find_recovery(__u32 slot, struct recovery *f)
{
	f->r = bpf_map_lookup_elem(&recoveries, &slot);
	return f->r;
}

static __always_inline struct frer_recovery_record *find_record(__u32 slot)
{
	return bpf_map_lookup_elem(&recovery_records, &slot);
}

static __always_inline __u64 *ring_word(const struct recovery *f, __u32 epoch)
{
	__u32 word = epoch & f->r->config.ring_mask, slot;
	struct frer_ring_line *line;

	if (f->r->config.ring_mask < FRER_INLINE_WORDS)
		return &f->r->ring[word & (FRER_INLINE_WORDS - 1)];
	slot = f->r->config.ring + word / FRER_INLINE_WORDS;
	line = bpf_map_lookup_elem(&rings, &slot);
	return line ? &line->word[word & (FRER_INLINE_WORDS - 1)] : NULL;
}

#include "recover.h"

#endif
