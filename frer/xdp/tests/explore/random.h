/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Random numbers of the explorers: SplitMix64. */
#ifndef ONBEAT_EXPLORE_RANDOM_H
#define ONBEAT_EXPLORE_RANDOM_H

#include <linux/types.h>

static __u64 seed;

static __u64 random_number64(void)
{
	__u64 z = seed += 0x9e3779b97f4a7c15ULL;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ULL;
	z = (z ^ z >> 27) * 0x94d049bb133111ebULL;
	return z ^ z >> 31;
}

static __u32 random_below(__u32 bound)
{
	return random_number64() % bound;
}

#endif
