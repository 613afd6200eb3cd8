"""transactions.py - every kind of transaction, and what decoding has to get right about them.

The second half has the situations that PostgreSQL's own tests of logical
decoding look at: DDL beside DML, subtransactions without a record of their
top, snapshots restored from disk, prepared transactions, invalidations that
other transactions have to hear of.
"""
import contextlib
import io

from cluster import lsn_number
from frame import case, select_all
from hold import Holder, slot_in_second_step, waits_for
from suite import check, difference, equal, wait_until
from tables import own_memory, restart_worker, stopped
from waits import stuck_commit
from ways import G, Ways, both, expect_rows, fresh, settle, what_clients_see

T = 'CREATE TABLE t (id text PRIMARY KEY, n int)'


def numbered(*pairs, table='t'):
    return {(table, i): {'id': i, 'n': n} for i, n in pairs}


@contextlib.contextmanager
def session(db, *statements):
    """A session that is not in autocommit; rolled back at the end."""
    with contextlib.closing(db.connect(autocommit=False)) as c:
        for statement in statements:
            c.cursor().execute(statement)
        yield c


# ---------------------------------------------------------------- kinds of transactions

@case('savepoints: nested, released, rolled back, with DDL')
def savepoints(frame):
    both(frame, T + '; CREATE TABLE u (id text PRIMARY KEY, n int)', select_all('t', 'u'), ["INSERT INTO t VALUES ('0', 0), ('k', 0)"],
         numbered(('0', 5), ('1', 1), ('3', 3), ('5', 5), ('j', 7)) | {('t', '6'): {'id': '6', 'n': 6, 'extra': 'x'}},
         ["BEGIN; INSERT INTO t VALUES ('1', 1); SAVEPOINT a; UPDATE t SET n = 1 WHERE id = '0'; SAVEPOINT b; DELETE FROM t WHERE id = 'k';"
          "INSERT INTO t VALUES ('2', 2); ROLLBACK TO b; INSERT INTO t VALUES ('3', 3); RELEASE a; SAVEPOINT c; TRUNCATE t;"
          "INSERT INTO t VALUES ('4', 4); ROLLBACK TO c; UPDATE t SET id = 'j', n = 7 WHERE id = 'k'; SAVEPOINT d;"
          "ALTER TABLE t DROP n; ALTER TABLE t RENAME TO gone; ROLLBACK TO d; INSERT INTO t VALUES ('5', 5); UPDATE t SET n = 5 WHERE id = '0';"
          "SAVEPOINT e; ALTER TABLE t ADD extra text; INSERT INTO t VALUES ('6', 6, 'x'); RELEASE e; COMMIT",
          "BEGIN; SAVEPOINT a; INSERT INTO u VALUES ('1', 1); ROLLBACK TO a; COMMIT"])


@case('copy: COPY FROM, in pieces, broken off, and with FREEZE')
def copy_from(frame):
    def copy(db, table, first, last, before='', bad=False):
        text = ''.join(f'{i}\t{i}\t{"x" * (3000 if i % 100 == 0 else 3)}\n' for i in range(first, last)) + ('bad\n' if bad else '')
        with contextlib.closing(db.connect(autocommit=False)) as c, c.cursor() as cursor:
            cursor.execute(before or 'SELECT 1')
            try:
                cursor.copy_expert(f'COPY {table} FROM STDIN' + (' (FREEZE)' if before else ''), io.StringIO(text))
            except Exception:
                check(bad, 'COPY failed')
                return
            c.commit()
    ways = Ways(frame, 'CREATE TABLE t (id text PRIMARY KEY, n int, v text); ALTER TABLE t ALTER v SET STORAGE EXTERNAL;'
                ' CREATE TABLE u (id text PRIMARY KEY, n int, v text)', select_all('t', 'u'))
    for db in ways.dbs.values():
        copy(db, 't', 1, 1500)
        copy(db, 't', 1500, 3000, bad=True)
        db.sql("INSERT INTO u VALUES ('old', 1, 'x')")
        copy(db, 'u', 1, 1500, before='TRUNCATE u')
    ways.end({(table, str(i)): {'id': str(i), 'n': i, 'v': 'x' * (3000 if i % 100 == 0 else 3)}
              for table in 'tu' for i in range(1, 1500)})


