/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Scopes that exceptions, destructors, threads and coroutines begin and end. Prints how often, as
 * "NAME=COUNT ...".
 */
#include <iprobe/probe.h>

#include <coroutine>
#include <cstdio>
#include <exception>
#include <stdexcept>
#include <thread>
#include <vector>

struct task {
	struct promise_type {
		task get_return_object()
		{
			return {std::coroutine_handle<promise_type>::from_promise(*this)};
		}
		std::suspend_always initial_suspend() noexcept
		{
			return {};
		}
		std::suspend_always final_suspend() noexcept
		{
			return {};
		}
		void return_void()
		{
		}
		void unhandled_exception()
		{
			std::terminate();
		}
	};
	std::coroutine_handle<promise_type> handle;
};

static task steps(int n)
{
	IPROBE_SCOPE(coroutine);
	for (int i = 0; i < n; i++) {
		IPROBE_POINT(step, i, n);
		co_await std::suspend_always{};
	}
	IPROBE_POINT(done, n);
}

template <typename T> struct guard {
	T value;
	~guard()
	{
		IPROBE_SCOPE(guarding);
		IPROBE_POINT(in_destructor, value);
	}
};

static int deep(int n)
{
	IPROBE_SCOPE(deep);
	guard<int> g{n};

	if (!n)
		throw std::runtime_error("the bottom");
	return deep(n - 1) + 1;
}

static void work(int id)
{
	for (int i = 0; i < 200; i++) {
		IPROBE_SCOPE(loop);
		try {
			deep(i % 7);
		} catch (const std::exception &e) {
			IPROBE_POINT(caught, id, i, e.what());
		}
	}
}

int main()
{
	unsigned long calls = 0;
	task a = steps(3), b = steps(4);

	for (int i = 0; i < 5; i++) {
		if (!a.handle.done())
			a.handle.resume();
		if (!b.handle.done())
			b.handle.resume();
	}
	a.handle.destroy();
	b.handle.destroy();

	std::vector<std::thread> threads;
	for (int i = 0; i < 4; i++)
		threads.emplace_back(work, i);
	for (std::thread &t : threads)
		t.join();
	for (int i = 0; i < 200; i++)
		calls += 4 * (i % 7 + 1);
	std::printf("coroutine=2 step=7 done=2 loop=800 caught=800 deep=%lu guarding=%lu "
		    "in_destructor=%lu SUM=0\n",
		    calls, calls, calls);
}
