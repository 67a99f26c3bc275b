// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Never loaded: the build generates the Rust side of abi/guard.h from this object's type
 * information.
 */
#include "export.h"
#include "guard.h"

EXPORT(guard_socket);
EXPORT(guard_thread);
EXPORT(guard_watch);
EXPORT(guard_limit);
EXPORT(guard_count);
EXPORT_ENUM(guard_size);
EXPORT_ENUM(guard_rank);
