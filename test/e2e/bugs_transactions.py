"""bugs_transactions.py - what public bug reports say of transactions, positions and the worker's life (bug-cases.md)."""
import contextlib
import os
import threading

from frame import case, select_all
from suite import check, equal, wait_until
from tables import own_memory, restart_worker
from ways import G, Ways, expect_rows, fresh, settle, what_clients_see


def keyed(rows, table='t'):
    return {(table, i): {'id': i, **columns} for i, columns in rows.items()}


def ids(*names):
    return keyed({i: {} for i in names})


# ---------------------------------------------------------------- size

@contextlib.contextmanager
def checkpoints_seen(db):
    """Yields a list: the checkpoints that are served in the block, each once."""
    seen, ended = [db.served().checkpoint], threading.Event()

    def look():
        now = db.served().checkpoint
        if now != seen[-1]:
            seen.append(now)

    def watch():
        while not ended.wait(0.002):
            look()
    thread = threading.Thread(target=watch)
    thread.start()
    try:
        yield seen
    finally:
        ended.set()
        thread.join()
        look()


@case('b28_large_transaction: spilled, in bounded memory, visible at one checkpoint')
def b28_large_transaction(frame):
    """In small; test/campaign bigtx has the 1.2 GB.  The fresh stream copies what this one has streamed."""
    db = frame.replicating('CREATE TABLE t (id text PRIMARY KEY, v text); ALTER TABLE t ALTER v SET STORAGE PLAIN', select_all('t'),
                           queue_size='4MB', server={'logical_decoding_work_mem': '1MB'})
    pid, slot = [db.status()[0][name] for name in ('pid', 'slot_name')]
    with own_memory(db, 128_000_000):
        for statement in ('INSERT INTO t SELECT i::text, repeat(md5(i::text), 128) FROM generate_series(1, 5000) i',
                          "UPDATE t SET v = v || 'x'"):
            with checkpoints_seen(db) as seen:
                db.sql(statement)
                db.wait()
            equal(len(seen), 2, f'checkpoints from the commit on: {seen}')
    wait_until(lambda: (db.value('SELECT spill_txns FROM pg_stat_replication_slots WHERE slot_name = %s', (slot,)) or 0) >= 2, 30,
               'both transactions were spilled')
    seen = what_clients_see(db)
    equal(len(seen) - 1, 5000, 'rows')
    equal(seen[(G, 't', '77')], [{'id': '77', 'v': db.value("SELECT v FROM t WHERE id = '77'")}])
    settle(db)
    equal((db.status()[0]['pid'], db.status()[0]['last_error']), (pid, None))
    check(seen == fresh(db, select_all('t')), 'a fresh stream differs')


@case('b35_batch_sizes: transactions around the size of a flush')
def b35_batch_sizes(frame):
    sizes = (1999, 2000, 2001, 4000)
    ways = Ways(frame, 'CREATE TABLE t (id text PRIMARY KEY)', select_all('t'),
                [('INSERT INTO t SELECT %s || i FROM generate_series(1, %s) i', (f'{n}-', n)) for n in sizes])
    ways.expect(ids(*(f'{n}-{i}' for n in sizes for i in range(1, n + 1))))
    ways.sql("DELETE FROM t WHERE id LIKE '4000-%'", "DELETE FROM t WHERE id LIKE '1999-%'", "UPDATE t SET id = 'new-' || id WHERE id LIKE '2001-%'")
    ways.end(ids(*(f'2000-{i}' for i in range(1, 2001)), *(f'new-2001-{i}' for i in range(1, 2002))))


