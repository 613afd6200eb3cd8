"""recopy.py - one table is copied again while the stream runs, by itself, because DDL made what is stored of it stale.

Each case ends with the tables themselves, with what a fresh stream makes of them,
and with the stored row state: nothing of an old round or table may be left.
"""
import contextlib
import json
import os
import random
import threading
import time

import psycopg2

import oracle
from frame import case
from hold import Holder, copy_held, waits_for
from suite import Failed, check, difference, equal, wait_until
from tables import restart_worker, stopped
from waits import setting, stuck_commit

RULES = """
bucket_definitions:
  all:
    data:
      - SELECT * FROM t
  by_g:
    parameters: SELECT g FROM t WHERE owner = request.user_id()
    data:
      - SELECT id, n, g FROM t WHERE g = bucket.g
"""
TABLE = 'CREATE TABLE t (id text PRIMARY KEY, n int, g text, owner text)'
FILL = "INSERT INTO t SELECT i::text, i, 'g' || i % 5, 'u' || i % 7 FROM generate_series(1, {}) i"
WILDCARD = 'bucket_definitions:\n  all:\n    data:\n      - SELECT * FROM "w_%"\n'


def unfinished(db):
    """Source tables of the served stream that wait for a copy."""
    return [(d['_id'], d.get('stale'), d.get('replaced')) for d in db.mongo.pgsync_tables.find({'group_id': db.served().stream})
            if d.get('stale') or d.get('replaced')]


def settled(db):
    """All that was committed is decoded, and every copy that this made due is complete."""
    db.wait()
    wait_until(lambda: not unfinished(db), 60, lambda: f'{unfinished(db)}; {db.status()}', 0.01)
    db.wait()


def without_nulls(data):
    return {k: v for k, v in json.loads(data).items() if v is not None}


def rows_of(db):
    return {key: without_nulls(data) for key, data in db.reduced().all_rows().items()}


def lookups_of(db):
    now = db.served()
    return {k: v for k, v in oracle.read_lookups(db.mongo, now.stream, now.checkpoint).items() if v}


def like_tables(db, what, *tables, keys='id'):
    """The bucket `all` holds what the tables hold, and there is a row state for each of their rows, and no other."""
    expected = {}
    for table in tables:
        for row_id, row in db.sql(f'SELECT {keys}, to_jsonb(this_row) FROM {table} this_row'):
            expected[('all[]', table.split('.')[-1], row_id)] = {k: v for k, v in row.items() if v is not None}
    got = {key: row for key, row in rows_of(db).items() if key[0] == 'all[]'}
    check(got == expected, lambda: f'{what}: differs from the tables:\n{difference(got, expected)}')
    equal(db.mongo[f'pgsync_row_state_{db.served().stream}'].count_documents({}), len(expected), f'{what}: row states')


def like_fresh(db, rules, what=''):
    """A fresh stream of the same rules shows the same."""
    rows, lookups = rows_of(db), lookups_of(db)
    new = db.deploy(rules + f'\n# {what}')
    db.wait_served(new)
    db.wait()
    fresh, fresh_lookups = rows_of(db), lookups_of(db)
    check(rows == fresh, lambda: f'{what}: differs from a fresh stream:\n{difference(rows, fresh)}')
    equal(lookups, fresh_lookups, f'{what}: lookups')
    wait_until(lambda: not oracle.problems(db.mongo, new), 30, lambda: str(oracle.problems(db.mongo, new)[:8]), 0.05)


def stays(db, stream):
    equal(db.served().stream, stream, 'the stream was replaced')


# ---------------------------------------------------------------- what makes rows stale


