/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ordinary calls: recursion, mutual recursion, function pointers, qsort callbacks, variadic
 * functions, functions that the compiler inlines, small and huge stack frames, structures by value.
 */
#include "tree_log.h"

#include <alloca.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

static volatile int sink;

KEEP static int factorial(int n)
{
	ENTER("factorial");
	int r = n < 2 ? 1 : n * factorial(n - 1);

	LEAVE("factorial");
	return r;
}

static int fibonacci(int n)
{
	ENTER("fibonacci");
	int r = n < 2 ? n : fibonacci(n - 1) + fibonacci(n - 2);

	LEAVE("fibonacci");
	return r;
}

static int is_odd(int n);

static int is_even(int n)
{
	ENTER("is_even");
	int r = n == 0 ? 1 : is_odd(n - 1);

	LEAVE("is_even");
	return r;
}

static int is_odd(int n)
{
	ENTER("is_odd");
	int r = n == 0 ? 0 : is_even(n - 1);

	LEAVE("is_odd");
	return r;
}

static int plus(int a, int b)
{
	ENTER("plus");
	LEAVE("plus");
	return a + b;
}

static int minus(int a, int b)
{
	ENTER("minus");
	LEAVE("minus");
	return a - b;
}

static int apply(int (*f)(int, int), int a, int b)
{
	ENTER("apply");
	int r = f(a, b);

	LEAVE("apply");
	return r;
}

static int (*volatile operators[])(int, int) = {plus, minus};

static int compare(const void *a, const void *b)
{
	ENTER("compare");
	int r = *(const int *)a - *(const int *)b;

	LEAVE("compare");
	return r;
}

static void sort(int n)
{
	ENTER("sort");
	int *v = malloc(n * sizeof(int));

	for (int i = 0; i < n; i++)
		v[i] = (i * 7919 + 13) % 1009;
	qsort(v, n, sizeof(int), compare);
	sink = v[0];
	free(v);
	LEAVE("sort");
}

static int sum(int n, ...)
{
	ENTER("sum");
	va_list args;
	int r = 0;

	va_start(args, n);
	while (n--)
		r += va_arg(args, int);
	va_end(args);
	LEAVE("sum");
	return r;
}

static inline int small_inline(int x)
{
	ENTER("small_inline");
	LEAVE("small_inline");
	return x + 1;
}

static inline int nest_inline(int x)
{
	ENTER("nest_inline");
	int r = small_inline(x) + small_inline(x + 1);

	LEAVE("nest_inline");
	return r;
}

KEEP static int use_inline(int x)
{
	ENTER("use_inline");
	int r = nest_inline(x) * small_inline(x);

	LEAVE("use_inline");
	return r;
}

KEEP static int use_array(int n)
{
	ENTER("use_array");
	volatile char v[n];

	v[0] = v[n - 1] = 1;
	int r = plus(v[0], v[n - 1]);

	LEAVE("use_array");
	return r;
}

KEEP static int use_alloca(int n)
{
	ENTER("use_alloca");
	int r = 0;

	for (int i = 1; i < 5; i++) {
		volatile char *p = alloca(n * i);

		p[0] = 1;
		r += small_inline(p[0]);
		r += use_array(n);
	}
	LEAVE("use_alloca");
	return r;
}

struct wide {
	int v[40];
};

KEEP static struct wide make_wide(int x)
{
	ENTER("make_wide");
	struct wide w;

	memset(&w, 0, sizeof(w));
	w.v[3] = plus(x, 1);
	LEAVE("make_wide");
	return w;
}

KEEP static int take_wide(struct wide w)
{
	ENTER("take_wide");
	LEAVE("take_wide");
	return w.v[3];
}

KEEP static int deep(int n)
{
	ENTER("deep");
	volatile char room[200];

	room[0] = 1;
	int r = n ? deep(n - 1) + room[0] : minus(3, 2);

	LEAVE("deep");
	return r;
}

int main(void)
{
	ENTER("main");
	sink = factorial(10);
	sink = fibonacci(12);
	sink = is_even(25) + is_odd(8);
	for (int i = 0; i < 6; i++)
		sink = apply(operators[i & 1], i, 2);
	sort(100);
	sink = sum(0) + sum(3, 1, 2, 3) + sum(9, 1, 2, 3, 4, 5, 6, 7, 8, 9);
	sink = use_inline(3) + small_inline(4);
	sink = use_array(10) + use_array(20000) + use_array(40000) + use_array(300000);
	sink = use_alloca(100) + use_alloca(20000);
	sink = take_wide(make_wide(3));
	sink = deep(3000);
	LEAVE("main");
	return 0;
}
