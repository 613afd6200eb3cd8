#!/usr/bin/env python3
"""host: the server comes first, while the storage is frozen (SIGSTOP): drop, terminate, shut down within 5 s each.

DROP DATABASE of this and of another database, DROP EXTENSION,
pg_terminate_backend of a worker, fast shutdown, CHECKPOINT and VACUUM; each
with a full queue (a large transaction under way) and with an idle worker, and
during the copy.  After DROP DATABASE and DROP EXTENSION no slot is left.
"""
import os
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', 'lib'))


from campaign import arguments, figures                         # noqa: E402
from cluster import alive                                       # noqa: E402
from stand import Stand                                         # noqa: E402
from suite import Suite, check, equal, wait_until               # noqa: E402

LIMIT = 5.0
RULES = 'bucket_definitions:\n  global:\n    data:\n      - SELECT * FROM t\n'


class Host:
    def __init__(self, stand, options):
        self.stand, self.cluster, self.options = stand, stand.cluster, options
        self.times = {}
        self.number = 0

    def replicating(self, state):
        """A database whose worker is idle, has a full queue, or copies, when the storage freezes."""
        self.number += 1
        db = self.stand.database(f'host{self.number}').create('CREATE TABLE t (id int PRIMARY KEY, x text)',
                                                               queue_size='1MB')
        if state == 'copy':
            db.sql("INSERT INTO t SELECT i, repeat('x', 200) FROM generate_series(1, 40000) i")
        db.deploy(RULES.replace('*', 'id::text AS id, x'))
        db.start()
        if state == 'copy':
            wait_until(lambda: any(s['phase'] == 'copying' for s in db.status()), 60, lambda: db.status(), 0.002)
        else:
            db.wait_served()
            db.wait()
        self.stand.storage.freeze()
        if state == 'full queue':
            db.sql("INSERT INTO t SELECT i, repeat('x', 200) FROM generate_series(1, 40000) i")
            time.sleep(self.options.random.uniform(0, 0.5))
        return db

    def timed(self, what, action):
        start = time.monotonic()
        action()
        seconds = time.monotonic() - start
        self.times.setdefault(what, []).append(seconds)
        if not self.options.short:
            check(seconds <= LIMIT, f'{what} took {seconds:.1f} s')

    def no_slot(self, name):
        equal(self.cluster.sql('SELECT slot_name FROM pg_replication_slots WHERE database = %s', (name,)), [], 'slots')

    # ---- what is done while the storage stands still

    def drop_database(self, db):
        self.timed('DROP DATABASE', lambda: self.cluster.sql(f'DROP DATABASE {db.name}'))
        wait_until(lambda: not self.cluster.sql('SELECT 1 FROM pg_replication_slots WHERE database = %s', (db.name,)),
                   LIMIT * 4, 'no slot')

    def drop_other_database(self, db):
        other = f'{db.name}_other'
        self.cluster.sql(f'CREATE DATABASE {other}')
        self.timed('DROP DATABASE of another', lambda: self.cluster.sql(f'DROP DATABASE {other}'))

    def drop_extension(self, db):
        self.timed('DROP EXTENSION', lambda: db.sql('DROP EXTENSION pgsync'))
        wait_until(lambda: not db.slots(), LIMIT * 4, lambda: f'no slot: {db.slots()}')
        wait_until(lambda: not self.cluster.sql(
            "SELECT 1 FROM pg_stat_activity WHERE datname = %s AND backend_type LIKE 'pgsync%%'", (db.name,)),
            LIMIT * 4, 'no worker')
        self.timed('DROP DATABASE after DROP EXTENSION', lambda: self.cluster.sql(f'DROP DATABASE {db.name}'))

    def terminate(self, db):
        pids = [s['pid'] for s in db.status() if s['pid']]
        check(pids, lambda: f'no worker: {db.status()}')

        def end():
            for pid in pids:
                self.cluster.sql('SELECT pg_terminate_backend(%s)', (pid,))
            wait_until(lambda: not any(alive(p) for p in pids), LIMIT * 4, 'end of the worker', 0.005)
        self.timed('pg_terminate_backend', end)

    def shutdown(self, db):
        self.timed('fast shutdown', lambda: self.cluster.stop('fast'))
        self.cluster.start()

    def maintenance(self, db):
        self.timed('CHECKPOINT', lambda: db.sql('CHECKPOINT'))
        self.timed('VACUUM', lambda: db.sql('VACUUM t'))
        self.timed('pgsync_status()', db.status)
        self.timed('pgsync_stop()', db.stop)
        wait_until(lambda: not any(s['pid'] for s in db.status()), LIMIT * 4, 'end of the worker')

    def round(self, action, state):
        db = self.replicating(state)
        postmaster = self.cluster.postmaster()
        try:
            getattr(self, action)(db)
        finally:
            self.stand.storage.thaw()
        if action != 'shutdown':
            equal(self.cluster.postmaster(), postmaster, 'postmaster')
        check(not self.cluster.crashes(), lambda: str(self.cluster.crashes()))
        if action in ('drop_other_database', 'terminate', 'shutdown'):
            # what was interrupted goes on
            db.wait_served()
            db.wait()
            equal(len(db.reduced().all_rows()), db.value('SELECT count(*) FROM t'))
        if action not in ('drop_database', 'drop_extension'):
            db.drop()


ACTIONS = ['drop_database', 'drop_other_database', 'drop_extension', 'terminate', 'shutdown', 'maintenance']
STATES = ['idle', 'full queue', 'copy']


def main():
    options = arguments(__doc__, 5)
    suite = Suite('host')
    if os.environ.get('PGSYNC_MONGODB_URI'):
        suite.skip('all', 'PGSYNC_MONGODB_URI is set: that server is not ours to freeze')
        return suite.end()
    with Stand('host') as stand:
        host = Host(stand, options)
        for number in range(options.rounds):
            for i, action in enumerate(ACTIONS):
                states = [STATES[i % 3]] if options.short else STATES
                for state in states:
                    suite.run(f'{action}, {state}', host.round, action, state)
        for what, seconds in host.times.items():
            print(f'    {what}: {figures(seconds)}', flush=True)
    return suite.end()


if __name__ == '__main__':
    sys.exit(main())