@case('messages: transactional and not, rolled back, long, and such that look like ours')
def messages(frame):
    ways = Ways(frame, T, select_all('t'), ["INSERT INTO t VALUES ('0', 0)"])
    forged = [f"SELECT pg_logical_emit_message({kind}, 'pgsync', {text})" for kind in ('true', 'false')
              for text in ("''", "'fence'", "repeat('x', 100000)", r"'\x00ff00'::bytea", "'watermark 1 1 1 1'")]
    ways.sql("BEGIN; SELECT pg_logical_emit_message(true, 'x', repeat('y', 1000000)); INSERT INTO t VALUES ('1', 1); SAVEPOINT s;"
             "SELECT pg_logical_emit_message(true, 'x', 'y'), pg_logical_emit_message(false, 'x', 'y'); INSERT INTO t VALUES ('2', 2);"
             "ROLLBACK TO s; SELECT pg_logical_emit_message(true, '', ''); INSERT INTO t VALUES ('3', 3); COMMIT", *forged,
             "BEGIN; " + '; '.join(forged) + "; INSERT INTO t VALUES ('4', 4); COMMIT",
             "SELECT pg_logical_emit_message(true, 'powersync', 'ping'), pg_logical_emit_message(false, 'powersync', 'pin')")
    ways.expect(numbered(('0', 0), ('1', 1), ('3', 3), ('4', 4)))
    # rows behind a message in its transaction, decoded after a restart
    for db in ways.dbs.values():
        with session(db, "SELECT pg_logical_emit_message(true, 'x', 'y')", "INSERT INTO t VALUES ('5', 5)") as c:
            db.sql("INSERT INTO t VALUES ('6', 6)")
            db.wait()
            restart_worker(db)
            c.cursor().execute("INSERT INTO t VALUES ('7', 7)")
            c.commit()
    ways.end(numbered(('0', 0), ('1', 1), ('3', 3), ('4', 4), ('5', 5), ('6', 6), ('7', 7)), restarted=True)


SUBTRANSACTIONS = """DO $$ BEGIN FOR i IN 1 .. 100000 LOOP
    BEGIN
        IF i % 20 = 0 THEN INSERT INTO t VALUES (i::text, i); ELSE INSERT INTO other VALUES (i); END IF;
        IF i % 60 = 0 THEN RAISE division_by_zero; END IF;
    EXCEPTION WHEN division_by_zero THEN NULL; END;
END LOOP; END $$"""


@case('subtransactions: 100,000 in one transaction, some rolled back, in bounded memory')
def subtransactions(frame):
    db = frame.replicating(T + '; CREATE TABLE other (i int)', select_all('t'))
    pid = db.status()[0]['pid']
    with own_memory(db, 160_000_000):
        db.sql(SUBTRANSACTIONS)
        db.wait()
    expect_rows(db, {G: numbered(*((str(i), i) for i in range(20, 100001, 20) if i % 60))}, 'streamed')
    equal((db.status()[0]['pid'], db.status()[0]['last_error']), (pid, None))


@case('spilled: interleaved large transactions with subtransactions, one rolled back, one prepared; bounded memory')
def spilled(frame):
    db = frame.replicating('CREATE TABLE t (id text PRIMARY KEY, n int, v text)', select_all('t'), queue_size='1MB',
                           server={'logical_decoding_work_mem': '64kB'})
    slot = db.status()[0]['slot_name']

    def insert(name, part):
        return (f"INSERT INTO t SELECT '{name}{part}-' || i, i, repeat(md5(i::text), 30) FROM generate_series(1, 300) i")
    with own_memory(db, 64_000_000), contextlib.ExitStack() as stack:
        sessions = {name: stack.enter_context(session(db)) for name in 'abc'}
        for part in range(1, 5):
            for name, c in sessions.items():
                c.cursor().execute(f'SAVEPOINT s{part}')
                c.cursor().execute(insert(name, part))
                if part == 3:
                    c.cursor().execute(f'ROLLBACK TO s{part}')
            db.sql(f"INSERT INTO t VALUES ('between{part}', 0, '')")
        sessions['c'].cursor().execute("PREPARE TRANSACTION 'spilled'")
        sessions['b'].rollback()
        sessions['a'].commit()
        db.wait()
        db.sql("COMMIT PREPARED 'spilled'")
        db.wait()
    wait_until(lambda: (db.value('SELECT spill_txns FROM pg_stat_replication_slots WHERE slot_name = %s', (slot,)) or 0) >= 2, 30,
               'transactions were spilled')
    equal(sorted({row.split('-')[0] for _, _, row in db.reduced().all_rows()}),
          ['a1', 'a2', 'a4', 'between1', 'between2', 'between3', 'between4', 'c1', 'c2', 'c4'])
    seen = what_clients_see(db)
    equal(len(seen) - 1, 6 * 300 + 4, 'rows')
    check(seen == fresh(db, select_all('t')), 'a fresh stream differs')


