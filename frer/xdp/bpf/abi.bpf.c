// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Never loaded: the build generates the Rust side of abi/frer.h from its type information. */
#include "export.h"
#include "frer.h"

EXPORT(frer_l2_key);
EXPORT(frer_ip_key);
EXPORT(frer_mask_key);
EXPORT(frer_index_line);
EXPORT(frer_member);
EXPORT(frer_member_record);
EXPORT(frer_skew);
EXPORT(frer_arrivals);
EXPORT(frer_generator);
EXPORT(frer_generator_record);
EXPORT(frer_recovery);
EXPORT(frer_recovery_record);
EXPORT(frer_ring_line);
EXPORT(frer_split);
EXPORT(frer_egress);
EXPORT(frer_meta);
EXPORT(frer_port_counters);
EXPORT(frer_output_port);
EXPORT(frer_output);
EXPORT(frer_node);
EXPORT(frer_request);
EXPORT(frer_lre);
EXPORT(frer_lre_scopes);
EXPORT(frer_lre_record);
EXPORT(frer_lre_source);
EXPORT(frer_lre_numbers);
EXPORT(frer_lre_single);
EXPORT(frer_lre_counters);
EXPORT(frer_lre_supervision);
EXPORT(bpf_devmap_val);
