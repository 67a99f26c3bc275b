/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Fewer bits than abi/frer.h has: numbers and words wrap around within a few packets. */
#ifndef ONBEAT_EXPLORE_GEOMETRY_H
#define ONBEAT_EXPLORE_GEOMETRY_H

#include <linux/types.h>

/* Set by the test: bits of a number, of a word's position in the ring, and words of the ring. */
#ifndef GEOMETRY_NUMBER
#define GEOMETRY_NUMBER 5
#endif
#ifndef GEOMETRY_SHIFT
#define GEOMETRY_SHIFT 2
#endif
#ifndef GEOMETRY_RING
#define GEOMETRY_RING 4
#endif

#define FRER_NUMBER_BITS     GEOMETRY_NUMBER
#define FRER_LAP_BITS	     4
#define FRER_GENERATION_BITS 3
#define FRER_SEEN_SHIFT	     GEOMETRY_SHIFT
#define FRER_SEEN_BITS	     (1 << GEOMETRY_SHIFT)
#define FRER_SEEN_MASK	     ((1ULL << FRER_SEEN_BITS) - 1)
#define FRER_MAX_HISTORY     8
#define FRER_RING_WORDS	     8

#endif