@case('recopy: columns and labels that change what untouched rows give')
def shapes(frame):
    db = frame.replicating("CREATE TYPE e AS ENUM ('a', 'b'); " + TABLE + '; ALTER TABLE t ADD e e', RULES)
    db.sql(FILL.format(300))
    db.sql("UPDATE t SET e = 'a' WHERE n % 2 = 0")
    db.wait()
    stream = db.served().stream
    for statement, copied in (
            ('ALTER TABLE t ADD x int', False),
            ('ALTER TABLE t RENAME x TO y', True),
            ('ALTER TABLE t ADD d int DEFAULT 7', True),
            ('ALTER TABLE t ADD r text DEFAULT substr(gen_random_uuid()::text, 1, 8)', True),
            ('ALTER TABLE t ALTER n TYPE int USING n + 1', True),
            ('ALTER TABLE t ALTER d TYPE text USING d || \'!\'', True),
            ('ALTER TABLE t DROP d', True),
            ('ALTER TABLE t RENAME g TO h', True),
            ('ALTER TABLE t RENAME h TO g', True),
            ("ALTER TYPE e RENAME VALUE 'a' TO 'z'", True),
            ("ALTER TYPE e ADD VALUE 'new' BEFORE 'b'", False),
            ("BEGIN; UPDATE t SET n = n + 1 WHERE n < 50; ALTER TABLE t RENAME r TO s; UPDATE t SET s = 'x' WHERE n > 250;"
             ' DELETE FROM t WHERE n % 10 = 0; COMMIT', True),
            ('BEGIN; SAVEPOINT a; ALTER TABLE t DROP s; ROLLBACK TO a; UPDATE t SET n = n + 1 WHERE n < 20; COMMIT', False),
            ('BEGIN; ALTER TABLE t ADD q int; UPDATE t SET q = 1 WHERE n < 20; ALTER TABLE t DROP q; COMMIT', True),
            ('VACUUM FULL t', False), ('CLUSTER t USING t_pkey', False)):
        log = frame.cluster.log_position()
        each(db, statement)
        settled(db)
        like_tables(db, statement, 't')
        equal('will copy table' in frame.cluster.log(log), copied, f'{statement}: copied again')
    stays(db, stream)
    like_fresh(db, RULES)
    check('pgsync has copied table "public.t" again' in frame.cluster.log(), 'the end is not in the log')


@case('recopy: another replica identity')
def identities(frame):
    db = frame.replicating('CREATE TABLE t (k int NOT NULL, id text PRIMARY KEY, n int, g text, owner text, UNIQUE (k));', RULES)
    db.sql("INSERT INTO t SELECT 1000 + i, i::text, i, 'g' || i % 5, 'u' || i % 7 FROM generate_series(1, 300) i")
    db.wait()
    stream = db.served().stream
    for statement in ('ALTER TABLE t REPLICA IDENTITY USING INDEX t_k_key', 'ALTER TABLE t REPLICA IDENTITY FULL',
                      'ALTER TABLE t DROP CONSTRAINT t_pkey', 'ALTER TABLE t REPLICA IDENTITY DEFAULT',
                      'ALTER TABLE t ADD PRIMARY KEY (k, id)', 'ALTER TABLE t DROP CONSTRAINT t_pkey, ADD PRIMARY KEY (id, k)',
                      'ALTER TABLE t DROP CONSTRAINT t_pkey, ADD PRIMARY KEY (id)',
                      'BEGIN; UPDATE t SET n = n + 1; ALTER TABLE t REPLICA IDENTITY USING INDEX t_k_key;'
                      ' UPDATE t SET n = n + 1 WHERE n > 100; COMMIT',
                      'ALTER TABLE t REPLICA IDENTITY DEFAULT; ALTER TABLE t REPLICA IDENTITY FULL;'
                      ' ALTER TABLE t REPLICA IDENTITY DEFAULT'):
        each(db, statement)
        settled(db)
        like_tables(db, statement, 't')
        if db.value("SELECT relreplident = 'f' OR EXISTS (SELECT FROM pg_index WHERE indrelid = 't'::regclass AND indisprimary)"
                    " FROM pg_class WHERE oid = 't'::regclass"):
            db.sql('UPDATE t SET n = n + 1 WHERE n % 3 = 0; DELETE FROM t WHERE n % 50 = 0')
            db.wait()
            like_tables(db, statement + ', then', 't')
    stays(db, stream)
    like_fresh(db, RULES)


