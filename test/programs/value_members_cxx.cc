/* SPDX-License-Identifier: Apache-2.0 */
/*
 * As value_members.c, for classes: strings, base classes, references, methods.
 */
#include <cstdio>
#include <string>
#include <string_view>

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

struct Request : Base, Other {
	std::string uri;
	std::string_view view;
	State state = State::busy;
	const Request *next = nullptr;
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
		"\"next->uri\":\"%s\"},\"ret\":%d}\n",
		request.uri.c_str(), (int)request.view.size(), request.view.data(), request.base,
		request.other, text.c_str(), (int)part.size(), part.data(), peer.base,
		peer.uri.c_str(), request.next->uri.c_str(), result);
}

int main()
{
	web::Request one, two;

	one.uri = "/short";
	two.uri = "/a/long/name/that/has/its/own/memory";
	one.view = std::string_view(two.uri).substr(3, 4);
	two.view = "zz";
	one.next = &two;
	two.next = &one;
	two.base = 170;
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
