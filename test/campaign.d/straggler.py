#!/usr/bin/env python3
"""straggler: a COMMIT that waits for a missing synchronous standby while the slot is made and the copy runs.

Its commit record is written, but snapshots do not see it yet: it lies before
the slot's start, and no chunk of the copy would show it.  Nothing of it may be
lost.  Rounds with several stuck commits under load, the wait cancelled at
different moments; and rounds in which nothing else runs, so that the stuck
commit's xid is the newest of all and no snapshot lists it.
"""
import contextlib
import os
import sys
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', 'lib'))

import oracle                                                   # noqa: E402
from campaign import arguments                                  # noqa: E402
from hold import slot_in_second_step                            # noqa: E402
from stand import Stand                                         # noqa: E402
from suite import Suite, check, difference, wait_until          # noqa: E402

RULES = 'bucket_definitions:\n  global:\n    data:\n      - SELECT id::text AS id, n FROM t\n'


class Stuck(threading.Thread):
    """One session whose COMMIT waits."""

    def __init__(self, db, statements):
        super().__init__(daemon=True)
        self.db, self.statements = db, statements
        self.error = None
        self.pid = None

    def run(self):
        try:
            with contextlib.closing(self.db.connect()) as c, c.cursor() as cursor:
                cursor.execute('SELECT pg_backend_pid()')
                self.pid = cursor.fetchone()[0]
                for statement in self.statements:
                    cursor.execute(statement)
        except Exception as error:
            self.error = error


def waiting(db):
    return db.value("SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'SyncRep' AND datname = current_database()")


def standby(stand, name):
    stand.cluster.sql(f"ALTER SYSTEM SET synchronous_standby_names = '{name}'")
    stand.cluster.sql('SELECT pg_reload_conf()')


def round_(stand, number, options):
    rng = options.random
    db = stand.database(f'straggler{number}').create(
        'CREATE TABLE t (id int PRIMARY KEY, n int) WITH (fillfactor = 50)', copy_chunk_size='64kB')
    rows = 3000 if options.short else 30000
    db.sql(f'INSERT INTO t SELECT i, 0 FROM generate_series(1, {rows}) i')
    before_deploy = rng.random() < 0.7
    sessions = [Stuck(db, ['INSERT INTO t VALUES (-1, 1)']),
                Stuck(db, ['BEGIN', 'UPDATE t SET n = 7 WHERE id <= 500', 'DELETE FROM t WHERE id = 600', 'COMMIT']),
                Stuck(db, ['BEGIN', 'INSERT INTO t VALUES (-2, 1)', 'SAVEPOINT s', 'INSERT INTO t VALUES (-3, 1)',
                           'ROLLBACK TO s', 'COMMIT'])]
    standby(stand, 'nobody')
    wait_until(lambda: stand.cluster.value('SHOW synchronous_standby_names') == 'nobody', 30, 'the setting')
    stop_load = threading.Event()
    try:
        if not before_deploy:
            # the slot is there, the copy has begun: now the commits get stuck
            deploy(db)
            wait_until(lambda: [s for s in db.status() if s['phase'] in ('copying', 'catching up', 'streaming')], 60,
                       lambda: db.status(), 0.002)
        for s in sessions:
            s.start()
        wait_until(lambda: waiting(db) >= len(sessions), 30, lambda: f'{waiting(db)} commits wait', 0.01)
        load = threading.Thread(target=churn, args=(db, stop_load, rows))
        load.start()
        if before_deploy:
            deploy(db)
        # it may create the slot, or say for whom it waits; but it may not be past the copy without them
        found = wait_until(lambda: [s for s in db.status() if s['phase'] not in ('starting', 'no rules')
                                    or s['waits_for_pid']], 60, lambda: db.status())
        seen = wait_until(lambda: [s for s in db.status() if s['waits_for_pid'] or s['phase'] in
                                   ('copying', 'catching up', 'streaming')], 60, lambda: db.status())
        print(f"    phase {found[0]['phase']}, then {seen[0]['phase']}, waits for pid {seen[0]['waits_for_pid']} "
              f"({seen[0]['waits_for']})", flush=True)
        time.sleep(rng.uniform(0, 0.2 if options.short else 2))
    finally:
        standby(stand, '')
        stop_load.set()
    load.join()
    for s in sessions:
        s.join(60)
        check(not s.is_alive() and not s.error, lambda: f'a session failed: {s.error}')
    db.wait_served()
    db.wait()
    compare(db)
    db.drop()