@case('recopy: tables of other names take over, with rows and without')
def names(frame):
    db = frame.replicating(TABLE + '; CREATE TABLE t_new (LIKE t INCLUDING ALL); CREATE SCHEMA s', RULES)
    db.sql(FILL.format(200))
    db.sql("INSERT INTO t_new SELECT i::text, i * 2, 'h' || i % 3, 'u' || i % 4 FROM generate_series(100, 250) i")
    db.wait()
    stream = db.served().stream
    swap = 'ALTER TABLE t RENAME TO t_x; ALTER TABLE t_new RENAME TO t; ALTER TABLE t_x RENAME TO t_new'
    for statement in (f'BEGIN; {swap}; COMMIT', f'BEGIN; {swap}; {swap}; COMMIT', f'BEGIN; {swap}; UPDATE t SET n = 1; COMMIT',
                      'ALTER TABLE t RENAME TO t_old; ALTER TABLE t_new RENAME TO t; DROP TABLE t_old',
                      'ALTER TABLE t SET SCHEMA s', 'ALTER TABLE s.t SET SCHEMA public',
                      # created, filled, and then renamed in: in one transaction, and in several
                      f"BEGIN; DROP TABLE t; {TABLE.replace('TABLE t', 'TABLE made')}; INSERT INTO made VALUES ('m', 1, 'g1', 'u1');"
                      ' ALTER TABLE made RENAME TO t; COMMIT',
                      f"{TABLE.replace('TABLE t', 'TABLE made')}; INSERT INTO made VALUES ('m2', 1, 'g1', 'u1');"
                      ' ALTER TABLE t RENAME TO gone; ALTER TABLE made RENAME TO t',
                      # a key that comes when the rows are there
                      "BEGIN; DROP TABLE t; CREATE TABLE t AS SELECT * FROM gone; ALTER TABLE t ADD PRIMARY KEY (id);"
                      " INSERT INTO t VALUES ('m3', 3, 'g3', 'u3'); COMMIT",
                      # all of it through the stream
                      f"BEGIN; DROP TABLE t; {TABLE}; {FILL.format(20)}; COMMIT",
                      f"BEGIN; DROP TABLE t; SAVEPOINT a; {TABLE}; {FILL.format(20)}; RELEASE a; COMMIT",
                      # its rows are written anew when it becomes a logged one
                      f"BEGIN; DROP TABLE t; {TABLE.replace('TABLE', 'UNLOGGED TABLE')}; {FILL.format(20)}; ALTER TABLE t SET LOGGED; COMMIT",
                      'ALTER TABLE t SET UNLOGGED'):
        each(db, statement)
        settled(db)
        gone = not db.value("SELECT count(*) FROM pg_class WHERE oid = to_regclass('public.t') AND relpersistence = 'p'")
        like_tables(db, statement, *([] if gone else ['t']))
    db.sql("INSERT INTO t VALUES ('unlogged', 1, 'g', 'u')")
    db.sql('ALTER TABLE t SET LOGGED')
    settled(db)
    like_tables(db, 'logged', 't')
    stays(db, stream)
    like_fresh(db, RULES)


@case('recopy: what is not renamed in whole: rows of the old table stay until those of the new one are there')
def replaced(frame):
    db = frame.replicating(TABLE + '; CREATE TABLE t_new (LIKE t INCLUDING ALL)', RULES)
    db.sql(FILL.format(50))
    db.sql('INSERT INTO t_new SELECT * FROM t WHERE n > 10')
    db.wait()
    locker = Holder(db, 'LOCK TABLE t_new IN ACCESS EXCLUSIVE MODE')
    try:
        with locker.connection.cursor() as c:
            c.execute('ALTER TABLE t RENAME TO t_old; ALTER TABLE t_new RENAME TO t')
        locker.connection.commit()
        locker.end()
        locker = Holder(db, 'LOCK TABLE t IN ACCESS EXCLUSIVE MODE')
        db.wait()
        if unfinished(db):              # else the copy was faster than the lock
            waits_for(db, locker.pid)
            equal(len([k for k in rows_of(db) if k[0] == 'all[]']), 50, 'rows while the copy waits')
            check('copied again' in (db.status()[0]['hint'] or ''), db.status())
    finally:
        locker.end()
    settled(db)
    like_tables(db, 'renamed', 't')
    equal(db.status()[0]['waits_for_pid'], None)
    equal(db.status()[0]['hint'], None)
    # what empties the new one removes what waits of the old one
    db.sql("BEGIN; ALTER TABLE t RENAME TO a; ALTER TABLE t_old RENAME TO t; TRUNCATE t; INSERT INTO t VALUES ('x', 1, 'g', 'u'); COMMIT")
    settled(db)
    like_tables(db, 'emptied', 't')
    db.sql('BEGIN; ALTER TABLE t RENAME TO b; ALTER TABLE a RENAME TO t; COMMIT')
    db.sql('DROP TABLE t')
    settled(db)
    like_tables(db, 'dropped')


@case('recopy: a table that is not under the rules in the middle of a transaction misses nothing')
def away(frame):
    db = frame.database(TABLE, publication=False)
    db.sql('CREATE PUBLICATION powersync FOR TABLE t')
    db.sql(FILL.format(20))
    db.deploy(RULES)
    db.start()
    db.wait_served()
    stream = db.served().stream
    out, back = 'ALTER PUBLICATION powersync DROP TABLE t', 'ALTER PUBLICATION powersync ADD TABLE t'
    for statement, copied in ((f'BEGIN; {out}; UPDATE t SET n = n + 1; {back}; COMMIT', True), (f'BEGIN; {out}; {back}; COMMIT', False),
                              ('BEGIN; ALTER TABLE t RENAME TO x; DELETE FROM x WHERE n < 5; ALTER TABLE x RENAME TO t; COMMIT', True),
                              (f"BEGIN; DROP TABLE t; {TABLE}; {back}; INSERT INTO t VALUES ('1', 1); {out}; INSERT INTO t VALUES ('2', 2);"
                               f" {back}; COMMIT", True),
                              (f'BEGIN; {out}; TRUNCATE t; {back}; COMMIT', True)):
        log = frame.cluster.log_position()
        db.sql(statement)
        settled(db)
        like_tables(db, statement, 't')
        equal('will copy table' in frame.cluster.log(log), copied, f'{statement}: copied again')
    stays(db, stream)


