# SPDX-License-Identifier: Apache-2.0
"""
autoconf, CMake, meson and make with CC=iprobe-cc CXX=iprobe-c++, also with ccache in front:
their tests of features give the answers that they give with the plain compiler, what they build
works and has probes, and what is up to date is not built again. (test/system/test_wrapper.py has
the single commands, test/thirdparty whole projects of other people.)
"""

import json
import os
import pathlib
import re
import shutil
import subprocess
import textwrap

import pytest

from conftest import FULL
from iptest import time_scale
from proof import matrix
from proof.shop import Shop

TWICE = "int twice(int n);\nint twice(int n) { return 2 * n; }\n"
MAIN = (
    "#include <stdio.h>\nint twice(int);\n"
    'int main(void) { printf("%d\\n", twice(21)); return twice(21) != 42; }\n'
)
THROWS = """
#include <stdexcept>
#include <cstdio>
extern "C" int twice(int);
static int f(int n) { if (twice(n) > 0) throw std::runtime_error("thrown"); return n; }
int main(int argc, char **) { try { f(argc); } catch (const std::exception &e) { std::puts(e.what()); } return 0; }
"""

DEFAULT = matrix.placements("gcc")[0]
WAYS = [("gcc", placement) for placement in matrix.placements("gcc")]
WAYS += [("gcc", "ccache " + DEFAULT)] + [
    ("clang", placement) for placement in matrix.placements("clang")
]
# configure takes long, and is the same for all but in what it is asked.
FEW_WAYS = (
    WAYS
    if FULL
    else [("gcc", "ccache " + DEFAULT), ("gcc", matrix.placements("gcc")[-2:][0]), WAYS[-1]]
)


def way_name(way):
    return f"{way[0]}-{way[1].replace(' ', '-')}"


@pytest.fixture(params=WAYS, ids=way_name)
def shops(request, tmp_path, tools):
    """The same project twice: for the plain compiler and for ours."""
    compiler, way = request.param
    if way.startswith("ccache") and not shutil.which("ccache"):
        pytest.skip("no ccache")
    return Shop(tmp_path / "plain", tools, "plain", compiler), Shop(
        tmp_path / "ours", tools, way, compiler
    )


def sources(shop):
    shop.write("twice.c", TWICE)
    shop.write("main.c", MAIN)
    shop.write("throws.cc", THROWS)


# --- autoconf, automake, libtool