@case('b35_too_large: a row that is too large only as JSON: its old version goes, it is named, and it comes back')
def b35_too_large(frame):
    large = """repeat('"', 8000000)"""
    log = frame.cluster.log_position()
    ways = Ways(frame, 'CREATE TABLE t (id text PRIMARY KEY, x text)', select_all('t'),
                ["INSERT INTO t VALUES ('old', 'small')", f"INSERT INTO t VALUES ('a', {large})", "INSERT INTO t VALUES ('b', 'fine')"])
    ways.expect(keyed({'old': {'x': 'small'}, 'b': {'x': 'fine'}}))
    equal(ways.each(lambda db: db.status()[0]['rejected_rows']), 1)
    for db in ways.dbs.values():
        wait_until(lambda: 'public.t' in frame.cluster.log(log) and 'row id=a: ' in frame.cluster.log(log), 30, 'the row is named')
    ways.sql(f"UPDATE t SET x = {large} WHERE id = 'old'", "UPDATE t SET x = x || 'er' WHERE id = 'b'")
    ways.expect(keyed({'b': {'x': 'fineer'}}), 'rejected')
    equal(ways.each(lambda db: db.status()[0]['rejected_rows']), 2)
    ways.sql("UPDATE t SET x = 'ok' WHERE id <> 'b'")
    ways.end(keyed({'a': {'x': 'ok'}, 'b': {'x': 'fineer'}, 'old': {'x': 'ok'}}), rejected=2)


# ---------------------------------------------------------------- the server's decoding

STORM = """DO $$ BEGIN FOR i IN 1 .. {count} LOOP {statement}; COMMIT; END LOOP; END $$"""


@case('b30_invalidations: thousands of small DDL transactions beside a long one')
def b30_invalidations(frame):
    db = frame.replicating('CREATE TABLE t (id text PRIMARY KEY); CREATE TABLE u (id int)', select_all('t'))
    pid = db.status()[0]['pid']
    storms = ((2000, 'CREATE TEMP TABLE x (i int) ON COMMIT DROP'), (500, 'ALTER TABLE u ADD x int; ALTER TABLE u DROP x'),
              (500, "ALTER PUBLICATION powersync SET (publish = 'insert, update, delete, truncate')"))
    with own_memory(db, 128_000_000), contextlib.closing(db.connect(autocommit=False)) as c:
        c.cursor().execute("INSERT INTO t VALUES ('1')")
        for count, statement in storms:
            db.sql(STORM.format(count=count, statement=statement))
        c.cursor().execute("INSERT INTO t VALUES ('2')")
        c.commit()
        db.wait()
    settle(db)
    equal((db.status()[0]['pid'], db.status()[0]['last_error']), (pid, None))
    expect_rows(db, {G: ids('1', '2')}, 'streamed')
    check(what_clients_see(db) == fresh(db, select_all('t')), 'a fresh stream differs')


def spill_file(db, slot):
    """A file that decoding of an open transaction has spilled to."""
    folder = os.path.join(db.cluster.data, 'pg_replslot', slot)
    return [os.path.join(folder, name) for name in os.listdir(folder) if name.endswith('.spill')]


@case('b30_server_error: decoding that asks for too much memory: named, with a hint, and not tried again at once')
def b30_server_error(frame):
    """What some minor releases do by themselves: here the size is written into a file of decoding's."""
    db = frame.database('CREATE TABLE t (id text PRIMARY KEY, v text)', server={'logical_decoding_work_mem': '64kB'})
    db.deploy(select_all('t'))
    db.start()
    db.wait_served()
    status = db.status()[0]
    with contextlib.closing(db.connect(autocommit=False)) as c, c.cursor() as cursor:
        cursor.execute("INSERT INTO t SELECT i::text, repeat('x', 1000) FROM generate_series(1, 2000) i")
        db.sql("INSERT INTO t VALUES ('other', '')")
        found = wait_until(lambda: spill_file(db, status['slot_name']), 30, 'the transaction is spilled')
        with open(found[0], 'r+b') as f:
            f.write((1233909616).to_bytes(8, 'little'))
        c.commit()
    failed = wait_until(lambda: [s for s in db.status() if s['phase'] == 'backing off'], 30, lambda: db.status())[0]
    check('invalid memory alloc request size 12339' in failed['last_error'] and 'minor release' in failed['hint'], failed)
    check((failed['next_retry'] - failed['last_error_time']).total_seconds() > 29, failed)
    # somebody has updated the server
    db.start()
    db.wait()
    equal(len(db.reduced().all_rows()), 2001)


