/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Runs all interleavings of packets on several CPUs through bpf/recover.h, with fewer bits than the
 * programs have, and compares each end with the sequential algorithm (reference.h).
 *
 *	explore CPUS PACKETS LENGTH STARTS SEED [reset|timeout] [match] [individual]
 *		[longer|shorter] [hasty]
 *
 * A CPU's progress is the list of values that its accesses returned: to continue, its function is
 * run again with these values, up to one access more. States that were visited before are cut off
 * by a hash of 64 bits. Prints a line with counts; exit status 1 if an end is wrong.
 *
 * Stores other than compare-and-swap wait in a store buffer of their CPU (total store order).
 *
 * With "longer" and "shorter", the loader changes the history meanwhile, by the steps of history.h:
 * from the length to the longest of a ring of twice the words, or back. With "hasty", no step waits
 * for the packets in progress.
 */
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "geometry.h"
#include "frer.h"

#define MAX_CPUS    4 /* with the loader */
#define MAX_PACKETS 4
#define MAX_LOG	    128
#define TIMEOUT	    10

#define RECOVER_GLOBAL	    static
#define likely(condition)   (condition)
#define unlikely(condition) (condition)

struct recovery {
	struct frer_recovery *r;
};

/* The present access, as seen by the function that is run. */
static __u64 recover_load(__u64 *at);
static __u64 recover_cas(__u64 *at, __u64 old, __u64 new);
static void recover_store(__u64 *at, __u64 value) __attribute__((unused));
static void recover_count(__u64 *at, __u64 number);
static void bpf_loop(__u32 number, long (*function)(__u64, void *), void *context, __u64 flags);
static struct frer_recovery_record *find_record(__u32 slot);
static bool find_recovery(__u32 slot, struct recovery *f);

static void note_gap(const struct recovery *f, struct frer_recovery_record *record, __u64 gap)
{
	(void)f, (void)record, (void)gap;
}

static inline __u64 *ring_word(const struct recovery *f, __u32 epoch);
static inline __u64 *deciding_word(const struct recovery *f, bool moving, __u32 epoch);
static __u16 recovery_flags(const struct recovery *f);
static __s32 history_length(const struct recovery *f);
static void set_history_length(const struct recovery *f, __u16 length);

#include "recover.h"
#include "history.h"
#include "reference.h"

enum kind { PACKET, RESET, STEP };

/* Steps of the loader. */
enum step {
	STEP_MOVING,
	STEP_RING,
	STEP_BOTH,
	STEP_COPY,
	STEP_CLEAR,
	STEP_HEAD,
	STEP_SETTLE,
	STEP_SET,
	STEP_EXTENDED,
	STEP_CORRECT,
};

/* After the other ones; a step with WAIT follows a grace period. */
#define WAIT 16

static const __u8 longer_steps[] = {
    STEP_MOVING, STEP_RING | WAIT,   STEP_BOTH | WAIT, STEP_COPY | WAIT,     STEP_CLEAR | WAIT,
    STEP_HEAD,	 STEP_SETTLE | WAIT, STEP_SET,	       STEP_EXTENDED | WAIT, STEP_CORRECT,
};

static const __u8 shorter_steps[] = {
    STEP_SET,	      STEP_MOVING,	 STEP_RING | WAIT,   STEP_BOTH | WAIT,
    STEP_COPY | WAIT, STEP_CLEAR | WAIT, STEP_SETTLE | WAIT, STEP_CORRECT | WAIT,
};

struct operation {
	enum kind kind;
	__u16 number;
	__u64 now;
};

struct buffered {
	__u64 *at;
	__u64 value;
};

struct cpu {
	__u32 operation; /* the present one */
	__u32 accesses;	 /* of it, up to now */
	__u64 log[MAX_LOG];
	struct buffered store; /* if `at` is set */
	__u8 verdicts[MAX_PACKETS];
	__u8 before[MAX_PACKETS][MAX_CPUS]; /* operations of others that ended before its start */
	__u8 until[MAX_PACKETS];	    /* the latest time that a CPU had read by its end */
};

