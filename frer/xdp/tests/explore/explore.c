/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Runs all interleavings of packets on several CPUs through bpf/recover.h, with fewer bits than the
 * programs have, and compares each end with the sequential algorithm (reference.h).
 *
 *	explore CPUS PACKETS LENGTH STARTS SEED [reset|timeout] [match] [individual]
 *		[longer|shorter] [hasty] [exceptions] [preemptions=N] [states=N]
 *
 * A CPU's progress is the list of values that its accesses returned: to continue, its function is
 * run again with these values, up to one access more. States that were visited before are cut off
 * by a hash of 64 bits. Prints a line with counts; exit status 1 if an end is wrong.
 *
 * A load of a value that does not change any more is performed together with an access before or
 * after it, as its order makes no difference.
 *
 * Stores other than compare-and-swap wait in a store buffer of their CPU (total store order).
 *
 * With "longer" and "shorter", the loader changes the history meanwhile, by the steps of history.h:
 * from the length to the longest of a ring of twice the words, or back. With "hasty", no step waits
 * for the packets in progress.
 *
 * With "preemptions=N", only interleavings with up to N switches from a CPU whose operation has not
 * ended. A switch at the end of an operation is none, nor is the end of a delayed store. With
 * "states=N", a start is left after N states.
 *
 * With "exceptions", ends are also compared with orders that have these (docs, decision 21): a
 * packet whose claim is superseded by a reset takes place before the reset and after it; the timer
 * expires when no packet arrives; a packet restarts the timer too late. A packet that is late by a
 * whole timeout may pass beside its copy.
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
#define NO_CPU	    MAX_CPUS
#define MAX_PACKETS 4
#define MAX_LOG	    256	 /* accesses of an operation */
#define LOG_SIZE    4096 /* of all operations of a CPU */
#define MAX_PATH    8192
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
static void print_path(void);

static void note_gap(const struct recovery *f, struct frer_recovery_record *record, __u64 gap)
{
	(void)f, (void)record, (void)gap;
}

static inline __u64 *ring_word(const struct recovery *f, __u32 epoch);
static inline __u64 *deciding_word(const struct recovery *f, bool moving, __u32 epoch);
static __u16 recovery_flags(const struct recovery *f);
static __s32 history_length(const struct recovery *f);
static void set_history_length(const struct recovery *f, __u16 length);

static void fail(const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	vfprintf(stderr, format, arguments);
	va_end(arguments);
	fputc('\n', stderr);
	exit(2);
}

#include "recover.h"
#include "history.h"
#include "reference.h"
#include "random.h"
#include "visited.h"

enum kind { PACKET, RESET, STEP };

struct operation {
	enum kind kind;
	__u16 number;
	__u64 now;
};

struct cpu {
	__u32 operation; /* the present one */
	__u32 accesses;	 /* of it, up to now */
	__u64 log;	 /* the hash of their values */
	/* The word of the world that the store buffer is for, or 0; its value. */
	__u64 store, stored;
	__u64 marks; /* of the loader, at the start of the present operation */
};

struct world {
	struct frer_recovery r;
	struct frer_recovery_record record;
	__u64 second[FRER_RING_WORDS];	     /* the ring of longer histories */
	__u64 head;			     /* read by the loader */
	__u32 waits[MAX_CPUS];		     /* operations to end before the grace period does */
	__u8 passes[MAX_CPUS * MAX_PACKETS]; /* of each number, at the index of it */
	__u32 orders;			     /* the set of sequential orders that agree with it */
	__u32 present; /* the CPU whose operation has not ended, if a switch counts */
	__u64 late;    /* numbers of packets that were late by a timeout, by index */
	struct cpu cpus[MAX_CPUS];
	/* Not part of the state. */
	__u32 preemptions;
	__u32 log_start[MAX_CPUS]; /* of the present operation, in the log of its CPU */
};

