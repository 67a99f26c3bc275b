/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* What the streams of the node use: the kernel removes all else when it loads a program. */
#ifndef ONBEAT_FEATURES_H
#define ONBEAT_FEATURES_H

#include "frer.h"

/* FRER_USES_* */
const volatile __u32 features;

/* Without FRER_USES_SHAPES, the only shape in use, or FRER_SHAPE_NONE. */
const volatile __u16 l2_shape;

#define USES(feature) (features & FRER_USES_##feature)

#endif
