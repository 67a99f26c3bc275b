// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Never loaded: the build generates the Rust side of abi/ from this object's type information. */
#include "export.h"
#include "hooks.h"

EXPORT(hooks_packet);
EXPORT(hooks_cpu);
EXPORT(hooks_filter);
EXPORT_ENUM(hooks_after);
EXPORT_ENUM(hooks_condition);
EXPORT_ENUM(hooks_point);
EXPORT_ENUM(hooks_fate);
EXPORT_ENUM(hooks_context);
