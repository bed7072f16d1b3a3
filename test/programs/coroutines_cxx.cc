/* SPDX-License-Identifier: Apache-2.0 */
/*
 * C++20 coroutines: generators that are resumed in turns, one that calls another, one that throws
 * out of its body, and one that is destroyed before its end.
 *
 * Prints "function NAME CALLS" for the functions around them.
 */
#include <coroutine>
#include <cstdio>
#include <exception>
#include <utility>

#define KEEP __attribute__((noinline))

static long steps, drains, catches, guards;
static volatile int sink;

KEEP static int step(int n)
{
	steps++;
	return n + sink;
}

struct Guard {
	KEEP ~Guard()
	{
		guards++;
		sink = 0;
	}
};

struct Generator {
	struct promise_type {
		int value = 0;
		std::exception_ptr error;

		Generator get_return_object()
		{
			return Generator{std::coroutine_handle<promise_type>::from_promise(*this)};
		}
		std::suspend_always initial_suspend()
		{
			return {};
		}
		std::suspend_always final_suspend() noexcept
		{
			return {};
		}
		std::suspend_always yield_value(int v)
		{
			value = v;
			return {};
		}
		void return_void()
		{
		}
		void unhandled_exception()
		{
			error = std::current_exception();
		}
	};
	std::coroutine_handle<promise_type> handle;

	explicit Generator(std::coroutine_handle<promise_type> h) : handle(h)
	{
	}
	Generator(Generator &&other) : handle(std::exchange(other.handle, nullptr))
	{
	}
	~Generator()
	{
		if (handle)
			handle.destroy();
	}
	bool next()
	{
		handle.resume();
		if (handle.promise().error)
			std::rethrow_exception(handle.promise().error);
		return !handle.done();
	}
};

KEEP static Generator count(int n)
{
	Guard guard;

	for (int i = 0; i < n; i++)
		co_yield step(i);
}

KEEP static Generator twice(int n)
{
	Guard guard;
	Generator inner = count(n);

	while (inner.next())
		co_yield step(2 * inner.handle.promise().value);
}

KEEP static Generator failing(int n)
{
	Guard guard;

	for (;;) {
		co_yield step(n);
		if (--n == 0)
			throw n;
	}
}

KEEP static int drain(Generator a, Generator b)
{
	int sum = 0, more = 1;

	drains++;
	while (more) {
		more = 0;
		if (!a.handle.done() && a.next())
			more = 1, sum += a.handle.promise().value;
		if (!b.handle.done() && b.next())
			more = 1, sum += b.handle.promise().value;
	}
	return sum;
}

KEEP static int catching(int n)
{
	catches++;
	try {
		return drain(failing(n), count(n + 2));
	} catch (int e) {
		return e;
	}
}

int main()
{
	for (int i = 1; i < 20; i++) {
		sink = drain(count(i), twice(i + 3)) * 0;
		sink = catching(i) * 0;
		Generator early = twice(i);

		early.next();
	}
	printf("function step %ld\nfunction drain %ld\nfunction catching %ld\nfunction main 1\n",
	       steps, drains, catches);
	return 0;
}
