// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Traces every packet received by an interface through this host, at tracepoints of the kernel:
 *
 *   netif_rx ---------------- softirq_entry -- netif_receive_skb -- fib_table_lookup -------- ...
 *   napi_gro_receive_entry --/                               \--- sk_data_ready -- read --/
 *                               ... net_dev_queue -- net_dev_start_xmit -- net_dev_xmit
 *
 * If only the total delay is requested, it ends at net_dev_start_xmit, and programs that only
 * stages need are not attached: softirq_entry, the routes, net_dev_queue, net_dev_xmit and
 * consume_skb.
 */
#include "filter.h"
#include "state.h"
#include <bpf/bpf_tracing.h>

extern int LINUX_KERNEL_VERSION __kconfig;

#define LINUX_6_18 (6 << 16 | 18 << 8)

/*
 * The receiving and the sending interface, of a network namespace, which is the host. Packets
 * leave by any interface if the index is 0.
 */
const volatile __u32 in_device, out_device, netns;

/* Only the total delay of a packet is requested, not its stages. */
const volatile bool whole;

static __always_inline bool is(const struct net_device *device, __u32 index)
{
	/* The same index is another interface in other namespaces. */
	return (!index || (__u32)device->ifindex == index) && device->nd_net.net->ns.inum == netns;
}

/* Time stamps of the receiving device are read. */
const volatile bool device_stamps;

/* The time of reception by the NIC, by the NIC's clock; 0 if it has no stamp. */
static __always_inline __u64 device_stamp(const struct sk_buff *skb)
{
	const struct skb_shared_info *shared = (const void *)(skb->head + skb->end);

	if (BPF_CORE_READ(shared, tx_flags) & SKBTX_HW_TSTAMP_NETDEV)
		return 0;
	return BPF_CORE_READ(shared, hwtstamps.hwtstamp);
}

/* Starts to trace a buffer that this CPU received. */
static __always_inline struct packet *begin(struct cpu *cpu, const struct sk_buff *skb, __u64 now)
{
	struct packet *p = claim(cpu, (__u64)skb, now);

	if (!p)
		return NULL;
	__builtin_memset(p->at, 0, sizeof(p->at));
	p->sk = 0;
	p->fate = HOOKS_FORWARDED;
	p->cpu = bpf_get_smp_processor_id();
	p->length = skb->len;
	p->device = device_stamps ? device_stamp(skb) : 0;
	/* Without consume_skb some packets are completed without notice. */
	p->depth = whole ? HOOKS_ABSENT : cpu->seen.begun - cpu->seen.ended - cpu->seen.ended_here;
	cpu->seen.begun++;
	return p;
}

static __always_inline __u8 context_of(struct task_struct *task)
{
	if (!task->pid)
		return HOOKS_IDLE;
	if (!(task->flags & PF_KTHREAD))
		return HOOKS_PROCESS;
	if (task->comm[0] == 'n' && task->comm[1] == 'a' && task->comm[2] == 'p' &&
	    task->comm[4] == '/')
		return HOOKS_NAPI_THREAD;
	return task->comm[0] == 'k' && task->comm[1] == 's' && task->comm[4] == 't'
		   ? HOOKS_KSOFTIRQD
		   : HOOKS_PROCESS;
}

SEC("tp_btf/softirq_entry")
int BPF_PROG(on_softirq_entry, unsigned int vector)
{
	struct cpu *cpu;

	if (vector != NET_RX_SOFTIRQ)
		return 0;
	cpu = this_cpu();
	if (cpu)
		cpu->softirq_ns = bpf_ktime_get_ns();
	return 0;
}

/* A driver passes a packet to the stack. */
static __always_inline void arrive(struct sk_buff *skb)
{
	struct packet *p;
	struct cpu *cpu;
	__u64 now;

	if (!is(skb->dev, in_device))
		return;
	cpu = this_cpu();
	if (!cpu)
		return;
	cpu->seen.arrived++;
	if (!wanted(skb))
		return;
	now = bpf_ktime_get_ns();
	p = begin(cpu, skb, now);
	if (p)
		p->at[HOOKS_ARRIVED] = now;
}

