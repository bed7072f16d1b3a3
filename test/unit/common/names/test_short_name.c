// SPDX-License-Identifier: Apache-2.0
/*
 * Short forms of names: of libstdc++ and libc++, Boost, RocksDB, Rust; and of what is no name.
 */
#include <stdlib.h>
#include <string.h>

#include "common/cleanup.h"
#include "common/names/short_name.h"
#include "common/names/short_names.h"
#include "common/selection/selection.h"
#include "test/unit/test.h"

static const struct {
	const char *name, *expected;
} forms[] = {
	{"std::__cxx11::basic_string<char, std::char_traits<char>, std::allocator<char> >::append",
	 "std::string::append"},
	{"std::__cxx11::basic_string<char, std::char_traits<char>, std::allocator<char> "
	 ">::basic_string",
	 "std::string::string"},
	{"std::__cxx11::basic_string<wchar_t, std::char_traits<wchar_t>, std::allocator<wchar_t> "
	 ">::~basic_string",
	 "std::wstring::~string"},
	{"std::map<int, K, std::less<int>, std::allocator<std::pair<int const, K> > >::find",
	 "std::map<int, K>::find"},
	{"std::map<std::__cxx11::basic_string<char, std::char_traits<char>, std::allocator<char> "
	 ">, int, std::less<std::__cxx11::basic_string<char, std::char_traits<char>, "
	 "std::allocator<char> > >, std::allocator<std::pair<std::__cxx11::basic_string<char, "
	 "std::char_traits<char>, std::allocator<char> > const, int> > >::operator[]",
	 "std::map<std::string, int>::operator[]"},
	{"std::unordered_map<int, std::vector<int, std::allocator<int> >, std::hash<int>, "
	 "std::equal_to<int>, std::allocator<std::pair<int const, std::vector<int, "
	 "std::allocator<int> > > > >::find",
	 "std::unordered_map<int, std::vector<int>>::find"},
	{"std::priority_queue<int, std::vector<int, std::allocator<int> >, std::less<int> >::push",
	 "std::priority_queue<int>::push"},
	{"std::priority_queue<int, std::vector<int, std::allocator<int> >, std::greater<int> "
	 ">::push",
	 "std::priority_queue<...>::push"},
	{"std::_Rb_tree<int, std::pair<int const, long>, std::_Select1st<std::pair<int const, "
	 "long> >, std::less<int>, std::allocator<std::pair<int const, long> > >::_M_insert_unique",
	 "std::_Rb_tree<...>::_M_insert_unique"},
	{"f(int, char)::{lambda(std::__cxx11::basic_string<char, std::char_traits<char>, "
	 "std::allocator<char> > const&)#1}::operator()",
	 "f::{lambda#1}::operator()"},
	{"std::_Function_handler<void (int), foo(int)::{lambda(int)#1}>::_M_invoke",
	 "std::_Function_handler<void (int), foo::{lambda#1}>::_M_invoke"},
	{"g[abi:cxx11]", "g"},
	{"std::chrono::_V2::steady_clock::now", "std::chrono::steady_clock::now"},
	{"X::operator<", "X::operator<"},
	{"X::operator<< <int, std::allocator<int> >", "X::operator<< <int, std::allocator<int>>"},
	{"X::operator<<<int>", "X::operator<<<int>"},
	{"X::operator->", "X::operator->"},
	{"X::operator()", "X::operator()"},
	{"X::operator()(int)::Y::z", "X::operator()::Y::z"},
	{"X::operator bool", "X::operator bool"},
	{"X::operator std::vector<int, std::allocator<int> >", "X::operator std::vector<int>"},
	{"operator new[]", "operator new[]"},
	{"ns::(anonymous namespace)::f", "ns::(anonymous namespace)::f"},
	{"(anonymous namespace)::f<int>(int)::L::m", "(anonymous namespace)::f<int>::L::m"},
	{"void_fn<void (*)(int, std::pair<int, long>)>::call",
	 "void_fn<void (*)(int, std::pair<int, long>)>::call"},
	{"A::f() const::L::m", "A::f::L::m"},
	{"rocksdb::(anonymous "
	 "namespace)::MemTableRep<rocksdb::InlineSkipList<rocksdb::MemTableRep::KeyComparator "
	 "const&>, std::unordered_map<std::string, rocksdb::SliceTransform> >::Insert",
	 "rocksdb::(anonymous namespace)::MemTableRep<...>::Insert"},
	{"boost::asio::detail::executor_function::complete<boost::asio::detail::binder2<boost::"
	 "asio::detail::read_op<boost::asio::basic_stream_socket<boost::asio::ip::tcp, "
	 "boost::asio::any_io_executor> >, boost::system::error_code, unsigned long>, "
	 "std::allocator<void> >",
	 "boost::asio::detail::executor_function::complete<...>"},
	{"<alloc::vec::Vec<T,A> as core::ops::drop::Drop>::drop",
	 "<alloc::vec::Vec<T,A> as core::ops::drop::Drop>::drop"},
	{"core::ptr::drop_in_place<alloc::vec::Vec<alloc::string::String>>",
	 "core::ptr::drop_in_place<alloc::vec::Vec<alloc::string::String>>"},
	{"Foo<(sizeof (int))>(4), int>::bar", "Foo<(sizeof (int))>(4), int>::bar"},
	{"Foo<((3)>(2)), std::allocator<x> >::bar", "Foo<((3)>(2)), std::allocator<x>>::bar"},
	{"std::basic_ostream<char, std::char_traits<char> >& std::operator<< "
	 "<std::char_traits<char> >",
	 "std::ostream& std::operator<< <std::char_traits<char>>"},
	{"std::unique_ptr<Foo, std::default_delete<Foo> >::~unique_ptr",
	 "std::unique_ptr<Foo>::~unique_ptr"},
	{"std::operator== <char, std::char_traits<char>, std::allocator<char> >",
	 "std::operator== <...>"},
	{"std::pair<int, std::hash<int> >::pair", "std::pair<int, std::hash<int>>::pair"},
	{"std::vector<std::pair<std::vector<std::pair<int, long> >, "
	 "std::tuple<aaaaaaaaaaaaaaaaaaaa, bbbbbbbbbbbbbbbbbbbbb> > >::push_back",
	 "std::vector<std::pair<...>>::push_back"},
	{"a<b<c<d<e<f<g>>>>>>::"
	 "hhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhh",
	 "a<...>::hhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhh"},
	{"<<<>>>", "<<<>>>"},
	{"a<", "a<"},
	{"a>", "a>"},
	{">>>", ">>>"},
	{"(((", "((("},
	{"operator<", "operator<"},
	{"operator", "operator"},
	{"{lambda", "{lambda"},
	{"{lambda#}", "{lambda#}"},
	{"[abi:", "[abi:"},
	{"std::", "std::"},
	{"std::<char>", "std::<char>"},
	{"std::basic_string<char>", "std::string"},
	{"a<>::b", "a<>::b"},
	{"X::operator<=> <int>", "X::operator<=> <int>"},
	{"X::f<&X::g>::h", "X::f<&X::g>::h"},
	{"main", "main"},
	{"std::vector<std::__cxx11::basic_string<char, std::char_traits<char>, "
	 "std::allocator<char> >, std::allocator<std::__cxx11::basic_string<char, "
	 "std::char_traits<char>, std::allocator<char> > > >::_M_realloc_insert<char const (&)[4]>",
	 "std::vector<std::string>::_M_realloc_insert<char const (&)[4]>"},
	{"std::__cxx11::basic_stringstream<char, std::char_traits<char>, std::allocator<char> "
	 ">::~basic_stringstream",
	 "std::stringstream::~stringstream"},
	{"std::basic_string_view<char, std::char_traits<char> >::compare",
	 "std::string_view::compare"},
	{"std::filesystem::__cxx11::path::parent_path", "std::filesystem::path::parent_path"},
	{"std::__1::vector<int, std::__1::allocator<int> >::push_back",
	 "std::vector<int>::push_back"},
	{"std::vector<int, my::allocator<int> >::push_back",
	 "std::vector<int, my::allocator<int>>::push_back"},
	{"mine::vector<int, std::allocator<int> >::push_back",
	 "mine::vector<int, std::allocator<int>>::push_back"},
	{"rocksdb::DBImpl::WriteImpl(rocksdb::WriteOptions const&, rocksdb::WriteBatch*)",
	 "rocksdb::DBImpl::WriteImpl(rocksdb::WriteOptions const&, rocksdb::WriteBatch*)"},
	{"rocksdb::(anonymous namespace)::BlockBasedTableIterator<rocksdb::DataBlockIter, "
	 "rocksdb::Slice>::Next",
	 "rocksdb::(anonymous namespace)::BlockBasedTableIterator<...>::Next"},
	{"boost::re_detail_107400::perl_matcher<__gnu_cxx::__normal_iterator<char const*, "
	 "std::__cxx11::basic_string<char, std::char_traits<char>, std::allocator<char> > >, "
	 "std::allocator<boost::sub_match<__gnu_cxx::__normal_iterator<char const*, "
	 "std::__cxx11::basic_string<char, std::char_traits<char>, std::allocator<char> > > > >, "
	 "boost::regex_traits<char, boost::cpp_regex_traits<char> > >::match_imp",
	 "boost::re_detail_107400::perl_matcher<...>::match_imp"},
	{"f(int) const &::{lambda(auto:1)#2}::operator()<int>(int) const",
	 "f::{lambda#2}::operator()<int>(int) const"},
	{"std::function<void (int, std::__cxx11::basic_string<char, std::char_traits<char>, "
	 "std::allocator<char> > const&)>::operator()",
	 "std::function<void (int, std::string const&)>::operator()"},
	{"X::operator>><std::vector<int, std::allocator<int> > >",
	 "X::operator>><std::vector<int>>"},
	{"X::operator\"\"_km", "X::operator\"\"_km"},
	{"decltype (x)::y", "decltype (x)::y"},
	{"a::b::c", "a::b::c"},
};

