/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Code that needs no kernel: filter matching, and due times of cycles. Compiles in user space,
 * too; selftest.c tests it in both.
 */
#ifndef ONBEAT_PURE_H
#define ONBEAT_PURE_H

#ifdef __KERNEL__
#include <linux/math64.h>
#include <linux/string.h>
#include <linux/types.h>
#else
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
typedef uint8_t u8;
typedef uint64_t u64;
#define div64_u64(dividend, divisor) ((dividend) / (divisor))
#endif

#include "uapi/onbeat.h"

/* Maximum instant of the kernel's clocks (KTIME_MAX). */
#define OB_TIME_MAX	(~0ULL >> 1)
#define OB_FILTER_WORDS	(ONBEAT_MAX_FILTER / sizeof(u64))

/* The first octets of a frame, padded with zeros. */
struct ob_key {
	u64 octets[OB_FILTER_WORDS];
	size_t len;
};

/* A pattern and a mask for octets of a frame. */
struct ob_filter {
	u64 value[OB_FILTER_WORDS];
	u64 mask[OB_FILTER_WORDS];
	size_t len;
};

/* Returns false if the filter is too long, or matches every frame. */
static inline bool ob_filter_init(struct ob_filter *filter, const u8 *value, const u8 *mask,
				  size_t len)
{
	u64 any = 0;
	size_t i;

	if (!len || len > ONBEAT_MAX_FILTER)
		return false;
	memset(filter, 0, sizeof(*filter));
	memcpy(filter->value, value, len);
	memcpy(filter->mask, mask, len);
	filter->len = len;
	for (i = 0; i < OB_FILTER_WORDS; i++) {
		filter->value[i] &= filter->mask[i];
		any |= filter->mask[i];
	}
	return any;
}

/* A frame that is shorter than the filter does not match. */
static inline bool ob_filter_matches(const struct ob_filter *filter, const struct ob_key *key)
{
	u64 differ = 0;
	size_t i;

	for (i = 0; i < OB_FILTER_WORDS; i++)
		differ |= (key->octets[i] & filter->mask[i]) ^ filter->value[i];
	return !differ && key->len >= filter->len;
}

/* The planned launch of a slot, in nanoseconds of the attachment's clock. */
struct ob_plan {
	u64 first;
	/* 0: once. */
	u64 period;
	/* The next instant, and the number of its cycle. */
	u64 next;
	u64 number;
};

/* A due transmission. */
struct ob_due {
	u64 time;
	u64 number;
	/* Preceding cycles that passed without a frame. */
	u64 missed;
};

static inline void ob_plan_init(struct ob_plan *plan, u64 first, u64 period)
{
	plan->first = first;
	plan->period = period;
	plan->next = first;
	plan->number = 0;
}

/*
 * Returns the transmission due at now, which is plan->next or later. Instants are first + n *
 * period, so that lateness does not accumulate; if several passed, only the last is due, once.
 * False: there is no next instant.
 */
static inline bool ob_plan_due(struct ob_plan *plan, u64 now, struct ob_due *due)
{
	due->number = plan->number;
	/* Unless the clock was set back between the timer's expiry and its reading. */
	if (plan->period && now > plan->next)
		due->number = div64_u64(now - plan->first, plan->period);
	due->missed = due->number - plan->number;
	due->time = plan->first + due->number * plan->period;
	plan->number = due->number + 1;
	plan->next = due->time + plan->period;
	return plan->period && plan->next <= OB_TIME_MAX;
}

#endif /* ONBEAT_PURE_H */
