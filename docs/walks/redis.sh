# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash disable=SC2034,SC2154
#
# The Redis server of two walks, spike and waiting; sourced by them behind begin().

say "Build Redis with iprobe-cc"
source_of redis redis
[ -x redis/src/redis-benchmark ] ||
	quietly "make -C redis/src -j2 CC=iprobe-cc MALLOC=libc \
redis-server redis-cli redis-benchmark"
PATH=$PWD/redis/src:$PATH
redis="redis-cli -s redis.sock"

server=
start()
{
	if [ -n "$server" ]; then
		kill "$server"
		while kill -0 "$server" 2>/dev/null; do sleep 0.1; done
	fi
	rm -f redis.sock redis.pid
	quietly "$* redis-server --unixsocket redis.sock --port 0 --save '' \
--enable-debug-command local --daemonize yes --pidfile $PWD/redis.pid"
	for _ in $(seq 100); do
		[ ! -S redis.sock ] || [ ! -s redis.pid ] || break
		sleep 0.1
	done
	server=$(cat redis.pid)
	background+=("$server")
	$redis DEBUG POPULATE 10000 key >/dev/null
}

# A batch of sessions. All end in the same second, some seconds from now; or in the course of so
# many seconds more.
import()
{
	seq 300000 | awk -v end=$(($(date +%s) + 5)) -v spread="${1:-0}" \
		'{
			print "SET session:" $1 " user=" $1 ";cart=0;lang=en EXAT " \
				end + int(rand() * spread)
		}' |
		$redis --pipe >/dev/null
}
