#!/usr/bin/env python3
"""idle: how often each process wakes when nothing happens; at most two times a second.

Counted by the kernel: voluntary context switches of every thread of launcher
and workers, which sees every sleep that ended, and beside it the worker's own
counter in pgsync_status().  The commit after the silence must be seen.  The
short form has room for what happens every few seconds, none for polling.
"""
import os
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', 'lib'))

from campaign import arguments, switches, thread_switches                        # noqa: E402
from stand import Stand                                         # noqa: E402
from suite import Suite, check, equal                           # noqa: E402

LIMIT = 2.0


def quiet(seconds):
    """The silence that is measured: nothing of ours runs meanwhile."""
    time.sleep(seconds)


def count(stand, db, seconds, options):
    processes = stand.cluster.pgsync_processes()
    check(len(processes) >= 2, lambda: f'launcher and worker: {processes}')
    own = db.status()[0]['wakeups']
    before = {pid: switches(pid) for pid in processes}
    threads = {pid: thread_switches(pid) for pid in processes}
    start = time.monotonic()
    quiet(seconds)
    elapsed = time.monotonic() - start
    after = {pid: switches(pid) for pid in processes}
    own = db.status()[0]['wakeups'] - own
    rates = {}
    for pid, title in processes.items():
        rates[title] = (after[pid] - before[pid]) / elapsed
        print(f'    {rates[title]:6.2f} wake-ups/s  {title}', flush=True)
        now = thread_switches(pid)
        if len(now) > 1:
            print('           ' + ', '.join(f'{name} {(n - threads[pid].get((name, task), 0)) / elapsed:.2f}'
                                           for (name, task), n in now.items()), flush=True)
    print(f"    {own / elapsed:6.2f} wake-ups/s  by the worker's own count", flush=True)
    for title, rate in rates.items():
        check(rate <= LIMIT * (2 if options.short else 1), f'{rate:.1f} wake-ups a second: {title}')
    db.sql("INSERT INTO t VALUES ('after')")
    db.wait()
    equal(len(db.reduced().all_rows()), 1)
    db.sql('DELETE FROM t')
    db.wait()


def main():
    options = arguments(__doc__, 3)
    seconds = 3 if options.short else 30
    suite = Suite('idle')
    with Stand('idle', config={'autovacuum': 'off', 'bgwriter_delay': '10s'}) as stand:
        db = stand.database('idle').create('CREATE TABLE t (id text PRIMARY KEY)')
        db.deploy('bucket_definitions:\n  global:\n    data:\n      - SELECT * FROM t\n')
        db.start()
        db.wait_served()
        db.wait()
        for number in range(options.rounds):
            suite.run(f'idle for {seconds} s', count, stand, db, seconds, options)
    return suite.end()


if __name__ == '__main__':
    sys.exit(main())