@case('recopy: members of the publication, schemas and partitions under a wildcard')
def members(frame):
    db = frame.database("""CREATE TABLE w_1 (id text PRIMARY KEY, n int); CREATE TABLE w_2 (id text PRIMARY KEY, n int);
        CREATE TABLE root (id text, n int, PRIMARY KEY (id, n)) PARTITION BY RANGE (n);
        CREATE TABLE w_part (n int, junk int, id text NOT NULL, PRIMARY KEY (id, n)); ALTER TABLE w_part DROP junk;
        INSERT INTO w_1 SELECT i::text, i FROM generate_series(1, 100) i; INSERT INTO w_2 VALUES ('x', 1);
        INSERT INTO w_part SELECT i, 'p' || i FROM generate_series(1, 9) i""", publication=False)
    db.sql('CREATE PUBLICATION powersync FOR TABLE w_1, root')
    db.deploy(WILDCARD)
    db.start()
    db.wait_served()
    stream = db.served().stream
    published = """SELECT format('%I.%I', schemaname, tablename) FROM pg_publication_tables WHERE schemaname = 'public'
        AND tablename LIKE 'w\\_%' AND tablename != 'root'"""
    for statement in ('ALTER PUBLICATION powersync ADD TABLE w_2', "ALTER TABLE root ATTACH PARTITION w_part FOR VALUES FROM (0) TO (10)",
                      "INSERT INTO root VALUES ('q', 5)", 'ALTER TABLE root DETACH PARTITION w_part', 'INSERT INTO w_part VALUES (6, \'r\')',
                      'ALTER TABLE root ATTACH PARTITION w_part FOR VALUES FROM (0) TO (10)',
                      'ALTER PUBLICATION powersync DROP TABLE w_1', 'UPDATE w_1 SET n = n + 1', 'ALTER PUBLICATION powersync ADD TABLE w_1',
                      "BEGIN; CREATE TABLE w_3 (id text PRIMARY KEY, n int); INSERT INTO w_3 VALUES ('in', 1);"
                      " ALTER PUBLICATION powersync ADD TABLE w_3; INSERT INTO w_3 VALUES ('out', 1); COMMIT",
                      'ALTER PUBLICATION powersync DROP TABLE w_2; ALTER PUBLICATION powersync ADD TABLE w_2',
                      'ALTER TABLE w_1 RENAME TO w_4; ALTER TABLE w_2 RENAME TO w_1',
                      'BEGIN; ALTER TABLE w_1 RENAME TO w_x; ALTER TABLE w_4 RENAME TO w_1; ALTER TABLE w_x RENAME TO w_4; COMMIT',
                      'DROP TABLE w_part'):
        each(db, statement)
        settled(db)
        like_tables(db, statement, *(name.split('.')[1] for name, in db.sql(published)))
    stays(db, stream)
    like_fresh(db, WILDCARD)

# ---------------------------------------------------------------- changes while a copy goes on

LARGE = """CREATE TABLE t (id text PRIMARY KEY, n int, g text, owner text, v text);
ALTER TABLE t ALTER v SET STORAGE EXTERNAL; CREATE TABLE other (id text PRIMARY KEY, n int)"""
LARGE_RULES = RULES.replace('SELECT * FROM t\n', 'SELECT * FROM t\n      - SELECT id, n FROM other\n')
LARGE_FILL = "INSERT INTO t SELECT i::text, i, 'g' || i % 5, 'u' || i % 7, repeat(chr(97 + i % 26), 900 + i % 3 * 2000) FROM generate_series(1, {}) i"


def large(frame, rows=160):
    """A table that is copied in many chunks."""
    db = frame.replicating(LARGE, LARGE_RULES, copy_chunk_size='128kB')
    db.sql(LARGE_FILL.format(rows))
    db.wait()
    return db


def each(db, statements):
    """One transaction each, unless they are a block."""
    for part in [statements] if statements.startswith('BEGIN') else statements.split('; '):
        db.sql(part)


STALE = 'ALTER TABLE t RENAME owner TO possessor; ALTER TABLE t RENAME possessor TO owner'


@contextlib.contextmanager
def half_way(db, statements=STALE):
    """Makes a copy of t due; in the block it has begun, is not over, and waits for the transaction that is yielded."""
    settled(db)
    for _ in range(20):
        log = db.cluster.log_position()
        each(db, statements)
        wait_until(lambda: 'will copy table' in db.cluster.log(log) and (not unfinished(db) or db.mongo.pgsync_tables.count_documents(
            {'group_id': db.served().stream, 'stale': True, 'rows_copied': {'$gt': 20}})), 60, lambda: db.status(), 0.003)
        holder = Holder(db, 'LOCK TABLE t IN ACCESS EXCLUSIVE MODE')
        try:
            wait_until(lambda: not unfinished(db) or db.status()[0]['waits_for_pid'] == holder.pid, 60, lambda: db.status(), 0.003)
            if unfinished(db):
                yield holder
                holder.connection.commit()
                return
        finally:
            holder.end()
    raise Failed('the copy is always faster')