static void test_forms(void **state)
{
	(void)state;
	for (size_t i = 0; i < N_ELEMENTS(forms); i++) {
		_cleanup_free_ char *name = ip_short_name(forms[i].name, IP_SHORT_NAME_LIMIT);
		_cleanup_free_ char *same = ip_short_name(name, IP_SHORT_NAME_LIMIT);

		assert_string_equal(name, forms[i].expected);
		assert_string_equal(same, name); /* what is short stays as it is */
	}
}

/* As names come from a file. */
static void test_mangled(void **state)
{
	static const struct {
		const char *linker_name, *expected;
		bool with_args;
	} names[] = {
		{"_ZNSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEE9_M_appendEPKcm",
		 "std::string::_M_append"},
		{"_ZNSt6vectorIiSaIiEE9push_backERKi", "std::vector<int>::push_back"},
		{"_ZNSt6vectorIiSaIiEE9push_backERKi", "std::vector<int>::push_back(int const&)",
		 true},
		{"_ZNSt3mapIiiSt4lessIiESaISt4pairIKiiEEEixERS3_",
		 "std::map<int, int>::operator[]"},
		{"_ZZ4mainENKUlvE_clEv", "main::{lambda#1}::operator()"},
		{"_ZN3foo3barEv", "foo::bar"},
		{"main", "main"},
	};

	(void)state;
	for (size_t i = 0; i < N_ELEMENTS(names); i++) {
		_cleanup_free_ char *name = ip_demangle(names[i].linker_name, names[i].with_args);
		_cleanup_free_ char *shorter = ip_short_name(name, IP_SHORT_NAME_LIMIT);

		assert_string_equal(shorter, names[i].expected);
	}
}

