// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Never loaded: the build makes the Rust side of abi/ from this object's type information. */
#include "hooks.h"

#define EXPORT(type) struct type type __attribute__((section(".data"), used))

#define EXPORT_ENUM(type) enum type type __attribute__((section(".data"), used))

EXPORT(hooks_packet);
EXPORT(hooks_cpu);
EXPORT(hooks_filter);
EXPORT_ENUM(hooks_point);
EXPORT_ENUM(hooks_fate);
EXPORT_ENUM(hooks_context);