@case('prepared: with DDL and subtransactions, behind a restart, beside others, with any name')
def prepared(frame):
    gid = "it''s \"p\" of {}"
    ways = Ways(frame, T + '; CREATE TABLE u (id text PRIMARY KEY, n int)', select_all('t', 'u'), ["INSERT INTO t VALUES ('0', 0)"])
    for db in ways.dbs.values():
        db.sql("BEGIN; ALTER TABLE t ADD b text; INSERT INTO t VALUES ('1', 1, 'x'); SAVEPOINT s; INSERT INTO t VALUES ('2', 2, 'y');"
               f"ROLLBACK TO s; INSERT INTO t VALUES ('3', 3, 'z'); PREPARE TRANSACTION '{gid.format(db.name)}'")
        db.sql("INSERT INTO u VALUES ('1', 1)")
        db.sql(f"BEGIN; INSERT INTO u VALUES ('2', 2); PREPARE TRANSACTION 'gone {db.name}'")
        settle(db)
        expect_rows(db, {G: numbered(('0', 0)) | numbered(('1', 1), table='u')}, 'prepared')
        restart_worker(db)
        db.sql("INSERT INTO u VALUES ('3', 3)")
        db.sql(f"ROLLBACK PREPARED 'gone {db.name}'")
        db.sql(f"COMMIT PREPARED '{gid.format(db.name)}'")
        db.sql("INSERT INTO t VALUES ('4', 4, 'v')")
    ways.end({('t', i): {'id': i, 'n': int(i), 'b': b} for i, b in (('0', None), ('1', 'x'), ('3', 'z'), ('4', 'v'))} |
             numbered(('1', 1), ('3', 3), table='u'), restarted=True)


# ---------------------------------------------------------------- open at the start

def shown(db, text):
    return wait_until(lambda: [s for s in db.status() if text in (s['waits_for'] or '')], 30,
                      lambda: f'waits for {text}: {db.status()}', 0.02)


@case('open_at_start: status names the process, or the prepared transaction')
def open_at_start(frame):
    db = frame.database(T)
    db.sql("BEGIN; INSERT INTO t VALUES ('1', 1); PREPARE TRANSACTION 'it''s prepared'")
    with contextlib.closing(Holder(db, "INSERT INTO t VALUES ('2', 2)").connection) as holder:
        stream = db.deploy(select_all('t'))
        db.start()
        waits_for(db, holder.info.backend_pid)
        shown(db, f'transaction of process {holder.info.backend_pid}')
        holder.commit()
    found = shown(db, 'prepared transaction')[0]
    equal((found['waits_for'], found['waits_for_pid']), ("prepared transaction 'it''s prepared'", None))
    db.sql("COMMIT PREPARED 'it''s prepared'")
    db.wait_served(stream)
    settle(db)
    expect_rows(db, {G: numbered(('1', 1), ('2', 2))}, 'at the end')
    equal((db.status()[0]['waits_for'], db.status()[0]['last_error']), (None, None))


@case('stuck_commit_prepared: one that is stuck behind a missing standby is named at the start')
def stuck_commit_prepared(frame):
    db = frame.database(T)
    db.sql("BEGIN; INSERT INTO t VALUES ('1', 1); PREPARE TRANSACTION 'stuck'")
    with stuck_commit(db, "COMMIT PREPARED 'stuck'"):
        db.sql('SET synchronous_commit = local; SELECT pgsync_deploy(%s); SELECT pgsync_start()', (select_all('t'),))
        shown(db, "prepared transaction 'stuck'")
    db.wait_served()
    settle(db)
    expect_rows(db, {G: numbered(('1', 1))}, 'at the end')


@case('stuck_commit_prepared_later: one that began and got stuck while the slot was made holds up the copy, and is named')
def stuck_commit_prepared_later(frame):
    """Its record lies before the slot's start, and no snapshot shows it yet: neither stream nor copy would bring it."""
    db = frame.database(T)
    with contextlib.ExitStack() as stack:
        with slot_in_second_step(db, lambda: (db.deploy(select_all('t')), db.start())):
            db.sql("BEGIN; INSERT INTO t VALUES ('1', 1); PREPARE TRANSACTION 'stuck'")
            stack.enter_context(stuck_commit(db, "COMMIT PREPARED 'stuck'"))
        found = shown(db, "prepared transaction 'stuck'")[0]
        equal((found['phase'], found['waits_for_pid']), ('copying', None))
    db.wait_served()
    settle(db)
    expect_rows(db, {G: numbered(('1', 1))}, 'at the end')
    equal(db.status()[0]['waits_for'], None)


# ---------------------------------------------------------------- DDL beside DML

