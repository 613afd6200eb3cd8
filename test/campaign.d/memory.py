#!/usr/bin/env python3
"""memory: one million rows in one transaction: the worker's private memory, and nothing visible before its checkpoint.

Rounds: INSERT, UPDATE, DELETE of all rows; at size the peak of the worker's
private memory must stay below 256 MB.  The short form takes 20,000 rows and
asserts only what is visible.
"""
import os
import sys
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', 'lib'))

import oracle                                                   # noqa: E402
from campaign import arguments, memory                          # noqa: E402
from cluster import lsn_number                                  # noqa: E402
from stand import Stand                                         # noqa: E402
from suite import Suite, check, equal                           # noqa: E402

LIMIT_KB = 256 * 1024
SCHEMA = """CREATE TABLE t (id int PRIMARY KEY, list_id uuid, description text, completed bool, priority int,
    amount numeric, tags text[], meta jsonb, created_at timestamptz)"""
RULES = 'bucket_definitions:\n  global:\n    data:\n      - SELECT id::text AS id, list_id, description, completed, priority, amount, tags, meta, created_at FROM t\n'
INSERT = """INSERT INTO t SELECT i, md5('l' || (i %% 100))::uuid, 'todo ' || i || ' ' || md5(i::text) || ' lorem ipsum dolor sit',
    i %% 2 = 0, i %% 10, (i * 1.25)::numeric(12, 2), ARRAY['tag' || (i %% 7), 'x'],
    jsonb_build_object('k', i %% 1000, 's', 'v' || (i %% 13)), timestamptz '2026-01-01' + (i || ' seconds')::interval
    FROM generate_series(1, %s) i"""


class Watch(threading.Thread):
    """Samples the worker's memory, and what is served, until the checkpoint covers the target."""

    def __init__(self, db, pid, before):
        super().__init__(daemon=True)
        self.db, self.pid, self.before = db, pid, before
        self.stop_wanted = threading.Event()
        self.peak = {}
        self.early = []

    def run(self):
        while not self.stop_wanted.is_set():
            for name, value in memory(self.pid).items():
                self.peak[name] = max(self.peak.get(name, 0), value)
            self.stop_wanted.wait(0.05)


def transaction(db, name, statement, args, rows, options):
    before = db.served()
    status = db.status()[0]
    watch = Watch(db, status['pid'], before)
    with db.connect() as c, c.cursor() as cursor:
        cursor.execute('BEGIN')
        cursor.execute(statement, args)
        cursor.execute('SELECT pg_current_wal_insert_lsn()')
        target = lsn_number(cursor.fetchone()[0])
        watch.start()
        cursor.execute('COMMIT')
    committed = time.monotonic()
    now = db.served()
    flushed_early = 0
    while now.position < target or now.checkpoint == before.checkpoint:
        check(now.checkpoint == before.checkpoint, lambda: f'part of it is visible: {before} -> {now}')
        sequence = db.mongo.op_id_sequence.find_one({'_id': 'main'})
        flushed_early = max(flushed_early, int(sequence['op_id'] if sequence else 0) - before.checkpoint)
        check(time.monotonic() - committed < 1800, lambda: f'no checkpoint: {db.status()}')
        time.sleep(0.01)
        now = db.served()
    seconds = time.monotonic() - committed
    watch.stop_wanted.set()
    watch.join()
    peak = watch.peak
    print(f"    {name} of {rows} rows: {seconds:.1f} s ({rows / max(seconds, 0.001):.0f} rows/s), worker's peak private "
          f"memory {peak.get('private', 0) // 1024} MB, resident {peak.get('VmHWM', 0) // 1024} MB with shared buffers; "
          f'{flushed_early} ops were stored before the checkpoint', flush=True)
    equal(db.status()[0]['pid'], status['pid'], 'the worker is the same process')
    check(flushed_early > 0, 'nothing was stored before the checkpoint: one flush?')
    if not options.short:
        check(peak['private'] < LIMIT_KB, f"peak private memory {peak['private'] // 1024} MB")


def count(db):
    now = db.served()
    return sum(1 for _ in oracle.reduce(oracle.read_ops(db.mongo, now.stream, 0, now.checkpoint)).all_rows())


def main():
    options = arguments(__doc__, 1)
    rows = 20000 if options.short else 1000000
    suite = Suite('memory')
    with Stand('memory', config={'max_wal_size': '4GB'}) as stand:
        db = stand.database('memory').create(SCHEMA)
        db.deploy(RULES)
        db.start()
        db.wait_served()
        db.wait()
        for number in range(options.rounds):
            suite.run('insert', transaction, db, 'INSERT', INSERT, (rows,), rows, options)
            if options.short:
                suite.run('all rows are there', lambda: equal(count(db), rows))
            suite.run('update', transaction, db, 'UPDATE', 'UPDATE t SET priority = priority + 1', None, rows, options)
            suite.run('delete', transaction, db, 'DELETE', 'DELETE FROM t', None, rows, options)
            if options.short:
                suite.run('no row is left', lambda: equal(count(db), 0))
    return suite.end()


if __name__ == '__main__':
    sys.exit(main())