def run(holder, statements):
    with holder.connection.cursor() as cursor:
        cursor.execute(statements)


def ends_right(db, what=''):
    settled(db)
    like_tables(db, what, 't', 'other')


DML = """UPDATE t SET n = n + 1000 WHERE n % 10 = 0; DELETE FROM t WHERE n % 10 = 1; UPDATE t SET id = 'k' || md5(id || random()) WHERE n % 10 = 2;
    BEGIN; UPDATE t SET id = 'x' WHERE id = '3'; UPDATE t SET id = '3' WHERE id = '4'; UPDATE t SET id = '4' WHERE id = 'x'; COMMIT;
    UPDATE t SET v = repeat('w', 3000) WHERE n % 10 = 5; INSERT INTO t SELECT 'i' || i, i, 'g', 'u', 'i' FROM generate_series(1, 50) i ON CONFLICT DO NOTHING;
    BEGIN; DELETE FROM t WHERE id = '7'; INSERT INTO t VALUES ('7', 7, 'again', 'u', 'v'); COMMIT"""


@case('recopy: rows that change while it goes on; other tables reach clients; progress is shown')
def changes(frame):
    db = large(frame)
    stream = db.served().stream
    with half_way(db) as holder:
        db.sql("INSERT INTO other VALUES ('a', 1)")
        db.wait()
        check(('all[]', 'other', 'a') in rows_of(db), 'another table waits for the copy')
        status = db.status()[0]
        check(status['copy_table'] == 'public.t' and status['copy_rows_done'] > 20 and status['copy_tables_total'] == 1, status)
        check(status['phase'] == 'streaming' and 'copied again' in status['hint'], status)
        for statement in DML.replace('BEGIN; ', '').replace('COMMIT', 'SELECT 1').split(';\n'):
            run(holder, statement)
    for statement in DML.split(';\n'):
        db.sql(statement)
    ends_right(db)
    stays(db, stream)
    like_fresh(db, LARGE_RULES)


@case('recopy: DDL, TRUNCATE, VACUUM FULL and DROP while it goes on')
def ddl_while_copying(frame):
    db = large(frame)
    stream = db.served().stream
    for statement in ('ALTER TABLE t ADD extra int', 'ALTER TABLE t RENAME extra TO additional', "ALTER TABLE t ALTER n TYPE int USING n + 1",
                      'ALTER TABLE t REPLICA IDENTITY FULL; ALTER TABLE t DROP CONSTRAINT t_pkey',
                      'ALTER TABLE t REPLICA IDENTITY DEFAULT; ALTER TABLE t ADD PRIMARY KEY (id)',
                      'ALTER TABLE t RENAME TO elsewhere; ALTER TABLE elsewhere RENAME TO t', 'VACUUM FULL t', 'CLUSTER t USING t_pkey',
                      "TRUNCATE t; INSERT INTO t (id) VALUES ('first')",
                      f"TRUNCATE t; {LARGE_FILL.format(160).replace('INTO t', 'INTO t (id, n, g, owner, v)')}", 'DROP TABLE t'):
        if db.value('SELECT count(*) FROM t') > 100:
            with half_way(db) as holder:
                if 'VACUUM' not in statement and 'CLUSTER' not in statement:
                    run(holder, statement)
            if 'VACUUM' in statement or 'CLUSTER' in statement:
                db.sql(statement)
        else:
            each(db, statement)
        settled(db)
        like_tables(db, statement, *(['other'] if statement.startswith('DROP') else ['t', 'other']))
    stays(db, stream)
    like_fresh(db, LARGE_RULES)