@case('ddl_added: columns are added while transactions that write are open')
def concurrent_ddl(frame):
    ways = Ways(frame, 'CREATE TABLE a (id text PRIMARY KEY, n int); CREATE TABLE b (id text PRIMARY KEY, n int);'
                ' CREATE TABLE c (id text PRIMARY KEY, n int)', select_all('a', 'b', 'c'), ["INSERT INTO b VALUES ('0', 0)"])
    for db in ways.dbs.values():
        # the open transaction began before the DDL, and meets the table after it
        with session(db, "INSERT INTO a VALUES ('1', 1)") as c:
            db.sql('ALTER TABLE b ADD x text')
            c.cursor().execute("INSERT INTO b VALUES ('1', 1, 'x')")
            db.sql("BEGIN; INSERT INTO c VALUES ('1', 1); ALTER TABLE c ADD x text; INSERT INTO c VALUES ('2', 2, 'y'); COMMIT")
            c.cursor().execute("INSERT INTO c VALUES ('3', 3, 'z')")
            c.cursor().execute("UPDATE b SET x = 'u' WHERE id = '0'")
            c.commit()
        # two open ones, DDL in one of them, which is rolled back
        with session(db, "INSERT INTO a VALUES ('2', 2)") as c, \
                session(db, "INSERT INTO b VALUES ('2', 2, 'b')", 'ALTER TABLE c ADD gone text') as d:
            c.cursor().execute("INSERT INTO b VALUES ('3', 3, 'c')")
            d.cursor().execute("INSERT INTO c VALUES ('4', 4, 'z', 'gone')")
            d.rollback()
            c.cursor().execute("INSERT INTO c VALUES ('5', 5, 'w')")
            c.commit()

    def row(table, i, **columns):
        return {(table, str(i)): {'id': str(i), 'n': i, **columns}}
    ways.end(row('a', 1) | row('a', 2) | row('b', 0, x='u') | row('b', 1, x='x') | row('b', 3, x='c') | row('c', 1) | row('c', 2, x='y') |
             row('c', 3, x='z') | row('c', 5, x='w'))


@case('ddl_stale: beside open transactions, columns dropped, renamed, of another type')
def concurrent_ddl_stale(frame):
    ways = Ways(frame, 'CREATE TABLE a (id text PRIMARY KEY, n int); CREATE TABLE b (id text PRIMARY KEY, n int, m int, o int)',
                select_all('a', 'b'), ["INSERT INTO b VALUES ('0', 0, 0, 0)"])
    for db in ways.dbs.values():
        with session(db, "INSERT INTO a VALUES ('1', 1)") as c:
            db.sql('ALTER TABLE b DROP n')
            c.cursor().execute("INSERT INTO b VALUES ('1', 1, 1)")
            c.commit()
        with session(db, "INSERT INTO a VALUES ('2', 2)") as c:
            db.sql('ALTER TABLE b RENAME m TO p')
            c.cursor().execute("INSERT INTO b VALUES ('2', 2, 2)")
            c.commit()
        with session(db, "INSERT INTO a VALUES ('3', 3)") as c:
            db.sql("ALTER TABLE b ALTER o TYPE text USING 'o' || o")
            c.cursor().execute("INSERT INTO b VALUES ('3', 3, 'new')")
            c.cursor().execute('UPDATE b SET p = 9 WHERE id = %s', ('1',))
            c.commit()
    ways.end(numbered(('1', 1), ('2', 2), ('3', 3), table='a') |
             {('b', i): {'id': i, 'p': p, 'o': o} for i, p, o in (('0', 0, 'o0'), ('1', 9, 'o1'), ('2', 2, 'o2'), ('3', 3, 'new'))})


@case('published_meanwhile: an open transaction hears of a table that is published, and of one that is not any more')
def published_meanwhile(frame):
    ways = Ways(frame, T + '; CREATE TABLE u (id text PRIMARY KEY, n int)', select_all('t', 'u'), publication=False)
    # without a publication all are replicated; with one only its members
    ways.sql('CREATE PUBLICATION powersync FOR TABLE t')
    for db in ways.dbs.values():
        settle(db)
        with session(db, "INSERT INTO t VALUES ('1', 1)") as c:
            db.sql('ALTER PUBLICATION powersync ADD TABLE u')
            c.cursor().execute("INSERT INTO u VALUES ('1', 1)")
            c.cursor().execute("INSERT INTO t VALUES ('2', 2)")
            c.commit()
        db.sql("INSERT INTO u VALUES ('2', 2)")
    ways.expect(numbered(('1', 1), ('2', 2)) | numbered(('1', 1), ('2', 2), table='u'), 'published')
    for db in ways.dbs.values():
        with session(db, "INSERT INTO t VALUES ('3', 3)") as c:
            db.sql('ALTER PUBLICATION powersync DROP TABLE u')
            c.cursor().execute("INSERT INTO u VALUES ('3', 3)")
            c.commit()
    ways.end(numbered(('1', 1), ('2', 2), ('3', 3)))