struct world {
	struct frer_recovery r;
	struct frer_recovery_record record;
	__u64 second[FRER_RING_WORDS]; /* the ring of longer histories */
	__u64 head;		       /* read by the loader */
	__u32 waits[MAX_CPUS];	       /* operations to end before the grace period does */
	struct cpu cpus[MAX_CPUS];
};

static struct operation operations[MAX_CPUS][MAX_PACKETS];
static __u32 cpu_count, packets, length;
static bool with_reset, with_timeout, match, individual, longer, shorter, hasty;

/* The lengths before and after the loader's steps; the steps. The loader is the last CPU. */
static __u32 length_before, length_after;
static const __u8 *steps;
static __u32 step_count;

/* The run of a function: the world it changes, its CPU, and the accesses so far. */
static struct world *world;
static struct cpu *running;
static __u32 access_number;
static jmp_buf stop;

static void fail(const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	vfprintf(stderr, format, arguments);
	va_end(arguments);
	fputc('\n', stderr);
	exit(2);
}

#include "visited.h"

static bool find_recovery(__u32 slot, struct recovery *f)
{
	(void)slot;
	f->r = &world->r;
	return true;
}

static struct frer_recovery_record *find_record(__u32 slot)
{
	(void)slot;
	return &world->record;
}

static void bpf_loop(__u32 number, long (*function)(__u64, void *), void *context, __u64 flags)
{
	(void)flags;
	for (__u32 i = 0; i < number; i++)
		if (function(i, context))
			return;
}

/*
 * Whether an access is the next one; one that was performed before returns its value from the log.
 * The access after the next one stops the run.
 */
static bool is_next(__u64 *value)
{
	__u32 number = access_number++;

	if (!running)
		return true;
	if (number < running->accesses) {
		*value = running->log[number];
		return false;
	}
	if (number > running->accesses)
		longjmp(stop, 1);
	if (number == MAX_LOG)
		fail("an operation has more than %d accesses: the CPUs hinder each other forever",
		     MAX_LOG);
	return true;
}

static __u64 performed(__u64 value)
{
	if (running)
		running->log[access_number - 1] = value;
	return value;
}

static void flush(struct cpu *cpu)
{
	if (cpu->store.at)
		*cpu->store.at = cpu->store.value;
	cpu->store.at = NULL;
}

static __u64 recover_load(__u64 *at)
{
	__u64 value = 0;

	if (!is_next(&value))
		return value;
	if (running && running->store.at == at)
		return performed(running->store.value);
	return performed(*at);
}

static __u64 recover_cas(__u64 *at, __u64 old, __u64 new)
{
	__u64 value = 0;

	if (!is_next(&value))
		return value;
	if (running)
		flush(running);
	value = *at;
	if (value == old)
		*at = new;
	return performed(value);
}

static void recover_store(__u64 *at, __u64 value)
{
	__u64 none = 0;

	if (!is_next(&none))
		return;
	if (!running) {
		*at = value;
		return;
	}
	flush(running);
	running->store = (struct buffered){at, value};
	performed(0);
}

/* Parameters change only with the loader. */
static __u16 recovery_flags(const struct recovery *f)
{
	__u64 value = 0;

	if (!step_count || !is_next(&value))
		return step_count ? value : f->r->config.flags;
	return performed(f->r->config.flags);
}

static __s32 history_length(const struct recovery *f)
{
	__u64 value = 0;

	if (!step_count || !is_next(&value))
		return step_count ? value : f->r->config.history_length;
	return performed(f->r->config.history_length);
}

static void set_flags(const struct recovery *f, __u16 flags)
{
	__u64 none = 0;

	if (is_next(&none)) {
		f->r->config.flags = flags;
		performed(0);
	}
}

static void set_history_length(const struct recovery *f, __u16 new)
{
	__u64 none = 0;

	if (is_next(&none)) {
		f->r->config.history_length = new;
		performed(0);
	}
}

