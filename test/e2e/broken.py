"""broken.py - what somebody found who tried to break it: each case failed once.

Each compares with what the tables hold, and with a fresh stream.
"""
import contextlib

import psycopg2

from frame import case, expect, select_all
from hold import Holder
from recopy import like_fresh, like_tables, settled, stays
from suite import Failed, check, wait_until

EDITION2 = 'config:\n  edition: 2\n  timestamp_max_precision: seconds\n'


def all_of(*queries, config=''):
    return config + 'bucket_definitions:\n  all:\n    data:\n' + ''.join(f'      - {q}\n' for q in queries)


def both_ways(frame, schema, rows, rules, statements, expected, **options):
    """The rows before the start and after it, then the statements; ids expected by table."""
    for way in ('copy', 'stream'):
        db = frame.database(schema, **options)
        if way == 'copy':
            db.sql(rows)
        stream = db.deploy(rules)
        db.start()
        db.wait_served(stream)
        if way == 'stream':
            db.sql(rows)
        for statement in statements:
            db.sql(statement)
        settled(db)
        expect(db, {'all[]': {(table, row_id): {'id': row_id} for table, ids in expected.items() for row_id in ids}}, way)
        like_fresh(db, rules, way)


@case('broken: keys that differ in what the rules do not see of a time')
def keys_of_times(frame):
    both_ways(frame,
              'CREATE TABLE t (ts timestamptz PRIMARY KEY, v text); CREATE TABLE u (d int, c time, v text, PRIMARY KEY (d, c))',
              """INSERT INTO t SELECT '2024-01-01'::timestamptz + i * interval '1 ms', 't' || i FROM generate_series(1, 6) i;
              INSERT INTO t VALUES ('infinity', 'end'), ('9999-12-31 23:59:59Z', 'last'), ('0044-03-15 BC', 'ides'),
                  ('0043-03-15 BC', 'later'), ('20000-01-01', 'far'), ('20000-01-02', 'farther');
              INSERT INTO u SELECT 1, '00:00'::time + i * interval '1 us', 'u' || i FROM generate_series(1, 3) i""",
              all_of('SELECT v AS id FROM t', 'SELECT v AS id FROM u', config=EDITION2),
              ["DELETE FROM t WHERE v IN ('t1', 'end', 'ides', 'far')", "UPDATE t SET v = 'new' WHERE v = 't2'",
               "UPDATE t SET ts = ts + interval '10 ms' WHERE v = 't3'", "DELETE FROM u WHERE v = 'u2'"],
              {'t': ['new', 't3', 't4', 't5', 't6', 'last', 'later', 'farther'], 'u': ['u1', 'u3']})


@case('broken: keys of days and times that print as others do, without options')
def keys_at_the_end(frame):
    both_ways(frame, 'CREATE TABLE t (ts timestamp PRIMARY KEY, v text); CREATE TABLE d (d date PRIMARY KEY, v text)',
              """INSERT INTO t VALUES ('infinity', 'end'), ('9999-12-31 23:59:59', 'last'), ('0044-03-15 BC', 'ides'),
              ('0043-03-15 BC', 'later'); INSERT INTO d VALUES ('infinity', 'end'), ('9999-12-31', 'last')""",
              all_of('SELECT v AS id FROM t', 'SELECT v AS id FROM d'),
              ["DELETE FROM t WHERE v IN ('last', 'ides')", "DELETE FROM d WHERE v = 'end'"],
              {'t': ['end', 'later'], 'd': ['last']})


@case('broken: keys of arrays, ranges and composites that differ in what the rules do not see')
def keys_with_parts(frame):
    types = {'a': 'timestamp[]', 'b': 'bytea[]', 'c': 'tstzrange', 'd': 'co', 'e': 'dom'}
    values = {'a': ('{infinity,2020-01-01}', '{9999-12-31 23:59:59,2020-01-01}', '{2020-01-01 00:00:00.1}', '{2020-01-01 00:00:00.2}'),
              'b': ('{x}', '{y}', '{x,y}', '{y,x}'),
              'c': ('[2020-01-01 00:00:00.1Z,)', '[2020-01-01 00:00:00.2Z,)', '(2020-01-01Z,infinity)', '(2020-01-01Z,9999-12-31 23:59:59Z)'),
              'd': ('(2020-01-01 00:00:00.1Z,x)', '(2020-01-01 00:00:00.2Z,x)', '(0044-03-15Z BC,x)', '(0044-03-15Z BC,y)'),
              'e': ('infinity', '9999-12-31 23:59:59', '2020-01-01 00:00:00.1', '2020-01-01 00:00:00.2')}
    both_ways(frame,
              'CREATE TYPE co AS (t timestamptz, b bytea); CREATE DOMAIN dom AS timestamp; '
              + '; '.join(f'CREATE TABLE {t} (k {of} PRIMARY KEY, v text)' for t, of in types.items()),
              '; '.join(f"INSERT INTO {t} VALUES ('{k}', '{i}')" for t in types for i, k in enumerate(values[t])),
              all_of(*(f'SELECT v AS id FROM {t}' for t in types), config=EDITION2),
              [f"DELETE FROM {t} WHERE v IN ('0', '2')" for t in types] + [f"UPDATE {t} SET v = '4' WHERE v = '1'" for t in types],
              {t: ['3', '4'] for t in types})


