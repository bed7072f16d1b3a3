// SPDX-License-Identifier: Apache-2.0
/*
 * What compilers do with functions, in C++: exceptions through frames with clean-ups, landing pads
 * that carry exit hooks, constructors in several variants, virtual and covariant calls, templates,
 * lambdas, static initialisers, inlined members. Prints a number that depends on all.
 */
#include <cstdint>
#include <cstdio>
#include <functional>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

extern "C" int cold_forms(int n);

namespace
{
uint64_t sum = 1;

inline void mix(uint64_t v)
{
	sum = (sum ^ v) * 1099511628211u;
}

struct Guard {
	explicit Guard(int n) : n_(n)
	{
		mix(n);
	}
	~Guard()
	{
		mix(n_ + 1);
	}
	int n_;
};

struct Problem : std::runtime_error {
	explicit Problem(int n) : std::runtime_error("problem"), code(n)
	{
	}
	int code;
};

int may_throw(int n)
{
	Guard g(n);

	if (n % 3 == 0)
		throw Problem(n);
	if (n % 5 == 0)
		throw n;
	return n * 2;
}

int middle(int n)
{
	Guard a(n + 10), b(n + 20);
	std::string text(n % 40, 'x');

	return may_throw(n) + static_cast<int>(text.size());
}

int outer(int n)
{
	try {
		Guard g(n + 30);
		return middle(n);
	} catch (const Problem &p) {
		mix(p.code);
		return -1;
	} catch (int v) {
		mix(v);
		try {
			return middle(v + 1);
		} catch (...) {
			return -2;
		}
	}
}

struct Shape {
	virtual ~Shape() = default;
	virtual int area() const = 0;
	virtual Shape *clone() const = 0;
};

struct Named : virtual Shape {
	std::string name = "named";
};

struct Square : Named {
	explicit Square(int s) : side(s)
	{
		mix(s);
	}
	int area() const override
	{
		return side * side;
	}
	Square *clone() const override
	{
		return new Square(*this);
	}
	int side;
};

struct Circle final : Named {
	explicit Circle(int r) : radius(r)
	{
	}
	~Circle() override
	{
		mix(radius);
	}
	int area() const override
	{
		return 3 * radius * radius;
	}
	Circle *clone() const override
	{
		return new Circle(*this);
	}
	int radius;
};

template <typename T> T twice(T v)
{
	mix(sizeof(T));
	return v + v;
}

uint64_t total()
{
	return 0;
}

template <typename T, typename... Rest> uint64_t total(T v, Rest... rest)
{
	return static_cast<uint64_t>(v) + total(rest...);
}

int never_fails(int n) noexcept
{
	Guard g(n);

	return n + 1;
}

const std::vector<int> table = [] {
	std::vector<int> v;

	for (int i = 0; i < 8; i++)
		v.push_back(twice(i));
	return v;
}();
} // namespace

int cold_forms(int n)
{
	std::map<int, std::function<int(int)>> handlers;

	handlers[0] = [](int v) { return outer(v); };
	handlers[1] = never_fails;
	handlers[2] = [n](int v) { return static_cast<int>(total(v, n, 3L, 4.0)); };
	for (int i = 1; i < n; i++) {
		std::unique_ptr<Shape> a(i & 1 ? static_cast<Shape *>(new Square(i))
					       : new Circle(i));
		std::unique_ptr<Shape> b(a->clone());

		mix(a->area() + b->area());
		mix(handlers[i % 3](i));
		mix(twice(std::string("ab")).size() + table[i % 8]);
	}
	std::printf("%016lx\n", static_cast<unsigned long>(sum));
	return static_cast<int>(sum & 7);
}

#ifndef COLD_LIBRARY
int main(int argc, char **)
{
	return cold_forms(100 + argc) & 0;
}
#endif