@case('published_across: rows that an open transaction wrote before their table was published, or stopped being')
def published_across(frame):
    """Neither change of a publication waits for who writes the table: decoding sees such rows under the older catalog."""
    ways = Ways(frame, T + """; CREATE TABLE u (id text PRIMARY KEY, n int); CREATE TABLE v (id text PRIMARY KEY, n int);
                CREATE TABLE w (id text PRIMARY KEY, n int); CREATE PUBLICATION powersync FOR TABLE t, v, w""", select_all('t', 'u', 'v', 'w'),
                ["INSERT INTO u VALUES ('0', 0)", "INSERT INTO v VALUES ('0', 0)"], publication=False)
    for db in ways.dbs.values():
        with session(db, "INSERT INTO u VALUES ('1', 1)", "INSERT INTO v VALUES ('1', 1)", "UPDATE u SET n = 5 WHERE id = '0'") as c, \
                session(db, 'CREATE TEMP TABLE own (i int)', "INSERT INTO u VALUES ('2', 2)", "INSERT INTO v VALUES ('2', 2)") as d:
            db.sql("BEGIN; INSERT INTO u VALUES ('3', 3); INSERT INTO v VALUES ('3', 3); PREPARE TRANSACTION 'across " + db.name + "'")
            db.sql('ALTER PUBLICATION powersync ADD TABLE u')
            db.sql('ALTER PUBLICATION powersync DROP TABLE v')
            settle(db)
            d.cursor().execute("INSERT INTO t VALUES ('1', 1)")
            c.commit()
            d.commit()
            db.sql("COMMIT PREPARED 'across " + db.name + "'")
        db.sql("INSERT INTO w VALUES ('1', 1)")
    ways.end(numbered(('1', 1)) | numbered(('0', 5), ('1', 1), ('2', 2), ('3', 3), table='u') | numbered(('1', 1), table='w'))


@case('schema_renamed_across: rows that an open transaction wrote before their schema got its name, or lost it')
def schema_renamed_across(frame):
    ways = Ways(frame, """CREATE SCHEMA a; CREATE SCHEMA b; CREATE TABLE a.t (id text PRIMARY KEY, n int);
                CREATE TABLE b.t (id text PRIMARY KEY, n int)""", select_all('a.t'), ["INSERT INTO a.t VALUES ('0', 0)", "INSERT INTO b.t VALUES ('9', 9)"])
    for db in ways.dbs.values():
        with session(db, "INSERT INTO a.t VALUES ('1', 1)", "INSERT INTO b.t VALUES ('8', 8)") as c:
            db.sql('BEGIN; ALTER SCHEMA a RENAME TO gone; ALTER SCHEMA b RENAME TO a; COMMIT')
            settle(db)
            c.cursor().execute("INSERT INTO a.t VALUES ('7', 7)")
            c.commit()
    ways.end(numbered(('9', 9), ('8', 8), ('7', 7)))


@case('type_renamed_across: rows with a label, or an attribute, that gets another name before they are committed')
def type_renamed_across(frame):
    rules = 'config:\n  edition: 2\n' + select_all('t')
    ways = Ways(frame, "CREATE TYPE mood AS ENUM ('sad', 'happy'); CREATE TYPE pair AS (a int, m mood);"
                'CREATE TABLE t (id text PRIMARY KEY, m mood, p pair)', rules, ["INSERT INTO t VALUES ('0', 'sad', ROW(0, 'sad'))"])
    for db in ways.dbs.values():
        with session(db, "INSERT INTO t VALUES ('1', 'sad', ROW(1, 'sad'))") as c:
            db.sql("BEGIN; INSERT INTO t VALUES ('2', 'sad', ROW(2, 'sad')); PREPARE TRANSACTION 'across " + db.name + "'")
            db.sql("ALTER TYPE mood RENAME VALUE 'sad' TO 'blue'")
            db.sql('ALTER TYPE pair RENAME ATTRIBUTE a TO b')
            settle(db)
            c.commit()
            db.sql("COMMIT PREPARED 'across " + db.name + "'")
    ways.end({('t', i): {'id': i, 'm': 'blue', 'p': f'{{"b":{i},"m":"blue"}}'} for i in '012'})


@case('publication_gone: dropped, made again, renamed: its tables come and go, and status tells')
def publication_gone(frame):
    ways = Ways(frame, T + '; CREATE TABLE u (id text PRIMARY KEY, n int); CREATE PUBLICATION powersync FOR TABLE t', select_all('t', 'u'),
                ["INSERT INTO t VALUES ('1', 1)", "INSERT INTO u VALUES ('1', 1)"], publication=False)
    t, u = numbered(('1', 1)), numbered(('1', 1), table='u')
    ways.expect(t, 'at first')
    ways.sql('DROP PUBLICATION powersync')
    ways.expect(t | u, 'dropped')
    for db in ways.dbs.values():
        check('does not exist' in (db.status()[0]['hint'] or ''), db.status())
    ways.sql('CREATE PUBLICATION powersync FOR TABLE u')
    ways.expect(u, 'made again')
    for db in ways.dbs.values():
        check('does not exist' not in (db.status()[0]['hint'] or ''), db.status())
    ways.sql('ALTER PUBLICATION powersync RENAME TO other')
    ways.expect(t | u, 'renamed')
    ways.sql('BEGIN; ALTER PUBLICATION other RENAME TO powersync; ALTER PUBLICATION powersync ADD TABLE t; COMMIT')
    ways.end(t | u)