CONFIGURE = r"""
AC_INIT([p], [1])
AC_CONFIG_AUX_DIR([aux])
AC_CONFIG_MACRO_DIRS([m4])
AC_CONFIG_HEADERS([config.h])
AM_INIT_AUTOMAKE([foreign subdir-objects])
AC_USE_SYSTEM_EXTENSIONS
AM_PROG_AR
LT_INIT
AC_PROG_CC
AC_PROG_CXX
AM_PROG_AS
AM_PROG_CC_C_O
AC_PROG_CPP
AC_C_BIGENDIAN
AC_C_INLINE
AC_C_RESTRICT
AC_C_VARARRAYS
AC_SYS_LARGEFILE
AC_FUNC_ALLOCA
AC_FUNC_STRERROR_R
AC_TYPE_LONG_DOUBLE_WIDER
AC_CHECK_SIZEOF([long double])
AC_CHECK_ALIGNOF([double])
AC_CHECK_FUNCS([strdup strlcpy_nonsense pthread_create dlopen mcount __fentry__ __cyg_profile_func_enter setcontext])
AC_CHECK_HEADERS([stdio.h nonsense.h pthread.h sys/sdt_nonsense.h])
AC_CHECK_DECLS([strdup, nonsense])
AC_CHECK_MEMBERS([struct stat.st_mtim])
AC_CHECK_LIB([m], [cos])
AC_CHECK_LIB([nonsense], [f])
AC_SEARCH_LIBS([pow], [m])
AC_SEARCH_LIBS([pthread_join], [pthread])

dnl answers that flags of ours could change
AC_DEFUN([TRY_FLAG], [
	AC_CACHE_CHECK([whether $CC links with $2], [p_cv_link_$1], [
		save=$CFLAGS
		CFLAGS="$CFLAGS -Werror $2"
		AC_LINK_IFELSE([AC_LANG_PROGRAM([], [])], [p_cv_link_$1=yes], [p_cv_link_$1=no])
		CFLAGS=$save])
])
TRY_FLAG([nonsense], [-fnonsense])
TRY_FLAG([frame], [-fno-omit-frame-pointer])
TRY_FLAG([noframe], [-fomit-frame-pointer])
TRY_FLAG([visibility], [-fvisibility=hidden])
TRY_FLAG([unused], [-Wunused -Wunused-command-line-argument])
TRY_FLAG([stack], [-fstack-protector-strong])
TRY_FLAG([cet], [-fcf-protection=full])
TRY_FLAG([pie], [-fPIE -pie])
TRY_FLAG([nopie], [-no-pie])
TRY_FLAG([static], [-static])
TRY_FLAG([lto], [-flto])
TRY_FLAG([coverage], [--coverage])
TRY_FLAG([asan], [-fsanitize=address])
TRY_FLAG([ubsan], [-fsanitize=undefined])
TRY_FLAG([profile], [-pg])
TRY_FLAG([patchable], [-fpatchable-function-entry=2])
TRY_FLAG([instrument], [-finstrument-functions])
TRY_FLAG([libgcc], [-static-libgcc])
TRY_FLAG([pedantic], [-std=c99 -pedantic-errors -Wall -Wextra -Wmissing-prototypes -Wundef -Wredundant-decls])
TRY_FLAG([undefined], [-Wl,--no-undefined])
TRY_FLAG([fatal], [-Wl,--fatal-warnings])
TRY_FLAG([ld_nonsense], [-Wl,--nonsense-option])
TRY_FLAG([large], [-mcmodel=large])
TRY_FLAG([redzone], [-mno-red-zone])
AC_CACHE_CHECK([for macros of instrumentation], [p_cv_macros], [
	p_cv_macros=`echo | $CPP -dM - | grep -i -c -e profil -e instrument -e iprobe -e fentry`])
AC_CACHE_CHECK([for predefined macros], [p_cv_dm], [p_cv_dm=`echo | $CC $CFLAGS -dM -E - | sort | cksum`])
AC_CACHE_CHECK([for what a program returns], [p_cv_run], [
	AC_RUN_IFELSE([AC_LANG_SOURCE([static int f(int n) { return n ? f(n - 1) + 1 : 0; } int main(void) { return f(7) - 7; }])],
		[p_cv_run=yes], [p_cv_run=no])])
AC_CACHE_CHECK([for undefined symbols of a function], [p_cv_nm], [
	AC_COMPILE_IFELSE([AC_LANG_SOURCE([int f(void) { return 1; }])],
		[p_cv_nm=`nm -g --defined-only conftest.$ac_objext`])])
AC_LANG_PUSH([C++])
AC_CACHE_CHECK([for C++17], [p_cv_cxx17], [
	save=$CXXFLAGS
	CXXFLAGS="$CXXFLAGS -std=c++17 -Werror -Wall -Wextra"
	AC_LINK_IFELSE([AC_LANG_PROGRAM([[#include <optional>]], [[return std::optional<int>(0).value();]])],
		[p_cv_cxx17=yes], [p_cv_cxx17=no])
	CXXFLAGS=$save])
AC_CHECK_HEADERS([optional nonsense])
AC_LANG_POP
AC_CONFIG_FILES([Makefile])
AC_OUTPUT
"""
MAKEFILE_AM = """
ACLOCAL_AMFLAGS = -I m4
lib_LTLIBRARIES = libtwice.la
libtwice_la_SOURCES = twice.c
noinst_LIBRARIES = libhelp.a
libhelp_a_SOURCES = help.c
bin_PROGRAMS = program throws
program_SOURCES = main.c start.S
program_LDADD = libtwice.la libhelp.a
throws_SOURCES = throws.cc
throws_LDADD = libtwice.la
check_PROGRAMS = tested
tested_SOURCES = main.c
tested_LDADD = libtwice.la
TESTS = tested
"""