static __u64 *word_of(const struct recovery *f, __u32 epoch, __u16 mask, __u32 ring)
{
	struct world *of = (struct world *)f->r;

	return ring ? &of->second[epoch & mask] : &f->r->ring[epoch & mask];
}

static inline __u64 *ring_word(const struct recovery *f, __u32 epoch)
{
	return word_of(f, epoch, f->r->config.ring_mask, f->r->config.ring);
}

static inline __u64 *deciding_word(const struct recovery *f, bool moving, __u32 epoch)
{
	if (!moving)
		return ring_word(f, epoch);
	return word_of(f, epoch, f->r->config.former_mask, f->r->config.former_ring);
}

/* Counts of accesses that were performed before are in the world already. */
static void recover_count(__u64 *at, __u64 number)
{
	if (!running || access_number > running->accesses)
		*at += number;
}

/* One step of the loader; false: it starts again from the one before. */
static bool perform_step(enum step step, const struct recovery *f)
{
	struct frer_recovery_config *config = &f->r->config;

	switch (step) {
	case STEP_MOVING:
		set_flags(f, config->flags | FRER_RECOVERY_MOVING |
				 (longer ? FRER_RECOVERY_EXTENDING : 0));
		break;
	case STEP_RING:
		config->ring = !config->former_ring;
		config->ring_mask = (config->ring ? 2 : 1) * GEOMETRY_RING - 1;
		break;
	case STEP_BOTH:
		set_flags(f, config->flags | FRER_RECOVERY_BOTH);
		break;
	case STEP_COPY:
		while (!copy_ring(0, f))
			;
		break;
	case STEP_CLEAR:
		set_flags(f, config->flags & ~(FRER_RECOVERY_MOVING | FRER_RECOVERY_BOTH));
		break;
	case STEP_HEAD: {
		__u64 head = recover_load(&f->r->head);

		world->head = newest_head(f, head, false);
		break;
	}
	case STEP_SETTLE:
		config->former_ring = config->ring;
		config->former_mask = config->ring_mask;
		break;
	case STEP_SET:
		return set_history(0, f, length_after, world->head);
	case STEP_EXTENDED:
		set_flags(f, config->flags & ~FRER_RECOVERY_EXTENDING);
		break;
	case STEP_CORRECT:
		while (!set_history(0, f, length_after, 0))
			;
		break;
	}
	return true;
}

/* One operation on the world. */
static bool perform(const struct operation *o)
{
	struct recovery f;
	__u64 head;
	bool pass;

	find_recovery(0, &f);
	if (o->kind == PACKET && individual)
		return recover_individual(0, &f, o->number, o->now, false);
	if (o->kind == PACKET) {
		pass = recover(0, &f, o->number, o->now);
		recover_count(&f.r->passed, pass);
		return pass;
	}
	if (o->kind == STEP)
		return perform_step(o->number & ~WAIT, &f);
	for (;;) {
		head = recover_load(&f.r->head);
		if (restart(0, head, AT_ONCE))
			return true;
	}
}

static __u64 mix(__u64 hash, __u64 value)
{
	hash = (hash ^ value) * 0x9e3779b97f4a7c15ULL;
	return hash ^ hash >> 29;
}

static __u64 mix_octets(__u64 hash, const void *octets, size_t size)
{
	__u64 value;

	for (size_t i = 0; i < size; i += sizeof(value)) {
		value = 0;
		memcpy(&value, (const char *)octets + i,
		       size - i < sizeof(value) ? size - i : sizeof(value));
		hash = mix(hash, value);
	}
	return hash;
}

static __u64 hash_of(const struct world *w)
{
	__u64 hash = mix_octets(1, &w->r, offsetof(struct world, cpus));

	for (__u32 i = 0; i < cpu_count + !!step_count; i++) {
		const struct cpu *cpu = &w->cpus[i];

		hash = mix(hash, (__u64)cpu->operation << 32 | cpu->accesses);
		hash = mix_octets(hash, cpu->log, cpu->accesses * sizeof(cpu->log[0]));
		hash =
		    mix_octets(hash, cpu->verdicts, sizeof(*cpu) - offsetof(struct cpu, verdicts));
		hash = mix(hash, cpu->store.at ? cpu->store.value + 1 : 0);
	}
	return hash;
}

