/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Sets of values by hash, each with the fewest preemptions that it was reached with. The includer
 * provides `fail`.
 */
#ifndef ONBEAT_EXPLORE_VISITED_H
#define ONBEAT_EXPLORE_VISITED_H

#include <sys/mman.h>

/* The preemptions take the low bits of an entry, the hash the others; an unused entry is 0. */
#define PREEMPTION_BITS 5
#define MAX_PREEMPTIONS ((1 << PREEMPTION_BITS) - 1)
#define FIRST_SIZE	(1 << 12)
#define HUGE_PAGE	(2 << 20)

struct visited {
	__u64 *entries;
	size_t size, count;
};

enum visit {
	VISIT_FIRST,
	VISIT_FEWER, /* it was reached before, with more preemptions */
	VISIT_KNOWN,
};

static void visited_clear(struct visited *v)
{
	free(v->entries);
	*v = (struct visited){};
}

static void visited_grow(struct visited *v)
{
	struct visited larger = {.size = v->size ? 2 * v->size : FIRST_SIZE, .count = v->count};
	size_t octets = larger.size * sizeof(*larger.entries);

	if (octets < HUGE_PAGE) {
		larger.entries = calloc(larger.size, sizeof(*larger.entries));
	} else {
		/* Nearly every access misses the cache: let it not miss the TLB, too. */
		larger.entries = aligned_alloc(HUGE_PAGE, octets);
		if (larger.entries) {
			madvise(larger.entries, octets, MADV_HUGEPAGE);
			memset(larger.entries, 0, octets);
		}
	}
	if (!larger.entries)
		fail("no memory for %zu states", larger.size);
	for (size_t i = 0; i < v->size; i++) {
		size_t at = v->entries[i] >> PREEMPTION_BITS & (larger.size - 1);

		if (!v->entries[i])
			continue;
		while (larger.entries[at])
			at = (at + 1) & (larger.size - 1);
		larger.entries[at] = v->entries[i];
	}
	free(v->entries);
	*v = larger;
}

static enum visit visit(struct visited *v, __u64 hash, __u32 preemptions)
{
	__u64 entry;

	/* Not 0. */
	hash = (hash | (MAX_PREEMPTIONS + 1)) & ~(__u64)MAX_PREEMPTIONS;
	if (3 * v->count >= 2 * v->size)
		visited_grow(v);
	for (size_t at = hash >> PREEMPTION_BITS & (v->size - 1);; at = (at + 1) & (v->size - 1)) {
		entry = v->entries[at];
		if (!entry) {
			v->entries[at] = hash | preemptions;
			v->count++;
			return VISIT_FIRST;
		}
		if ((entry ^ hash) > MAX_PREEMPTIONS)
			continue;
		if ((entry & MAX_PREEMPTIONS) <= preemptions)
			return VISIT_KNOWN;
		v->entries[at] = hash | preemptions;
		return VISIT_FEWER;
	}
}

#endif
