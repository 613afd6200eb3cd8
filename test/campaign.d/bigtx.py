#!/usr/bin/env python3
"""bigtx: transactions of 1.2 GB: decoded, spilled and stored in bounded memory, and visible at one checkpoint each.

INSERT of 300,000 rows of 4 kB, then UPDATE of all of them, so that both the
WAL of a transaction and what decoding keeps of it are larger than the 1 GB
that PostgreSQL can allocate at once.  At size the worker's private memory must
stay below 256 MB.  The short form takes 3,000 rows and asserts what is visible.
"""
import os
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', 'lib'))

from campaign import arguments, memory                          # noqa: E402
from cluster import lsn_number                                  # noqa: E402
from stand import Stand                                         # noqa: E402
from suite import Suite, check, equal                           # noqa: E402

LIMIT_KB = 256 * 1024
# not compressed: a transaction's WAL is as large as its rows
SCHEMA = 'CREATE TABLE t (id text PRIMARY KEY, v text); ALTER TABLE t ALTER v SET STORAGE PLAIN'
RULES = 'bucket_definitions:\n  global:\n    data:\n      - SELECT * FROM t\n'


def transaction(db, statement, args, options):
    """Committed, then watched until the checkpoint at its end is served: no other may come before."""
    before, worker = db.served(), db.status()[0]['pid']
    log = db.cluster.log_position()
    begin = db.value('SELECT pg_current_wal_insert_lsn()')
    db.sql(statement, args)
    end = db.value('SELECT pg_current_wal_insert_lsn()')
    committed, peak, seen = time.monotonic(), {}, []
    while True:
        now = db.served()
        for name, value in memory(worker).items():
            peak[name] = max(peak.get(name, 0), value)
        if now.checkpoint != before.checkpoint and now.checkpoint not in seen:
            seen.append(now.checkpoint)
        if now.position >= lsn_number(end):
            break
        check(time.monotonic() - committed < 3600, lambda: f'no checkpoint: {db.status()}')
        time.sleep(0.01)
    print(f'    {statement.split()[0]}: {(lsn_number(end) - lsn_number(begin)) // 2 ** 20} MB of WAL, {time.monotonic() - committed:.0f} s, '
          f"worker's peak private memory {peak.get('private', 0) // 1024} MB, resident {peak.get('VmHWM', 0) // 1024} MB with shared buffers",
          flush=True)
    equal(len(seen), 1, f'checkpoints with rows: {seen}')
    equal((db.status()[0]['pid'], db.status()[0]['last_error']), (worker, None), 'the worker and its last error')
    check('invalid memory alloc' not in db.cluster.log(log), lambda: db.cluster.log(log))
    check(options.short or peak['private'] < LIMIT_KB, lambda: f'{peak}')


def stored(db, rows, suffix):
    """The newest rows, without their data, which the test's own process need not hold."""
    now = db.served()
    with db.stand.storage.client(socketTimeoutMS=1800000) as client:
        operations = client[db.storage_name].bucket_data
        found = list(operations.find({'_id.g': now.stream, '_id.o': {'$gt': now.checkpoint - rows}}, {'row_id': 1, 'op': 1}))
        equal({op['op'] for op in found}, {'PUT'})
        equal({op['row_id'] for op in found}, {str(i) for i in range(1, rows + 1)})
        row = operations.find_one({'_id.g': now.stream, '_id.o': now.checkpoint})
    check(row['data'].endswith(suffix + '"}'), row['data'][-100:])


def main():
    options = arguments(__doc__, 1)
    rows = 3000 if options.short else 300000
    suite = Suite('bigtx')
    with Stand('bigtx', config={'max_wal_size': '4GB', **({'logical_decoding_work_mem': '1MB'} if options.short else {})}) as stand:
        for number in range(options.rounds):
            db = stand.database(f'bigtx{number}').create(SCHEMA)
            db.deploy(RULES)
            db.start()
            db.wait_served()
            db.wait()
            suite.run('insert', transaction, db, 'INSERT INTO t SELECT i::text, repeat(md5(i::text), 128) FROM generate_series(1, %s) i',
                      (rows,), options)
            suite.run('all rows are there', stored, db, rows, '')
            suite.run('update', transaction, db, "UPDATE t SET v = v || ' changed'", None, options)
            suite.run('all rows are changed', stored, db, rows, ' changed')
            db.drop()
    return suite.end()


if __name__ == '__main__':
    sys.exit(main())
