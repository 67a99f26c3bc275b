// SPDX-License-Identifier: GPL-2.0-only
/* Automatic responses: a received frame that matches a filter sends a slot at once, in softirq. */
#include <linux/etherdevice.h>
#include <linux/if_packet.h>
#include <linux/rculist.h>

#include "port.h"

/* Oldest first in port->responses. */
struct ob_response {
	struct list_head list;
	struct ob_filter filter;
	struct ob_slot *slot;
	u64 id;
	struct rcu_head rcu;
};

/*
 * Returns true if the frame is addressed to this station. A promiscuous device receives more, and
 * its multicast filter may be inexact.
 */
static bool ob_is_for_us(const struct ob_port *port, const struct sk_buff *skb)
{
	const struct ob_groups *groups;
	unsigned int i;

	switch (skb->pkt_type) {
	case PACKET_HOST:
	case PACKET_BROADCAST:
		return true;
	case PACKET_MULTICAST:
		break;
	default:
		return false;
	}
	groups = rcu_dereference(port->groups);
	for (i = 0; groups && i < groups->count; i++) {
		if (ether_addr_equal_unaligned(eth_hdr(skb)->h_dest, groups->addresses[i]))
			return true;
	}
	return false;
}

/* Returns true if the frame was answered. Under RCU, in softirq. */
bool ob_respond(struct ob_port *port, const struct sk_buff *skb)
{
	const struct ob_response *response;
	struct ob_key key = {};

	if (list_empty(&port->responses) || !ob_is_for_us(port, skb))
		return false;
	key.len = min_t(size_t, skb->len + ETH_HLEN, ONBEAT_MAX_FILTER);
	if (skb_copy_bits(skb, skb_mac_offset(skb), key.octets, key.len))
		return false;
	list_for_each_entry_rcu(response, &port->responses, list) {
		if (ob_filter_matches(&response->filter, &key))
			return !ob_send(response->slot, ONBEAT_CAUSE_RESPONSE, NULL);
	}
	return false;
}

static struct ob_response *ob_response_find(struct ob_port *port, u64 id)
{
	struct ob_response *response;

	list_for_each_entry(response, &port->responses, list) {
		if (response->id == id)
			return response;
	}
	return NULL;
}

int ob_response_add(struct ob_port *port, struct ob_slot *slot, u64 id,
		    const struct ob_filter *filter, struct netlink_ext_ack *extack)
{
	struct ob_response *response;

	lockdep_assert_held(&port->lock);
	if (ob_response_find(port, id)) {
		NL_SET_ERR_MSG(extack, "a response with this number exists; stop it first");
		return -EEXIST;
	}
	if (port->response_count == ONBEAT_MAX_RESPONSES) {
		NL_SET_ERR_MSG(extack, "too many responses");
		return -ENOSPC;
	}
	response = kzalloc(sizeof(*response), GFP_KERNEL);
	if (!response)
		return -ENOMEM;
	response->filter = *filter;
	response->slot = slot;
	response->id = id;
	slot->responses++;
	port->response_count++;
	list_add_tail_rcu(&response->list, &port->responses);
	return 0;
}

static void ob_response_free(struct ob_port *port, struct ob_response *response)
{
	list_del_rcu(&response->list);
	response->slot->responses--;
	port->response_count--;
	kfree_rcu(response, rcu);
}

int ob_response_stop(struct ob_port *port, u64 id, struct netlink_ext_ack *extack)
{
	struct ob_response *response;

	lockdep_assert_held(&port->lock);
	response = ob_response_find(port, id);
	if (!response) {
		NL_SET_ERR_MSG(extack, "no response with this number");
		return -ENOENT;
	}
	ob_response_free(port, response);
	return 0;
}

int ob_groups_set(struct ob_port *port, const struct nlattr *addresses,
		  struct netlink_ext_ack *extack)
{
	struct ob_groups *groups, *before;
	int len = nla_len(addresses);

	lockdep_assert_held(&port->lock);
	if (len % ETH_ALEN) {
		NL_SET_ERR_MSG_ATTR(extack, addresses, "the length is not a multiple of an address");
		return -EINVAL;
	}
	groups = kmalloc(sizeof(*groups) + len, GFP_KERNEL);
	if (!groups)
		return -ENOMEM;
	groups->count = len / ETH_ALEN;
	memcpy(groups->addresses, nla_data(addresses), len);
	before = rcu_replace_pointer(port->groups, groups, lockdep_is_held(&port->lock));
	if (before)
		kfree_rcu(before, rcu);
	return 0;
}

/* At detach: nothing is received any more. */
void ob_responses_free_all(struct ob_port *port)
{
	struct ob_response *response, *next;
	struct ob_groups *groups;

	mutex_lock(&port->lock);
	list_for_each_entry_safe(response, next, &port->responses, list)
		ob_response_free(port, response);
	groups = rcu_replace_pointer(port->groups, NULL, lockdep_is_held(&port->lock));
	mutex_unlock(&port->lock);
	if (groups)
		kfree_rcu(groups, rcu);
}