/* What an end is compared by: which copy passes is open. */
struct end {
	__u8 passes[1 << FRER_NUMBER_BITS];
	__u8 window[FRER_MAX_HISTORY];
	__u32 number, take_any;
	__u32 lost, early, rogue;
};

static struct end end_of(const struct world *w)
{
	struct recovery f = {(struct frer_recovery *)&w->r};
	__u64 head, distance_now = 0, early_now = 0;
	const struct frer_recovery_record *record = &w->record;
	struct tally tally = {};
	struct end end = {};

	running = NULL;
	head = newest_head(&f, w->r.head, recovery_flags(&f) & FRER_RECOVERY_MOVING);
	tally_window(0, head, &tally);
	for (__u32 c = 0; c < cpu_count; c++)
		for (__u32 i = 0; i < packets; i++)
			if (operations[c][i].kind == PACKET)
				end.passes[operations[c][i].number] += w->cpus[c].verdicts[i];
	world = (struct world *)w;
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
	end.lost = record->distance + distance_now - w->r.passed + record->seen + tally.seen;
	end.early = record->early_distance + early_now - record->early_passed + record->early_seen +
		    tally.early;
	return end;
}

/* The steps that the sequential algorithm takes: the head is read, the length is set. */
#define MARKS 2

/* Those of them that have ended; a shorter history needs no head. */
static __u32 marks_of(const struct world *w)
{
	__u32 marks = shorter;

	for (__u32 i = 0; i < w->cpus[cpu_count].operation; i++)
		marks += (steps[i] & ~WAIT) == STEP_SET || (steps[i] & ~WAIT) == STEP_HEAD;
	return marks;
}

/* The ends of all sequential orders that the real time of an end allows. */
static struct end allowed[1024];
static __u32 allowed_count;

static void sequential(struct reference *state, const struct world *w, const __u32 *done,
		       struct end *end)
{
	bool finished = true;

	if (step_count && done[cpu_count] < MARKS) {
		struct reference next = *state;
		__u32 then[MAX_CPUS];
		struct end more = *end;
		bool waits = false;

		finished = false;
		for (__u32 other = 0; other < cpu_count; other++)
			waits |= done[other] < w->cpus[cpu_count].before[done[cpu_count]][other];
		if (!waits) {
			memcpy(then, done, sizeof(then));
			if (then[cpu_count]++)
				reference_set_length(&next, length_after);
			else
				next.moved = next.take_any ? 2 * FRER_MAX_HISTORY : 0;
			sequential(&next, w, then, &more);
		}
	}
	for (__u32 c = 0; c < cpu_count; c++) {
		const struct operation *o = &operations[c][done[c]];
		struct reference next = *state;
		__u32 then[MAX_CPUS];
		struct end more = *end;
		bool waits = false;

		if (done[c] == packets)
			continue;
		finished = false;
		for (__u32 other = 0; other < cpu_count; other++)
			waits |= done[other] < w->cpus[c].before[done[c]][other];
		waits |= step_count && done[cpu_count] < w->cpus[c].before[done[c]][cpu_count];
		if (waits)
			continue;
		memcpy(then, done, sizeof(then));
		then[c]++;
		if (o->kind == RESET) {
			reference_reset(&next);
			sequential(&next, w, then, &more);
			continue;
		}
		more.passes[o->number] += reference_packet(&next, o->number, o->now);
		sequential(&next, w, then, &more);
		if (shorter && done[cpu_count] == MARKS &&
		    w->cpus[c].before[done[c]][cpu_count] < MARKS) {
			/* It is judged by the length that it has read. */
			next = *state;
			more = *end;
			next.length = length_before;
			more.passes[o->number] += reference_packet(&next, o->number, o->now);
			next.length = length_after;
			sequential(&next, w, then, &more);
		}
		if (w->cpus[c].until[done[c]] == o->now)
			continue;
		/* Its CPU read the clock and was late: it is a packet of a later time as well. */
		next = *state;
		more = *end;
		more.passes[o->number] +=
		    reference_packet(&next, o->number, w->cpus[c].until[done[c]]);
		sequential(&next, w, then, &more);
	}
	if (!finished)
		return;
	end->take_any = state->take_any;
	end->number = state->take_any ? 0 : state->number;
	end->rogue = state->rogue;
	if (!match) {
		if (!state->take_any)
			memcpy(end->window, state->window, state->length);
		end->lost = state->lost;
		end->early = state->early;
	}
	for (__u32 i = 0; i < allowed_count; i++)
		if (!memcmp(&allowed[i], end, sizeof(*end)))
			return;
	if (allowed_count == sizeof(allowed) / sizeof(allowed[0]))
		fail("more than %u different ends", allowed_count);
	allowed[allowed_count++] = *end;
}

