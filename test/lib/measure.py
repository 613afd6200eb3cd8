"""measure.py - what the scripts of test/bench.d share: a table of bench rows, a stand that streams, the wait for a checkpoint.

Figures are printed, never asserted.  The rows are about 220 bytes in
PostgreSQL and 320 as JSON.
"""
import time

import oracle
from cluster import lsn_number
from stand import Stand

SCHEMA = """
CREATE TABLE lists (id uuid PRIMARY KEY, name text, owner_id text);
CREATE TABLE todos (id uuid PRIMARY KEY, list_id uuid, description text, completed bool, priority int, amount numeric,
    tags text[], meta jsonb, created_at timestamptz);
INSERT INTO lists SELECT md5('l' || i)::uuid, 'list ' || i, 'u' || (i % 10) FROM generate_series(0, 99) i;
"""
RULES = {
    'global': 'bucket_definitions:\n  global:\n    data:\n      - SELECT * FROM lists\n      - SELECT * FROM todos\n',
    'by list': """bucket_definitions:
  by_list:
    parameters: SELECT id AS list_id FROM lists WHERE owner_id = request.user_id()
    data:
      - SELECT * FROM lists WHERE id = bucket.list_id
      - SELECT * FROM todos WHERE list_id = bucket.list_id
""",
}
INSERT = """INSERT INTO todos SELECT md5(%(seed)s || i)::uuid, md5('l' || (i %% 100))::uuid,
    'todo ' || i || ' ' || md5(i::text) || ' lorem ipsum dolor sit', i %% 2 = 0, i %% 10, (i * 1.25)::numeric(12, 2),
    ARRAY['tag' || (i %% 7), 'x'], jsonb_build_object('k', i %% 1000, 's', 'v' || (i %% 13)),
    timestamptz '2026-01-01' + (i || ' seconds')::interval FROM generate_series(%(first)s, %(last)s) i"""


def stand():
    return Stand('bench', config={'max_wal_size': '4GB', 'shared_buffers': '256MB'})


def wait_cover(db, target, operations, timeout=1800):
    """time.perf_counter() when a checkpoint covers the position, and has more ops than before."""
    deadline = time.perf_counter() + timeout
    while True:
        now = oracle.served(db.mongo)
        at = time.perf_counter()
        if now and now.position >= target and now.checkpoint > operations:
            return at
        if at > deadline:
            raise TimeoutError(f'{now}, wanted {target:X}; {db.status()}')
        time.sleep(0.0003)


def commit(db, connection, statements):
    """Run statements in one transaction; returns (seconds from COMMIT's answer to the checkpoint)."""
    before = oracle.served(db.mongo).checkpoint
    with connection.cursor() as cursor:
        for statement, args in statements:
            cursor.execute(statement, args)
        cursor.execute('SELECT pg_current_wal_insert_lsn()')
        target = lsn_number(cursor.fetchone()[0])
    connection.commit()
    start = time.perf_counter()
    return wait_cover(db, target, before) - start