# ---------------------------------------------------------------- the worker's life, positions

@case('b32_no_extension: a schema of its name, the extension dropped, or of an older version')
def b32_no_extension(frame):
    db = frame.database('CREATE SCHEMA pgsync; CREATE TABLE t (id text PRIMARY KEY)', extension=False)
    other = frame.database('CREATE TABLE t (id text PRIMARY KEY)')
    log = frame.cluster.log_position()

    def warnings():
        return [line for line in frame.cluster.log(log).split('\n') if 'does not have the extension' in line]
    db.sql(f"SECURITY LABEL FOR pgsync ON DATABASE {db.name} IS 'on'")
    wait_until(warnings, 30, 'a warning')
    # the launcher is busy with another database meanwhile
    other.deploy(select_all('t'))
    other.start()
    other.wait_served()
    restart_worker(other)
    other.sql("INSERT INTO t VALUES ('1')")
    other.wait()
    equal(len(warnings()), 1, 'warnings')
    check('CREATE EXTENSION' in frame.cluster.log(log), 'no hint')
    # an extension in that schema: its own is the schema's
    db.sql('CREATE EXTENSION pgsync SCHEMA public')
    db.deploy(select_all('t'))
    db.wait_served()
    pid = db.status()[0]['pid']
    db.sql('DROP EXTENSION pgsync')
    wait_until(lambda: not frame.cluster.value('SELECT count(*) FROM pg_stat_activity WHERE pid = %s', (pid,)), 30, 'the worker ends')
    wait_until(lambda: not db.slots(), 30, lambda: f'slots are dropped: {db.slots()}')
    db.sql("INSERT INTO t VALUES ('1')")
    db.sql('CREATE EXTENSION pgsync SCHEMA public')
    db.start()
    wait_until(lambda: db.served() and db.reduced().all_rows(), 30, lambda: db.status())
    # an extension whose objects are those of another version: nothing of replication depends on them
    db.sql("UPDATE pg_extension SET extversion = '0.9' WHERE extname = 'pgsync'")
    restart_worker(db)
    db.sql("INSERT INTO t VALUES ('2')")
    db.wait()
    settle(db)
    equal({row for _, _, row in db.reduced().all_rows()}, {'1', '2'})


@case('b33_unrelated: nothing for the rules happens: WAL does not pile up')
def b33_unrelated(frame):
    db = frame.replicating('CREATE TABLE t (id text PRIMARY KEY); CREATE TABLE other (i int); CREATE UNLOGGED TABLE u (i int)',
                           select_all('t'))

    def slot():
        return db.sql('SELECT confirmed_flush_lsn, restart_lsn FROM pg_replication_slots WHERE database = current_database()')[0]

    def tables():
        return db.sql("SELECT c.oid::regclass::text, pg_stat_get_tuples_inserted(c.oid) FROM pg_class c WHERE relkind = 'r'"
                      " AND relnamespace = 'public'::regnamespace ORDER BY 1")
    before, all_tables = slot(), [name for name, _ in tables()]
    db.sql('INSERT INTO other SELECT generate_series(1, 20000)')
    db.sql('INSERT INTO u SELECT generate_series(1, 20000)')
    frame.cluster.sql('CREATE TABLE IF NOT EXISTS elsewhere AS SELECT generate_series(1, 20000)')
    frame.cluster.sql('DROP TABLE elsewhere')
    first = frame.cluster.value('SELECT pg_current_wal_insert_lsn()')
    reached = 'SELECT confirmed_flush_lsn >= %s AND restart_lsn > %s FROM pg_replication_slots WHERE database = current_database()'
    wait_until(lambda: db.value('SELECT confirmed_flush_lsn >= %s FROM pg_replication_slots WHERE database = current_database()', (first,)),
               30, lambda: f'the slot confirms {first}: {db.status()}', 0.1)
    # from now on nobody commits anything
    db.sql('SELECT pg_switch_wal()')
    db.sql('CHECKPOINT')
    second = frame.cluster.value('SELECT pg_current_wal_insert_lsn()')
    wait_until(lambda: db.value(reached, (second, before[1])), 30, lambda: f'the slot confirms {second}, {before}: {slot()}', 0.1)
    equal([name for name, _ in tables()], all_tables, 'tables')
    equal(db.value('SELECT count(*) FROM t'), 0)
    equal((db.status()[0]['last_error'], db.mongo.bucket_data.count_documents({})), (None, 0))


