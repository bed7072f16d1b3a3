/* SPDX-License-Identifier: Apache-2.0 */
/*
 * iprobe info: what a session was asked to record: selections, filters, payloads.
 */
#ifndef IP_CLI_INFO_RECORDED_H
#define IP_CLI_INFO_RECORDED_H

#include "analysis/read/session.h"
#include "common/json.h"

void cli_info_recorded(const struct ip_recording *session);
void cli_info_recorded_json(struct ip_json *j, const struct ip_recording *session);

/* Returns whether a condition of --until, or --stop-on in one of several processes, ended the
 * recording. text then says which one, and in which process. */
bool cli_info_condition(const struct ip_recording *session, char *text, size_t size);

/* Returns whether the recording ended early (end_reason.h). text then says why: "ended
 * early: size limit reached (1.0 GiB, the default)". */
bool cli_info_early(const struct ip_recording *session, char *text, size_t size);
/* Writes the same as members: ended_early, limit_bytes, limit_by, until_condition, end_pid. */
void cli_info_early_json(struct ip_json *json, const struct ip_recording *session);

#endif
