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

/* The longest one; after a time beyond the timeout, the function is reset. */
static __always_inline void note_gap(const struct recovery *f, struct frer_recovery_record *record,
				     __u64 gap)
{
	if (gap > record->gap_ns && gap < f->r->config.timeout_ns)
		WRITE_ONCE(record->gap_ns, gap);
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

/* Parameters that change while packets use them. */
static __always_inline __u16 recovery_flags(const struct recovery *f)
{
	return f->r->config.flags;
}

static __always_inline __s32 history_length(const struct recovery *f)
{
	return f->r->config.history_length;
}

static __always_inline void set_history_length(const struct recovery *f, __u16 length)
{
	WRITE_ONCE(f->r->config.history_length, length);
}

static __always_inline __u64 *word_of(const struct recovery *f, __u32 epoch, __u16 mask, __u32 ring)
{
	__u32 word = epoch & mask, slot;
	struct frer_ring_line *line;

	if (mask < FRER_INLINE_WORDS)
		return &f->r->ring[word & (FRER_INLINE_WORDS - 1)];
	slot = ring + word / FRER_INLINE_WORDS;
	line = bpf_map_lookup_elem(&rings, &slot);
	if (!line)
		return NULL;
	/* The compiler adds to the pointer before it is checked, which the verifier rejects. */
	asm volatile("" : "+r"(line));
	return &line->word[word & (FRER_INLINE_WORDS - 1)];
}

static __always_inline __u64 *ring_word(const struct recovery *f, __u32 epoch)
{
	return word_of(f, epoch, f->r->config.ring_mask, f->r->config.ring);
}

static __always_inline __u64 *deciding_word(const struct recovery *f, bool moving, __u32 epoch)
{
	__u16 mask = moving ? f->r->config.former_mask : f->r->config.ring_mask;
	__u32 ring = moving ? f->r->config.former_ring : f->r->config.ring;

	return word_of(f, epoch, mask, ring);
}

#include "recover.h"

#endif
