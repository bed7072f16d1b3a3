/* SPDX-License-Identifier: Apache-2.0 */
/* What values.c does, for what only C++ has. */
#include <cstdint>
#include <cstdio>
#include <string>
#include <vector>

/* The compiler may not see through a call: else it leaves out those whose result nobody uses. */
#if defined(__has_attribute) && __has_attribute(noipa)
#define NOINLINE __attribute__((noipa))
#else
#define NOINLINE __attribute__((noinline, optnone))
#endif

enum class Colour : unsigned char { red, green = 7 };
enum Plain { first, second = -2 };

struct Empty {
};

struct Trivial {
	int a, b;
};

struct Owner { // passed by the address of a copy
	explicit Owner(int n) : number(n)
	{
	}
	Owner(const Owner &other) : number(other.number)
	{
	}
	~Owner()
	{
		number = 0;
	}
	int number;
};

struct Base {
	virtual ~Base()
	{
	}
	NOINLINE virtual int answer(int question)
	{
		return question + 1;
	}
	long padding = 1;
};

struct Derived : Base {
	NOINLINE int answer(int question) override
	{
		return question + 2;
	}
};

struct Basket {
	NOINLINE int put(const char *what, unsigned count, double price);
	NOINLINE static long total(long a, const std::string &b);
	int items = 3;
};

int Basket::put(const char *what, unsigned count, double price)
{
	return items + (int)count + (int)price + what[0];
}

long Basket::total(long a, const std::string &b)
{
	return a + (long)b.size();
}

NOINLINE int by_value(Empty, int a, Trivial, int b, Owner, int c, Empty, Colour d)
{
	return a + b + c + (int)d;
}

NOINLINE Owner made(int a, const char *b)
{
	return Owner(a + b[0]);
}

NOINLINE const int &references(int &a, int &&b, const std::vector<int> &c)
{
	return c.empty() ? b < a ? a : a : c[0];
}

NOINLINE std::nullptr_t nulls(std::nullptr_t, int a, int Trivial::*b,
			      int (Basket::*c)(const char *, unsigned, double), long d)
{
	return a && b && c && d ? nullptr : nullptr;
}

template <typename T> NOINLINE T twice(T value, const char *name)
{
	return value + value + (T)name[0] - (T)name[0];
}

template <typename... T> NOINLINE int pack(int a, T... rest)
{
	return a + (int)sizeof...(rest);
}

NOINLINE int utf(char16_t a, char32_t b, bool c, Plain d)
{
	return a + (int)b + c + d;
}

namespace space
{
namespace
{
NOINLINE int inner(short a, Colour b)
{
	return a + (int)b;
}
} // namespace
} // namespace space

int main()
{
	Basket basket;
	std::string text = "text";
	std::vector<int> numbers = {5};
	Derived derived;
	Base *base = &derived;
	int one = 1;
	auto lambda = [&](int a, const char *b) NOINLINE { return a + b[0] + one; };
	volatile int sink;

	basket.put("apple", 3, 1.5);
	printf("{\"f\":\"Basket::put\",\"args\":{\"this\":\"%p\",\"what\":\"apple\",\"count\":3,"
	       "\"price\":1.5},\"ret\":%d}\n",
	       (void *)&basket, 3 + 3 + 1 + 'a');
	Basket::total(7, text);
	printf("{\"f\":\"Basket::total\",\"args\":{\"a\":7,\"b\":\"%s\"},\"ret\":11}\n",
	       text.c_str());
	base->answer(40);
	printf("{\"f\":\"Derived::answer\",\"args\":{\"this\":\"%p\",\"question\":40},\"ret\":42}"
	       "\n",
	       (void *)base);
	by_value({}, 1, {2, 3}, 4, Owner(5), 6, {}, Colour::green);
	printf("{\"f\":\"by_value\",\"args\":{\"a\":1,\"b\":4,\"c\":6,\"d\":\"green\"},\"ret\":18}"
	       "\n");
	made(2, "b");
	printf("{\"f\":\"made\",\"args\":{\"a\":2,\"b\":\"b\"}}\n");
	int other = 9;
	references(one, static_cast<int &&>(other), numbers);
	printf("{\"f\":\"references\",\"args\":{\"a\":\"%p\",\"b\":\"%p\",\"c\":\"%p\"},\"ret\":\"%"
	       "p\"}\n",
	       (void *)&one, (void *)&other, (void *)&numbers, (void *)&numbers[0]);
	nulls(nullptr, 1, &Trivial::b, &Basket::put, 5);
	printf("{\"f\":\"nulls\",\"args\":{\"a\":1,\"b\":4,\"c\":\"{...}\",\"d\":5}}\n");
	twice(4, "int");
	printf("{\"f\":\"twice<int>\",\"args\":{\"value\":4,\"name\":\"int\"},\"ret\":8}\n");
	twice(0.25, "double");
	printf("{\"f\":\"twice<double>\",\"args\":{\"value\":0.25,\"name\":\"double\"},\"ret\":0.5}"
	       "\n");
	pack(1, 2l, "three", 4.5);
	printf("{\"f\":\"pack<long, char const*, "
	       "double>\",\"values\":[1,2,\"three\",4.5],\"ret\":4}\n");
	utf(u'\u00e9', U'\U0001f600', true, second);
	printf("{\"f\":\"utf\",\"args\":{\"a\":233,\"b\":128512,\"c\":true,\"d\":\"second\"},"
	       "\"ret\":%d}\n",
	       233 + 128512 + 1 - 2);
	space::inner(-5, Colour::red);
	printf("{\"f\":\"space::(anonymous "
	       "namespace)::inner\",\"args\":{\"a\":-5,\"b\":\"red\"},\"ret\":-5}\n");
	sink = lambda(3, "c");
	(void)sink;
	printf("{\"f\":\"main::{lambda(int, char "
	       "const*)#1}::operator()\",\"args\":{\"a\":3,\"b\":\"c\"},\"ret\":%d}\n",
	       3 + 'c' + 1);
	return 0;
}