# ---------------------------------------------------------------- transactions

OUT_OF_LINE = 'v' * 3000


def upsert(db, count):
    """Two sessions insert the same keys at the same time: rows, with values out of line, are inserted speculatively, and given up."""
    def work(n):
        with contextlib.closing(db.connect()) as c, c.cursor() as cursor:
            for i in range(count):
                cursor.execute("INSERT INTO t VALUES ('k', 1, %s), (%s, 1, %s) ON CONFLICT (id) DO UPDATE SET n = t.n + 1",
                               (OUT_OF_LINE, f'k{i}', OUT_OF_LINE))
                cursor.execute("INSERT INTO t VALUES (%s, %s, %s) ON CONFLICT DO NOTHING", (f'n{i}', i, OUT_OF_LINE))
    threads = [threading.Thread(target=work, args=(n,)) for n in range(2)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()


@case('b36_transactions: savepoints, prepared ones, messages, upserts; the worker restarted between any two steps')
def b36_transactions(frame):
    ways = Ways(frame, 'CREATE TABLE t (id text PRIMARY KEY, n int, v text); ALTER TABLE t ALTER v SET STORAGE EXTERNAL', select_all('t'),
                ["INSERT INTO t VALUES ('0', 0)"])
    steps = [("BEGIN; INSERT INTO t VALUES ('1', 0); SAVEPOINT a; INSERT INTO t VALUES ('2', 0); SAVEPOINT b; INSERT INTO t VALUES ('3', 0);"
              "ROLLBACK TO a; INSERT INTO t VALUES ('4', 0); SELECT pg_logical_emit_message(true, 'x', 'y'); INSERT INTO t VALUES ('5', 0);"
              'COMMIT', '145'),
             ("BEGIN; INSERT INTO t VALUES ('9', 0); ROLLBACK", '145'),
             ("BEGIN; INSERT INTO t VALUES ('6', 0); PREPARE TRANSACTION 'p of {db}'", '145'),
             ("BEGIN; INSERT INTO t VALUES ('7', 0); PREPARE TRANSACTION 'q of {db}'", '145'),
             ("COMMIT PREPARED 'p of {db}'", '1456'),
             ("ROLLBACK PREPARED 'q of {db}'", '1456')]
    for number, (statement, expected) in enumerate(steps):
        for db in ways.dbs.values():
            db.sql(statement.format(db=db.name))
        if number == 2:
            frame.cluster.restart()
        else:
            restart_worker(ways.dbs['stream'])
        ways.expect(keyed({i: {'n': 0} for i in '0' + expected}), statement)
    count = 150
    for db in ways.dbs.values():
        upsert(db, count)
    rows = {'k': {'n': 2 * count}, **{f'k{i}': {'n': 2} for i in range(count)}, **{f'n{i}': {'n': i} for i in range(count)}}
    ways.end(keyed({**{i: {'n': 0} for i in '01456'}, **{i: {**row, 'v': OUT_OF_LINE} for i, row in rows.items()}}), restarted=True)
