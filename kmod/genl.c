// SPDX-License-Identifier: GPL-2.0-only
/* The generic netlink family: policies and handlers of its commands. */
#include <linux/module.h>
#include <linux/rtnetlink.h>

#include "port.h"

/* Jumbo frames with their headers. */
#define OB_MAX_FRAME	16384

static struct netlink_range_validation ob_slot_range = { .max = ONBEAT_MAX_SLOTS - 1 };

static const struct nla_policy ob_attach_policy[ONBEAT_A_ETHER_TYPES + 1] = {
	[ONBEAT_A_IFINDEX] = NLA_POLICY_MIN(NLA_U32, 1),
	[ONBEAT_A_MODE] = NLA_POLICY_MAX(NLA_U32, ONBEAT_MODE_MAX),
	[ONBEAT_A_CLOCK] = { .type = NLA_U32 },
	[ONBEAT_A_FLAGS] = NLA_POLICY_MASK(NLA_U32, ONBEAT_FLAG_SWITCH | ONBEAT_FLAG_CONFIRM),
	[ONBEAT_A_ETHER_TYPES] = {
		.type = NLA_BINARY,
		.len = ONBEAT_MAX_ETHER_TYPES * sizeof(u16),
	},
};

static const struct nla_policy ob_port_policy[ONBEAT_A_IFINDEX + 1] = {
	[ONBEAT_A_IFINDEX] = NLA_POLICY_MIN(NLA_U32, 1),
};

static const struct nla_policy ob_slot_policy[ONBEAT_A_SLOT + 1] = {
	[ONBEAT_A_IFINDEX] = NLA_POLICY_MIN(NLA_U32, 1),
	[ONBEAT_A_SLOT] = NLA_POLICY_FULL_RANGE(NLA_U32, &ob_slot_range),
};

static const struct nla_policy ob_slot_set_policy[ONBEAT_A_FRAME + 1] = {
	[ONBEAT_A_IFINDEX] = NLA_POLICY_MIN(NLA_U32, 1),
	[ONBEAT_A_SLOT] = NLA_POLICY_FULL_RANGE(NLA_U32, &ob_slot_range),
	[ONBEAT_A_COOKIE] = { .type = NLA_U64 },
	[ONBEAT_A_FRAME] = NLA_POLICY_RANGE(NLA_BINARY, ETH_HLEN, OB_MAX_FRAME),
};

static const struct nla_policy ob_launch_policy[ONBEAT_A_PERIOD + 1] = {
	[ONBEAT_A_IFINDEX] = NLA_POLICY_MIN(NLA_U32, 1),
	[ONBEAT_A_SLOT] = NLA_POLICY_FULL_RANGE(NLA_U32, &ob_slot_range),
	[ONBEAT_A_TIME] = { .type = NLA_U64 },
	[ONBEAT_A_PERIOD] = { .type = NLA_U64 },
};

static const struct nla_policy ob_respond_policy[ONBEAT_A_MASK + 1] = {
	[ONBEAT_A_IFINDEX] = NLA_POLICY_MIN(NLA_U32, 1),
	[ONBEAT_A_SLOT] = NLA_POLICY_FULL_RANGE(NLA_U32, &ob_slot_range),
	[ONBEAT_A_RESPONSE] = { .type = NLA_U64 },
	[ONBEAT_A_VALUE] = NLA_POLICY_RANGE(NLA_BINARY, 1, ONBEAT_MAX_FILTER),
	[ONBEAT_A_MASK] = NLA_POLICY_RANGE(NLA_BINARY, 1, ONBEAT_MAX_FILTER),
};

static const struct nla_policy ob_respond_stop_policy[ONBEAT_A_RESPONSE + 1] = {
	[ONBEAT_A_IFINDEX] = NLA_POLICY_MIN(NLA_U32, 1),
	[ONBEAT_A_RESPONSE] = { .type = NLA_U64 },
};

static const struct nla_policy ob_groups_policy[ONBEAT_A_GROUPS + 1] = {
	[ONBEAT_A_IFINDEX] = NLA_POLICY_MIN(NLA_U32, 1),
	[ONBEAT_A_GROUPS] = {
		.type = NLA_BINARY,
		.len = ONBEAT_MAX_GROUPS * ETH_ALEN,
	},
};