def configured(folder, shop):
    """A copy of the project, configured."""
    shutil.copytree(folder, shop.folder, dirs_exist_ok=True, copy_function=shutil.copy2)
    shop.ok("./configure", "-C", "-q")
    return answers(shop.folder), (shop.folder / "config.h").read_text()


@pytest.fixture(scope="session")
def plain_answers(autotools_project, tmp_path_factory, tools):
    """What configure says to each compiler without us."""
    found = {}

    def of(compiler):
        if compiler not in found:
            found[compiler] = configured(
                autotools_project, Shop(tmp_path_factory.mktemp(compiler), tools, "plain", compiler)
            )
        return found[compiler]

    return of


@pytest.fixture(scope="session")
def autotools_project(tmp_path_factory):
    for tool in ("autoreconf", "automake", "libtoolize"):
        if not shutil.which(tool):
            pytest.skip(f"no {tool}")
    folder = tmp_path_factory.mktemp("autotools")
    (folder / "m4").mkdir()
    for name, text in {
        "configure.ac": CONFIGURE,
        "Makefile.am": MAKEFILE_AM,
        "twice.c": TWICE,
        "main.c": MAIN,
        "throws.cc": THROWS,
        "help.c": "int help(int n);\nint help(int n) { return n; }\n",
        "start.S": '.section .note.GNU-stack,"",@progbits\n',
    }.items():
        (folder / name).write_text(text)
    done = subprocess.run(
        ["autoreconf", "-fi"],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
        timeout=time_scale.scaled(300),
    )
    assert done.returncode == 0, done.stderr
    return folder


def answers(folder):
    """What configure found, but for names of the compiler and of folders."""
    found = {}
    for line in (folder / "config.cache").read_text().splitlines():
        variable = re.match(r"(\w+)=\$\{\w+=(.*)\}$", line)
        if variable and not re.match(
            r"ac_cv_(env|prog_(ac_ct_)?(CC|CXX|CPP|CXXCPP)$|path_)"
            r"|.*(lt_cv_sys_global_symbol|_max_cmd_len)",
            variable[1],
        ):
            found[variable[1]] = variable[2]
    return found


@pytest.mark.parametrize("shops", list(dict.fromkeys(FEW_WAYS)), ids=way_name, indirect=True)
def test_autoconf(shops, autotools_project, plain_answers):
    ours = shops[1]
    plain, plain_header = plain_answers(ours.compiler)
    found, header = configured(autotools_project, ours)
    assert len(plain) > 120
    different = {
        k: (plain.get(k), found.get(k))
        for k in plain.keys() | found.keys()
        if plain.get(k) != found.get(k)
    }
    # configure declares what it asks for as a char function, which in this placement is declared
    # already.
    if ours.placement == "inline":
        assert different.pop("ac_cv_func___cyg_profile_func_enter") == ("yes", "no")
        header = header.replace(
            "/* #undef HAVE___CYG_PROFILE_FUNC_ENTER */", "#define HAVE___CYG_PROFILE_FUNC_ENTER 1"
        )
    assert not different
    assert header == plain_header
    ours.ok("make", "-j2", "-s")
    ours.has_probes(".libs/libtwice.so", ".libs/program", ".libs/throws")
    assert ours.ok("./program").stdout == "42\n"
    done = ours.ok("make", "-j2", "check")
    assert "# PASS:  1" in done.stdout
    ours.ok("make", "-s", "install", f"DESTDIR={ours.folder}/to")
    ours.has_probes("to/usr/local/bin/program", "to/usr/local/lib/libtwice.so")
    # Nothing is done twice, and of what is done, no more than there is to do.
    before = ours.times("*.o", "*.so*", "program", "throws", "*.a")
    ours.ok("make", "-j2")
    assert ours.times("*.o", "*.so*", "program", "throws", "*.a") == before
    os.utime(ours.folder / "main.c")
    ours.ok("make", "-j2", "-s", "program")
    after = ours.times("*.o", "*.so*", "program", "throws", "*.a")
    changed = {name for name in before if before[name] != after[name]}
    assert {"main.o", ".libs/program"} <= changed and not changed & {
        "throws.o",
        "twice.lo",
        ".libs/throws",
        ".libs/libtwice.so",
    }