static struct world begin;
static struct reference begin_reference;
static __u64 ends, wrong, doubled, imprecise;

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

static void check(const struct world *w)
{
	struct end end = end_of(w), from = {};
	__u32 none[MAX_CPUS] = {0};
	bool exact = false, complete = false, twice = false;
	__u8 most[1 << FRER_NUMBER_BITS] = {0};

	ends++;
	allowed_count = 0;
	sequential(&begin_reference, w, none, &from);
	for (__u32 i = 0; i < allowed_count; i++) {
		struct end other = allowed[i];

		/* A rogue number and a duplicate are both discarded: which it is may depend on the
		 * order. */
		other.rogue = end.rogue;
		/* While the history becomes longer, it is uncertain which precede the first. */
		if (longer)
			other.early = end.early;
		exact |= !memcmp(&other, &end, sizeof(end));
		complete |= none_lost(&end, &other);
		for (__u32 n = 0; n < 1 << FRER_NUMBER_BITS; n++)
			most[n] = other.passes[n] > most[n] ? other.passes[n] : most[n];
	}
	if (exact)
		return;
	imprecise++;
	for (__u32 n = 0; n < 1 << FRER_NUMBER_BITS; n++)
		twice |= end.passes[n] > most[n];
	doubled += twice;
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
		for (__u32 i = 0; i < allowed_count; i++)
			print_end("allowed", &allowed[i]);
	}
}

/* A step of the loader. */
static void advance_steps(struct world *w)
{
	struct cpu *cpu = &w->cpus[cpu_count];
	struct operation o = {STEP, steps[cpu->operation], 0};
	__u32 mark = marks_of(w);

	if (!cpu->accesses && mark < MARKS)
		for (__u32 other = 0; other < cpu_count; other++)
			cpu->before[mark][other] = w->cpus[other].operation;
	world = w;
	running = cpu;
	access_number = 0;
	if (setjmp(stop)) {
		cpu->accesses++;
		return;
	}
	if (perform(&o)) {
		cpu->operation++;
	} else if (longer) {
		for (cpu->operation = 0; (steps[cpu->operation] & ~WAIT) != STEP_HEAD;)
			cpu->operation++;
		for (__u32 other = 0; other < cpu_count; other++)
			for (__u32 i = 0; i < packets; i++)
				w->cpus[other].before[i][cpu_count] = 0;
	}
	cpu->accesses = 0;
	for (__u32 other = 0; other < cpu_count; other++)
		w->waits[other] = w->cpus[other].operation + !!w->cpus[other].accesses;
}

/* Whether the loader has a step to take. */
static bool may_step(const struct world *w)
{
	const struct cpu *cpu = &w->cpus[cpu_count];

	if (!cpu->accesses && steps[cpu->operation] & WAIT && !hasty)
		for (__u32 other = 0; other < cpu_count; other++)
			if (w->cpus[other].operation < w->waits[other])
				return false;
	return true;
}

