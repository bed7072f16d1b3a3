/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The runtime's code for threads that go on waiting, as this iprobe knows it. It is compared with
 * the code in a target, and is never executed here.
 */
#define rt_restart	ip_restart_code
#define rt_restart_common ip_restart_common
#define rt_restart_end	ip_restart_code_end
#define rt_restart_slots	ip_restart_no_slots
#include "runtime/arch/x86_64/syscall_resume.S"