static struct operation operations[MAX_CPUS][MAX_PACKETS];
static __u32 cpu_count, packets, length;
static bool with_reset, with_timeout, match, individual, longer, shorter, hasty, tolerant;
static __u64 latest; /* the latest time of a packet */

/* The lengths before and after the loader's steps; the steps. The loader is the last CPU. */
static __u32 length_before, length_after;
static const __u8 *steps;
static __u32 step_count;

/* Interleavings with more preemptions are not explored. */
static bool bounded;
static __u32 most_preemptions;
static __u64 most_states = ~0ULL;

/*
 * There is one world: exploration changes it and restores it, but for the logs. These grow only:
 * what an operation has logged remains until exploration has returned to before it.
 */
static struct world world;
static __u64 logs[MAX_CPUS][LOG_SIZE];

/* The run of a function: its CPU and log, the accesses of former runs and those up to now. */
static struct cpu *running;
static __u64 *running_log;
static __u32 replayed, access_number;
static bool has_advanced; /* by an access whose order makes a difference */
static jmp_buf stop;

static bool find_recovery(__u32 slot, struct recovery *f)
{
	(void)slot;
	f->r = &world.r;
	return true;
}

static struct frer_recovery_record *find_record(__u32 slot)
{
	(void)slot;
	return &world.record;
}