static void advance(struct world *w, __u32 c)
{
	struct cpu *cpu = &w->cpus[c];
	const struct operation *o = &operations[c][cpu->operation];

	if (!cpu->accesses) {
		for (__u32 other = 0; other < cpu_count; other++)
			cpu->before[cpu->operation][other] = w->cpus[other].operation;
		cpu->before[cpu->operation][cpu_count] = step_count ? marks_of(w) : 0;
	}
	world = w;
	running = cpu;
	access_number = 0;
	if (setjmp(stop)) {
		cpu->accesses++;
		return;
	}
	cpu->verdicts[cpu->operation] = perform(o);
	for (__u32 other = 0; other < cpu_count; other++) {
		__u32 started = w->cpus[other].operation - !w->cpus[other].accesses;

		for (__u32 i = 0; i < packets && (__s32)i <= (__s32)started; i++)
			if (operations[other][i].now > cpu->until[cpu->operation])
				cpu->until[cpu->operation] = operations[other][i].now;
	}
	cpu->operation++;
	cpu->accesses = 0;
}

static void explore(const struct world *from)
{
	bool finished = true;

	if (!visit(hash_of(from)))
		return;
	if (step_count && from->cpus[cpu_count].operation < step_count) {
		finished = false;
		if (may_step(from)) {
			struct world next = *from;

			for (__u32 c = 0; c < cpu_count; c++)
				if (from->cpus[c].store.at)
					next.cpus[c].store.at =
					    (__u64 *)((char *)&next +
						      ((char *)from->cpus[c].store.at -
						       (char *)from));
			advance_steps(&next);
			explore(&next);
		}
	}
	for (__u32 c = 0; c < cpu_count; c++) {
		struct world next;

		if (from->cpus[c].store.at) {
			finished = false;
			next = *from;
			/* The buffer refers to the world it was filled in. */
			next.cpus[c].store.at =
			    (__u64 *)((char *)&next +
				      ((char *)from->cpus[c].store.at - (char *)from));
			flush(&next.cpus[c]);
			explore(&next);
		}
		if (from->cpus[c].operation == packets)
			continue;
		finished = false;
		next = *from;
		for (__u32 other = 0; other < cpu_count; other++)
			if (from->cpus[other].store.at)
				next.cpus[other].store.at =
				    (__u64 *)((char *)&next +
					      ((char *)from->cpus[other].store.at - (char *)from));
		advance(&next, c);
		explore(&next);
	}
	if (finished)
		check(from);
}

static __u64 seed;

/* SplitMix64. */
static __u32 random_below(__u32 bound)
{
	__u64 z = seed += 0x9e3779b97f4a7c15ULL;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ULL;
	z = (z ^ z >> 27) * 0x94d049bb133111ebULL;
	return (z ^ z >> 31) % bound;
}

/* Numbers around the window, as the packets of several paths have. */
static __u16 random_number(__u32 base)
{
	__u32 most = length_before > length_after ? length_before : length_after;

	return (base + random_below(most + 3) + (1 << FRER_NUMBER_BITS) - most / 2) &
	       FRER_NUMBER_MASK;
}

