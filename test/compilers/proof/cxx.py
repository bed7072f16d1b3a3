# SPDX-License-Identifier: Apache-2.0
"""
Random C++20 programs that print a checksum of all that they did, the same on every run and by every
compiler: exceptions through recursion, virtual calls, destructors, constructors and lambdas, caught
by type or by all, thrown again, replaced; noexcept functions that catch what goes on inside;
templates; coroutines that yield, throw, are left half way, and await each other; containers and
algorithms of the library, some of whose comparisons throw.

How much a program does is bounded by fuel, which each call costs. Where the order in which
things happen is the compiler's choice (arguments, operands), nothing is done that the checksum
sees.
"""

import random

HEAD = r"""
#include <algorithm>
#include <coroutine>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <map>
#include <numeric>
#include <vector>

static std::uint64_t sum = 14695981039346656037u;
static long fuel = FUEL;
static void mix(std::uint64_t n) { sum = (sum ^ n) * 1099511628211u; sum ^= sum >> 29; }
struct Base { int n; explicit Base(int i) : n(i) {} virtual ~Base() { mix(n + 1); } virtual int kind() const { return 0; } };
struct Left : Base { using Base::Base; int kind() const override { return 1; } };
struct Right : virtual Base { explicit Right(int i) : Base(i) {} int kind() const override { return 2; } };
struct Both : Left { std::vector<int> more; explicit Both(int i) : Left(i), more(3, i) {} int kind() const override { return 3; } };
struct Guard { int n; explicit Guard(int i) : n(i) { mix(n); } Guard(const Guard &) = delete; ~Guard() { mix(n * 3 + 1); } };
struct Careful { int n; explicit Careful(int i) : n(i) {} ~Careful() { mix(n + (std::uncaught_exceptions() ? 7 : 8)); } };
struct Half { Guard first; Careful second; explicit Half(int n) : first(n), second(n + 1) { if (n % 5 == 0) throw Left(n); mix(n); } };
struct Task {
    struct promise_type {
        int value = 0; std::exception_ptr error;
        Task get_return_object() { return Task(std::coroutine_handle<promise_type>::from_promise(*this)); }
        std::suspend_always initial_suspend() noexcept { return {}; }
        std::suspend_always final_suspend() noexcept { return {}; }
        std::suspend_always yield_value(int n) { value = n; return {}; }
        void return_value(int n) { value = n; }
        void unhandled_exception() { error = std::current_exception(); }
    };
    std::coroutine_handle<promise_type> h;
    explicit Task(std::coroutine_handle<promise_type> handle) : h(handle) {}
    Task(Task &&other) noexcept : h(other.h) { other.h = nullptr; }
    ~Task() { if (h) h.destroy(); }
    bool next() { h.resume(); if (h.promise().error) std::rethrow_exception(h.promise().error); return !h.done(); }
    int value() const { return h.promise().value; }
    bool await_ready() const noexcept { return false; }
    bool await_suspend(std::coroutine_handle<>) { while (!h.done() && !h.promise().error) h.resume(); return false; }
    int await_resume() { if (h.promise().error) std::rethrow_exception(h.promise().error); return value(); }
};
template <int N, typename T> struct Tower { static T up(T n) { return Tower<N - 1, T>::up(n * 3 + N) ^ (n >> 3); } };
template <typename T> struct Tower<0, T> { static T up(T n) { return n; } };
template <typename... T> int folded(T... n) { return (0 + ... + n); }
template <typename F> int twice(F f, int n) { int a = f(n); return a ^ f(n + 1); }
"""

THROWN = [
    "Left({0})",
    "Right({0})",
    "Both({0})",
    "({0} & 1023)",
    "static_cast<char>({0})",
    "Base({0})",
]
CAUGHT = [
    ("const Left &e", "e.n + e.kind()"),
    ("const Right &e", "e.n + e.kind()"),
    ("const Base &e", "e.n + 10 * e.kind()"),
    ("int e", "e"),
    ("char e", "e"),
    ("Both &e", "e.n + e.more[1]"),
]
SHAPES = ["static", "__attribute__((noinline)) static", "static inline", ""]