def newest_round(stand, number, options):
    """
    Nothing else runs.  Making the slot takes two steps, each of which waits for
    the transactions that it finds; the commit begins and gets stuck during the
    second.  So the slot's start lies behind its record, and as no later xid is
    over, the copy's snapshots end before its xid.
    """
    db = stand.database(f'newest{number}').create('CREATE TABLE t (id int PRIMARY KEY, n int)')
    db.sql('INSERT INTO t SELECT i, 0 FROM generate_series(1, 100) i')
    stuck = Stuck(db, ['INSERT INTO t VALUES (-1, 1)'])
    try:
        with slot_in_second_step(db, lambda: deploy(db)):
            standby(stand, 'nobody')
            wait_until(lambda: stand.cluster.value('SHOW synchronous_standby_names') == 'nobody', 30, 'the setting')
            stuck.start()
            wait_until(lambda: waiting(db) == 1, 30, 'the commit waits', 0.01)
        # it may say for whom it waits, or go past it: that one is judged below, by what it lost
        seen = wait_until(lambda: [s for s in db.status() if s['waits_for_pid'] == stuck.pid
                                   or s['phase'] in ('catching up', 'streaming')], 60, lambda: db.status())[0]
        xid, end = db.sql("SELECT backend_xid::text::bigint, pg_snapshot_xmax(pg_current_snapshot())::text::bigint"
                          ' FROM pg_stat_activity WHERE pid = %s', (stuck.pid,))[0]
        check(xid is not None and xid % 2 ** 32 == end % 2 ** 32, f'something else ran: xid {xid} waits, snapshots end at {end}')
    finally:
        standby(stand, '')
    stuck.join(60)
    check(not stuck.is_alive() and not stuck.error, lambda: f'the session failed: {stuck.error}')
    db.wait_served()
    db.wait()
    compare(db)
    check(seen['waits_for_pid'] == stuck.pid, lambda: f'the copy did not wait for pid {stuck.pid}: {seen}')
    db.drop()


def compare(db):
    expected = {'global[]': {('t', i): {'id': i, 'n': n} for i, n in db.sql('SELECT id::text, n FROM t')}}
    got, flat = oracle.compare_rows(db.reduced(), expected)
    check(got == flat, lambda: difference(got, flat))
    wrong = oracle.problems(db.mongo)
    check(not wrong, lambda: str(wrong[:8]))


def deploy(db):
    with contextlib.closing(db.connect()) as c, c.cursor() as cursor:
        cursor.execute('SET synchronous_commit = local')
        cursor.execute('SELECT pgsync_deploy(%s)', (RULES,))
        cursor.execute('SELECT pgsync_start()')


def churn(db, stop, rows):
    """Other sessions that do not wait: the slot is made under load."""
    with contextlib.closing(db.connect()) as c, c.cursor() as cursor:
        cursor.execute('SET synchronous_commit = local')
        i = 0
        while not stop.is_set():
            i += 1
            cursor.execute('UPDATE t SET n = n + 1 WHERE id = %s', (1000 + i % (rows - 1000),))


def main():
    options = arguments(__doc__, 20)
    suite = Suite('straggler')
    # autovacuum would use up xids of its own
    with Stand('straggler', config={'autovacuum': 'off'}) as stand:
        for number in range(options.rounds):
            suite.run(f'straggler {number + 1}', round_, stand, number, options)
            suite.run(f'newest xid {number + 1}', newest_round, stand, number, options)
    return suite.end()


if __name__ == '__main__':
    sys.exit(main())