static __u64 mix(__u64 hash, __u64 value)
{
	hash = (hash ^ value) * 0x9e3779b97f4a7c15ULL;
	return hash ^ hash >> 29;
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
 * The access after the next one stops the run, unless it is `settled`: its value does not change
 * before the operation has ended.
 */
static bool is_next(bool settled, __u64 *value)
{
	__u32 number = access_number++;

	if (!running)
		return true;
	if (number < replayed) {
		*value = running_log[number];
		return false;
	}
	if (!settled && has_advanced)
		longjmp(stop, 1);
	has_advanced |= !settled;
	if (number == MAX_LOG || running_log + number == logs[running - world.cpus] + LOG_SIZE)
		fail("an operation has more than %d accesses: the CPUs hinder each other forever",
		     MAX_LOG);
	return true;
}

static __u64 performed(__u64 value)
{
	if (running) {
		running_log[access_number - 1] = value;
		running->accesses = access_number;
		running->log = mix(running->log, value);
	}
	return value;
}

static void flush(struct cpu *cpu)
{
	if (cpu->store)
		((__u64 *)&world)[cpu->store] = cpu->stored;
	cpu->store = 0;
	cpu->stored = 0;
}

/* The time stamp is only moved forward. */
static bool is_settled(const __u64 *at)
{
	return at == &world.r.restarted_ns && *at >= latest;
}

static __u64 recover_load(__u64 *at)
{
	__u64 value = 0;

	if (!is_next(is_settled(at), &value))
		return value;
	if (running && running->store && (__u64 *)&world + running->store == at)
		return performed(running->stored);
	return performed(*at);
}

static __u64 recover_cas(__u64 *at, __u64 old, __u64 new)
{
	__u64 value = 0;

	if (!is_next(false, &value))
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

	if (!is_next(false, &none))
		return;
	if (!running) {
		*at = value;
		return;
	}
	flush(running);
	running->store = at - (__u64 *)&world;
	running->stored = value;
	performed(0);
}

static __u64 *word_of(const struct recovery *f, __u32 epoch, __u16 mask, __u32 ring)
{
	return ring ? &world.second[epoch & mask] : &f->r->ring[epoch & mask];
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
	if (!running || access_number > replayed)
		*at += number;
}

/* Whether an operation is of this time. */
static bool is_time(__u64 time)
{
	for (__u32 c = 0; c < cpu_count; c++)
		for (__u32 i = 0; i < packets; i++)
			if (operations[c][i].now == time)
				return true;
	return false;
}

/* The latest time of an operation that has started. */
static __u64 latest_started(void)
{
	__u64 time = 0;

	for (__u32 other = 0; other < cpu_count; other++) {
		__u32 started = world.cpus[other].operation + !!world.cpus[other].accesses;

		for (__u32 i = 0; i < started; i++)
			if (operations[other][i].now > time)
				time = operations[other][i].now;
	}
	return time;
}

#include "loader.h"
#include "orders.h"
#include "ends.h"

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

#define HASH_KEYS 128

static __u64 hash_keys[HASH_KEYS];

/*
 * The hash of a sum of products (NH of UMAC): products of different words are independent of each
 * other.
 */
static __u64 hash_of_world(void)
{
	static const size_t each = sizeof(struct cpu) / sizeof(__u64);
	size_t count =
	    offsetof(struct world, cpus) / sizeof(__u64) + (cpu_count + !!step_count) * each;
	const __u64 *words = (const __u64 *)&world;
	unsigned __int128 sum = 0;

	_Static_assert(sizeof(world) / sizeof(__u64) <= HASH_KEYS, "a key for each word");
	/* The last word of an odd number is hashed with one that does not differ by then. */
	for (size_t i = 0; i < count; i += 2)
		sum += (unsigned __int128)(words[i] + hash_keys[i]) *
		       (i + 1 < count ? words[i + 1] + hash_keys[i + 1] : 1);
	return mix(mix(1, sum), sum >> 64);
}

static struct visited visited;
static __u64 states, left;

/* The CPUs that have advanced, from the start to the present state. */
static __u8 path[MAX_PATH];
static __u32 path_length;

/* Each number of accesses in succession with its CPU. */
static void print_path(void)
{
	fprintf(stderr, "  path:");
	for (__u32 i = 0, count = 0; i < path_length; i++) {
		count++;
		if (i + 1 < path_length && path[i + 1] == path[i])
			continue;
		fprintf(stderr, path[i] < cpu_count ? " %u*%u" : " loader*%2$u", path[i], count);
		count = 0;
	}
	fputc('\n', stderr);
}

/* One access of a CPU, and settled ones before and after it. */
static void advance(__u32 c)
{
	struct cpu *cpu = &world.cpus[c];
	bool is_loader = c == cpu_count, result;
	const struct operation *o;
	struct operation step = {STEP, is_loader ? steps[cpu->operation] : 0, 0};

	world.preemptions += world.present != NO_CPU && world.present != c;
	world.present = bounded ? c : NO_CPU;
	if (!cpu->accesses && shorter && !is_loader)
		cpu->marks = marks_of();
	running = cpu;
	running_log = logs[c] + world.log_start[c];
	replayed = cpu->accesses;
	access_number = 0;
	has_advanced = false;
	if (setjmp(stop))
		return;
	result = perform(is_loader ? &step : &operations[c][cpu->operation]);
	if (is_loader) {
		end_step(result);
	} else {
		world.orders = extended(world.orders, c);
		o = &operations[c][cpu->operation++];
		if (o->kind == PACKET)
			world.passes[index_of(o->number)] += result;
		if (tolerant && with_timeout && latest_started() - o->now >= TIMEOUT)
			world.late |= 1ULL << index_of(o->number);
	}
	world.log_start[c] += cpu->accesses;
	cpu->accesses = 0;
	cpu->log = 0;
	cpu->marks = 0;
	world.present = NO_CPU;
}

static bool may_advance(__u32 c)
{
	if (world.present != NO_CPU && world.present != c && world.preemptions == most_preemptions)
		return false;
	return c == cpu_count ? may_step() : world.cpus[c].operation < packets;
}

/* Whether no operation, step or delayed store is left. */
static bool has_ended(void)
{
	for (__u32 c = 0; c < cpu_count; c++)
		if (world.cpus[c].operation < packets || world.cpus[c].store)
			return false;
	return world.cpus[cpu_count].operation == step_count;
}

/* All interleavings from the present state on. */
static void explore(void)
{
	struct world from;
	enum visit known = visit(&visited, hash_of_world(), world.preemptions);
	__u32 first = world.present == NO_CPU ? 0 : world.present;

	if (known == VISIT_KNOWN || visited.count > most_states || wrong)
		return;
	if (has_ended()) {
		if (known == VISIT_FIRST)
			check();
		return;
	}
	if (path_length == MAX_PATH)
		fail("more than %u accesses", MAX_PATH);
	from = world;
	/* First the present CPU: states are reached with few preemptions first. */
	for (__u32 i = 0; i <= cpu_count; i++) {
		__u32 c = (first + i) % (cpu_count + 1);

		if (from.cpus[c].store) {
			flush(&world.cpus[c]);
			explore();
			world = from;
		}
		if (!may_advance(c))
			continue;
		path[path_length++] = c;
		advance(c);
		explore();
		world = from;
		path_length--;
	}
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

	memset(&world, 0, sizeof(world));
	world.present = NO_CPU;
	world.r.config.history_length = length_before;
	world.r.config.ring = world.r.config.former_ring = shorter;
	world.r.config.ring_mask = (shorter ? 2 : 1) * GEOMETRY_RING - 1;
	world.r.config.former_mask = world.r.config.ring_mask;
	world.r.config.timeout_ns = with_timeout ? TIMEOUT : 0;
	world.r.config.flags =
	    (match ? FRER_RECOVERY_MATCH : 0) | (individual ? FRER_RECOVERY_INDIVIDUAL : 0);
	world.r.head = restarted(0);
	length = length_before;
	reference_begin(&begin_reference, length_before, world.r.config.timeout_ns, match,
			individual);
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
	begin_reference.rogue = world.record.rogue = 0;
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
	latest = 0;
	for (__u32 c = 0; c < cpu_count; c++)
		for (__u32 i = 0; i < packets; i++)
			latest = operations[c][i].now > latest ? operations[c][i].now : latest;
	world.orders = begin_orders(&begin_reference);
	begin = world;
}

int main(int count, char **arguments)
{
	__u32 starts;

	if (count < 6)
		fail("usage: explore CPUS PACKETS LENGTH STARTS SEED [reset|timeout] [match] "
		     "[individual] [longer|shorter] [hasty] [exceptions] [preemptions=N] "
		     "[states=N]");
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
		tolerant |= !strcmp(arguments[i], "exceptions");
		sscanf(arguments[i], "states=%" SCNu64, (uint64_t *)&most_states);
		bounded |= sscanf(arguments[i], "preemptions=%u", &most_preemptions) == 1;
	}
	if (cpu_count < 2 || cpu_count >= MAX_CPUS || !packets || packets > MAX_PACKETS ||
	    length < 2 || length > FRER_MAX_HISTORY || most_preemptions > MAX_PREEMPTIONS)
		fail("out of range: %u CPUs, %u packets, length %u, %u preemptions", cpu_count,
		     packets, length, most_preemptions);
	prepare_steps();
	seed = 0;
	for (__u32 i = 0; i < HASH_KEYS; i++)
		hash_keys[i] = random_number64();
	seed = strtoull(arguments[5], NULL, 0);
	for (__u32 i = 0; i < starts && !wrong; i++) {
		start();
		explore();
		states += visited.count;
		left += visited.count > most_states;
		outcomes += reached.count;
		visited_clear(&visited);
		visited_clear(&reached);
	}
	printf("starts %u left %" PRIu64 " states %" PRIu64 " ends %" PRIu64 " outcomes %" PRIu64
	       " (%016" PRIx64 ") orders %u wrong %" PRIu64 " imprecise %" PRIu64
	       " doubled %" PRIu64 "\n",
	       starts, (uint64_t)left, (uint64_t)states, (uint64_t)ends, (uint64_t)outcomes,
	       (uint64_t)checksum, most_orders, (uint64_t)wrong, (uint64_t)imprecise,
	       (uint64_t)doubled);
	return !!wrong;
}
