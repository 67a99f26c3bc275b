/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The loader of the explorer: it changes the history by the steps of history.h. Parameters are
 * accesses while it runs.
 */
#ifndef ONBEAT_EXPLORE_LOADER_H
#define ONBEAT_EXPLORE_LOADER_H

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

/* Prepare the loader, which is the last CPU, if the history changes. */
static void prepare_steps(void)
{
	__u32 most = (2 * GEOMETRY_RING - 1) * FRER_SEEN_BITS / 2;

	length_before = length_after = length;
	if (!longer && !shorter)
		return;
	*(longer ? &length_after : &length_before) =
	    most < FRER_MAX_HISTORY ? most : FRER_MAX_HISTORY;
	steps = longer ? longer_steps : shorter_steps;
	step_count = longer ? sizeof(longer_steps) : sizeof(shorter_steps);
}

/* Whether the grace period before the loader's next step includes the present operation of a CPU.
 */
static bool grace_period_includes(__u32 c)
{
	const struct cpu *loader = &world.cpus[cpu_count];

	return !loader->accesses && steps[loader->operation] & WAIT && !hasty &&
	       world.cpus[c].operation < world.waits[c];
}

/* Whether no parameter changes before the operation that is run has ended. */
static bool parameters_remain(void)
{
	const struct cpu *loader = &world.cpus[cpu_count];

	return running == loader || loader->operation == step_count ||
	       grace_period_includes(running - world.cpus);
}

/* Whether the loader has a step to take. */
static bool may_step(void)
{
	if (world.cpus[cpu_count].operation == step_count)
		return false;
	for (__u32 c = 0; c < cpu_count; c++)
		if (grace_period_includes(c))
			return false;
	return true;
}

/* Parameters are accesses while the loader changes them. */
static __u16 recovery_flags(const struct recovery *f)
{
	__u64 value = 0;

	if (!step_count)
		return f->r->config.flags;
	if (!is_next(parameters_remain(), &value))
		return value;
	return performed(f->r->config.flags);
}

static __s32 history_length(const struct recovery *f)
{
	__u64 value = 0;

	if (!step_count)
		return f->r->config.history_length;
	if (!is_next(parameters_remain(), &value))
		return value;
	return performed(f->r->config.history_length);
}

static void set_flags(const struct recovery *f, __u16 flags)
{
	__u64 none = 0;

	if (is_next(false, &none)) {
		f->r->config.flags = flags;
		performed(0);
	}
}

static void set_history_length(const struct recovery *f, __u16 new)
{
	__u64 none = 0;

	if (is_next(false, &none)) {
		f->r->config.history_length = new;
		performed(0);
	}
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

		world.head = newest_head(f, head, false);
		break;
	}
	case STEP_SETTLE:
		config->former_ring = config->ring;
		config->former_mask = config->ring_mask;
		break;
	case STEP_SET:
		return set_history(0, f, length_after, world.head);
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

/* The steps that the sequential algorithm takes: the head is read, the length is set. */
#define MARKS 2

/* Those of them that have ended; a shorter history needs no head. */
static __u32 marks_of(void)
{
	__u32 marks = shorter;

	for (__u32 i = 0; i < world.cpus[cpu_count].operation; i++)
		marks += (steps[i] & ~WAIT) == STEP_SET || (steps[i] & ~WAIT) == STEP_HEAD;
	return marks;
}

/* Whether the loader's present step is one of these. */
static bool is_mark(void)
{
	__u8 step = steps[world.cpus[cpu_count].operation] & ~WAIT;

	return step == STEP_HEAD || step == STEP_SET;
}

static __u32 extended(__u32 set, __u32 c);
static __u32 without_step(__u32 set);

/* A step of the loader has ended; false: it starts again from the one before. */
static void end_step(bool succeeded)
{
	struct cpu *loader = &world.cpus[cpu_count];

	if (is_mark())
		world.orders =
		    succeeded ? extended(world.orders, cpu_count) : without_step(world.orders);
	if (succeeded)
		loader->operation++;
	else if (longer)
		for (loader->operation = 0; (steps[loader->operation] & ~WAIT) != STEP_HEAD;)
			loader->operation++;
	for (__u32 c = 0; c < cpu_count; c++)
		world.waits[c] = world.cpus[c].operation + !!world.cpus[c].accesses;
}

#endif