@case('made_then_met: a table that was made under the stream and comes under the rules later: its rows come along')
def made_then_met(frame):
    ways = Ways(frame, T + '; CREATE PUBLICATION powersync FOR TABLE t', select_all('t', 'u', 'v', 'w', 'x'), ["INSERT INTO t VALUES ('0', 0)"],
                publication=False)
    ways.sql('CREATE TABLE u (id text PRIMARY KEY, n int)', "INSERT INTO u VALUES ('1', 1)", 'ALTER PUBLICATION powersync ADD TABLE u',
             "INSERT INTO u VALUES ('2', 2)",
             'CREATE TABLE other (id text PRIMARY KEY, n int)', 'ALTER PUBLICATION powersync ADD TABLE other', "INSERT INTO other VALUES ('1', 1)",
             'ALTER TABLE other RENAME TO v', "INSERT INTO v VALUES ('2', 2)",
             'CREATE UNLOGGED TABLE w (id text PRIMARY KEY, n int)', "INSERT INTO w VALUES ('1', 1)", 'ALTER TABLE w SET LOGGED',
             'ALTER PUBLICATION powersync ADD TABLE w', "INSERT INTO w VALUES ('2', 2)",
             "BEGIN; CREATE TABLE x (id text PRIMARY KEY, n int); INSERT INTO x VALUES ('1', 1); SAVEPOINT s; ALTER PUBLICATION powersync ADD TABLE x;"
             "INSERT INTO x VALUES ('2', 2); COMMIT")
    ways.end(numbered(('0', 0)) | {key: row for table in 'uvwx' for key, row in numbered(('1', 1), ('2', 2), table=table).items()})


@case('made_with_rows: tables that are made with their rows, with the key in time or later')
def made_with_rows(frame):
    names = ['a', 'b', 'c', 'd', 'e', 'f']
    ways = Ways(frame, T, select_all('t', *names), ["INSERT INTO t SELECT i::text, i FROM generate_series(1, 3) i"])
    ways.sql('BEGIN; CREATE TABLE a AS SELECT * FROM t; ALTER TABLE a ADD PRIMARY KEY (id); UPDATE a SET n = n + 10; COMMIT',
             'CREATE TABLE b AS SELECT * FROM t', 'ALTER TABLE b ADD PRIMARY KEY (id)', 'UPDATE b SET n = n + 10',
             'SELECT * INTO c FROM t', 'ALTER TABLE c REPLICA IDENTITY FULL', 'UPDATE c SET n = n + 10',
             'CREATE TABLE d (LIKE t INCLUDING ALL)', 'INSERT INTO d SELECT * FROM t', 'UPDATE d SET n = n + 10',
             "BEGIN; CREATE TABLE e () INHERITS (t); ALTER TABLE e ADD PRIMARY KEY (id); INSERT INTO e SELECT id, n + 10 FROM ONLY t; COMMIT",
             'BEGIN; CREATE TABLE f (id text PRIMARY KEY, n int); SAVEPOINT s; INSERT INTO f SELECT * FROM ONLY t; ROLLBACK TO s;'
             'INSERT INTO f SELECT id, n + 10 FROM ONLY t; SAVEPOINT s; DROP TABLE f; ROLLBACK TO s; ALTER TABLE f ADD x int DEFAULT 5; COMMIT')
    rows = {('t', str(i)): {'id': str(i), 'n': i} for i in range(1, 4)}
    for name in names:
        rows |= {(name, str(i)): {'id': str(i), 'n': i + 10, **({'x': 5} if name == 'f' else {})} for i in range(1, 4)}
    ways.end(rows)


@case('types_within: types that are made, changed and used within one transaction, in savepoints')
def types_within(frame):
    ways = Ways(frame, T + '; CREATE TABLE u (id text PRIMARY KEY)', select_all('t', 'u'), ["INSERT INTO t VALUES ('0', 0)"])
    ways.sql("BEGIN; CREATE TYPE mood AS ENUM ('sad'); SAVEPOINT s; ALTER TYPE mood RENAME VALUE 'sad' TO 'gone'; ROLLBACK TO s;"
             "ALTER TABLE t ADD m mood; INSERT INTO t VALUES ('1', 1, 'sad'); ALTER TYPE mood ADD VALUE 'happy';"
             "CREATE DOMAIN small AS int CHECK (VALUE < 100); CREATE TYPE pair AS (a small, m mood); ALTER TABLE u ADD p pair, ADD d small;"
             "INSERT INTO u VALUES ('1', ROW(7, 'sad'), 9); SAVEPOINT s; ALTER TABLE u ADD x mood; INSERT INTO u VALUES ('2', NULL, 3, 'sad');"
             "ROLLBACK TO s; INSERT INTO u VALUES ('3', NULL, 4); COMMIT",
             "INSERT INTO u VALUES ('4', ROW(8, 'happy'), 5)", "INSERT INTO t VALUES ('2', 2, 'happy')")
    ways.end(numbered(('0', 0)) | {('t', i): {'id': i, 'n': n, 'm': m} for i, n, m in (('1', 1, 'sad'), ('2', 2, 'happy'))} |
             {('u', i): {'id': i, 'p': p, 'd': d} for i, p, d in (('1', '(7,sad)', '9'), ('3', None, '4'), ('4', '(8,happy)', '5'))})


