/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Sequence generation (802.1CB 7.4.1). */
#ifndef ONBEAT_GENERATE_H
#define ONBEAT_GENERATE_H

#include "maps.h"
#include "parse.h"

/* Draw the next number for a frame without one; concurrent CPUs draw each number once. */
static __always_inline void generate(struct frer_generator *generator, struct headers *h)
{
	if (h->tag != TAG_NONE)
		return;
	h->sequence = __sync_fetch_and_add(&generator->next, 1);
	h->tag = TAG_GENERATED;
}

#endif