/* Into a CPU's queue. */
SEC("tp_btf/netif_rx")
int BPF_PROG(on_netif_rx, struct sk_buff *skb)
{
	arrive(skb);
	return 0;
}

/* In its poll: GRO may hold the packet, and RPS queue it to another CPU. */
SEC("tp_btf/napi_gro_receive_entry")
int BPF_PROG(on_napi_gro_receive_entry, struct sk_buff *skb)
{
	arrive(skb);
	return 0;
}

SEC("tp_btf/netif_receive_skb")
int BPF_PROG(on_netif_receive_skb, struct sk_buff *skb)
{
	struct task_struct *task;
	struct packet *p;
	struct cpu *cpu;
	__u64 now;

	if (!is(skb->dev, in_device)) {
		cpu = this_cpu();
		/* A bridge passes packets up as its own. */
		if (cpu && cpu->current != (__u64)skb)
			cpu->current = 0;
		return 0;
	}
	cpu = this_cpu();
	if (!cpu)
		return 0;
	cpu->seen.received++;
	cpu->current = 0;
	p = find((__u64)skb);
	if (p && p->at[HOOKS_RECEIVED]) {
		/* The buffer was freed without a tracepoint, and is reused. */
		evict(p);
		release(p);
		p = NULL;
	}
	if (!p && !wanted(skb))
		return 0;
	/* The total delay needs only the fact that it was here. */
	now = whole && p ? p->at[HOOKS_ARRIVED] : bpf_ktime_get_ns();
	if (!p)
		p = begin(cpu, skb, now);
	if (!p)
		return 0;
	p->at[HOOKS_RECEIVED] = now;
	/* In a thread there is no softirq, and the last one was before. */
	if (p->at[HOOKS_ARRIVED] && !whole)
		p->at[HOOKS_SOFTIRQ] =
		    cpu->softirq_ns > p->at[HOOKS_ARRIVED] ? cpu->softirq_ns : p->at[HOOKS_ARRIVED];
	task = bpf_get_current_task_btf();
	p->task = task->pid;
	__builtin_memcpy(p->comm, task->comm, sizeof(p->comm));
	p->context = context_of(task);
	cpu->current = (__u64)skb;
	return 0;
}

/* The packet that this CPU is processing. */
static __always_inline struct packet *at_hand(struct cpu *cpu)
{
	return cpu && cpu->current ? find(cpu->current) : NULL;
}

/* The stack looks up a route. */
static __always_inline int decide(void)
{
	struct packet *p = at_hand(this_cpu());

	if (p && !p->at[HOOKS_DECIDED])
		p->at[HOOKS_DECIDED] = bpf_ktime_get_ns();
	return 0;
}

SEC("tp_btf/fib_table_lookup")
int on_fib_table_lookup(void *ctx)
{
	return decide();
}

SEC("tp_btf/fib6_table_lookup")
int on_fib6_table_lookup(void *ctx)
{
	return decide();
}

static __always_inline bool is_udp(const struct sock *sk)
{
	return sk->sk_type == SOCK_DGRAM && sk->sk_protocol == IPPROTO_UDP;
}

SEC("tp_btf/sk_data_ready")
int BPF_PROG(on_sk_data_ready, struct sock *sk)
{
	struct cpu *cpu = this_cpu();
	struct queue *queue = NULL;
	struct packet *p;

	if (!cpu)
		return 0;
	p = at_hand(cpu);
	if (is_udp(sk))
		queue = bpf_sk_storage_get(&queues, sk, 0, p ? BPF_SK_STORAGE_GET_F_CREATE : 0);
	if (p) {
		p->at[HOOKS_DECIDED] = bpf_ktime_get_ns();
		p->sk = (__u64)sk;
		cpu->current = 0;
	}
	if (queue) {
		__u64 number = __sync_fetch_and_add(&queue->given, 1);

		queue->skb[number % QUEUED] = p ? p->skb : 0;
		if (p)
			p->number = number;
	}
	return 0;
}

