// SPDX-License-Identifier: GPL-2.0-only
/* Attachments, slots and their counters, for GET and SLOT_GET of the family. */
#include <linux/rculist.h>
#include <net/sock.h>

#include "compat.h"
#include "port.h"

/* Message size for one attachment. */
#define OB_REPORT_SIZE	(1024 + ONBEAT_MAX_ETHER_TYPES * sizeof(u16))

static int ob_put_count(struct sk_buff *message, enum onbeat_counter which, const atomic64_t *count)
{
	return nla_put_u64_64bit(message, which, atomic64_read(count), ONBEAT_C_PAD);
}

static int ob_put_counters(struct sk_buff *message, const struct ob_counters *counters)
{
	return ob_put_count(message, ONBEAT_C_SENT, &counters->sent) ||
	       ob_put_count(message, ONBEAT_C_SEND_FAILURES, &counters->send_failures) ||
	       ob_put_count(message, ONBEAT_C_RESPONSES, &counters->responses) ||
	       ob_put_count(message, ONBEAT_C_MISSED_CYCLES, &counters->missed_cycles);
}

static int ob_put_types(struct sk_buff *message, const struct ob_config *config)
{
	struct nlattr *attr;
	u16 *types;
	u16 i;

	attr = nla_reserve(message, ONBEAT_A_ETHER_TYPES, config->ether_type_count * sizeof(u16));
	if (!attr)
		return -EMSGSIZE;
	types = nla_data(attr);
	for (i = 0; i < config->ether_type_count; i++)
		types[i] = ntohs(config->ether_types[i]);
	return 0;
}

static int ob_put_port(struct sk_buff *message, u32 portid, u32 sequence, int flags,
		       const struct ob_port *port, const struct net_device *switch_dev)
{
	const struct ob_config *config = &port->config;
	void *header = genlmsg_put(message, portid, sequence, &ob_family, flags, ONBEAT_CMD_GET);
	struct nlattr *counters;

	if (!header)
		return -EMSGSIZE;
	if (nla_put_u32(message, ONBEAT_A_IFINDEX, port->ifindex) ||
	    nla_put_u32(message, ONBEAT_A_MODE, config->mode) ||
	    nla_put_u32(message, ONBEAT_A_CLOCK, config->clock) ||
	    nla_put_u32(message, ONBEAT_A_FLAGS, config->flags) ||
	    nla_put_u32(message, ONBEAT_A_OWNER, config->owner) ||
	    ob_put_types(message, config))
		goto full;
	if (switch_dev && nla_put_u32(message, ONBEAT_A_SWITCH_IFINDEX, switch_dev->ifindex))
		goto full;
	counters = nla_nest_start(message, ONBEAT_A_COUNTERS);
	if (!counters || ob_put_counters(message, &port->counters) ||
	    ob_put_count(message, ONBEAT_C_MAX_LAUNCH_DELAY_NS, &port->max_launch_delay_ns) ||
	    ob_put_count(message, ONBEAT_C_CLAIMED, &port->claimed) ||
	    ob_put_count(message, ONBEAT_C_PASSED, &port->passed) ||
	    ob_put_count(message, ONBEAT_C_LOST_CONFIRMATIONS, &port->lost_confirmations))
		goto full;
	nla_nest_end(message, counters);
	genlmsg_end(message, header);
	return 0;

full:
	genlmsg_cancel(message, header);
	return -EMSGSIZE;
}

/* The reply to GET for one interface. */
int ob_report_port(struct sk_buff *request, struct genl_info *info)
{
	struct sk_buff *message;
	struct ob_port *port;
	int err;

	if (GENL_REQ_ATTR_CHECK(info, ONBEAT_A_IFINDEX))
		return -EINVAL;
	port = ob_port_get(genl_info_net(info), nla_get_u32(info->attrs[ONBEAT_A_IFINDEX]));
	if (!port) {
		NL_SET_ERR_MSG(info->extack, "onbeat is not attached to this interface");
		return -ENODEV;
	}
	message = genlmsg_new(OB_REPORT_SIZE, GFP_KERNEL);
	err = message ? 0 : -ENOMEM;
	if (!err) {
		/* switch_dev is valid as long as the port is not detached. */
		rcu_read_lock();
		err = ob_put_port(message, info->snd_portid, info->snd_seq, 0, port,
				  READ_ONCE(port->switch_dev));
		rcu_read_unlock();
	}
	ob_port_put(port);
	if (!err)
		return genlmsg_reply(message, info);
	nlmsg_free(message);
	return err;
}

int ob_dump_ports(struct sk_buff *message, struct netlink_callback *cb)
{
	const struct net *net = sock_net(message->sk);
	const struct ob_port *port;
	long place = 0;

	rcu_read_lock();
	list_for_each_entry_rcu(port, &ob_ports, list) {
		if (!net_eq(read_pnet(&port->net), net) || place++ < cb->args[0])
			continue;
		if (ob_put_port(message, NETLINK_CB(cb->skb).portid, cb->nlh->nlmsg_seq,
				NLM_F_MULTI, port, READ_ONCE(port->switch_dev)))
			break;
		cb->args[0] = place;
	}
	rcu_read_unlock();
	return message->len;
}

static int ob_put_slot(struct sk_buff *message, struct netlink_callback *cb,
		       const struct ob_port *port, struct ob_slot *slot)
{
	const struct ob_frame *frame = rcu_dereference(slot->frame);
	struct nlattr *counters;
	void *header;

	header = genlmsg_put(message, NETLINK_CB(cb->skb).portid, cb->nlh->nlmsg_seq, &ob_family,
			     NLM_F_MULTI, ONBEAT_CMD_SLOT_GET);
	if (!header)
		return -EMSGSIZE;
	if (nla_put_u32(message, ONBEAT_A_IFINDEX, port->ifindex) ||
	    nla_put_u32(message, ONBEAT_A_SLOT, slot->id) ||
	    (frame && nla_put_u64_64bit(message, ONBEAT_A_COOKIE, frame->cookie, ONBEAT_A_PAD)))
		goto full;
	counters = nla_nest_start(message, ONBEAT_A_COUNTERS);
	if (!counters || ob_put_counters(message, &slot->counters))
		goto full;
	nla_nest_end(message, counters);
	genlmsg_end(message, header);
	return 0;

full:
	genlmsg_cancel(message, header);
	return -EMSGSIZE;
}

int ob_dump_slots(struct sk_buff *message, struct netlink_callback *cb)
{
	const struct nlattr *ifindex = ob_dump_attrs(cb)[ONBEAT_A_IFINDEX];
	struct ob_port *port;
	struct ob_slot *slot;
	unsigned long id;

	if (!ifindex) {
		NL_SET_ERR_MSG(cb->extack, "IFINDEX is required");
		return -EINVAL;
	}
	port = ob_port_get(sock_net(message->sk), nla_get_u32(ifindex));
	if (!port) {
		NL_SET_ERR_MSG(cb->extack, "onbeat is not attached to this interface");
		return -ENODEV;
	}
	rcu_read_lock();
	xa_for_each_start(&port->slots, id, slot, cb->args[0]) {
		if (ob_put_slot(message, cb, port, slot))
			break;
		cb->args[0] = id + 1;
	}
	rcu_read_unlock();
	ob_port_put(port);
	return message->len;
}
