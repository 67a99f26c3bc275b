/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What the streams of the port use. The compiler removes all else from programs for a fixed set,
 * and the kernel from the program for any set, when it loads that.
 */
#ifndef ONBEAT_FEATURES_H
#define ONBEAT_FEATURES_H

#include "frer.h"

/* FRER_USES_* */
const volatile __u32 features;

/* Without FRER_USES_SHAPES, the only shape in use, or FRER_SHAPE_NONE. */
const volatile __u16 l2_shape;

/*
 * The only member of the port, or FRER_NONE, and the constants that the tables have for it. With a
 * usual set of features, most of its frames need no table to be identified.
 */
const volatile __u32 only_member;
const volatile __u32 only_state;
const volatile __u32 only_individual;  /* or FRER_FUNCTIONS_SLOT: without */
const volatile bool only_group;	       /* several egress ports */
const volatile __u32 only_target;      /* the port or group */
const volatile __u64 only_destination; /* its first octet lowest */
const volatile __be16 only_vid;
const volatile __be16 only_new_vid; /* of replicas, with FRER_USES_REWRITE */

/* Of a function with the argument `uses`: FRER_USES_*. */
#define USES(feature) (uses & FRER_USES_##feature)

#endif
