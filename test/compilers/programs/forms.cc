/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The C++ program of the matrix: templates, exceptions, virtual functions and their thunks,
 * lambdas, static initialisers. Prints what it computes and how often each function was called
 * (calls.h). Destructors of classes with virtual functions are not counted: the compiler makes
 * several of each.
 */
#include "calls.h"

#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <numeric>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

namespace shapes
{
inline namespace v1
{

struct Named {
	virtual ~Named() = default;
	KEEP virtual const char *name() const
	{
		CALLED;
		return "named";
	}
	long padding = 1;
};

struct Shape {
	virtual ~Shape() = default;
	virtual double area() const = 0;
	KEEP virtual Shape *twin()
	{
		CALLED;
		return this;
	}
	long padding = 2;
};

/* its area() is reached through a thunk by who holds a Shape */
struct Square : Named, Shape {
	explicit Square(double side) : side(side)
	{
		CALLED_INLINE;
	}
	KEEP double area() const override
	{
		CALLED;
		return side * side;
	}
	KEEP const char *name() const override
	{
		CALLED;
		return "square";
	}
	KEEP Square *twin() override
	{
		CALLED;
		return this;
	}
	double side;
};

struct Base {
	KEEP explicit Base(int n) : n(n)
	{
		CALLED;
	}
	virtual ~Base() = default;
	KEEP virtual int value(int a)
	{
		CALLED;
		return n + a;
	}
	int n;
};
struct Left : virtual Base {
	Left() : Base(1)
	{
	}
	int left = 10;
};
struct Right : virtual Base {
	Right() : Base(2)
	{
	}
	KEEP int value(int a) override
	{
		CALLED;
		return n * a + right;
	}
	int right = 20;
};
struct Both : Left, Right {
	Both() : Base(3)
	{
	}
	int own = 30;
};

} // namespace v1
} // namespace shapes

namespace
{

/* --- templates */

template <typename T> KEEP T largest(const std::vector<T> &all)
{
	CALLED;
	T best = all.front();
	for (const T &one : all)
		if (best < one)
			best = one;
	return best;
}

template <int N> struct Power {
	KEEP static long of(long a)
	{
		CALLED;
		return a * Power<N - 1>::of(a);
	}
};
template <> struct Power<0> {
	KEEP static long of(long)
	{
		CALLED;
		return 1;
	}
};

template <typename... Ts> KEEP int many(Ts... all)
{
	CALLED;
	return (0 + ... + static_cast<int>(all));
}

template <typename F> inline int twice(F f, int a)
{
	CALLED_INLINE;
	return f(f(a));
}

/* --- exceptions */

struct Guard {
	KEEP explicit Guard(std::string what) : what(std::move(what))
	{
		CALLED;
	}
	KEEP ~Guard()
	{
		CALLED;
		std::printf("left %s\n", what.c_str());
	}
	std::string what;
};

struct Failure : std::runtime_error {
	Failure(const std::string &what, int code) : std::runtime_error(what), code(code)
	{
	}
	int code;
};

[[noreturn]] KEEP void fail(int code)
{
	CALLED;
	LEFT;
	throw Failure("failure " + std::to_string(code), code);
}

KEEP int dig(int depth)
{
	CALLED_INLINE;
	LEFT;
	Guard guard("depth " + std::to_string(depth));
	if (depth > 1000)
		return 0; /* never: else compilers warn that no recursion ends */
	if (depth == 0)
		fail(7);
	return dig(depth - 1) + 1;
}

KEEP int without_frame_data(int a)
{
	CALLED;
	LEFT;
	return dig(a % 3) * 2;
}

KEEP int rethrows(int a)
{
	CALLED;
	LEFT;
	try {
		return without_frame_data(a);
	} catch (Failure &f) {
		f.code += 100;
		throw;
	}
}

KEEP int catches(int a)
{
	CALLED;
	try {
		return rethrows(a);
	} catch (const std::exception &e) {
		std::printf("caught %s\n", e.what());
		return dynamic_cast<const Failure &>(e).code;
	}
}

struct Half {
	KEEP explicit Half(int a) : guard("half")
	{
		CALLED;
		LEFT;
		if (a > 0)
			fail(a);
	}
	Guard guard;
};

struct Whole {
	KEEP explicit Whole(int a)
	try : half(a) {
	} catch (const Failure &f) {
		throw std::logic_error("whole");
	}
	Half half;
};

KEEP int constructors()
{
	CALLED;
	try {
		Whole whole(5);
	} catch (const std::logic_error &e) {
		std::puts(e.what());
	}
	try {
		try {
			fail(8);
		} catch (const Failure &) {
			fail(9);
		}
	} catch (const Failure &f) {
		return f.code;
	}
	return 0;
}

KEEP int in_loops()
{
	int total = 0;

	CALLED;
	for (int i = 0; i < 20; i++) {
		try {
			if (i % 3 == 0)
				fail(i);
			total += std::stoi(i % 3 == 1 ? "x" : "12");
		} catch (const Failure &f) {
			total += f.code;
		} catch (const std::invalid_argument &) {
			total += 1000;
		}
	}
	return total;
}

KEEP int no_throw(int a) noexcept
{
	CALLED;
	try {
		fail(a);
	} catch (...) {
		return a + 1;
	}
}

/* --- static and thread-local objects */

struct Counter {
	KEEP explicit Counter(int start) : value(start)
	{
		CALLED;
	}
	int value;
};

Counter early(5);

KEEP Counter &lazy()
{
	CALLED;
	static Counter made(early.value * 2);
	return made;
}

struct PerThread {
	KEEP ~PerThread()
	{
		CALLED;
	}
	int value = 4;
};
thread_local PerThread per_thread;

/* What is inlined of the compiler's own (its initialisation for this thread) has no name but its
 * host's: not counted. */
KEEP int of_this_thread(int a)
{
	return per_thread.value += a;
}

KEEP void work(int *result, int a)
{
	CALLED;
	of_this_thread(a);
	try {
		*result = rethrows(a);
	} catch (const Failure &f) {
		*result = f.code + of_this_thread(0);
	}
}

/* --- lambdas and other objects to be called */

KEEP int call_function(const std::function<int(int)> &f, int a)
{
	CALLED;
	return f(a);
}

struct Adder {
	KEEP int operator()(int a) const
	{
		CALLED;
		return a + n;
	}
	int n;
};

KEEP int lambdas()
{
	int captured = 3;
	auto times = [&](int a) KEEP {
		CALLED;
		return captured * a;
	};
	auto generic = [](auto a, auto b) {
		CALLED_INLINE;
		return a + b;
	};

	CALLED;
	captured = 4;
	return twice(times, 5) + call_function(times, 6) + call_function(Adder{7}, 8) +
	       generic(1, 2) + static_cast<int>(generic(1.5, 2.5));
}

KEEP double polymorphic(shapes::Shape &shape)
{
	CALLED;
	return shape.twin()->area();
}

KEEP int by_member_pointer(shapes::Base &base, int (shapes::Base::*f)(int), int a)
{
	CALLED;
	return (base.*f)(a);
}

} // namespace