@case('broken: a key that is printed as a name, and what has the name is renamed or dropped')
def keys_of_names(frame):
    both_ways(frame, 'CREATE TABLE one (x int); CREATE TABLE two (x int); CREATE TABLE three (x int);'
              'CREATE TABLE t (r regclass PRIMARY KEY, v text)',
              "INSERT INTO t VALUES ('one', '1'), ('two', '2'), ('three', '3')", all_of('SELECT v AS id FROM t'),
              ['ALTER TABLE one RENAME TO four', "UPDATE t SET v = '4' WHERE v = '1'", 'DROP TABLE two',
               "DELETE FROM t WHERE v = '2'", 'ALTER TABLE three RENAME TO one', "UPDATE t SET r = 'pg_class' WHERE v = '3'"],
              {'t': ['4', '3']})


CHANGES = ("INSERT INTO {0} VALUES ('new', 0); UPDATE {0} SET n = -1 WHERE id = '1'; DELETE FROM {0} WHERE id = '2';"
           " UPDATE {0} SET id = 'moved' WHERE id = '3'")


def away(frame, tables, schema, publication, statements):
    """statements: {table: what one transaction does with it}"""
    rules = all_of(*(f'SELECT * FROM {t}' for t in tables), 'SELECT * FROM "w_%"')
    db = frame.replicating(schema, rules, publication=publication)
    stream = db.served().stream
    for t in tables:
        db.sql(f"INSERT INTO {t} SELECT i::text, i FROM generate_series(1, 20) i")
    for t in tables:
        db.sql(f"BEGIN; UPDATE {t} SET n = 7 WHERE id = '7'; {statements[t]}; UPDATE {t} SET n = 8 WHERE id = '8'; COMMIT")
    settled(db)
    like_tables(db, 'after all', *tables)
    stays(db, stream)
    like_fresh(db, rules, 'after all')


@case('broken: changed while it has another name for a part of a transaction, and then as before')
def under_another_name(frame):
    table = 'CREATE TABLE {0} (id text PRIMARY KEY, n int)'
    statements = {
        'a': f'ALTER TABLE a RENAME TO x; {CHANGES.format("x")}; ALTER TABLE x RENAME TO a',
        'b': 'ALTER TABLE b RENAME TO x; TRUNCATE x; ALTER TABLE x RENAME TO b',
        'c': f'ALTER TABLE c RENAME TO w_1; {CHANGES.format("w_1")}; ALTER TABLE w_1 RENAME TO c',
        'd': f'ALTER TABLE d SET SCHEMA s; {CHANGES.format("s.d")}; ALTER TABLE s.d SET SCHEMA public',
        'e': f"DROP TABLE e; {table.format('e')}; INSERT INTO e VALUES ('1'), ('2'), ('3'); ALTER TABLE e RENAME TO x;"
             f' {CHANGES.format("x")}; ALTER TABLE x RENAME TO e'}
    away(frame, statements, 'CREATE SCHEMA s; ' + '; '.join(table.format(t) for t in statements), True, statements)


@case('broken: changed while it is not published for a part of a transaction, and then as before')
def not_published(frame):
    away(frame, ['a', 'p'],
         'CREATE TABLE a (id text PRIMARY KEY, n int);'
         'CREATE TABLE p (id text, n int, k int DEFAULT 1, PRIMARY KEY (id, k)) PARTITION BY LIST (k);'
         'CREATE TABLE part PARTITION OF p FOR VALUES IN (1);'
         'CREATE PUBLICATION powersync FOR TABLE a, p WITH (publish_via_partition_root)', False,
         {'a': f'ALTER PUBLICATION powersync DROP TABLE a; {CHANGES.format("a")}; ALTER PUBLICATION powersync ADD TABLE a',
          'p': f'ALTER TABLE p DETACH PARTITION part; {CHANGES.format("part")};'
               ' ALTER TABLE p ATTACH PARTITION part FOR VALUES IN (1)'})