# --- CMake

CMAKE = """
cmake_minimum_required(VERSION 3.16)
project(p C CXX ASM)
include(CheckCCompilerFlag)
include(CheckCXXCompilerFlag)
include(CheckFunctionExists)
include(CheckIPOSupported)
include(CheckSymbolExists)
include(CheckTypeSize)
include(CheckCSourceRuns)
include(CheckLinkerFlag)
include(CheckPIESupported)
find_package(Threads REQUIRED)
check_pie_supported()
check_ipo_supported(RESULT HAVE_IPO OUTPUT why LANGUAGES C)
set(HAVE_IPO ${HAVE_IPO} CACHE BOOL "")
foreach(flag -Wall -fnonsense -fno-omit-frame-pointer -fomit-frame-pointer -fsanitize=address -flto -pg --coverage
		-fcf-protection -Wunused-command-line-argument -mno-red-zone -fsplit-stack)
	string(MAKE_C_IDENTIFIER "${flag}" name)
	check_c_compiler_flag(${flag} C${name})
	check_cxx_compiler_flag(${flag} CXX${name})
endforeach()
check_linker_flag(C -Wl,-z,now HAVE_NOW)
check_linker_flag(C -Wl,--nonsense HAVE_NONSENSE_LD)
check_function_exists(strdup HAVE_STRDUP)
check_function_exists(nonsense HAVE_NONSENSE)
check_symbol_exists(PTHREAD_MUTEX_INITIALIZER pthread.h HAVE_MUTEX)
check_type_size(long LONG)
check_c_source_runs("static int f(int n) { return n ? f(n - 1) : 0; } int main(void) { return f(9); }" RUNS)
file(GENERATE OUTPUT features CONTENT "${CMAKE_C_COMPILE_FEATURES} ${CMAKE_CXX_COMPILE_FEATURES}")
add_library(twice SHARED twice.c)
add_library(helper STATIC help.c)
add_library(objects OBJECT object.c)
add_library(plugin MODULE twice.c)
add_executable(program main.c)
target_link_libraries(program twice helper Threads::Threads)
add_executable(throws throws.cc $<TARGET_OBJECTS:objects>)
target_link_libraries(throws twice)
set_target_properties(throws PROPERTIES POSITION_INDEPENDENT_CODE ON)
"""


def cmake_answers(folder, tools):
    """What CMake found out; that folders of ours are looked into as well is true, and no library
    is in them.
    """
    cache = {}
    for line in (folder / "CMakeCache.txt").read_text().splitlines():
        entry = re.match(r"(\w[\w-]*):(\w+)=(.*)", line)
        if entry and re.match(
            r"HAVE|C_|CXX_|LONG|RUNS|CMAKE_HAVE|Threads|_?CMAKE_\w+_WORKS|CMAKE_\w+_LINK_PIE",
            entry[1],
        ):
            cache[entry[1]] = entry[3]
    for path in folder.glob("CMakeFiles/*/CMake*Compiler.cmake"):
        for name, value in re.findall(r'^set\((CMAKE_\w+) "?(.*?)"?\)$', path.read_text(), re.M):
            if re.search(
                r"_ID$|_VERSION|IMPLICIT|SIZEOF|ABI|STANDARD|FEATURES|FRONTEND|PLATFORM|LINKER",
                name,
            ):
                cache[name] = ";".join(
                    v
                    for v in value.split(";")
                    if not v.startswith(str(tools)) or v.endswith((".a", ".o"))
                )
    return cache