int main(int argc, char **)
{
	CALLED;
	int a = argc;
	OPAQUE(a);
	std::vector<int> numbers(50);
	std::iota(numbers.begin(), numbers.end(), 1);
	std::sort(numbers.begin(), numbers.end(), [](int x, int y) {
		CALLED_INLINE;
		return x % 7 != y % 7 ? x % 7 < y % 7 : x < y;
	});
	std::map<std::string, int> words;
	for (int n : numbers)
		words[std::to_string(n % 10)] += n;
	std::printf("sorted %d %d words %d\n", numbers[1], numbers[48], words["3"]);
	std::printf("templates %d %s %ld %d\n", largest(numbers),
		    largest(std::vector<std::string>{"b", "c", "a"}).c_str(), Power<5>::of(a + 2),
		    many(1, 2L, 'c', 3.5));

	shapes::Square square(3);
	shapes::Both both;
	std::unique_ptr<shapes::Named> named = std::make_unique<shapes::Square>(2);
	std::printf("shapes %g %s %s\n", polymorphic(square), named->name(),
		    shapes::Named().name());
	std::printf("both %d %d\n", static_cast<shapes::Left &>(both).value(4),
		    by_member_pointer(both, &shapes::Base::value, 5));
	named.reset();

	std::printf("catches %d %d\n", catches(2), catches(a));
	std::printf("constructors %d loops %d noexcept %d\n", constructors(), in_loops(),
		    no_throw(a));
	std::printf("static %d %d %d\n", early.value, lazy().value, lazy().value);
	std::printf("lambdas %d\n", lambdas());

	int results[2] = {};
	std::thread first(work, &results[0], 1);
	first.join();
	std::thread second(work, &results[1], 2);
	second.join();
	std::printf("threads %d %d\n", results[0], results[1]);
	std::fflush(stdout);
	calls_print();
	return 4;
}
