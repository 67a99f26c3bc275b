/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The part of the kernel's structures that identifies network namespaces. The loader relocates each
 * field to its offset in the running kernel. */
#ifndef ONBEAT_NAMESPACE_H
#define ONBEAT_NAMESPACE_H

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct ns_common {
	unsigned int inum;
};

struct list_head {
	struct list_head *next;
};

/* ptype_all: taps of all devices; since Linux 6.16. */
struct net {
	struct ns_common ns;
	struct list_head ptype_all;
};

typedef struct {
	struct net *net;
} possible_net_t;

#pragma clang attribute pop

#endif