/* A process has read data of its socket. */
static __always_inline void read_by_current(struct cpu *cpu, struct packet *p, __u64 skb)
{
	struct packet *read;

	if (!claim_end(p, skb))
		return;
	p->at[HOOKS_READ] = bpf_ktime_get_ns();
	report(cpu, p, HOOKS_DELIVERED, 0);
	end(p);
	read = bpf_task_storage_get(&reads, bpf_get_current_task_btf(), 0,
				    BPF_LOCAL_STORAGE_GET_F_CREATE);
	if (read)
		*read = *p;
	release(p);
}

SEC("tp_btf/skb_copy_datagram_iovec")
int BPF_PROG(on_skb_copy_datagram_iovec, struct sk_buff *skb)
{
	struct cpu *cpu = this_cpu();
	struct packet *p = cpu ? find((__u64)skb) : NULL;

	if (p && p->sk)
		read_by_current(cpu, p, (__u64)skb);
	return 0;
}

/*
 * A datagram was read: the one for which the number of later arrivals equals the number of pending
 * ones. The reader may race with an arriving datagram, or with another reader; then the datagram
 * differs from the expected one, and nothing is reported.
 */
SEC("tp_btf/sock_recv_length")
int BPF_PROG(on_sock_recv_length, struct sock *sk, int length, int flags)
{
	struct cpu *cpu = this_cpu();
	struct queue *queue;
	struct packet *p;
	__u64 number, expected, skb;

	if (!cpu || length < 0 || flags & MSG_PEEK || !is_udp(sk))
		return 0;
	queue = bpf_sk_storage_get(&queues, sk, 0, 0);
	if (!queue)
		return 0;
	number = queue->given - 1 - sk->sk_receive_queue.qlen -
		 BPF_CORE_READ((struct udp_sock *)sk, reader_queue.qlen);
	expected = queue->next;
	queue->next = number + 1;
	if (number != expected)
		return 0;
	skb = queue->skb[number % QUEUED];
	p = find(skb);
	if (p && p->sk == (__u64)sk && p->number == number)
		read_by_current(cpu, p, skb);
	return 0;
}

/*
 * Before Linux 6.18 the reader of a fully copied datagram frees it. Since then another CPU may, in
 * the time of any task: then sock_recv_length has the reader.
 */
SEC("tp_btf/consume_skb")
int BPF_PROG(on_consume_skb, struct sk_buff *skb)
{
	struct cpu *cpu = this_cpu();
	struct packet *p = cpu ? find((__u64)skb) : NULL;

	if (!p)
		return 0;
	if (p->sk) {
		if (LINUX_KERNEL_VERSION < LINUX_6_18)
			read_by_current(cpu, p, (__u64)skb);
		return 0;
	}
	if (!claim_end(p, (__u64)skb))
		return 0;
	if (p->fate == HOOKS_ANSWERED_BY_KERNEL)
		end(p);
	else
		evict(p);
	release(p);
	return 0;
}

/* The answer to a packet continues its trace, in a buffer of its own. */
static __always_inline struct packet *answer(struct cpu *cpu, struct sk_buff *skb,
					     const struct packet *asked, __u8 fate)
{
	__u64 now = bpf_ktime_get_ns();
	struct packet *p = claim(cpu, (__u64)skb, now);
	__u32 slot;

	if (!p)
		return NULL;
	slot = p->slot;
	*p = *asked;
	p->skb = (__u64)skb;
	p->sk = 0;
	p->slot = slot;
	p->fate = fate;
	p->at[HOOKS_QUEUED] = now;
	/* It ends by itself. */
	p->cpu = bpf_get_smp_processor_id();
	cpu->seen.begun++;
	return p;
}

