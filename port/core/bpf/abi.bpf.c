// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Never loaded: the build generates the Rust side of abi/port.h from this object's type
 * information.
 */
#include "export.h"
#include "port.h"

EXPORT(port_meta);
EXPORT(port_slot);
EXPORT(port_responses);
EXPORT(port_record);
EXPORT(port_state);
EXPORT_ENUM(port_transmission);
EXPORT_ENUM(port_process);
