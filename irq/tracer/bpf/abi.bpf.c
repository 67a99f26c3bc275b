// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Never loaded: the build generates the Rust side of abi/irq.h from this object's type information.
 */
#include "export.h"
#include "irq.h"

EXPORT(irq_key);
EXPORT(irq_owner);
EXPORT(irq_socket_owner);
EXPORT(irq_process);
EXPORT(irq_cgroup);
EXPORT(irq_amount);
EXPORT(irq_totals);
EXPORT(irq_device);
EXPORT(irq_taps);
EXPORT(irq_event);
EXPORT(irq_tick);
EXPORT_ENUM(irq_kind);
EXPORT_ENUM(irq_vector);
EXPORT_ENUM(irq_reason);
EXPORT_ENUM(irq_sender);
EXPORT_ENUM(irq_verdict);
EXPORT_ENUM(irq_what);
