// SPDX-License-Identifier: Apache-2.0
/*
 * The table of architectures.
 */
#include "common/arch/arch.h"

static const struct ip_arch *const architectures[] = {
	&ip_arch_x86_64,
	&ip_arch_i386,
};

const struct ip_arch *ip_arch_for_machine(uint32_t machine)
{
	for (size_t i = 0; i < sizeof(architectures) / sizeof(architectures[0]); i++)
		if (architectures[i]->machine == machine)
			return architectures[i];
	return NULL;
}