@case('recopy: a commit that is not visible yet is waited for; what changes meanwhile is not overwritten')
def straggler(frame):
    db = frame.database(LARGE, publication=False)
    db.sql('CREATE PUBLICATION powersync FOR TABLE other')
    db.sql(LARGE_FILL.format(200))
    db.deploy(LARGE_RULES)
    db.start()
    db.wait_served()
    local = 'SET synchronous_commit = local; '
    with stuck_commit(db, "BEGIN; UPDATE t SET n = -1 WHERE n <= 20; DELETE FROM t WHERE n = 21; UPDATE t SET id = 's' || id WHERE n = 22;"
                          ' COMMIT') as pid:
        db.sql(local + 'ALTER PUBLICATION powersync ADD TABLE t')
        waits_for(db, pid)
        for statement in DML.split(';\n'):
            db.sql(local + statement.replace('WHERE n', 'WHERE n > 40 AND n').replace("'3'", "'103'").replace("'4'", "'104'").replace("'7'", "'107'"))
        # it waits with the stream running, and is taken up again by another worker
        db.sql(local + "INSERT INTO other VALUES ('a', 1)")
        wait_until(lambda: ('all[]', 'other', 'a') in rows_of(db), 60, lambda: db.status(), 0.02)
        worker = db.status()[0]['pid']
        db.sql('SELECT pg_terminate_backend(%s)', (worker,))
        wait_until(lambda: db.status()[0]['pid'] not in (None, worker), 60, lambda: db.status(), 0.02)
        waits_for(db, pid)
        db.sql(local + 'UPDATE t SET n = n + 1 WHERE n > 100')
    ends_right(db)
    equal(db.status()[0]['waits_for_pid'], None)
    like_fresh(db, LARGE_RULES)


@case('recopy: prepared transactions, and long ones that began before it')
def prepared(frame):
    db = large(frame, 100)
    stream = db.served().stream
    long = Holder(db, 'SAVEPOINT a', "UPDATE t SET n = 500 WHERE id = '1'", 'RELEASE a')
    db.sql("BEGIN; UPDATE t SET n = 600 WHERE id = '2'; DELETE FROM t WHERE id = '3'; PREPARE TRANSACTION 'p'")
    db.sql("BEGIN; UPDATE t SET n = 700 WHERE id = '4'; PREPARE TRANSACTION 'q'")
    try:
        db.mongo.pgsync_tables.update_many({'group_id': stream}, {'$set': {'stale': True}})
        restart_worker(db)
        ends_right(db, 'running')
        db.sql("COMMIT PREPARED 'p'")
        db.sql("ROLLBACK PREPARED 'q'")
        long.connection.commit()
    finally:
        long.end()
    ends_right(db, 'over')
    stays(db, stream)


@case('recopy: the worker ends at any moment of it')
def ended(frame):
    db = large(frame)
    stream = db.served().stream
    seed = int(os.environ.get('PGSYNC_SEED', random.randrange(1 << 32)))
    print(f'    seed {seed}')
    chance = random.Random(seed)
    for _ in range(5):
        with half_way(db) as holder:
            if chance.random() < 0.5:
                restart_worker(db)
            for statement in DML.replace('BEGIN; ', '').replace('COMMIT', 'SELECT 1').split(';\n'):
                run(holder, statement)
        time.sleep(chance.random() * 0.3)
        restart_worker(db)
        for statement in DML.split(';\n'):
            db.sql(statement)
    ends_right(db)
    stays(db, stream)
    like_fresh(db, LARGE_RULES)


@case('recopy: tables without identity: each row once, while rows are inserted, and their old keys are removed')
def without_identity(frame):
    db = frame.database('CREATE TABLE t (id text, n int, g text, v text)', publication=False, copy_chunk_size='64kB')
    insert = "INSERT INTO t SELECT '{}-' || i, i, 'g', repeat('v', 1500) FROM generate_series(1, {}) i"
    rules = 'bucket_definitions:\n  all:\n    data:\n      - SELECT * FROM t\n'
    stale = 'ALTER TABLE t RENAME g TO h; ALTER TABLE t RENAME h TO g'
    db.deploy(rules)
    db.start()
    db.wait_served()
    db.sql(insert.format('a', 300))
    db.wait()
    stream = db.served().stream
    like_tables(db, 'stream', 't')
    running = Holder(db, 'CREATE TEMP TABLE keeps (i int)')
    try:
        with half_way(db, stale) as holder:
            run(holder, insert.format('b', 30))
        # by a transaction that has its number since before the copy, and by a part of it
        run(running, insert.format('running', 20) + '; SAVEPOINT b; ' + insert.format('sub', 20) + '; RELEASE b')
        db.sql(insert.format('c', 30))
        running.connection.commit()
        settled(db)
        like_tables(db, 'while rows are inserted', 't')
        with half_way(db, stale) as holder:
            restart_worker(db)
            run(holder, insert.format('d', 30))
        db.sql(insert.format('e', 30))
        db.sql('VACUUM FULL t')
        db.sql(insert.format('f', 30))
        settled(db)
        like_tables(db, 'after a restart and VACUUM FULL', 't')
        with half_way(db, stale) as holder:
            run(holder, 'TRUNCATE t')
            run(holder, insert.format('g', 30))
        settled(db)
        like_tables(db, 'after TRUNCATE', 't')
    finally:
        running.end()
    db.sql("UPDATE t SET n = 5 WHERE id = 'g-1'")
    db.wait()
    check('do not reach' in (db.status()[0]['hint'] or ''), db.status())
    check(not unfinished(db), unfinished(db))
    stays(db, stream)
    db.sql("UPDATE t SET n = 1 WHERE id = 'g-1'")
    like_fresh(db, rules)

