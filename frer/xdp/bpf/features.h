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

/* Of a function with the argument `uses`: FRER_USES_*. */
#define USES(feature) (uses & FRER_USES_##feature)

#endif
