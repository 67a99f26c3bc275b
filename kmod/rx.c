// SPDX-License-Identifier: GPL-2.0-only
/*
 * Received frames.
 *
 *   claimed      answered if a response matches, then delivered only to packet sockets on
 *                ONBEAT_PROTOCOL
 *   not claimed  to the virtual interface, as if received there; without one, to the stack
 */
#include <linux/etherdevice.h>
#include <linux/if_packet.h>
#include <linux/if_vlan.h>

#include "port.h"

static bool ob_claims(const struct ob_config *config, __be16 ether_type)
{
	unsigned int i;

	if (!config->ether_type_count)
		return true;
	for (i = 0; i < config->ether_type_count; i++) {
		if (config->ether_types[i] == ether_type)
			return true;
	}
	return false;
}

/*
 * The stack removes the VLAN tag of a frame that only exact sockets receive, before they receive
 * it. So the tag is restored to its position on the medium.
 */
static struct sk_buff *ob_tag_inside(struct sk_buff *skb)
{
	skb_push(skb, skb->data - skb_mac_header(skb));
	skb = __vlan_hwaccel_push_inside(skb);
	if (!skb)
		return NULL;
	skb_reset_mac_header(skb);
	skb_pull(skb, ETH_HLEN);
	skb_reset_network_header(skb);
	skb_reset_mac_len(skb);
	return skb;
}

static rx_handler_result_t ob_claim(struct ob_port *port, struct sk_buff **pskb)
{
	bool answered = ob_respond(port, *pskb);
	struct sk_buff *skb = skb_share_check(*pskb, GFP_ATOMIC);

	atomic64_inc(&port->claimed);
	if (skb && skb_vlan_tag_present(skb))
		skb = ob_tag_inside(skb);
	if (!skb)
		return RX_HANDLER_CONSUMED;
	if (answered)
		skb->pkt_type = ONBEAT_ANSWERED;
	skb->protocol = htons(ONBEAT_PROTOCOL);
	*pskb = skb;
	return RX_HANDLER_EXACT;
}

static rx_handler_result_t ob_pass(struct ob_port *port, struct sk_buff **pskb)
{
	struct net_device *dev = port->switch_dev;
	struct sk_buff *skb;

	atomic64_inc(&port->passed);
	if (!dev)
		return RX_HANDLER_PASS;
	skb = skb_share_check(*pskb, GFP_ATOMIC);
	if (!skb)
		return RX_HANDLER_CONSUMED;
	if (!(dev->flags & IFF_UP)) {
		kfree_skb(skb);
		return RX_HANDLER_CONSUMED;
	}
	skb->dev = dev;
	dev_sw_netstats_rx_add(dev, skb->len + ETH_HLEN);
	*pskb = skb;
	return RX_HANDLER_ANOTHER;
}

/* Under RCU and with softirqs disabled. */
rx_handler_result_t ob_receive(struct sk_buff **pskb)
{
	struct ob_port *port = rcu_dereference((*pskb)->dev->rx_handler_data);

	BUILD_BUG_ON(ONBEAT_ANSWERED != PACKET_USER);
	/* Frames that this host sent to itself. */
	if (unlikely((*pskb)->pkt_type == PACKET_LOOPBACK))
		return RX_HANDLER_PASS;
	if (ob_claims(&port->config, (*pskb)->protocol))
		return ob_claim(port, pskb);
	return ob_pass(port, pskb);
}