static void check_limit(const char *name, size_t limit, const char *expected)
{
	_cleanup_free_ char *shorter = ip_short_name(name, limit);

	assert_string_equal(shorter, expected);
}

static void test_limits(void **state)
{
	const char *name = "a<b<cccc<dddd> >, e>::f";

	(void)state;
	check_limit(name, SIZE_MAX, "a<b<cccc<dddd>>, e>::f");
	check_limit(name, 22, "a<b<cccc<dddd>>, e>::f");
	check_limit(name, 21, "a<b<cccc<...>>, e>::f"); /* the innermost first */
	check_limit(name, 20, "a<b<...>, e>::f");
	check_limit(name, 14, "a<...>::f");
	check_limit(name, 0, "a<...>::f");
}

static void test_without_templates(void **state)
{
	static const char *const cases[][2] = {
		{"main", "main"},
		{"std::map<int, K>::find", "std::map::find"},
		{"a<b<c> >::f<d>(g<h>)", "a::f(g)"},
		{"f<>", "f"},
		{"operator< <int>", "operator<"},
		{"a<b>::operator<<", "a::operator<<"},
		{"a<b>::operator-><int>", "a::operator->"},
		{"f::{lambda(a<b>)#1}::operator()<int>", "f::{lambda(a)#1}::operator()"},
		{"<T as a::B<c>>::f", "<T as a::B>::f"},
		{"a<b", "a<b"},
		{"", ""},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		char *bare = ip_name_without_templates(cases[i][0]);

		assert_string_equal(bare, cases[i][1]);
		free(bare);
	}
}