# ---------------------------------------------------------------- before the stream is served


@case('recopy: DDL during the initial copy and while the stream catches up')
def before_active(frame):
    for statement in ('ALTER TABLE t ADD x int', 'ALTER TABLE t RENAME g TO h; ALTER TABLE t RENAME h TO g', 'ALTER TABLE t ADD d int DEFAULT 3',
                      'ALTER TABLE t ALTER n TYPE int USING n + 1', 'ALTER TABLE t REPLICA IDENTITY USING INDEX t_k_key',
                      'ALTER TABLE t RENAME TO old; ALTER TABLE t_new RENAME TO t', 'DROP TABLE t; ALTER TABLE t_new RENAME TO t',
                      'BEGIN; DROP TABLE t; CREATE TABLE t (id text PRIMARY KEY, n int, g text, owner text); COMMIT', 'TRUNCATE t',
                      'ALTER TABLE t SET UNLOGGED; ALTER TABLE t SET LOGGED'):
        db = frame.database("""CREATE TABLE a (id text PRIMARY KEY);
            CREATE TABLE t (k serial UNIQUE, id text PRIMARY KEY, n int, g text, owner text, v text);
            CREATE TABLE t_new (id text PRIMARY KEY, n int, g text, owner text); INSERT INTO t_new VALUES ('new', 1, 'g', 'u');
            CREATE TABLE z (id text PRIMARY KEY)""", copy_chunk_size='64kB')
        db.sql("INSERT INTO t (id, n, g, owner, v) SELECT i::text, i, 'g' || i % 5, 'u', repeat('v', 900) FROM generate_series(1, 200) i")
        rules = RULES.replace('SELECT * FROM t\n', 'SELECT * FROM t\n      - SELECT id FROM a\n      - SELECT id FROM z\n')

        def start():
            db.deploy(rules)
            db.start()
        more = "UPDATE t SET n = n + 1 WHERE n % 3 = 0; DELETE FROM t WHERE id = '5'"
        with copy_held(db, 'a', start):         # the slot is made; t has not been read
            db.sql(more)
            locker = Holder(db, 'LOCK TABLE z IN ACCESS EXCLUSIVE MODE')
            try:
                middle = Holder(db)             # the slot's second step is over: it holds up nothing
                middle.end()
            finally:
                pass
            if statement.startswith('ALTER TABLE t ADD x'):
                each(db, statement)
                db.sql(more)
        try:
            waits_for(db, locker.pid)           # t is copied
            if not statement.startswith('ALTER TABLE t ADD x'):
                each(db, statement)
            db.sql(more)
        finally:
            locker.end()
        db.wait_served()
        stream = db.served().stream
        check(not unfinished(db), lambda: f'{statement}: served before its tables are copied: {unfinished(db)}')
        settled(db)
        like_tables(db, statement, 't', 'a', 'z')
        stays(db, stream)
        like_fresh(db, rules, statement)
        db.stop(drop_slot=True)


@case('recopy: DDL when the initial copy is half way through the table')
def half_copied(frame):
    for statement, expected in (('ALTER TABLE t ADD x int', False), ('ALTER TABLE t RENAME owner TO o', True),
                                ('ALTER TABLE t ALTER n TYPE int USING n + 1', True), ('ALTER TABLE t REPLICA IDENTITY FULL; ALTER TABLE t DROP CONSTRAINT t_pkey', True),
                                ('TRUNCATE t; ' + LARGE_FILL.format(50), False)):
        db = frame.database(LARGE, copy_chunk_size='256kB', queue_size='1MB')
        db.sql(LARGE_FILL.format(700))
        log = frame.cluster.log_position()
        db.deploy(LARGE_RULES)
        db.start()
        wait_until(lambda: db.mongo.pgsync_tables.count_documents({'rows_copied': {'$gt': 0}}), 60, lambda: db.status(), 0.003)
        holder = Holder(db, 'LOCK TABLE t IN ACCESS EXCLUSIVE MODE')
        try:
            waits_for(db, holder.pid)
            run(holder, statement)
            run(holder, 'UPDATE t SET n = n + 1 WHERE n % 3 = 0; DELETE FROM t WHERE n % 7 = 0')
            holder.connection.commit()
        finally:
            holder.end()
        db.wait_served()
        check(not unfinished(db), lambda: f'{statement}: served before its tables are copied: {unfinished(db)}')
        stream = db.served().stream
        ends_right(db, statement)
        stays(db, stream)
        equal('will copy table' in frame.cluster.log(log) or 'has copied table' in frame.cluster.log(log), expected,
              f'{statement}: copied again')
        db.stop(drop_slot=True)


