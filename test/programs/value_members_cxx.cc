/* SPDX-License-Identifier: Apache-2.0 */
/*
 * As value_members.c, for classes: strings, base classes, references, methods, and classes that
 * stand for pointers.
 */
#include <cstdio>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#if defined(__clang__)
#define NOINLINE __attribute__((noinline, optnone))
#else
#define NOINLINE __attribute__((noipa))
#endif

namespace web
{
enum class State { idle, busy = 9 };

struct Base {
	virtual ~Base() = default;
	int base = 17;
};

struct Other {
	long other = -4;
};

/* It has an operator->, and two pointers that this could return. */
struct Choice {
	const Other *one = nullptr, *two = nullptr;
	const Other *operator->() const
	{
		return two;
	}
};

struct Request : Base, Other {
	std::string uri;
	std::string_view view;
	State state = State::busy;
	const Request *next = nullptr;
	std::unique_ptr<Other> own{new Other};
	std::shared_ptr<const Base> shared = std::make_shared<Base>();
	std::vector<std::unique_ptr<short>> numbers;
	std::vector<short>::const_iterator place;
	Choice choice;
	static int count;

	NOINLINE int handle(const std::string &text, std::string_view view, const Request &peer);
};

int Request::count = 3;

NOINLINE int Request::handle(const std::string &text, std::string_view part, const Request &peer)
{
	return base + (int)text.size() + (int)part.size() + peer.base;
}

NOINLINE std::string make(int n)
{
	return std::string((size_t)n, 'x');
}
} // namespace web

static void say(web::Request &request, const std::string &text, std::string_view part,
		const web::Request &peer)
{
	int result = request.handle(text, part, peer);

	std::printf(
		"{\"f\":\"web::Request::handle\",\"args\":{\"this->uri\":\"%s\",\"view\":\"%.*s\","
		"\"this->base\":%d,\"other\":%ld,\"state\":\"busy\",\"text\":\"%s\","
		"\"part\":\"%.*s\",\"peer.base\":%d,\"peer.uri\":\"%s\","
		"\"next->uri\":\"%s\",\"own->other\":%ld,\"(*shared).base\":%d,\"shared\":\"0x%"
		"lx\","
		"\"*numbers[1]\":%d,\"*place\":%d},\"ret\":%d}\n",
		request.uri.c_str(), (int)request.view.size(), request.view.data(), request.base,
		request.other, text.c_str(), (int)part.size(), part.data(), peer.base,
		peer.uri.c_str(), request.next->uri.c_str(), request.own->other,
		request.shared->base, (unsigned long)request.shared.get(), *request.numbers[1],
		*request.place, result);
}

int main()
{
	const std::vector<short> shorts = {-300, 301};
	web::Request one, two;

	one.uri = "/short";
	two.uri = "/a/long/name/that/has/its/own/memory";
	one.view = std::string_view(two.uri).substr(3, 4);
	two.view = "zz";
	one.next = &two;
	two.next = &one;
	two.base = 170;
	two.own->other = 5;
	for (web::Request *request : {&one, &two}) {
		for (short n = 0; n < 3; n++)
			request->numbers.emplace_back(new short(n + request->base));
		request->place = shorts.begin() + (request == &two);
	}
	say(one, "text", "part of it", two);
	say(two, std::string(40, 'l'), std::string_view("cut here").substr(0, 3), one);
	say(one, "", "", one);
	for (int n = 0; n < 40; n += 13) {
		std::string made = web::make(n);

		std::printf(
			"{\"f\":\"web::make\",\"args\":{\"n\":%d},\"ret\":{\"retval\":\"%s\"}}\n",
			n, made.c_str());
	}
	return 0;
}
