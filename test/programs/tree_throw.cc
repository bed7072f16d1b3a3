/* SPDX-License-Identifier: Apache-2.0 */
/*
 * C++: exceptions through several frames, caught at different depths, rethrown, crossing cleanups,
 * thrown by constructors and out of callbacks; static initialisers; virtual calls, templates and
 * lambdas.
 */
#include "tree_log.h"

#include <algorithm>
#include <functional>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

static volatile int sink;

namespace shop
{

KEEP static int helper(int x)
{
	ENTER("shop::helper");
	LEAVE("shop::helper");
	return x + 1;
}

/* Its frame is larger than those that an exception took away. */
KEEP static int roomy_helper(int x)
{
	ENTER("shop::roomy_helper");
	volatile char room[700];

	room[0] = (char)x;
	int r = helper(room[0]);

	LEAVE("shop::roomy_helper");
	return r;
}

/* Remembers in which frame it lives, so that its destructor can tell the log which frames an
 * exception took away. */
class Guard
{
      public:
	KEEP explicit Guard(int owner) : owner_(owner)
	{
		ENTER("shop::Guard::Guard");
		LEAVE("shop::Guard::Guard");
	}
	KEEP ~Guard()
	{
		log_unwind(owner_);
		ENTER("shop::Guard::~Guard");
		sink = helper(1);
		LEAVE("shop::Guard::~Guard");
	}

      private:
	int owner_;
};

struct Odd {
	int n;
};

KEEP static void thrower(int n)
{
	ENTER("shop::thrower");
	sink = helper(n);
	if (n % 2)
		throw Odd{n};
	throw std::runtime_error("even");
}

KEEP static void plain_frames(int depth, int n)
{
	ENTER("shop::plain_frames");
	if (depth)
		plain_frames(depth - 1, n);
	else
		thrower(n);
	LEAVE("shop::plain_frames");
}

KEEP static void guarded_frames(int depth, int n)
{
	ENTER("shop::guarded_frames");
	Guard guard(depth_);

	if (depth)
		guarded_frames(depth - 1, n);
	else
		thrower(n);
	LEAVE("shop::guarded_frames");
}

KEEP static void rethrower(int depth, int n)
{
	ENTER("shop::rethrower");
	try {
		if (depth % 2)
			plain_frames(depth, n);
		else
			guarded_frames(depth, n);
	} catch (...) {
		LANDED();
		sink = helper(n);
		throw;
	}
	LEAVE("shop::rethrower");
}

KEEP static void catcher(int depth, int n)
{
	ENTER("shop::catcher");
	try {
		rethrower(depth, n);
	} catch (const Odd &odd) {
		LANDED();
		sink = roomy_helper(odd.n);
	}
	LEAVE("shop::catcher");
}

/* Even ones pass catcher() and are caught here. */
KEEP static void outer_catcher(int depth, int n)
{
	ENTER("shop::outer_catcher");
	try {
		Guard guard(depth_);

		catcher(depth, n);
	} catch (const std::exception &) {
		LANDED();
		sink = helper(n);
	}
	LEAVE("shop::outer_catcher");
}

class Base
{
      public:
	KEEP explicit Base(int n)
	{
		ENTER("shop::Base::Base");
		sink = helper(n);
		LEAVE("shop::Base::Base");
	}
	KEEP virtual ~Base()
	{
		ENTER("shop::Base::~Base");
		LEAVE("shop::Base::~Base");
	}
	KEEP virtual int price(int n) const
	{
		ENTER("shop::Base::price");
		LEAVE("shop::Base::price");
		return n;
	}
};

class Derived : public Base
{
      public:
	KEEP explicit Derived(int n) : Base(n)
	{
		/* Its own entry comes before Base's constructor, which the log cannot see:
		 * logged by the caller. */
	}
	KEEP int price(int n) const override
	{
		ENTER("shop::Derived::price");
		int r = Base::price(n) + helper(n);

		LEAVE("shop::Derived::price");
		return r;
	}
};

template <typename T> KEEP static T largest(const std::vector<T> &v)
{
	ENTER("shop::largest");
	T r = v[0];

	for (const T &x : v)
		r = std::max(r, x);
	LEAVE("shop::largest");
	return r;
}

} // namespace shop

KEEP static int before_main(int x)
{
	ENTER("before_main");
	LEAVE("before_main");
	return x;
}

static int initialised_early = before_main(5);

KEEP static int once()
{
	ENTER("once");
	static int value = before_main(7);

	LEAVE("once");
	return value;
}

KEEP static bool throwing_compare(int a, int b)
{
	ENTER("throwing_compare");
	if (a == 13 || b == 13)
		throw shop::Odd{13};
	LEAVE("throwing_compare");
	return a < b;
}

KEEP static void out_of_callback(int poison)
{
	ENTER("out_of_callback");
	int v[] = {4, 2, 8, poison, 9, 1};

	try {
		for (int i = 1; i < 6; i++)
			sink = throwing_compare(v[i - 1], v[i]);
	} catch (const shop::Odd &) {
		LANDED();
	}
	LEAVE("out_of_callback");
}

KEEP static void in_a_thread()
{
	ENTER("in_a_thread");
	for (int n = 0; n < 6; n++)
		shop::outer_catcher(n, n);
	LEAVE("in_a_thread");
}

KEEP static void use_objects(const shop::Base &base)
{
	ENTER("use_objects");
	sink = base.price(3);
	LEAVE("use_objects");
}

int main()
{
	ENTER("main");
	for (int depth = 0; depth < 6; depth++)
		for (int n = 0; n < 2; n++)
			shop::outer_catcher(depth, n);
	sink = once() + once() + initialised_early;
	out_of_callback(3);
	out_of_callback(13);
	{
		shop::Base base(1);

		use_objects(base);
	}
	sink = shop::largest(std::vector<int>{3, 1, 2});
	std::thread thread(in_a_thread);

	thread.join();
	sink = shop::helper(0);
	LEAVE("main");
	return 0;
}
