/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Compares each end of the explorer with the ends of sequential orders. */
#ifndef ONBEAT_EXPLORE_ENDS_H
#define ONBEAT_EXPLORE_ENDS_H

/* What an end is compared by: which copy passes is open. */
struct end {
	__u8 passes[1 << FRER_NUMBER_BITS];
	__u8 window[FRER_MAX_HISTORY];
	__u32 number, take_any;
	__u32 lost, early, rogue;
};

static struct end end_of(void)
{
	struct recovery f = {&world.r};
	__u64 head, distance_now = 0, early_now = 0;
	const struct frer_recovery_record *record = &world.record;
	struct tally tally = {};
	struct end end = {};

	running = NULL;
	head = newest_head(&f, world.r.head, recovery_flags(&f) & FRER_RECOVERY_MOVING);
	tally_window(0, head, &tally);
	for (__u32 i = 0; i < cpu_count * packets; i++)
		end.passes[operations[i / packets][i % packets].number] += world.passes[i];
	end.take_any = !!(head & FRER_HEAD_TAKE_ANY);
	end.number = end.take_any ? 0 : head_number(head);
	end.rogue = record->rogue;
	if (match)
		return end;
	if (!end.take_any) {
		distance_now = (head_position(head) - head_first(head)) & FRER_POSITION_MASK;
		early_now = distance_now < length - 1 ? distance_now : length - 1;
		for (__u32 i = 0; i < length; i++) {
			__u32 position = (head_position(head) - i) & FRER_POSITION_MASK;
			__u64 word = *ring_word(&f, epoch_of(position));

			end.window[i] =
			    (word >> FRER_SEEN_BITS == tag_of(head, epoch_of(position)) &&
			     word & seen_bit(position)) ||
			    (head & FRER_HEAD_YOUNG && position == head_first(head));
		}
	}
	end.lost = record->distance + distance_now - world.r.passed + record->seen + tally.seen;
	end.early = record->early_distance + early_now - record->early_passed + record->early_seen +
		    tally.early;
	return end;
}

/* The end of an order. */
static struct end end_of_order(const struct order *order)
{
	const struct reference *state = &order->state;
	struct end end = {.take_any = state->take_any, .rogue = state->rogue};

	for (__u32 i = 0; i < cpu_count * packets; i++)
		end.passes[operations[i / packets][i % packets].number] += order->passes[i];
	if (!state->take_any)
		end.number = state->number;
	if (match)
		return end;
	if (!state->take_any)
		memcpy(end.window, state->window, state->length);
	end.lost = state->lost;
	end.early = state->early;
	return end;
}

/* The start of all interleavings. */
static struct world begin;
static struct reference begin_reference;
/* Different ends of a start, of all starts, and their checksum. */
static struct visited reached;
static __u64 outcomes, checksum;
static __u64 ends, wrong, doubled, imprecise;
static __u32 most_orders; /* that differ, of an end */

/* Whether each number that passes in `other` passes in `end`. */
static bool none_lost(const struct end *end, const struct end *other)
{
	for (__u32 i = 0; i < 1 << FRER_NUMBER_BITS; i++)
		if (!end->passes[i] && other->passes[i])
			return false;
	return true;
}

static void print_end(const char *name, const struct end *end)
{
	fprintf(stderr, "  %s: number %u take_any %u lost %u early %u rogue %u passes", name,
		end->number, end->take_any, end->lost, end->early, end->rogue);
	for (__u32 i = 0; i < 1 << FRER_NUMBER_BITS; i++)
		if (end->passes[i])
			fprintf(stderr, " %u:%u", i, end->passes[i]);
	fprintf(stderr, " window");
	for (__u32 i = 0; i < length; i++)
		fprintf(stderr, " %u", end->window[i]);
	fputc('\n', stderr);
}

/* Whether the history becomes longer while the function takes its first number. */
static bool longer_at_reset(void)
{
	return longer && begin.r.head & FRER_HEAD_TAKE_ANY;
}

static void note_outcome(const struct end *end)
{
	__u64 hash = 1;

	for (size_t i = 0; i < sizeof(*end) / sizeof(__u32); i++)
		hash = mix(hash, ((const __u32 *)end)[i]);
	if (visit(&reached, hash, 0) == VISIT_FIRST)
		checksum += hash;
}

static void check(void)
{
	const struct order_set *allowed = &sets[world.orders];
	struct end end = end_of();
	bool exact = false, complete = false, twice = false;
	__u8 most[1 << FRER_NUMBER_BITS] = {0};

	ends++;
	note_outcome(&end);
	if (allowed->count > most_orders)
		most_orders = allowed->count;
	for (__u32 i = 0; i < allowed->count; i++) {
		struct end other = end_of_order(&orders[allowed->first + i]);

		/* A rogue number and a duplicate are both discarded: which it is may depend on the
		 * order. */
		other.rogue = end.rogue;
		/* While the history becomes longer, it is uncertain which precede the first. */
		if (longer)
			other.early = end.early;
		exact |=
		    !orders[allowed->first + i].is_exception && !memcmp(&other, &end, sizeof(end));
		complete |= none_lost(&end, &other);
		for (__u32 n = 0; n < 1 << FRER_NUMBER_BITS; n++)
			most[n] = other.passes[n] > most[n] ? other.passes[n] : most[n];
	}
	if (exact)
		return;
	imprecise++;
	for (__u32 n = 0; n < 1 << FRER_NUMBER_BITS; n++) {
		if (end.passes[n] <= most[n])
			continue;
		doubled++;
		twice |= !(world.late >> index_of(n) & 1);
	}
	/*
	 * Around a reset, the counters of lost numbers are off by some; a number that was claimed
	 * in a longer history passes although the history is shorter by then.
	 */
	if ((with_reset || with_timeout || shorter || longer_at_reset()) && complete && !twice)
		return;
	if (!wrong++) {
		fprintf(stderr, "wrong end, after operations");
		for (__u32 c = 0; c < cpu_count; c++)
			for (__u32 i = 0; i < packets; i++)
				fprintf(stderr, " %u/%s%u@%" PRIu64, c,
					operations[c][i].kind == RESET ? "reset" : "",
					operations[c][i].number, (uint64_t)operations[c][i].now);
		fputc('\n', stderr);
		print_end("end", &end);
		for (__u32 i = 0; i < allowed->count; i++) {
			struct end other = end_of_order(&orders[allowed->first + i]);

			print_end("allowed", &other);
		}
		print_path();
	}
}

#endif