/* Returns the attachment of a command, locked. */
static struct ob_port *ob_port_lock(struct genl_info *info)
{
	struct ob_port *port;

	if (GENL_REQ_ATTR_CHECK(info, ONBEAT_A_IFINDEX))
		return ERR_PTR(-EINVAL);
	port = ob_port_get(genl_info_net(info), nla_get_u32(info->attrs[ONBEAT_A_IFINDEX]));
	if (port) {
		mutex_lock(&port->lock);
		if (!port->dead)
			return port;
		mutex_unlock(&port->lock);
		ob_port_put(port);
	}
	NL_SET_ERR_MSG(info->extack, "onbeat is not attached to this interface");
	return ERR_PTR(-ENODEV);
}

static void ob_port_unlock(struct ob_port *port)
{
	mutex_unlock(&port->lock);
	ob_port_put(port);
}

/* Returns the slot of a command, with its port locked. */
static struct ob_slot *ob_slot_lock(struct genl_info *info)
{
	struct ob_port *port;
	struct ob_slot *slot;

	if (GENL_REQ_ATTR_CHECK(info, ONBEAT_A_SLOT))
		return ERR_PTR(-EINVAL);
	port = ob_port_lock(info);
	if (IS_ERR(port))
		return ERR_CAST(port);
	slot = ob_slot_find(port, nla_get_u32(info->attrs[ONBEAT_A_SLOT]), info->extack);
	if (IS_ERR(slot))
		ob_port_unlock(port);
	return slot;
}

static int ob_config_of(struct genl_info *info, struct ob_config *config)
{
	const struct nlattr *types = info->attrs[ONBEAT_A_ETHER_TYPES];
	const struct nlattr *clock = info->attrs[ONBEAT_A_CLOCK];
	const struct nlattr *flags = info->attrs[ONBEAT_A_FLAGS];
	const struct nlattr *mode = info->attrs[ONBEAT_A_MODE];
	u16 type, i;

	config->mode = mode ? nla_get_u32(mode) : ONBEAT_MODE_DIRECT;
	config->clock = clock ? nla_get_u32(clock) : CLOCK_MONOTONIC;
	config->flags = flags ? nla_get_u32(flags) : 0;
	config->owner = info->snd_portid;
	if (config->clock != CLOCK_MONOTONIC && config->clock != CLOCK_TAI) {
		NL_SET_ERR_MSG_ATTR(info->extack, clock,
				    "the launch clock must be CLOCK_MONOTONIC or CLOCK_TAI");
		return -EINVAL;
	}
	if (!types)
		return 0;
	if (nla_len(types) % sizeof(type)) {
		NL_SET_ERR_MSG_ATTR(info->extack, types, "the length is not a multiple of an EtherType");
		return -EINVAL;
	}
	config->ether_type_count = nla_len(types) / sizeof(type);
	for (i = 0; i < config->ether_type_count; i++) {
		memcpy(&type, nla_data(types) + i * sizeof(type), sizeof(type));
		config->ether_types[i] = htons(type);
	}
	return 0;
}

static int ob_do_attach(struct sk_buff *skb, struct genl_info *info)
{
	struct ob_config config = {};
	struct net_device *dev;
	int err;

	if (GENL_REQ_ATTR_CHECK(info, ONBEAT_A_IFINDEX))
		return -EINVAL;
	err = ob_config_of(info, &config);
	if (err)
		return err;
	rtnl_lock();
	dev = __dev_get_by_index(genl_info_net(info), nla_get_u32(info->attrs[ONBEAT_A_IFINDEX]));
	if (dev) {
		err = ob_attach(dev, &config, info->extack);
	} else {
		NL_SET_ERR_MSG(info->extack, "no such interface");
		err = -ENODEV;
	}
	rtnl_unlock();
	return err;
}

