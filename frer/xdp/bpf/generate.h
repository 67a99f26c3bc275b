/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Sequence generation (802.1CB 7.4.1). */
#ifndef ONBEAT_GENERATE_H
#define ONBEAT_GENERATE_H

#include "maps.h"
#include "parse.h"

/*
 * Only this program draws numbers of the port's generators: they have no keys at other ports, and
 * the driver processes frames of the port one at a time, in one receive queue.
 */
const volatile bool exclusive_generators;

/*
 * Concurrent CPUs draw each number once. An atomic addition waits until all stores before it have
 * reached the cache; an exclusive generator needs none. Its port may get more receive queues: the
 * first frame of another one marks the generator, and all frames then use the atomic addition. The
 * mark is lost, or a number drawn twice, only if a frame of queue 0 is between its load and store
 * at that moment.
 */
static __always_inline __u64 next_number(const struct xdp_md *ctx, struct frer_generator *generator)
{
	__u64 next;

	if (exclusive_generators) {
		next = READ_ONCE(generator->next);
		if (likely(!ctx->rx_queue_index && !(next & FRER_GENERATOR_SHARED))) {
			WRITE_ONCE(generator->next, next + 1);
			return next;
		}
		if (!(next & FRER_GENERATOR_SHARED))
			__sync_fetch_and_or(&generator->next, FRER_GENERATOR_SHARED);
	}
	return __sync_fetch_and_add(&generator->next, 1);
}

/* Draw the next number for a frame without one. */
static __always_inline void generate(const struct xdp_md *ctx, struct frer_generator *generator,
				     struct headers *h)
{
	if (h->tag != TAG_NONE)
		return;
	h->sequence = next_number(ctx, generator);
	h->tag = TAG_GENERATED;
}

#endif