class Program:
    """One program. Functions call only later ones, or themselves: so every call is bounded."""

    def __init__(self, seed):
        self.random = random.Random(seed)
        self.kinds = [
            self.random.choice(["plain", "plain", "plain", "quiet", "member", "task"])
            for _ in range(self.random.randint(6, 11))
        ]
        self.kinds[-1] = "plain"
        if "task" not in self.kinds:
            self.kinds[1] = "task"
        self.shapes = [self.random.choice(SHAPES) for _ in self.kinds]
        self.at, self.names = 0, 0

    def fresh(self):
        self.names += 1
        return f"v{self.names}"

    def number(self):
        return self.random.choice(
            ["n", "d", "n + d", "n * 3", "(n ^ d)", str(self.random.randint(-9, 99))]
        )

    def call(self):
        """An expression that calls a later function, or this one again where d says so."""
        later = list(range(self.at + 1, len(self.kinds)))
        if not later or self.random.random() < 0.2:
            return f"(d > 0 ? {self.invoke(self.at, 'd - 1')} : {self.number()})"
        return self.invoke(self.random.choice(later), "d")

    def invoke(self, which, depth):
        return f"f{which}({depth}, {self.number()})"

    def throw(self):
        return f"throw {self.random.choice(THROWN).format(self.number())};"

    def caught(self, level):
        handlers, kinds = [], self.random.sample(CAUGHT, self.random.randint(1, 3))
        # derived before base, or gcc warns; order does not matter otherwise
        for what, value in sorted(
            kinds, key=lambda kind: "Base" in kind[0] and 2 or "Left" in kind[0] and 1
        ):
            end = self.random.choice(["", "", "throw;", self.throw(), f"n ^= {self.call()};"])
            handlers.append(f"catch ({what}) {{ mix({value}); {end} }}")
        if self.random.random() < 0.5:
            handlers.append(
                f"catch (...) {{ Guard {self.fresh()}(n); "
                f"{self.random.choice(['', 'throw;', self.statement(level + 1)])} }}"
            )
        return " ".join(handlers)

    def statement(self, level=0):
        choices = ["mix", "mix", "guard", "call", "call", "throw"]
        if level < 3:
            choices += [
                "try",
                "try",
                "loop",
                "if",
                "lambda",
                "sort",
                "map",
                "half",
                "tower",
                "transform",
            ]
        kind = self.random.choice(choices)
        name = self.fresh()
        inner = self.random.randint(1, 7)
        return {
            "mix": lambda: f"mix({self.number()});",
            "guard": lambda: f"{self.random.choice(['Guard', 'Careful'])} {name}({self.number()});",
            "call": lambda: f"n += {self.call()};",
            "throw": lambda: f"if ((n & 7) == {inner}) {self.throw()}",
            "half": lambda: f"{{ Half {name}(n); {self.block(level)} }}",
            "try": lambda: f"try {{ {self.block(level)} }} {self.caught(level)}",
            "loop": lambda: f"for (int {name} = 0; {name} < {inner}; {name}++) {{ "
            f"{self.block(level)} "
            f"if ((n ^ {name}) % 5 == 0) {self.random.choice(['break', 'continue'])}; }}",
            "if": lambda: f"if ((n & {inner}) != d) {{ {self.block(level)} }} else {{ "
            f"{self.block(level)} }}",
            "lambda": lambda: f"auto {name} = [&](int m) {{ n ^= m; {self.block(level)} return n + "
            f"m; }}; "
            f"n = {self.random.choice([f'{name}(d)', f'twice({name}, n)'])};",
            "sort": lambda: f"{{ std::vector<int> {name}({inner + 3}); std::iota({name}.begin(), "
            f"{name}.end(), n & 63); "
            f"std::sort({name}.begin(), {name}.end(), [](int a, int b) {{ return (a * 37) % 64 < "
            f"(b * 37) % 64; }}); "
            f"for (int m : {name}) mix(m); }}",
            "transform": lambda: f"{{ std::vector<int> {name}{{n, d, 3}}; for (int &m : {name}) {{ "
            f"n = m; {self.block(level)} m = n; }} "
            f"mix(std::count_if({name}.begin(), {name}.end(), [d](int m) {{ return m > d; }})); }}",
            "map": lambda: f"{{ std::map<int, Guard> {name}; for (int i = 0; i < {inner}; i++) "
            f"{name}.try_emplace((n ^ i) & 7, i); "
            f"{self.block(level)} mix({name}.size()); }}",
            "tower": lambda: f"n ^= static_cast<int>(Tower<{inner}, "
            f"unsigned>::up(static_cast<unsigned>(n))) + folded(n & 15, d, "
            f"{inner});",
        }[kind]()

    def block(self, level=0):
        return " ".join(self.statement(level + 1) for _ in range(self.random.randint(1, 2)))

    def body(self):
        return "\n    ".join(self.statement() for _ in range(self.random.randint(2, 4)))

    def function(self, which):
        self.at = which
        body, burn, shape = self.body(), "if (--fuel < 0) return n;", self.shapes[which]
        wrap = "n = static_cast<int>(static_cast<unsigned>(n) % 100000u);"
        if self.kinds[which] == "quiet":
            return (
                f"{shape} int f{which}(int d, int n) noexcept {{ {burn} {wrap} try {{\n    "
                f"{body}\n    }} "
                "catch (const Base &e) { mix(e.n); } catch (...) { mix(5); } return n; }"
            )
        if self.kinds[which] == "member":
            other = self.body()
            return (
                f"struct M{which} {{ virtual int run(int d, int n) {{ {burn} {wrap}\n    {body}\n  "
                f"  return n; }} virtual ~M{which}() = default; }};\n"
                f"struct N{which} : M{which} {{ int run(int d, int n) override {{ {burn} {wrap}\n  "
                f"  {other}\n    return n ^ 1; }} }};\n"
                f"static M{which} &pick{which}(int n) {{ static M{which} m; static N{which} o; "
                f"return n & 1 ? m : o; }}\n"
                f"{shape} int f{which}(int d, int n) {{ return pick{which}(n).run(d, n); }}"
            )
        if self.kinds[which] == "task":
            # co_await and co_yield may not stand in a handler: around what statements there are
            own = f"n += co_await task{which}(d - 1, n);" if self.random.random() < 0.6 else ""
            return (
                f"{shape} Task task{which}(int d, int n) {{ if (--fuel < 0) co_return n; {wrap} "
                f"Guard g(n);\n    {body}\n    co_yield n;\n"
                f"    if (d > 0) {{ {own} }}\n    {self.statement(2)}\n    co_yield n + 1; "
                f"{self.statement(2)} co_return n; }}\n"
                f"{shape} int f{which}(int d, int n) {{ Task t = task{which}(d, n); int left = 1 + "
                f"(n & 3); "
                f"while (left-- && t.next()) mix(t.value()); return t.value(); }}"
            )
        return f"{shape} int f{which}(int d, int n) {{ {burn} {wrap}\n    {body}\n    return n; }}"

    def source(self):
        functions = [self.function(which) for which in range(len(self.kinds))]
        self.at = -1
        calls = "\n        ".join(
            f"n += {self.invoke(which, '2')};" for which in range(min(3, len(self.kinds)))
        )
        main = f"""int main()
{{
    for (int i = 0; i < 6; i++) {{
        int n = i, d = i % 3;
        fuel = FUEL;
        try {{
        {calls}
        }} catch (const Base &e) {{ mix(e.n + e.kind()); }} catch (int e) {{ mix(e); }} catch (...) {{ mix(3); }}
        mix(n + d);
    }}
    std::printf("checksum = %llx\\n", static_cast<unsigned long long>(sum));
    return 0;
}}
"""
        known = "".join(
            f"{shape} int f{which}(int d, int n){' noexcept' if kind == 'quiet' else ''};\n"
            for which, (kind, shape) in enumerate(zip(self.kinds, self.shapes))
        )
        return "#define FUEL 30\n" + HEAD + known + "\n".join(functions) + "\n" + main