LATE = ["INSERT INTO a VALUES ('1', 1)", 'ALTER TABLE a ADD x text', "INSERT INTO a VALUES ('2', 2, 'x')", 'ALTER TABLE a ADD y int',
        "BEGIN; UPDATE a SET y = 3 WHERE id = '2'; ALTER TABLE a ADD z text; UPDATE a SET z = 'z' WHERE id = '1'; COMMIT",
        "CREATE TABLE b (id text PRIMARY KEY, n int); INSERT INTO b VALUES ('1', 1)", 'DROP TABLE b',
        "CREATE TABLE b (n int, id text PRIMARY KEY)", "INSERT INTO b VALUES (2, '2')", 'TRUNCATE c', "INSERT INTO c VALUES ('9', 9)",
        'ALTER TABLE c RENAME TO gone', "INSERT INTO gone VALUES ('8', 8)", "CREATE TABLE c (id text PRIMARY KEY, n int)", "INSERT INTO c VALUES ('7', 7)"]
LATE_STALE = ['ALTER TABLE a DROP x', "INSERT INTO a VALUES ('4', 4, 4, 'z')", 'ALTER TABLE a RENAME n TO m', 'UPDATE a SET m = 5 WHERE id = $$2$$',
              'ALTER TABLE a ALTER y TYPE text USING y + 1', "INSERT INTO a VALUES ('5', 5, '5')", 'ALTER TABLE c ALTER n SET DATA TYPE bigint',
              'ALTER TABLE c DROP n', 'ALTER TABLE c ADD n text', "INSERT INTO c VALUES ('6', 'six')", 'DROP TABLE a CASCADE',
              "CREATE TABLE a (z int, id text PRIMARY KEY)", "INSERT INTO a VALUES (1, '1')"]
CATALOGS = ['VACUUM FULL pg_class', 'VACUUM FULL pg_attribute', 'VACUUM FULL pg_type', 'VACUUM FULL pg_index', 'VACUUM FULL pg_namespace',
            'REINDEX TABLE pg_class', 'CLUSTER pg_attribute USING pg_attribute_relid_attnum_index', 'VACUUM pg_catalog.pg_attrdef']


def decoded_late(frame, statements, expected):
    """While nobody decodes, catalogs are changed, and then written anew: decoding maps old rows to where they are now."""
    ways = Ways(frame, '; '.join(f'CREATE TABLE {t} (id text PRIMARY KEY, n int)' for t in 'ac'), select_all('a', 'b', 'c'),
                ["INSERT INTO a VALUES ('0', 0)", "INSERT INTO c VALUES ('0', 0)"])
    for db in ways.dbs.values():
        stopped(db)
        ways.run(db, [*statements, *CATALOGS, "INSERT INTO c VALUES ('late')"])
        db.start()
    ways.end(expected, restarted=True)


def late_row(table, i, **columns):
    return {(table, i): {'id': i, **columns}}


@case('decoded_late: behind columns that were added, tables made again, and catalogs written anew')
def decoded_late_added(frame):
    decoded_late(frame, LATE, late_row('a', '0', n=0) | late_row('a', '1', n=1, z='z') | late_row('a', '2', n=2, x='x', y=3) |
                 late_row('b', '2', n=2) | late_row('c', '7', n=7) | late_row('c', 'late'))


@case('decoded_late_stale: the same, and columns dropped, renamed, of another type')
def decoded_late_stale(frame):
    decoded_late(frame, LATE + LATE_STALE, late_row('a', '1', z=1) | late_row('b', '2', n=2) | late_row('c', '7') | late_row('c', '6', n='six') |
                 late_row('c', 'late'))


@case('locked_rows: rows that several transactions have locked, then changed in subtransactions')
def locked_rows(frame):
    ways = Ways(frame, T, select_all('t'), ["INSERT INTO t SELECT i::text, i FROM generate_series(1, 3) i"])
    for db in ways.dbs.values():
        with session(db, 'SELECT * FROM t FOR KEY SHARE') as c, session(db, 'SELECT * FROM t FOR KEY SHARE', 'SAVEPOINT s') as d:
            d.cursor().execute("UPDATE t SET n = 10 WHERE id = '1'")
            c.cursor().execute('SAVEPOINT s')
            c.cursor().execute("UPDATE t SET n = 20 WHERE id = '2'")
            c.cursor().execute('ROLLBACK TO s')
            c.cursor().execute("UPDATE t SET n = 30 WHERE id = '3'")
            d.commit()
            c.commit()
    ways.end(numbered(('1', 10), ('2', 2), ('3', 30)))