@pytest.fixture(scope="session")
def plain_found():
    """What build systems have found out of each compiler without us, by (system, compiler, way)."""
    return {}


def test_cmake(shops, tools, plain_found):
    if not shutil.which("cmake"):
        pytest.skip("no cmake")
    found = []
    plain, ours = shops
    key = ("cmake", plain.compiler)
    for shop in shops:
        if shop is plain and key in plain_found:
            found.append(plain_found[key])
            continue
        sources(shop)
        shop.write("help.c", "int help(int n);\nint help(int n) { return n; }\n")
        shop.write("object.c", "int object(int n);\nint object(int n) { return n; }\n")
        shop.write("CMakeLists.txt", CMAKE)
        generator = "Unix Makefiles" if shop.way.startswith("ccache") else "Ninja"
        extra = []
        env = {}
        if shop.way.startswith("ccache"):
            extra = ["-DCMAKE_C_COMPILER_LAUNCHER=ccache", "-DCMAKE_CXX_COMPILER_LAUNCHER=ccache"]
            env = {"CC": shop.cc[-1], "CXX": shop.cxx[-1]}
        shop.ok("cmake", "-B", "b", "-G", generator, "-DCMAKE_BUILD_TYPE=Release", *extra, **env)
        found.append(cmake_answers(shop.folder / "b", tools))
    plain_found[key] = found[0]
    assert len(found[0]) > 60
    for k in found[1]:  # iprobe/probe.h is found without an option
        if k.endswith("_IMPLICIT_INCLUDE_DIRECTORIES"):
            found[1][k] = found[1][k].removesuffix(f";{tools.parent / 'include'}")
    assert {
        k: (found[0].get(k), found[1].get(k))
        for k in found[0].keys() | found[1].keys()
        if found[0].get(k) != found[1].get(k)
    } == {}
    ours.ok("cmake", "--build", "b", "-j2")
    ours.has_probes("b/program", "b/libtwice.so", "b/throws", "b/libplugin.so")
    assert ours.ok(ours.folder / "b/program").stdout == "42\n"
    assert ours.ok(ours.folder / "b/throws").stdout == "thrown\n"
    before = ours.times("*.o", "*.so", "*.a", "b/program", "b/throws")
    ours.ok("cmake", "--build", "b", "-j2")
    assert ours.times("*.o", "*.so", "*.a", "b/program", "b/throws") == before
    os.utime(ours.folder / "object.c")
    ours.ok("cmake", "--build", "b", "-j2")
    after = ours.times("*.o", "*.so", "*.a", "b/program", "b/throws")
    assert {pathlib.Path(n).name for n in before if before[n] != after[n]} == {
        "object.c.o",
        "throws",
    }


# --- meson