@case('broken: the smallest chunks are of more than one row')
def small_chunks(frame):
    db = frame.replicating('CREATE TABLE t (id text PRIMARY KEY, n int); INSERT INTO t SELECT i::text, i FROM generate_series(1, 1000) i',
                           select_all('t'), copy_chunk_size='64kB')
    db.sql("SELECT pg_create_logical_replication_slot('probe', 'test_decoding')")
    try:
        db.sql('ALTER TABLE t ADD d int DEFAULT 5')
        settled(db)
        chunks = db.value("""SELECT count(*) FROM pg_logical_slot_get_changes('probe', NULL, NULL)
                          WHERE data LIKE 'message:% high'""")
    finally:
        db.sql("SELECT pg_drop_replication_slot('probe')")
    check(1 < chunks < 100, f'{chunks} chunks for 1000 rows')


@case('broken: another publication by a reload, and the first one again')
def another_publication(frame):
    rules = select_all('t', 'u')
    db = frame.replicating("CREATE TABLE t (id text PRIMARY KEY, n int); INSERT INTO t VALUES ('1', 1), ('2', 2);"
                           "CREATE TABLE u (id text PRIMARY KEY, n int); INSERT INTO u VALUES ('1', 1);"
                           'CREATE PUBLICATION other FOR TABLE u', rules)

    def tables_are(*names):
        """The worker hears of the reload when it does, and acts at the end of a transaction."""
        def probe():
            db.sql('UPDATE u SET n = n + 1')
            db.wait()
            return {table for _, table, _ in db.reduced().all_rows()} == set(names)
        wait_until(probe, 30, lambda: f'{names}: {db.status()}')

    try:
        frame.cluster.sql("ALTER SYSTEM SET pgsync.publication = 'other'")
        frame.cluster.reload()
        tables_are('u')
        db.sql("INSERT INTO t VALUES ('3', 3); DELETE FROM t WHERE id = '1'")
    finally:
        frame.cluster.sql('ALTER SYSTEM RESET pgsync.publication')
        frame.cluster.reload()
    tables_are('t', 'u')
    db.sql("UPDATE t SET n = n + 1; INSERT INTO t VALUES ('4', 4)")
    settled(db)
    expect(db, {'global[]': {('t', '2'): {'id': '2', 'n': 3}, ('t', '3'): {'id': '3', 'n': 4}, ('t', '4'): {'id': '4', 'n': 4},
                             ('u', '1'): {'id': '1', 'n': db.value('SELECT n FROM u')}}})
    like_fresh(db, rules)


@case('broken: a partition whose detachment was broken off, through the root')
def broken_off(frame):
    rules = all_of('SELECT * FROM t')
    db = frame.replicating("""CREATE TABLE t (id text, k int, PRIMARY KEY (id, k)) PARTITION BY LIST (k);
        CREATE TABLE one PARTITION OF t FOR VALUES IN (1); CREATE TABLE two PARTITION OF t FOR VALUES IN (2);
        INSERT INTO t VALUES ('a', 1), ('b', 2); CREATE PUBLICATION powersync FOR TABLE t WITH (publish_via_partition_root)""",
                           rules, publication=False)
    reader = Holder(db, 'SELECT FROM t')
    with contextlib.closing(db.connect()) as session, session.cursor() as cursor:
        cursor.execute("SET lock_timeout = '500ms'")
        try:
            cursor.execute('ALTER TABLE t DETACH PARTITION two CONCURRENTLY')
            raise Failed('it was not broken off')
        except psycopg2.errors.LockNotAvailable:
            pass
        finally:
            reader.end()
    db.sql("INSERT INTO two VALUES ('c', 2); UPDATE t SET id = 'aa'")
    settled(db)
    like_tables(db, 'pending', 't')
    like_fresh(db, rules, 'pending')
    db.sql('ALTER TABLE t DETACH PARTITION two FINALIZE')
    db.sql('ALTER TABLE t ATTACH PARTITION two FOR VALUES IN (2)')
    settled(db)
    like_tables(db, 'attached', 't')
