/* SPDX-License-Identifier: Apache-2.0 */
/*
 * iprobe info: what a session was told to record: selections, filters, payloads.
 */
#ifndef IP_CLI_INFO_RECORDED_H
#define IP_CLI_INFO_RECORDED_H

#include "analysis/session.h"
#include "common/json.h"

void cli_info_recorded(const struct ip_recording *session);
void cli_info_recorded_json(struct ip_json *j, const struct ip_recording *session);

#endif