static int ob_do_detach(struct sk_buff *skb, struct genl_info *info)
{
	struct net_device *dev;
	struct ob_port *port;
	LIST_HEAD(unregister);

	if (GENL_REQ_ATTR_CHECK(info, ONBEAT_A_IFINDEX))
		return -EINVAL;
	rtnl_lock();
	dev = __dev_get_by_index(genl_info_net(info), nla_get_u32(info->attrs[ONBEAT_A_IFINDEX]));
	port = dev ? ob_port_of(dev) : NULL;
	if (port) {
		ob_detach(port, &unregister);
		unregister_netdevice_many(&unregister);
	}
	rtnl_unlock();
	if (!port)
		NL_SET_ERR_MSG(info->extack, "onbeat is not attached to this interface");
	return port ? 0 : -ENODEV;
}

static int ob_do_slot_set(struct sk_buff *skb, struct genl_info *info)
{
	const struct nlattr *cookie = info->attrs[ONBEAT_A_COOKIE];
	struct ob_port *port;
	int err;

	if (GENL_REQ_ATTR_CHECK(info, ONBEAT_A_SLOT) || GENL_REQ_ATTR_CHECK(info, ONBEAT_A_FRAME))
		return -EINVAL;
	port = ob_port_lock(info);
	if (IS_ERR(port))
		return PTR_ERR(port);
	err = ob_slot_set(port, nla_get_u32(info->attrs[ONBEAT_A_SLOT]),
			  cookie ? nla_get_u64(cookie) : 0, info->attrs[ONBEAT_A_FRAME],
			  info->extack);
	ob_port_unlock(port);
	return err;
}

static int ob_do_slot_free(struct sk_buff *skb, struct genl_info *info)
{
	struct ob_port *port;
	int err;

	if (GENL_REQ_ATTR_CHECK(info, ONBEAT_A_SLOT))
		return -EINVAL;
	port = ob_port_lock(info);
	if (IS_ERR(port))
		return PTR_ERR(port);
	err = ob_slot_free(port, nla_get_u32(info->attrs[ONBEAT_A_SLOT]), info->extack);
	ob_port_unlock(port);
	return err;
}

static int ob_do_send(struct sk_buff *skb, struct genl_info *info)
{
	struct ob_slot *slot = ob_slot_lock(info);
	int err;

	if (IS_ERR(slot))
		return PTR_ERR(slot);
	err = ob_send(slot, ONBEAT_CAUSE_NOW, NULL);
	ob_port_unlock(slot->port);
	return err;
}

static int ob_do_launch(struct sk_buff *skb, struct genl_info *info)
{
	const struct nlattr *period = info->attrs[ONBEAT_A_PERIOD];
	struct ob_slot *slot;
	int err = -EINVAL;

	if (GENL_REQ_ATTR_CHECK(info, ONBEAT_A_TIME))
		return -EINVAL;
	slot = ob_slot_lock(info);
	if (IS_ERR(slot))
		return PTR_ERR(slot);
	if (period && !nla_get_u64(period))
		NL_SET_ERR_MSG_ATTR(info->extack, period, "the period must not be 0");
	else
		err = ob_launch(slot, nla_get_u64(info->attrs[ONBEAT_A_TIME]),
				period ? nla_get_u64(period) : 0, info->extack);
	ob_port_unlock(slot->port);
	return err;
}

static int ob_do_cancel(struct sk_buff *skb, struct genl_info *info)
{
	struct ob_slot *slot = ob_slot_lock(info);
	int err = 0;

	if (IS_ERR(slot))
		return PTR_ERR(slot);
	if (!hrtimer_cancel(&slot->timer)) {
		NL_SET_ERR_MSG(info->extack, "the slot has no planned launch");
		err = -EALREADY;
	}
	ob_port_unlock(slot->port);
	return err;
}

