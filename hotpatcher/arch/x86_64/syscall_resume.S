/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The runtime's code for threads that go on waiting, as this iprobe knows it: to be compared with what stands in
 * a target, never executed here.
 */
#define rt_again	ip_again_code
#define rt_again_common ip_again_common
#define rt_again_end	ip_again_code_end
#define rt_again_slots	ip_again_no_slots
#include "runtime/arch/x86_64/syscall_resume.S"