MESON = """
project('p', 'c', 'cpp', default_options: ['buildtype=release', 'b_pie=true'])
found = {}
foreach language : ['c', 'cpp']
  compiler = meson.get_compiler(language)
  found += {language + ' id': compiler.get_id() + ' ' + compiler.version() + ' ' + compiler.get_linker_id()}
  foreach flag : ['-Wall', '-fnonsense', '-fno-omit-frame-pointer', '-fomit-frame-pointer', '-fsanitize=address',
      '-flto', '-pg', '--coverage', '-fcf-protection', '-Wunused-command-line-argument', '-mno-red-zone', '-fsplit-stack',
      '-fpatchable-function-entry=2']
    found += {language + ' ' + flag: compiler.has_argument(flag).to_string() + compiler.has_multi_arguments('-Werror', flag).to_string()}
  endforeach
  foreach flag : ['-Wl,-z,now', '-Wl,--nonsense', '-static-libgcc', '-Wl,--gc-sections']
    found += {language + ' ' + flag: compiler.has_link_argument(flag).to_string()}
  endforeach
  foreach name : ['strdup', 'nonsense', 'pthread_create', 'mcount']
    found += {language + ' ' + name: compiler.has_function(name).to_string()}
  endforeach
  found += {language + ' size': compiler.sizeof('long double').to_string() + compiler.alignment('double').to_string()}
  found += {language + ' run': compiler.run('int f(int n) { return n ? f(n - 1) : 3; } int main(void) { return f(5); }').returncode().to_string()}
  found += {language + ' links': compiler.links('int main(void) { return 0; }', args: '-Werror').to_string()}
  found += {language + ' attribute': compiler.has_function_attribute('ifunc').to_string()}
endforeach
foreach key, value : found
  message('found', key, '=', value)
endforeach
twice = shared_library('twice', 'twice.c', version: '1.2.3')
help = static_library('help', 'help.c')
program = executable('program', 'main.c', link_with: [twice, help], dependencies: dependency('threads'))
executable('throws', 'throws.cc', link_with: twice)
executable('whole', 'main.c', 'twice.c', c_args: '-flto', link_args: '-flto')
test('program', program)
"""


def test_meson(shops, plain_found):
    if not shutil.which("meson"):
        pytest.skip("no meson")
    found = []
    plain, ours = shops
    key = ("meson", plain.compiler)
    for shop in shops:
        if shop is plain and key in plain_found:
            found.append(plain_found[key])
            continue
        sources(shop)
        shop.write("help.c", "int help(int n);\nint help(int n) { return n; }\n")
        shop.write("meson.build", MESON)
        done = shop.ok("meson", "setup", "b")
        found.append(re.findall(r"Message: found (.*)", done.stdout))
    plain_found[key] = found[0]
    assert len(found[0]) > 40 and found[0] == found[1]
    ours.ok("ninja", "-C", "b", "-j2")
    ours.has_probes("b/program", "b/libtwice.so", "b/throws", "b/whole")
    assert ours.ok(ours.folder / "b/throws").stdout == "thrown\n"
    assert "Ok:                 1" in ours.ok("meson", "test", "-C", "b", "--no-rebuild").stdout
    before = ours.times("*.o", "*.so*", "*.a", "b/program", "b/throws", "b/whole")
    assert "no work to do" in ours.ok("ninja", "-C", "b").stdout
    assert ours.times("*.o", "*.so*", "*.a", "b/program", "b/throws", "b/whole") == before
    os.utime(ours.folder / "throws.cc")
    ours.ok("ninja", "-C", "b")
    after = ours.times("*.o", "*.so*", "*.a", "b/program", "b/throws", "b/whole")
    assert {pathlib.Path(n).name for n in before if before[n] != after[n]} == {
        "throws.cc.o",
        "throws",
    }


# --- make


