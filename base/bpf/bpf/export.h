/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* For objects that are never loaded: the build generates the Rust side of types from the object's
 * type information, which contains types with a value. */
#ifndef ONBEAT_EXPORT_H
#define ONBEAT_EXPORT_H

#define EXPORT(type)	  struct type type __attribute__((section(".data"), used))
#define EXPORT_ENUM(type) enum type type __attribute__((section(".data"), used))

#endif
