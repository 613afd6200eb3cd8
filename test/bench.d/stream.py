#!/usr/bin/env python3
"""stream: commit to checkpoint at idle, one large transaction, many small ones, and how fast a backlog drains."""
import contextlib
import os
import signal
import sys
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', 'lib'))

import psycopg2                                                 # noqa: E402

import oracle                                                   # noqa: E402
from campaign import figures                                    # noqa: E402
from cluster import lsn_number                                  # noqa: E402
from measure import INSERT, RULES, SCHEMA, commit, stand, wait_cover        # noqa: E402

LATENCIES = int(os.environ.get('PGSYNC_BENCH_LATENCIES', 200))
SMALL = int(os.environ.get('PGSYNC_BENCH_SMALL', 20000))
LARGE = int(os.environ.get('PGSYNC_BENCH_LARGE', 100000))
WRITERS = 4


def small_transactions(db, seed):
    """One-row transactions on several connections; returns the position after the last."""
    ends = []

    def work(writer):
        with contextlib.closing(db.connect()) as c, c.cursor() as cursor:
            cursor.execute('SET synchronous_commit = off')
            for i in range(SMALL // WRITERS):
                cursor.execute(INSERT, {'seed': f'{seed}/{writer}', 'first': i, 'last': i})
            cursor.execute('SELECT pg_current_wal_insert_lsn()')
            ends.append(lsn_number(cursor.fetchone()[0]))
    threads = [threading.Thread(target=work, args=(n,)) for n in range(WRITERS)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    return max(ends) - 1000         # the commit records themselves; the walwriter flushes them soon


def main():
    with stand() as s:
        db = s.database('stream').create(SCHEMA)
        db.deploy(RULES['global'])
        db.start()
        db.wait_served()
        db.wait()
        c = psycopg2.connect(s.cluster.dsn('stream'))

        times = []
        for i in range(LATENCIES):
            time.sleep(0.1 + (i * 7919 % 100) / 1000)
            times.append(1000 * commit(db, c, [(INSERT, {'seed': 'one', 'first': i, 'last': i})]))
        print(f'one row at idle, commit to checkpoint: {figures(times, "ms")}', flush=True)

        seconds = commit(db, c, [(INSERT, {'seed': 'large', 'first': 1, 'last': LARGE})])
        print(f'{LARGE} rows in one transaction: {seconds:.2f} s after the commit, {LARGE / seconds:.0f} rows/s', flush=True)

        before = oracle.served(db.mongo).checkpoint
        start = time.perf_counter()
        end = small_transactions(db, 'live')
        written = time.perf_counter()
        covered = wait_cover(db, end, before)
        print(f'{SMALL} one-row transactions, {WRITERS} writers: {SMALL / (covered - start):.0f} tx/s, checkpoint '
              f'{covered - written:.2f} s after the last', flush=True)

        pid = db.status()[0]['pid']
        before = oracle.served(db.mongo).checkpoint
        os.kill(pid, signal.SIGSTOP)
        try:
            end = small_transactions(db, 'backlog')
        finally:
            os.kill(pid, signal.SIGCONT)
        start = time.perf_counter()
        seconds = wait_cover(db, end, before) - start
        print(f'backlog of {SMALL} one-row transactions: {seconds:.2f} s, {SMALL / seconds:.0f} tx/s', flush=True)
        c.close()


if __name__ == '__main__':
    main()