# ---------------------------------------------------------------- decoding resumed in the middle

RESUMED = """CREATE TABLE t (id text PRIMARY KEY, n int); CREATE TABLE truncated (id text PRIMARY KEY, n int);
    CREATE TABLE altered (id text PRIMARY KEY, n int); CREATE TYPE pair AS (a int, b text);
    CREATE TABLE composite (id text PRIMARY KEY, n pair); CREATE TABLE unrelated (i int); CREATE TABLE shared (id text PRIMARY KEY, n int);
    INSERT INTO truncated VALUES ('old', 0), ('older', 0); INSERT INTO altered VALUES ('old', 0); INSERT INTO shared VALUES ('old', 0)"""


@case('resumed: decoding begins again in the middle of transactions, at a snapshot from disk')
def resumed(frame):
    """
    The slot's restart position gets to where a transaction had changed catalogs
    already, and had not committed yet; another, which meets what that changed, is
    open across it.  Then the worker begins again, twice, while further ones are open:
    one has subtransactions only, so that no record of its own names its top, others
    are rolled back in part, prepared, or lock rows together.
    """
    rules = select_all('t', 'truncated', 'altered', 'composite', 'shared')
    db = frame.replicating(RESUMED, rules)
    pid = db.status()[0]['pid']

    def now():
        return lsn_number(db.value('SELECT pg_current_wal_insert_lsn()'))

    def restart_position():
        """A checkpoint writes which transactions run; where the slot may begin follows from the one before."""
        db.sql('CHECKPOINT')
        db.sql('INSERT INTO unrelated VALUES (1)')
        return lsn_number(db.value('SELECT restart_lsn FROM pg_replication_slots WHERE database = current_database()'))

    with contextlib.ExitStack() as stack:
        def begin(*statements):
            return stack.enter_context(session(db, *statements))
        altering = begin('SAVEPOINT s', 'ALTER TABLE altered ADD x text', 'TRUNCATE truncated', 'RELEASE s',
                         "INSERT INTO altered VALUES ('new', 1, 'x')")
        first = now()
        db.sql('CHECKPOINT')
        db.wait()
        altering.cursor().execute("INSERT INTO truncated VALUES ('new', 1)")
        altering.commit()
        writing = begin("INSERT INTO altered VALUES ('newer', 2, 'y')", 'SELECT id FROM shared FOR KEY SHARE')
        committed = now()
        wait_until(lambda: first <= restart_position() < committed, 60,
                   lambda: f'the slot restarts between {first:X} and {committed:X}: {restart_position():X}', 0.5)
        without_top = begin('SAVEPOINT s', "INSERT INTO t VALUES ('a1', 1)")
        composite = begin("INSERT INTO composite VALUES ('1', ROW(1, 'x'))")
        locking = begin('SELECT id FROM shared FOR KEY SHARE', 'SAVEPOINT s', 'UPDATE shared SET n = 1')
        rolled = begin("INSERT INTO t VALUES ('c1', 1)", 'SAVEPOINT s', "INSERT INTO t VALUES ('c2', 1)")
        begin("INSERT INTO t VALUES ('d1', 1)", 'SAVEPOINT s', "INSERT INTO t VALUES ('d2', 2)", "PREPARE TRANSACTION 'resumed'")
        restart_worker(db)
        for i in range(100):
            without_top.cursor().execute(f'SAVEPOINT s{i}')
            without_top.cursor().execute(f"INSERT INTO t VALUES ('a1{i}', {i})")
        writing.cursor().execute("INSERT INTO t VALUES ('b1', 1)")
        writing.cursor().execute("INSERT INTO altered VALUES ('newest', 3, 'z')")
        rolled.cursor().execute('ROLLBACK TO s')
        db.sql('CHECKPOINT')
        db.wait()
        restart_worker(db)
        for c in (locking, writing, without_top, rolled, composite):
            c.commit()
        db.sql("COMMIT PREPARED 'resumed'")
    settle(db)
    expected = numbered(('a1', 1), *((f'a1{i}', i) for i in range(100)), ('b1', 1), ('c1', 1), ('d1', 1), ('d2', 2)) | \
        numbered(('new', 1), table='truncated') | numbered(('old', 1), table='shared') | \
        {('altered', i): {'id': i, 'n': n, 'x': x} for i, n, x in (('old', 0, None), ('new', 1, 'x'), ('newer', 2, 'y'), ('newest', 3, 'z'))} | \
        {('composite', '1'): {'id': '1', 'n': '(1,x)'}}
    expect_rows(db, {G: expected}, 'at the end')
    check(db.status()[0]['pid'] != pid, 'the worker was not restarted')
    seen, other = what_clients_see(db), fresh(db, rules)
    check(seen == other, lambda: f'a fresh stream differs:\n{difference(seen, other)}')