static int ob_do_respond(struct sk_buff *skb, struct genl_info *info)
{
	const struct nlattr *value = info->attrs[ONBEAT_A_VALUE];
	const struct nlattr *mask = info->attrs[ONBEAT_A_MASK];
	struct ob_filter filter;
	struct ob_slot *slot;
	int err;

	if (GENL_REQ_ATTR_CHECK(info, ONBEAT_A_RESPONSE) ||
	    GENL_REQ_ATTR_CHECK(info, ONBEAT_A_VALUE) || GENL_REQ_ATTR_CHECK(info, ONBEAT_A_MASK))
		return -EINVAL;
	if (nla_len(value) != nla_len(mask) ||
	    !ob_filter_init(&filter, nla_data(value), nla_data(mask), nla_len(mask))) {
		NL_SET_ERR_MSG_ATTR(info->extack, mask, "the mask must be as long as the value, and have a bit set");
		return -EINVAL;
	}
	slot = ob_slot_lock(info);
	if (IS_ERR(slot))
		return PTR_ERR(slot);
	err = ob_response_add(slot->port, slot, nla_get_u64(info->attrs[ONBEAT_A_RESPONSE]),
			      &filter, info->extack);
	ob_port_unlock(slot->port);
	return err;
}

static int ob_do_respond_stop(struct sk_buff *skb, struct genl_info *info)
{
	struct ob_port *port;
	int err;

	if (GENL_REQ_ATTR_CHECK(info, ONBEAT_A_RESPONSE))
		return -EINVAL;
	port = ob_port_lock(info);
	if (IS_ERR(port))
		return PTR_ERR(port);
	err = ob_response_stop(port, nla_get_u64(info->attrs[ONBEAT_A_RESPONSE]), info->extack);
	ob_port_unlock(port);
	return err;
}

static int ob_do_groups(struct sk_buff *skb, struct genl_info *info)
{
	struct ob_port *port;
	int err;

	if (GENL_REQ_ATTR_CHECK(info, ONBEAT_A_GROUPS))
		return -EINVAL;
	port = ob_port_lock(info);
	if (IS_ERR(port))
		return PTR_ERR(port);
	err = ob_groups_set(port, info->attrs[ONBEAT_A_GROUPS], info->extack);
	ob_port_unlock(port);
	return err;
}

#define OB_OP(name, handler, attributes)			\
	{							\
		.cmd = ONBEAT_CMD_##name,			\
		.doit = handler,				\
		.policy = attributes,				\
		.maxattr = ARRAY_SIZE(attributes) - 1,		\
		.flags = GENL_ADMIN_PERM,			\
	}

static const struct genl_ops ob_ops[] = {
	OB_OP(ATTACH, ob_do_attach, ob_attach_policy),
	OB_OP(DETACH, ob_do_detach, ob_port_policy),
	{
		.cmd = ONBEAT_CMD_GET,
		.doit = ob_report_port,
		.dumpit = ob_dump_ports,
		.policy = ob_port_policy,
		.maxattr = ARRAY_SIZE(ob_port_policy) - 1,
		.flags = GENL_ADMIN_PERM,
	},
	OB_OP(SLOT_SET, ob_do_slot_set, ob_slot_set_policy),
	OB_OP(SLOT_FREE, ob_do_slot_free, ob_slot_policy),
	{
		.cmd = ONBEAT_CMD_SLOT_GET,
		.dumpit = ob_dump_slots,
		.policy = ob_port_policy,
		.maxattr = ARRAY_SIZE(ob_port_policy) - 1,
		.flags = GENL_ADMIN_PERM,
	},
	OB_OP(SEND, ob_do_send, ob_slot_policy),
	OB_OP(LAUNCH, ob_do_launch, ob_launch_policy),
	OB_OP(CANCEL, ob_do_cancel, ob_slot_policy),
	OB_OP(RESPOND, ob_do_respond, ob_respond_policy),
	OB_OP(RESPOND_STOP, ob_do_respond_stop, ob_respond_stop_policy),
	OB_OP(GROUPS, ob_do_groups, ob_groups_policy),
};

struct genl_family ob_family __ro_after_init = {
	.name = ONBEAT_GENL_NAME,
	.version = ONBEAT_GENL_VERSION,
	.maxattr = ONBEAT_A_MAX,
	.netnsok = true,
	/* Each port has its own lock. */
	.parallel_ops = true,
	.ops = ob_ops,
	.n_ops = ARRAY_SIZE(ob_ops),
	.module = THIS_MODULE,
};