# ---------------------------------------------------------------- at random


def session(db, name, chance, ended, errors):
    """Random changes of t and other until `ended` is set; keys of all sessions, so that they meet."""
    with contextlib.closing(db.connect()) as c, c.cursor() as cursor:
        number = 0
        while not ended.is_set():
            number += 1
            statements = []
            for _ in range(chance.choice((1, 1, 1, 3, 10))):
                key, to = f'k{chance.randrange(400)}', f'k{chance.randrange(400)}'
                statements.append(chance.choice((
                    f"INSERT INTO t (id, n, g, owner, v) VALUES ('{key}', {number}, 'g{number % 7}', 'u{number % 5}',"
                    f" repeat('{name}', {chance.choice((10, 3000))})) ON CONFLICT (id) DO UPDATE SET n = excluded.n, g = excluded.g",
                    f"UPDATE t SET n = {number} WHERE id = '{key}'", f"UPDATE t SET g = 'g{number % 7}' WHERE id = '{key}'",
                    f"UPDATE t SET id = '{to}' WHERE id = '{key}' AND NOT EXISTS (SELECT FROM t WHERE id = '{to}')",
                    f"DELETE FROM t WHERE id = '{key}'", f"UPDATE t SET v = repeat('{name}', 2500) WHERE id = '{key}'",
                    f"UPDATE t SET n = {number} WHERE id > '{key}' AND id < '{key}5'",
                    f"INSERT INTO other VALUES ('{name}{number}', 1) ON CONFLICT DO NOTHING")))
            if chance.random() < 0.01:
                statements.append('TRUNCATE t')
            try:
                cursor.execute('BEGIN')
                for statement in statements:
                    cursor.execute(statement)
                cursor.execute('ROLLBACK' if chance.random() < 0.1 else 'COMMIT')
            except (psycopg2.errors.UniqueViolation, psycopg2.errors.DeadlockDetected, psycopg2.errors.UndefinedTable):
                cursor.execute('ROLLBACK')
            except Exception as error:
                errors.append(error)
                return


@case('recopy: random changes by two sessions during many copies, with workers that end')
def at_random(frame):
    seed = int(os.environ.get('PGSYNC_SEED', random.randrange(1 << 32)))
    seconds = float(os.environ.get('PGSYNC_SECONDS', 15))
    print(f'    seed {seed}')
    chance = random.Random(seed)
    db = large(frame, 10)
    db.sql("INSERT INTO t SELECT 'k' || i, i, 'g', 'u', repeat('v', 2500) FROM generate_series(1, 400) i")
    db.sql('ALTER TABLE t ADD k serial, ADD UNIQUE (k)')
    settled(db)
    stream = db.served().stream
    ended, errors = threading.Event(), []
    threads = [threading.Thread(target=session, args=(db, name, random.Random(f'{seed} {name}'), ended, errors)) for name in 'ab']
    for thread in threads:
        thread.start()
    try:
        end, renamed = time.monotonic() + seconds, 0
        while time.monotonic() < end and not errors:
            renamed += 1
            statement = chance.choice((
                f'ALTER TABLE t RENAME k TO k{renamed}; ALTER TABLE t RENAME k{renamed} TO k', 'ALTER TABLE t ALTER n TYPE int USING n',
                'ALTER TABLE t REPLICA IDENTITY USING INDEX t_k_key', 'ALTER TABLE t REPLICA IDENTITY FULL', 'ALTER TABLE t REPLICA IDENTITY DEFAULT',
                'VACUUM FULL t', f'ALTER TABLE t ADD x{renamed} int; ALTER TABLE t DROP x{renamed}',
                'BEGIN; ALTER TABLE t RENAME TO away; COMMIT; BEGIN; ALTER TABLE away RENAME TO t; COMMIT'))
            if 'away' in statement:
                statement = 'BEGIN; ALTER TABLE t RENAME TO away; ALTER TABLE away RENAME TO t; COMMIT'
            with contextlib.suppress(psycopg2.errors.DeadlockDetected):
                each(db, statement)
            if chance.random() < 0.15:
                restart_worker(db)
            if chance.random() < 0.5:
                wait_until(lambda: not unfinished(db), 60, lambda: f'{unfinished(db)} {db.status()}', 0.02)
            time.sleep(chance.random() * 0.3)
    finally:
        ended.set()
        for thread in threads:
            thread.join(60)
    check(not errors, errors)
    ends_right(db, f'seed {seed}')
    stays(db, stream)
    print(f'    {renamed} times DDL, {frame.cluster.log().count("pgsync has copied table")} copies')
    like_fresh(db, LARGE_RULES)