/* A packet sent by a socket of this host: possibly an answer to a received one. */
static __always_inline struct packet *sent_by(struct cpu *cpu, struct sk_buff *skb, struct sock *sk)
{
	struct packet *asked;

	if (BPF_CORE_READ_BITFIELD(sk, sk_kern_sock)) {
		asked = at_hand(cpu);
		if (!asked)
			return NULL;
		cpu->current = 0;
		/* Its own end comes later: an error is reported of dropped packets. */
		asked->fate = HOOKS_ANSWERED_BY_KERNEL;
		return answer(cpu, skb, asked, HOOKS_ANSWERED_BY_KERNEL);
	}
	asked = bpf_task_storage_get(&reads, bpf_get_current_task_btf(), 0, 0);
	if (!asked || asked->sk != (__u64)sk)
		return NULL;
	asked->sk = 0;
	return answer(cpu, skb, asked, HOOKS_ANSWERED);
}

/* A packet was sent. */
static __always_inline void leave(struct cpu *cpu, struct packet *p, __u64 now)
{
	report_in_batch(cpu, p, now);
	end(p);
	release(p);
}

/* The stack passes a packet to the sending device. */
static __always_inline struct packet *depart(struct cpu *cpu, struct sk_buff *skb)
{
	struct packet *p = find((__u64)skb);
	struct sock *sk = skb->sk;

	if (p && (__u32)skb->skb_iif == in_device) {
		if (!p->at[HOOKS_QUEUED])
			p->at[HOOKS_QUEUED] = bpf_ktime_get_ns();
		p->fate = HOOKS_FORWARDED;
		if (cpu->current == (__u64)skb)
			cpu->current = 0;
		return p;
	}
	if (!sk)
		return NULL;
	/* Otherwise the compiler reads it before the null check. */
	barrier_var(sk);
	return sent_by(cpu, skb, sk);
}

SEC("tp_btf/net_dev_queue")
int BPF_PROG(on_net_dev_queue, struct sk_buff *skb)
{
	struct cpu *cpu = this_cpu();

	if (cpu && is(skb->dev, out_device))
		depart(cpu, skb);
	return 0;
}

SEC("tp_btf/net_dev_start_xmit")
int BPF_PROG(on_net_dev_start_xmit, struct sk_buff *skb, struct net_device *device)
{
	struct cpu *cpu = this_cpu();
	struct packet *p;

	if (!cpu || !is(device, out_device))
		return 0;
	if (whole) {
		p = depart(cpu, skb);
		if (p)
			leave(cpu, p, p->at[HOOKS_QUEUED]);
		return 0;
	}
	p = find((__u64)skb);
	if (!p || !p->at[HOOKS_QUEUED])
		return 0;
	p->at[HOOKS_STARTED] = bpf_ktime_get_ns();
	cpu->leaving = (__u64)skb;
	cpu->leaving_slot = p->slot;
	p->skb = LEAVING;
	return 0;
}

/* The packet that this CPU's driver is sending, if the buffer is its own. */
static __always_inline struct packet *in_hand(struct cpu *cpu, const struct sk_buff *skb)
{
	struct packet *p;

	if (cpu->leaving != (__u64)skb)
		return NULL;
	cpu->leaving = 0;
	p = slot_at(cpu->leaving_slot);
	return p && p->skb == LEAVING ? p : NULL;
}

SEC("tp_btf/net_dev_xmit")
int BPF_PROG(on_net_dev_xmit, struct sk_buff *skb, int code)
{
	struct cpu *cpu = this_cpu();
	struct packet *p = cpu ? in_hand(cpu, skb) : NULL;
	__u64 now;

	if (!p)
		return 0;
	if (code) {
		/* The driver had no room, and the packet stays queued. */
		p->skb = (__u64)skb;
		return 0;
	}
	now = bpf_ktime_get_ns();
	p->at[HOOKS_SENT] = now;
	leave(cpu, p, now);
	return 0;
}

SEC("tp_btf/kfree_skb")
int BPF_PROG(on_kfree_skb, struct sk_buff *skb, void *location, __u32 reason)
{
	struct cpu *cpu = this_cpu();
	struct packet *p;

	if (!cpu)
		return 0;
	p = in_hand(cpu, skb);
	if (!p) {
		p = find((__u64)skb);
		if (!p || !claim_end(p, (__u64)skb))
			return 0;
	}
	report(cpu, p, HOOKS_DROPPED, reason);
	end(p);
	release(p);
	return 0;
}

char _license[] SEC("license") = "Dual BSD/GPL";
