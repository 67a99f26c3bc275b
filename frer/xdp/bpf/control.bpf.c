// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Resets and changes of recovery functions. The loader runs it by BPF_PROG_RUN with a struct
 * frer_request as the "frame". Never attached to an interface.
 */
#include "clock.h"
#include "recover_state.h"
#include "history.h"

/* Maximum number of slots per run; the caller continues from there. */
#define MAX_SWEEP 1024

/* A global function: the verifier checks it once instead of once per slot of a sweep. */
__noinline int expire_slot(__u32 slot, __u64 now)
{
	struct recovery f;

	if (!find_recovery(slot, &f))
		return false;
	expire(slot, &f, now);
	return true;
}

static __always_inline void reset(__u32 slot, const struct recovery *f)
{
	for (int i = 0; i < RECOVER_TRIES && !restart(slot, recover_load(&f->r->head), AT_ONCE);
	     i++)
		;
}

static __always_inline void configure(__u32 slot, const struct recovery *f,
				      const struct frer_recovery_config *config)
{
	struct frer_recovery_config *now = &f->r->config;

	/* Options that packets read by themselves: the state continues. */
	if (now->history_length == config->history_length && now->ring == config->ring &&
	    now->ring_mask == config->ring_mask &&
	    !((now->flags ^ config->flags) & ~FRER_RECOVERY_TAKE_NOSEQ)) {
		WRITE_ONCE(now->flags, config->flags);
		WRITE_ONCE(now->timeout_ns, config->timeout_ns);
		return;
	}
	reset(slot, f);
	f->r->config = *config;
	/* What was recorded with the former parameters meanwhile. */
	if (!(recover_load(&f->r->head) & FRER_HEAD_TAKE_ANY))
		reset(slot, f);
}

static __always_inline void reset_generator(__u32 slot)
{
	struct frer_generator *g = bpf_map_lookup_elem(&generators, &slot);
	struct frer_generator_record *record = bpf_map_lookup_elem(&generator_records, &slot);

	if (!g || !record)
		return;
	__sync_lock_test_and_set(&g->next, 0);
	count(&record->resets);
}

SEC("xdp")
int frer_control(struct xdp_md *ctx)
{
	struct frer_request *q = (void *)(long)ctx->data;
	struct recovery f;
	__u32 slot;
	__u64 now;

	if ((void *)(q + 1) > (void *)(long)ctx->data_end)
		return XDP_ABORTED;
	slot = q->slot;
	now = now_ns();
	switch (q->op) {
	case FRER_OP_EXPIRE:
		for (__u32 i = 0; i < MAX_SWEEP; i++) {
			if (i >= q->count || !expire_slot(slot + i, now))
				break;
		}
		return XDP_PASS;
	case FRER_OP_RESET_RECOVERY:
		/* An expired timeout that has not been applied yet came first. */
		if (expire_slot(slot, now) && find_recovery(slot, &f))
			reset(slot, &f);
		return XDP_PASS;
	case FRER_OP_RESET_GENERATOR:
		reset_generator(slot);
		return XDP_PASS;
	case FRER_OP_CONFIGURE: {
		struct frer_recovery_config config = q->config;

		if (find_recovery(slot, &f))
			configure(slot, &f, &config);
		return XDP_PASS;
	}
	case FRER_OP_COPY_RING:
		if (find_recovery(slot, &f) && !copy_ring(slot, &f))
			return FRER_AGAIN;
		return XDP_PASS;
	case FRER_OP_SET_HISTORY: {
		__s32 length = q->config.history_length;
		__u64 head = q->head;

		if (find_recovery(slot, &f) && !set_history(slot, &f, length, head))
			return FRER_AGAIN;
		return XDP_PASS;
	}
	default:
		return XDP_ABORTED;
	}
}

char _license[] SEC("license") = "Dual BSD/GPL";
