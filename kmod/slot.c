// SPDX-License-Identifier: GPL-2.0-only
/* Slots: prebuilt frames. */
#include <linux/slab.h>

#include "port.h"

struct ob_slot *ob_slot_find(struct ob_port *port, u32 id, struct netlink_ext_ack *extack)
{
	struct ob_slot *slot;

	lockdep_assert_held(&port->lock);
	slot = xa_load(&port->slots, id);
	if (slot)
		return slot;
	NL_SET_ERR_MSG(extack, "no such slot; set its frame first");
	return ERR_PTR(-ENOENT);
}

static struct ob_frame *ob_frame_of(const struct nlattr *attr, u64 cookie)
{
	struct ob_frame *frame = kmalloc(sizeof(*frame) + nla_len(attr), GFP_KERNEL);

	if (!frame)
		return NULL;
	frame->cookie = cookie;
	frame->len = nla_len(attr);
	memcpy(frame->octets, nla_data(attr), frame->len);
	return frame;
}

static struct ob_slot *ob_slot_create(struct ob_port *port, u32 id)
{
	struct ob_slot *slot = kzalloc(sizeof(*slot), GFP_KERNEL);
	int err;

	if (!slot)
		return ERR_PTR(-ENOMEM);
	slot->port = port;
	slot->id = id;
	ob_timer_init(slot);
	err = xa_err(xa_store(&port->slots, id, slot, GFP_KERNEL));
	if (err) {
		kfree(slot);
		return ERR_PTR(err);
	}
	return slot;
}

/* A concurrent transmission sends either the former frame or this one, never a mixture. */
int ob_slot_set(struct ob_port *port, u32 id, u64 cookie, const struct nlattr *attr,
		struct netlink_ext_ack *extack)
{
	struct ob_frame *frame, *before;
	struct ob_slot *slot;

	lockdep_assert_held(&port->lock);
	if (nla_len(attr) > ETH_HLEN + READ_ONCE(port->dev->mtu)) {
		NL_SET_ERR_MSG_ATTR(extack, attr, "the frame is longer than the interface's MTU");
		return -EMSGSIZE;
	}
	frame = ob_frame_of(attr, cookie);
	if (!frame)
		return -ENOMEM;
	slot = xa_load(&port->slots, id);
	if (!slot)
		slot = ob_slot_create(port, id);
	if (IS_ERR(slot)) {
		kfree(frame);
		return PTR_ERR(slot);
	}
	before = rcu_replace_pointer(slot->frame, frame, lockdep_is_held(&port->lock));
	if (before)
		kfree_rcu(before, rcu);
	return 0;
}

static void ob_slot_release(struct ob_slot *slot)
{
	struct ob_frame *frame;

	hrtimer_cancel(&slot->timer);
	frame = rcu_replace_pointer(slot->frame, NULL, lockdep_is_held(&slot->port->lock));
	if (frame)
		kfree_rcu(frame, rcu);
	xa_erase(&slot->port->slots, slot->id);
	kfree_rcu(slot, rcu);
}

int ob_slot_free(struct ob_port *port, u32 id, struct netlink_ext_ack *extack)
{
	struct ob_slot *slot = ob_slot_find(port, id, extack);

	if (IS_ERR(slot))
		return PTR_ERR(slot);
	if (slot->responses) {
		NL_SET_ERR_MSG(extack, "the slot is used by a response; stop that response first");
		return -EBUSY;
	}
	ob_slot_release(slot);
	return 0;
}

/* At detach. */
void ob_slots_free_all(struct ob_port *port)
{
	struct ob_slot *slot;
	unsigned long id;

	mutex_lock(&port->lock);
	xa_for_each(&port->slots, id, slot)
		ob_slot_release(slot);
	/*
	 * Here and not when the port's memory is freed: that is in softirq, where its lock must
	 * not be taken.
	 */
	xa_destroy(&port->slots);
	mutex_unlock(&port->lock);
}
