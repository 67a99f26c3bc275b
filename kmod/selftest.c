// SPDX-License-Identifier: GPL-2.0-only
/*
 * Tests of pure.h: in user space as a program (make -C kmod selftest), in the kernel when the
 * module is loaded with selftest=1.
 */
#include "pure.h"

#ifdef __KERNEL__
#include <linux/errno.h>
#include <linux/printk.h>

#include "port.h"
#define report_failure(...) pr_err("onbeat: " __VA_ARGS__)
#else
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#define report_failure(...) fprintf(stderr, __VA_ARGS__)
#define ARRAY_SIZE(array) (sizeof(array) / sizeof((array)[0]))
#endif

#define CHECK(that)							\
	do {								\
		checks++;						\
		if (!(that)) {						\
			report_failure("%s:%d: not %s\n", __func__, __LINE__, #that);	\
			failures++;					\
		}							\
	} while (0)

static unsigned int checks, failures;

static struct ob_key key_of(const u8 *octets, size_t len)
{
	struct ob_key key = { .len = len };

	memcpy(key.octets, octets, len);
	return key;
}

static void empty_masks_and_invalid_lengths_are_refused(void)
{
	u8 value[ONBEAT_MAX_FILTER + 1] = {}, mask[ONBEAT_MAX_FILTER + 1] = {};
	struct ob_filter filter;

	CHECK(!ob_filter_init(&filter, value, mask, 0));
	CHECK(!ob_filter_init(&filter, value, mask, ONBEAT_MAX_FILTER));
	mask[0] = 1;
	CHECK(!ob_filter_init(&filter, value, mask, ONBEAT_MAX_FILTER + 1));
	CHECK(ob_filter_init(&filter, value, mask, ONBEAT_MAX_FILTER));
	CHECK(ob_filter_init(&filter, value, mask, 1));
}

static void only_the_bits_of_the_mask_are_compared(void)
{
	u8 octets[ONBEAT_MAX_FILTER], value[ONBEAT_MAX_FILTER], mask[ONBEAT_MAX_FILTER];
	struct ob_filter filter;
	struct ob_key key;
	size_t len, bit, i;

	for (len = 1; len <= ONBEAT_MAX_FILTER; len++) {
		for (i = 0; i < ONBEAT_MAX_FILTER; i++) {
			octets[i] = 17 * i + len;
			mask[i] = 29 * i + 1;
			/* Bits of the value outside of the mask are ignored. */
			value[i] = octets[i] ^ ~mask[i];
		}
		CHECK(ob_filter_init(&filter, value, mask, len));
		key = key_of(octets, ONBEAT_MAX_FILTER);
		CHECK(ob_filter_matches(&filter, &key));
		key = key_of(octets, len);
		CHECK(ob_filter_matches(&filter, &key));
		key = key_of(octets, len - 1);
		CHECK(!ob_filter_matches(&filter, &key));
		for (bit = 0; bit < 8 * ONBEAT_MAX_FILTER; bit++) {
			bool counts = bit / 8 < len && mask[bit / 8] & 1 << bit % 8;

			octets[bit / 8] ^= 1 << bit % 8;
			key = key_of(octets, ONBEAT_MAX_FILTER);
			CHECK(ob_filter_matches(&filter, &key) == !counts);
			octets[bit / 8] ^= 1 << bit % 8;
		}
	}
}

static void a_frame_shorter_than_the_filter_does_not_match(void)
{
	const u8 value[] = { 7, 0 }, mask[] = { 0xff, 0xff };
	struct ob_filter filter;
	struct ob_key key = key_of(value, 1);

	CHECK(ob_filter_init(&filter, value, mask, sizeof(value)));
	CHECK(!ob_filter_matches(&filter, &key));
}

static void cycles_stay_on_the_grid_when_polled_late(void)
{
	static const struct {
		u64 now, number, time, missed, next;
	} steps[] = {
		{ 1000, 0, 1000, 0, 1250 },
		{ 1499, 1, 1250, 0, 1500 },
		{ 2600, 6, 2500, 4, 2750 },
		{ 2750, 7, 2750, 0, 3000 },
		/* The clock was set back: no cycle is sent twice, and none is missed. */
		{ 2100, 8, 3000, 0, 3250 },
	};
	struct ob_plan plan;
	struct ob_due due;
	size_t i;

	ob_plan_init(&plan, 1000, 250);
	CHECK(plan.next == 1000);
	for (i = 0; i < ARRAY_SIZE(steps); i++) {
		CHECK(ob_plan_due(&plan, steps[i].now, &due));
		CHECK(due.number == steps[i].number);
		CHECK(due.time == steps[i].time);
		CHECK(due.missed == steps[i].missed);
		CHECK(plan.next == steps[i].next);
	}
}

static void every_cycle_is_sent_or_counted(void)
{
	u64 now = 12345, accounted = 0, step = 1;
	struct ob_plan plan;
	struct ob_due due;

	ob_plan_init(&plan, now, 777);
	while (now < 10000000) {
		if (now >= plan.next) {
			CHECK(ob_plan_due(&plan, now, &due));
			CHECK(due.time <= now && now - due.time < 777);
			accounted += 1 + due.missed;
			CHECK(accounted == due.number + 1);
		}
		step = step * 1103515245 + 12345;
		now += step % 5000;
	}
}

static void a_single_launch_is_due_once(void)
{
	struct ob_plan plan;
	struct ob_due due;

	ob_plan_init(&plan, 100, 0);
	CHECK(!ob_plan_due(&plan, 5000, &due));
	CHECK(due.time == 100 && due.number == 0 && due.missed == 0);
}

static void a_cycle_stops_at_the_end_of_the_clocks_range(void)
{
	struct ob_plan plan;
	struct ob_due due;

	ob_plan_init(&plan, OB_TIME_MAX - 15, 10);
	CHECK(!ob_plan_due(&plan, OB_TIME_MAX, &due));
	CHECK(due.number == 1 && due.time == OB_TIME_MAX - 5);
	ob_plan_init(&plan, 0, OB_TIME_MAX);
	CHECK(ob_plan_due(&plan, 0, &due));
	CHECK(!ob_plan_due(&plan, OB_TIME_MAX, &due));
}

int ob_selftest(void)
{
	empty_masks_and_invalid_lengths_are_refused();
	only_the_bits_of_the_mask_are_compared();
	a_frame_shorter_than_the_filter_does_not_match();
	cycles_stay_on_the_grid_when_polled_late();
	every_cycle_is_sent_or_counted();
	a_single_launch_is_due_once();
	a_cycle_stops_at_the_end_of_the_clocks_range();
	if (failures)
		report_failure("self-test: %u of %u checks failed\n", failures, checks);
	return failures ? -EINVAL : 0;
}

#ifndef __KERNEL__
int main(void)
{
	if (ob_selftest())
		return EXIT_FAILURE;
	printf("%u checks\n", checks);
	return EXIT_SUCCESS;
}
#endif
