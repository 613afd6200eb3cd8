#!/usr/bin/env bash
# install.sh [build|demo|test|fuzz] - install what is missing, and only that.
#
# build: compiler, PostgreSQL and the libraries; demo: the same and a Python
# environment; test (default): the same and the test frameworks; fuzz: clang and
# its runtime, too, which only test/campaign fuzz in full needs. Debian
# packages come from apt (root or sudo), Python packages from pip into an
# environment below $PGSYNC_CACHE. Nothing is upgraded, nothing is started.
#
# Written for Debian 12; elsewhere install the packages of the list yourself:
# when nothing is missing apt is not called.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/env.sh"

what=${1:-test}

# the server that PG_CONFIG names: one of Debian's, or one that is there already
case $PG_CONFIG in
	/usr/lib/postgresql/*/bin/pg_config)
		major=${PG_CONFIG#/usr/lib/postgresql/}
		major=${major%%/*}
		server_packages="postgresql-$major postgresql-server-dev-$major"
		;;
	*)
		[ -x "$("$PG_CONFIG" --bindir)/initdb" ] || die "no server beside PG_CONFIG=$PG_CONFIG"
		[ -e "$("$PG_CONFIG" --pgxs)" ] || die "no PGXS (the server's development files) beside PG_CONFIG=$PG_CONFIG"
		server_packages=
		;;
esac

build_packages="build-essential pkg-config $server_packages
	libmongoc-dev libbson-dev libyaml-dev libicu-dev libgmp-dev libssl-dev"
demo_packages="python3 python3-venv ca-certificates"
test_packages="libcmocka-dev libipc-run-perl"
fuzz_packages="clang libclang-rt-14-dev llvm-14"

case $what in
	build) packages=$build_packages ;;
	demo) packages="$build_packages $demo_packages" ;;
	test) packages="$build_packages $demo_packages $test_packages" ;;
	fuzz) packages="$build_packages $demo_packages $test_packages $fuzz_packages" ;;
	*) die "usage: install.sh [build|demo|test|fuzz]" ;;
esac

have_package() { [ "$(dpkg-query -W -f '${db:Status-Status}' "$1" 2>/dev/null)" = installed ]; }

install_packages()
{
	local missing=() package conf=/etc/postgresql-common/createcluster.conf
	for package in $packages; do
		have_package "$package" || missing+=("$package")
	done
	[ ${#missing[@]} -gt 0 ] || return 0
	if [ -n "$SUDO" ] && ! command -v sudo >/dev/null; then
		die "missing packages and neither root nor sudo: ${missing[*]}"
	fi
	say "installing: ${missing[*]}"
	$SUDO apt-get update -qq
	# Debian makes and starts a cluster "main" with the server's package. We
	# bring our own throwaway ones, so that is put off while we install.
	case " ${missing[*]} " in
		*" postgresql-"[0-9]*)
			$SUDO env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends postgresql-common >/dev/null
			$SUDO cp -p $conf $conf.pgsync-saved
			echo 'create_main_cluster = false' | $SUDO tee -a $conf >/dev/null
			;;
	esac
	local status=0
	$SUDO env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null || status=$?
	if [ -e $conf.pgsync-saved ]; then
		$SUDO mv $conf.pgsync-saved $conf
	fi
	return $status
}

# The environment's folder carries the sum of what is in it: other pins, another folder.
install_python()
{
	local requirements=$PGSYNC_TOP/test/lib/requirements.txt venv new
	[ -z "${PGSYNC_PYTHON:-}" ] || return 0
	venv=$PGSYNC_CACHE/python-$(sha256sum <"$requirements" | cut -c1-12)
	[ -e "$venv/.complete" ] && return 0
	say "making a Python environment in $venv"
	mkdir -p "$PGSYNC_CACHE"
	new=$venv.new.$$
	rm -rf "$new" "$venv"
	# Debian's python by its path: one below somebody's home would be closed to user postgres
	/usr/bin/python3 -m venv "$new"
	"$new/bin/pip" install -q -r "$requirements"
	# scripts of an environment name its folder; only its python is used, so it can move
	touch "$new/.complete"
	mv -T "$new" "$venv"
	chmod 755 "$PGSYNC_CACHE"
}

install_packages
[ "$what" = build ] || install_python