/* Names of one list: what is elided is not what tells two of them apart. */
static void test_apart(void **state)
{
#define LONG "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
	struct ip_short_names names[] = {
		{.name = "one<" LONG ">::f", .mangled = true},
		{.name = "two<" LONG ", int>::f", .mangled = true},
		{.name = "two<" LONG ", long>::f", .mangled = true},
		{.name = "two<" LONG ", long>::f", .mangled = true}, /* of another module */
		{.name = "g(int)::h", .mangled = true},
		{.name = "g(long)::h", .mangled = true},
		{.name = "std::map<int, K, std::less<int> >", .mangled = false},
	};
	static const char *const expected[] = {
		"one<...>::f",
		"two<" LONG ", int>::f",
		"two<" LONG ", long>::f",
		"two<" LONG ", long>::f",
		"g(int)::h",
		"g(long)::h",
		"std::map<int, K, std::less<int> >",
	};

	(void)state;
	ip_short_names_make(names, N_ELEMENTS(names));
	for (size_t i = 0; i < N_ELEMENTS(names); i++) {
		assert_string_equal(ip_short_names_form(&names[i]), expected[i]);
		free(names[i].form);
	}
	ip_short_names_make(NULL, 0);
}

/* Any bytes, as deep and as long as a name can be. */
static void test_hostile(void **state)
{
	static const char *const parts[] = {"a<",	"<",	     "(",	"{",	 "[",
					    "a<b>::",	"()",	     "a,",	">",	 ")::",
					    "{lambda(", "[abi:",     "#1}",	"std::", "\xff",
					    "__1::",	"operator<", "operator"};
	const size_t size = 32768;
	char *text = malloc(size + 1);

	(void)state;
	for (size_t i = 0; i < N_ELEMENTS(parts); i++)
		for (size_t j = 0; j < N_ELEMENTS(parts); j++) {
			_cleanup_free_ char *name = NULL;
			size_t n = 0;

			while (n + 32 < size)
				n = (size_t)(stpcpy(stpcpy(text + n, parts[i]), parts[j]) - text);
			name = ip_short_name(text, IP_SHORT_NAME_LIMIT);
			assert_non_null(name);
			assert_true(strlen(name) <= n);
		}
	free(text);
}

static void test_scopes(void **state)
{
	static const struct {
		const char *name;
		size_t length;
	} names[] = {{"main", 0},
		     {"a::b", 3},
		     {"std::map<int, x::y>::find(a::b)", 21},
		     {"f(int)::{lambda(a::b)#1}::operator()", 26},
		     {"std::operator<< <a::b>", 5},
		     {"a<(b::c)1>::d", 12},
		     {"int foo<int>(X::Y)", 0},
		     {"a::", 3},
		     {"::", 2},
		     {"a<b::c", 5},
		     {"", 0}};

	(void)state;
	for (size_t i = 0; i < N_ELEMENTS(names); i++)
		assert_int_equal(ip_name_scope_length(names[i].name), names[i].length);
}

/* The methods of one class have one form of it, however long their own names are. */
static void test_methods_of_one_class(void **state)
{
#define STORE "MapStore<std::map<Key, std::shared_ptr<Value> > >::"
	static const char *const expected[] = {
		"MapStore<std::map<...>>::put",
		"MapStore<std::map<...>>::find_or_insert_it_if_it_is_missing",
		"MapStore<std::map<...>>::get<std::string>", "main", "Other<A>::f"};
	struct ip_short_names names[] = {{STORE "put", true},
					 {STORE "find_or_insert_it_if_it_is_missing", true},
					 {STORE "get<std::string>", true},
					 {"main", false},
					 {"Other<A>::f", true}};

	(void)state;
	ip_short_names_make(names, N_ELEMENTS(names));
	for (size_t i = 0; i < N_ELEMENTS(names); i++) {
		assert_string_equal(ip_short_names_form(&names[i]), expected[i]);
		free(names[i].form);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_scopes), cmocka_unit_test(test_methods_of_one_class),
		cmocka_unit_test(test_forms),  cmocka_unit_test(test_mangled),
		cmocka_unit_test(test_limits), cmocka_unit_test(test_without_templates),
		cmocka_unit_test(test_apart),  cmocka_unit_test(test_hostile),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