def test_recursive_make_with_dependency_files(shops):
    """A jobserver, dependencies by -MMD, sixteen links at once in one directory, names that a
    shell must quote.
    """
    ours = shops[1]
    sources(ours)
    odd = 'it\'s "odd" & $HOME'
    ours.write(f"{odd}/answer.h", "#define ANSWER 42\n")
    for i in range(16):
        ours.write(
            f"p{i}.c",
            '#include <answer.h>\n#include "shared.h"\n'
            f"int f{i}(int n) {{ return n + {i} + ZERO; }}\n"
            f"int main(void) {{ return f{i}(ANSWER) != 42 + {i} || ODD[0] != 'a'; }}\n",
        )
    ours.write("shared.h", "#define ZERO 0\n")
    ours.write(
        "Makefile",
        textwrap.dedent(
            """\
        all:
        \t+$(MAKE) -f inner.mk programs
        """
        ),
    )
    ours.write(
        "inner.mk",
        textwrap.dedent(
            """\
        PROGRAMS := $(addprefix bin/p,$(shell seq 0 15))
        CFLAGS = -O2 -I"$$ODD_FOLDER" -DODD='"a b"' -MMD -MP
        programs: $(PROGRAMS)
        bin/%: obj/%.o
        \t$(CC) $(LDFLAGS) $< -o $@
        obj/%.o: %.c
        \t$(CC) $(CFLAGS) -c $< -o $@
        -include $(wildcard obj/*.d)
        .SECONDARY:
        """
        ),
    )
    for name in ("bin", "obj"):
        (ours.folder / name).mkdir()
    odd_folder = {"ODD_FOLDER": str(ours.folder / odd)}
    done = ours.ok("make", "-j8", **odd_folder)
    assert "jobserver unavailable" not in done.stderr
    assert sorted(p.name for p in (ours.folder / "bin").iterdir()) == sorted(
        f"p{i}" for i in range(16)
    )
    for i in range(16):
        assert ours.sites(f"bin/p{i}") >= 4
        ours.ok(ours.folder / f"bin/p{i}")
    # each dependency file names the headers, and nothing that is not the project's
    dependencies = (ours.folder / "obj/p3.d").read_text()
    assert (
        "shared.h" in dependencies
        and "answer.h" in dependencies
        and "iprobe" not in dependencies.replace(str(ours.folder), "")
    )
    before = ours.times("bin/p*", "obj/*.o")
    ours.ok("make", "-j8", **odd_folder)
    assert ours.times("bin/p*", "obj/*.o") == before
    os.utime(ours.folder / "p5.c")
    ours.ok("make", "-j8", **odd_folder)
    after = ours.times("bin/p*", "obj/*.o")
    assert {n for n in before if before[n] != after[n]} == {"bin/p5", "obj/p5.o"}
    os.utime(ours.folder / "shared.h")
    ours.ok("make", "-j8", **odd_folder)
    assert len({n for n in after if after[n] != ours.times("bin/p*", "obj/*.o")[n]}) == 32


@pytest.mark.skipif(not shutil.which("ccache"), reason="no ccache")
def test_a_cache_that_is_told_of_our_settings(tmp_path, tools):
    """What the manual says of ccache: with a namespace for each setting, and the file of globs as
    an extra file, none gets what was compiled for another; and what was compiled for the same is
    found again.
    """
    shop = Shop(tmp_path / "ours", tools, "ccache fentry")
    sources(shop)
    globs = shop.write("globs", "twice\n")

    def build(placement, exclude):
        setting = {
            "IPROBE_PLACEMENT": placement,
            "IPROBE_EXCLUDE": exclude,
            "CCACHE_NAMESPACE": f"iprobe:{placement}:{exclude}",
        }
        if exclude:
            setting["CCACHE_EXTRAFILES"] = exclude
        for name in ("main", "twice"):
            shop.ok(*shop.cc, "-O2", "-c", f"{name}.c", "-o", f"{name}.o", **setting)
        # the link alone would take excluded functions off the list: it does not know of them
        shop.ok(*shop.cc, "main.o", "twice.o", "-o", "program", **{**setting, "IPROBE_EXCLUDE": ""})
        assert shop.ok(shop.folder / "program").stdout == "42\n"
        return shop.sites("program")

    def hits():
        stats = dict(
            line.split("\t") for line in shop.ok("ccache", "--print-stats").stdout.splitlines()
        )
        return int(stats["direct_cache_hit"]) + int(stats["preprocessed_cache_hit"])

    everything = build("fentry", "")
    assert (build("fentry", str(globs)), hits()) == (everything - 2, 0)
    calls = subprocess.run(
        ["nm", "-u", shop.folder / "twice.o"], capture_output=True, text=True, check=True
    ).stdout
    build("instrument", "")
    assert (
        "__cyg_profile"
        in subprocess.run(
            ["nm", "-u", shop.folder / "twice.o"], capture_output=True, text=True, check=True
        ).stdout
        and "__cyg_profile" not in calls
        and hits() == 0
    )
    assert (build("fentry", ""), hits()) == (everything, 2)
    assert (build("fentry", str(globs)), hits()) == (everything - 2, 4)
    globs.write_text("main\nother\n")
    assert (build("fentry", str(globs)), hits()) == (everything - 2, 4)


