# env.sh - what the commands (demo/run, test/run, test/campaign, test/bench) share. Sourced by bash, never run.
#
# It knows where things are and how to become an ordinary user; it installs
# nothing (install.sh does) and knows no test.
#
# What a caller may set:
#   PG_CONFIG          the server to build for and to run (default: Debian's PostgreSQL 15). Any major from 15 on;
#                      below /usr/lib/postgresql/N it is Debian's package N, which is installed where it is missing
#   PGSYNC_CACHE       where the Python environment is kept between runs
#   PGSYNC_PYTHON      a Python that already has test/lib/requirements.txt; then none is made
#   PGSYNC_MONGODB_URI a MongoDB replica set to use; then no test server is started
#   PGSYNC_WORK        work folder (default: a new one below /tmp; removed after success)

PGSYNC_TOP=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)

: "${PG_CONFIG:=/usr/lib/postgresql/15/bin/pg_config}"
if [ "$(id -u)" = 0 ]; then
	: "${PGSYNC_CACHE:=/var/cache/pgsync}"
	SUDO=
else
	: "${PGSYNC_CACHE:=${XDG_CACHE_HOME:-$HOME/.cache}/pgsync}"
	SUDO=sudo
fi
export PG_CONFIG PGSYNC_CACHE PGSYNC_TOP
# LANG, too: pg_regress and the TAP framework remove LC_ALL, and a database must not be SQL_ASCII
export LC_ALL=C.UTF-8 LANG=C.UTF-8 PYTHONDONTWRITEBYTECODE=1

say() { printf '%s\n' "$*" >&2; }
die() { say "${0##*/}: $*"; exit 2; }

# Run a command as somebody who may run PostgreSQL: the server refuses root, so
# root becomes user postgres; everybody else stays who he is.
as_tester()
{
	if [ "$(id -u)" = 0 ]; then
		runuser -u postgres -- env HOME="${PGSYNC_WORK:-/tmp}" "$@"
	else
		"$@"
	fi
}

# Make the work folder, owned by whoever runs the servers. Short: a socket's path must fit.
make_work_folder()
{
	if [ -z "${PGSYNC_WORK:-}" ]; then
		PGSYNC_WORK=$(mktemp -d "/tmp/pgsync.XXXXXX")
	else
		mkdir -p "$PGSYNC_WORK"
	fi
	export PGSYNC_WORK
	mkdir -p "$PGSYNC_WORK/log"
	if [ "$(id -u)" = 0 ]; then
		chown postgres: "$PGSYNC_WORK" "$PGSYNC_WORK/log"
	fi
	chmod 755 "$PGSYNC_WORK"
}

# Copy the checkout to $PGSYNC_WORK/src, which the tester owns: the tests write there.
copy_tree()
{
	rm -rf "$PGSYNC_WORK/src"
	mkdir "$PGSYNC_WORK/src"
	tar -C "$PGSYNC_TOP" --exclude=./.git --exclude='*.o' --exclude='*.so' --exclude='*.bc' --exclude=build --exclude=build-san \
		--exclude=__pycache__ --exclude=./tmp_check -cf - . | tar -C "$PGSYNC_WORK/src" -xf -
	find "$PGSYNC_WORK/src" -type f -name '*.d' -delete
	if [ "$(id -u)" = 0 ]; then
		chown -R postgres: "$PGSYNC_WORK/src"
	fi
}

# Build in $PGSYNC_WORK/src and install into the server that PG_CONFIG names.
build_and_install()
{
	local log=$PGSYNC_WORK/log/build.log libdir
	if ! as_tester make -s -C "$PGSYNC_WORK/src" -j"$(nproc)" WERROR=1 PG_CONFIG="$PG_CONFIG" >"$log" 2>&1; then
		grep -E -A4 "(error|warning):|\*\*\*" "$log" | head -n 60 >&2
		return 1
	fi
	libdir=$("$PG_CONFIG" --pkglibdir)
	if [ -w "$libdir" ]; then
		make -C "$PGSYNC_WORK/src" install WERROR=1 PG_CONFIG="$PG_CONFIG" >>"$log" 2>&1
	else
		$SUDO make -C "$PGSYNC_WORK/src" install WERROR=1 PG_CONFIG="$PG_CONFIG" >>"$log" 2>&1
	fi || { tail -n 40 "$log" >&2; return 1; }
}

# Install what is missing and set PGSYNC_PYTHON. $1: build, demo, test or fuzz.
install_dependencies()
{
	"$PGSYNC_TOP/test/lib/install.sh" "$1"
	if [ -z "${PGSYNC_PYTHON:-}" ]; then
		PGSYNC_PYTHON=$PGSYNC_CACHE/python-$(sha256sum <"$PGSYNC_TOP/test/lib/requirements.txt" | cut -c1-12)/bin/python
	fi
	export PGSYNC_PYTHON
}