static void start(void)
{
	__u32 base = random_below(1 << FRER_NUMBER_BITS),
	      former = random_below(3 << FRER_NUMBER_BITS);
	__u64 now = 1;

	memset(&begin, 0, sizeof(begin));
	begin.r.config.history_length = length_before;
	begin.r.config.ring = begin.r.config.former_ring = shorter;
	begin.r.config.ring_mask = (shorter ? 2 : 1) * GEOMETRY_RING - 1;
	begin.r.config.former_mask = begin.r.config.ring_mask;
	begin.r.config.timeout_ns = with_timeout ? TIMEOUT : 0;
	begin.r.config.flags =
	    (match ? FRER_RECOVERY_MATCH : 0) | (individual ? FRER_RECOVERY_INDIVIDUAL : 0);
	begin.r.head = restarted(0);
	length = length_before;
	reference_begin(&begin_reference, length_before, begin.r.config.timeout_ns, match,
			individual);
	world = &begin;
	running = NULL;
	for (__u32 i = 0; i < former; i++) {
		struct operation o = {PACKET, 0, now};

		base += random_below(3);
		o.number =
		    random_below(16) ? random_number(base) : random_below(1 << FRER_NUMBER_BITS);
		if (!random_below(24))
			o.kind = RESET;
		if (perform(&o) != (o.kind == RESET
					? (reference_reset(&begin_reference), true)
					: reference_packet(&begin_reference, o.number, o.now)))
			fail("one CPU alone: other verdict than the reference for %u", o.number);
	}
	begin_reference.rogue = begin.record.rogue = 0;
	length = length_after;
	for (__u32 c = 0; c < cpu_count; c++)
		for (__u32 i = 0; i < packets; i++)
			operations[c][i] = (struct operation){PACKET, random_number(base + i), now};
	/* A CPU that is a whole ring ahead of the others. */
	if (!random_below(3))
		for (__u32 i = 0; i < packets; i++)
			operations[1][i].number =
			    (base + (i + 1) * (length - 1)) & FRER_NUMBER_MASK;
	/* Some copies of one number. */
	if (random_below(2))
		operations[1][random_below(packets)] = operations[0][random_below(packets)];
	if (with_timeout)
		for (__u32 c = 0; c < cpu_count; c++)
			for (__u32 i = random_below(packets); i < packets; i++)
				operations[c][i].now = now + TIMEOUT - 1 + random_below(3);
	if (with_reset)
		operations[cpu_count - 1][random_below(packets)].kind = RESET;
}

int main(int count, char **arguments)
{
	__u64 states = 0;
	__u32 starts;

	if (count < 6)
		fail("usage: explore CPUS PACKETS LENGTH STARTS SEED [reset|timeout] [match] "
		     "[individual] [longer|shorter] [hasty]");
	cpu_count = atoi(arguments[1]);
	packets = atoi(arguments[2]);
	length = atoi(arguments[3]);
	starts = atoi(arguments[4]);
	seed = strtoull(arguments[5], NULL, 0);
	for (int i = 6; i < count; i++) {
		with_reset |= !strcmp(arguments[i], "reset");
		with_timeout |= !strcmp(arguments[i], "timeout");
		match |= !strcmp(arguments[i], "match");
		individual |= !strcmp(arguments[i], "individual");
		longer |= !strcmp(arguments[i], "longer");
		shorter |= !strcmp(arguments[i], "shorter");
		hasty |= !strcmp(arguments[i], "hasty");
	}
	length_before = length_after = length;
	if (longer || shorter) {
		__u32 most = (2 * GEOMETRY_RING - 1) * FRER_SEEN_BITS / 2;

		*(longer ? &length_after : &length_before) =
		    most < FRER_MAX_HISTORY ? most : FRER_MAX_HISTORY;
		steps = longer ? longer_steps : shorter_steps;
		step_count = longer ? sizeof(longer_steps) : sizeof(shorter_steps);
	}
	if (cpu_count < 2 || cpu_count >= MAX_CPUS || !packets || packets > MAX_PACKETS ||
	    length < 2 || length > FRER_MAX_HISTORY)
		fail("out of range: %u CPUs, %u packets, length %u", cpu_count, packets, length);
	for (__u32 i = 0; i < starts && !wrong; i++) {
		start();
		visited_count = 0;
		if (visited)
			memset(visited, 0, visited_size * sizeof(*visited));
		explore(&begin);
		states += visited_count;
	}
	printf("starts %u states %" PRIu64 " ends %" PRIu64 " wrong %" PRIu64 " imprecise %" PRIu64
	       " doubled %" PRIu64 "\n",
	       starts, (uint64_t)states, (uint64_t)ends, (uint64_t)wrong, (uint64_t)imprecise,
	       (uint64_t)doubled);
	return !!wrong;
}