def test_implicit_rules_and_archives(shops):
    """make's own rules: one command from source to program, archives, assembly on the way."""
    ours = shops[1]
    sources(ours)
    ours.write("single.c", "static int f(int n) { return n; }\nint main(void) { return f(0); }\n")
    ours.write(
        "Makefile",
        "CFLAGS = -O2 -g\nprogram: main.o libt.a\n\t$(CC) -o $@ main.o -L. -lt\nlibt.a: "
        "libt.a(twice.o)\n"
        "twice.s: twice.c\n\t$(CC) $(CFLAGS) -S $< -o $@\nbyhand: main.o twice.s\n\t$(CC) $^ -o "
        "$@\n",
    )
    ours.ok("make", "single", "program")
    ours.ok("make", "byhand")
    ours.has_probes("single", "program", "byhand")
    assert ours.sites("byhand") == ours.sites("program")
    for name in ("single", "program", "byhand"):
        ours.ok(ours.folder / name)


def test_pkg_config_and_libtool_flags(shops):
    """Flags as pkg-config prints them, in an order that linkers care about."""
    ours = shops[1]
    if not shutil.which("pkg-config"):
        pytest.skip("no pkg-config")
    sources(ours)
    ours.write(
        "pc/twice.pc",
        f"prefix={ours.folder}\nName: twice\nDescription: d\nVersion: 1\n"
        "Libs: -L${prefix} -ltwice -Wl,-rpath,${prefix}\nCflags: -I${prefix} -DUSE=1\n",
    )
    ours.ok(
        *ours.cc,
        "-O2",
        "-fPIC",
        "-shared",
        "twice.c",
        "-Wl,-soname,libtwice.so.1",
        "-o",
        "libtwice.so.1.0",
    )
    for link in ("libtwice.so.1", "libtwice.so"):
        (ours.folder / link).symlink_to("libtwice.so.1.0")
    flags = ours.ok(
        "pkg-config", "--cflags", "--libs", "twice", PKG_CONFIG_PATH=str(ours.folder / "pc")
    ).stdout.split()
    ours.ok(*ours.cc, "main.c", *flags, "-o", "program")
    ours.has_probes("program", "libtwice.so")
    assert ours.ok(ours.folder / "program").stdout == "42\n"
    # onto the symbolic link: the file behind it is the output, the link stays
    ours.ok(
        *ours.cc,
        "-O2",
        "-fPIC",
        "-shared",
        "twice.c",
        "-Wl,-soname,libtwice.so.1",
        "-o",
        "libtwice.so.1.0",
    )
    assert (ours.folder / "libtwice.so").is_symlink()
    assert ours.ok(ours.folder / "program").stdout == "42\n"


def test_compilation_database_is_replayed(shops):
    """What a database of commands says, run again from elsewhere, makes the same object."""
    ours = shops[1]
    if not shutil.which("cmake"):
        pytest.skip("no cmake")
    sources(ours)
    ours.write(
        "CMakeLists.txt",
        "cmake_minimum_required(VERSION 3.16)\nproject(p C)\nset(CMAKE_EXPORT_COMPILE_COMMANDS "
        "ON)\n"
        "add_executable(program main.c twice.c)\n",
    )
    cc = {"CC": ours.cc[-1]}
    ours.ok("cmake", "-B", "b", **cc)
    ours.ok("cmake", "--build", "b")
    for entry in json.loads((ours.folder / "b/compile_commands.json").read_text()):
        path = pathlib.Path(entry["directory"]) / re.search(r"-o (\S+)", entry["command"])[1]
        before = path.read_bytes()
        ours.ok("sh", "-c", entry["command"], cwd=entry["directory"])
        assert path.read_bytes() == before
