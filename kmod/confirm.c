// SPDX-License-Identifier: GPL-2.0-only
/*
 * Telling the owner what became of its frames. Flights end in any context, so a work item tells,
 * as many at a time as have ended.
 */
#include <linux/workqueue.h>

#include "port.h"

/* Confirmations in a message at most: it fits a page. */
#define OB_BATCH	64

static struct workqueue_struct *ob_queue;

int ob_confirm_init(void)
{
	/* Unbound: a process that spins with real-time priority holds up only its own CPU. */
	ob_queue = alloc_workqueue("onbeat", WQ_UNBOUND | WQ_HIGHPRI, 0);
	return ob_queue ? 0 : -ENOMEM;
}

void ob_confirm_exit(void)
{
	destroy_workqueue(ob_queue);
}

/* The flight may begin anew. Any context. */
void ob_flight_idle(struct ob_flight *flight)
{
	struct ob_port *port = flight->port;

	llist_add(&flight->node, &port->idle);
	ob_port_put(port);
}

/* Any context, hard interrupts included. */
void ob_flight_end(struct ob_flight *flight)
{
	struct ob_port *port = flight->port;
	const struct onbeat_confirmation *told = &flight->told;
	bool dropped = told->outcome == ONBEAT_OUTCOME_DROPPED;

	/* Who sends by command learns of a failure at once, the rest from here in any case. */
	if (dropped ? told->cause == ONBEAT_CAUSE_NOW :
		      !(port->config.flags & ONBEAT_FLAG_CONFIRM)) {
		ob_flight_idle(flight);
		return;
	}
	if (llist_add(&flight->node, &port->ended))
		queue_work(ob_queue, &port->tell);
}

/* Tells of the first flights of the list, and returns the others. */
static struct llist_node *ob_tell_some(struct ob_port *port, struct llist_node *ended)
{
	struct onbeat_confirmation *told;
	struct llist_node *node = ended;
	unsigned int count = 0, i;
	struct sk_buff *message;
	struct nlattr *attr;
	void *header;

	for (node = ended; node && count < OB_BATCH; node = node->next)
		count++;
	message = genlmsg_new(nla_total_size(count * sizeof(*told)), GFP_KERNEL);
	if (!message)
		goto lost;
	header = genlmsg_put(message, 0, 0, &ob_family, 0, ONBEAT_CMD_CONFIRMATIONS);
	attr = header ? nla_reserve(message, ONBEAT_A_CONFIRMATIONS, count * sizeof(*told)) : NULL;
	if (!attr) {
		nlmsg_free(message);
		goto lost;
	}
	told = nla_data(attr);
	for (i = 0, node = ended; i < count; i++, node = node->next)
		memcpy(&told[i], &llist_entry(node, struct ob_flight, node)->told, sizeof(*told));
	genlmsg_end(message, header);
	/* Not waiting: where the owner does not read, its socket is full. */
	if (genlmsg_unicast(read_pnet(&port->net), message, port->config.owner))
		goto lost;
	return node;

lost:
	atomic64_add(count, &port->lost_confirmations);
	for (i = 0, node = ended; i < count; i++)
		node = node->next;
	return node;
}

void ob_tell(struct work_struct *work)
{
	struct ob_port *port = container_of(work, struct ob_port, tell);
	struct llist_node *ended = llist_reverse_order(llist_del_all(&port->ended));
	struct llist_node *node, *next;

	/* The namespace is there until detach has had the lock. */
	mutex_lock(&port->lock);
	for (node = ended; node && !port->dead;)
		node = ob_tell_some(port, node);
	mutex_unlock(&port->lock);
	/* The last may free the port, and this work item with it. */
	llist_for_each_safe(node, next, ended)
		ob_flight_idle(llist_entry(node, struct ob_flight, node));
}
