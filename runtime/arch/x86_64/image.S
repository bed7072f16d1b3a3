/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The head of the image (struct ip_rt_image). It holds distances only: nothing in the image depends
 * on its address.
 */
	.section .iprobe.head, "a"
head:
	.quad 0x4d4965626f727069
	.quad rt_image_data - head
	.quad rt_image_data_end - head
	.quad rt_pool - head
	.quad rt_pool_end - head
	.quad rt_injection - head
	.quad rt_wake - head
	.quad rt_wake_end - head
	.quad rt_wake_block - head
	.section .note.GNU-stack, "", @progbits
