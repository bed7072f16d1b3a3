/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A library to load and unload; compiled twice, with VERSION 1 and 2, which differ in what they
 * compute and in the order of their functions.
 */
#ifndef VERSION
#define VERSION 1
#endif

#define KEEP __attribute__((noinline))

#if VERSION == 2
KEEP unsigned long plug_extra(unsigned long x)
{
	__asm__ volatile("" : "+r"(x));
	return x + 1;
}
#endif

KEEP unsigned long plug_inner(unsigned long x)
{
	__asm__ volatile("" : "+r"(x));
	return x * (VERSION + 2) + VERSION;
}

KEEP unsigned long plug(unsigned long x)
{
#if VERSION == 2
	x = plug_extra(x);
#endif
	return plug_inner(x) + plug_inner(x + 1);
}
