#!/usr/bin/env bash
# with_servers.sh KIND FILE... - run conformance.d/KIND.py on vectors, as somebody who may run PostgreSQL.
#
# PGSYNC_BUILT=1: pgsync is installed in the server that PG_CONFIG names, and this is a
# copy of the tree in $PGSYNC_WORK (test/run). The vectors are copied: root's may be closed to others.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/../lib/env.sh"

kind=$1
shift
built=${PGSYNC_BUILT:-}
if [ -z "$built" ]; then
	install_dependencies test
	make_work_folder
	copy_tree
	build_and_install || die "pgsync does not build"
	top=$PGSYNC_WORK/src
	mkdir -p "$PGSYNC_WORK/vectors"
	cp "$@" "$PGSYNC_WORK/vectors/"
	chmod -R a+rX "$PGSYNC_WORK/vectors"
	set -- "$PGSYNC_WORK"/vectors/*.json
else
	top=$PGSYNC_TOP
fi
status=0
as_tester "$PGSYNC_PYTHON" -u "$top/test/conformance.d/$kind.py" "$@" || status=$?
if [ -z "$built" ] && [ -z "${PGSYNC_KEEP:-}" ] && [ $status = 0 ]; then
	rm -rf "$PGSYNC_WORK"
fi
exit $status
