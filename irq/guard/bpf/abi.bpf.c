// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Never loaded: the build generates the Rust side of abi/guard.h from this object's type
 * information.
 */
#include "export.h"
#include "guard.h"
#include "irq.h"

EXPORT(guard_socket);
EXPORT(guard_open_socket);
EXPORT(guard_thread);
EXPORT(guard_charges);
EXPORT(guard_account);
EXPORT(guard_limit);
EXPORT(guard_spent);
EXPORT(guard_count);
EXPORT(guard_member);
EXPORT(guard_receiver);
EXPORT(guard_changes);
EXPORT(guard_interrupts);
EXPORT(irq_owner);
EXPORT_ENUM(guard_size);
EXPORT_ENUM(guard_rank);
EXPORT_ENUM(guard_interrupt);
