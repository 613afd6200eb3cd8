"""tables.py - tables that change under the stream, and rows that have to be read again."""
import contextlib
import json
import threading

import oracle
from frame import case, global_rules, select_all
from suite import check, equal, wait_until

ALL = global_rules('SELECT id, n FROM t')


def visible(db):
    """What clients see of table t: {id: n}; None while nothing is served."""
    if not db.served():
        return None
    return {row['id']: row['n'] for row in map(json.loads, db.reduced().all_rows().values())}


def settle(db, expected):
    """Also over the replacement of the stream by another one."""
    wait_until(lambda: visible(db) == expected, 60,
               lambda: f'{visible(db)} instead of {expected}; {db.status()}', 0.05)
    # collections are read one after the other while a new stream may be written: what is wrong stays so
    wait_until(lambda: not oracle.problems(db.mongo), 30, lambda: str(oracle.problems(db.mongo)[:8]), 0.05)


def restart_worker(db):
    """The worker ends and comes back; nothing of it is left but what is stored."""
    old = db.status()[0]['pid']
    db.sql('SELECT pg_terminate_backend(%s)', (old,))
    wait_until(lambda: [s for s in db.status() if s['pid'] not in (None, old)], 30, lambda: db.status(), 0.05)


def stopped(db):
    pid = db.status()[0]['pid']
    db.stop()
    wait_until(lambda: not db.cluster.value(f'SELECT count(*) FROM pg_stat_activity WHERE pid = {pid}'), 30,
               'the worker ends', 0.02)


def copied_again(frame, since):
    """How many copies under the stream were begun since this place in the log."""
    return frame.cluster.log(since).count('pgsync will copy table')


@case('a key that is stored out of line')
def key_out_of_line(frame):
    for identity in ('DEFAULT', 'USING INDEX t_id_idx'):
        db = frame.replicating('CREATE TABLE t (id text NOT NULL, n int); CREATE UNIQUE INDEX t_id_idx ON t (id);'
                               ' ALTER TABLE t ADD PRIMARY KEY (id); ALTER TABLE t ALTER id SET STORAGE EXTERNAL;'
                               f' ALTER TABLE t REPLICA IDENTITY {identity}', ALL)
        key, other = 'k' * 2400, 'o' * 2400
        db.sql('INSERT INTO t VALUES (%s, 1)', (key,))
        db.sql('UPDATE t SET n = 2')
        db.wait()
        equal(visible(db), {key: 2}, identity)
        db.sql('UPDATE t SET id = %s', (other,))
        db.sql('UPDATE t SET n = 3')
        db.wait()
        equal(visible(db), {other: 3}, identity)
        stopped(db)
        db.sql('UPDATE t SET n = 4')
        db.sql('DELETE FROM t')
        db.sql('VACUUM t')
        db.start()
        db.wait()
        equal(visible(db), {}, identity)


@case('another replica identity copies the table again')
def identity_changed(frame):
    db = frame.database('CREATE TABLE t (id text PRIMARY KEY, k int NOT NULL UNIQUE, n int)')
    db.sql('INSERT INTO t SELECT i::text, i, 0 FROM generate_series(1, 5) i')
    db.deploy(ALL)
    db.start()
    db.wait_served()
    stream = db.served().stream
    db.sql('ALTER TABLE t REPLICA IDENTITY USING INDEX t_k_key')
    db.sql("UPDATE t SET n = 1 WHERE id = '1'")
    settle(db, {'1': 1, '2': 0, '3': 0, '4': 0, '5': 0})
    equal(db.served().stream, stream, 'the stream goes on')


@case('a table renamed in brings its rows; one dropped or renamed away takes them')
def renamed_in(frame):
    db = frame.database('CREATE TABLE t (id text PRIMARY KEY, n int); CREATE TABLE t_new (id text PRIMARY KEY, n int)')
    db.sql('INSERT INTO t SELECT i::text, 0 FROM generate_series(1, 5) i')
    db.deploy(ALL)
    db.start()
    db.wait_served()
    before = db.served().stream
    db.sql('INSERT INTO t_new SELECT i::text, 7 FROM generate_series(1, 4) i')
    db.sql('BEGIN; ALTER TABLE t RENAME TO t_old; ALTER TABLE t_new RENAME TO t; COMMIT')
    settle(db, {'1': 7, '2': 7, '3': 7, '4': 7})
    db.sql('ALTER TABLE t RENAME TO t_older')
    settle(db, {})
    db.sql('CREATE TABLE t (id text PRIMARY KEY, n int)')
    log = frame.cluster.log_position()
    db.sql("INSERT INTO t VALUES ('new', 1)")
    settle(db, {'new': 1})
    equal(copied_again(frame, log), 0, 'a table created under the stream needs no copy')
    db.sql('DROP TABLE t')
    settle(db, {})
    equal(db.served().stream, before, 'the stream goes on')


@case('a table that leaves the publication loses its rows; a row filter is refused')
def publication_changed(frame):
    db = frame.database('CREATE TABLE t (id text PRIMARY KEY, n int)', publication=False)
    db.sql('CREATE PUBLICATION powersync FOR TABLE t')
    db.sql("INSERT INTO t VALUES ('a', 0), ('b', 0)")
    db.deploy(ALL)
    db.start()
    db.wait_served()
    db.sql('ALTER PUBLICATION powersync DROP TABLE t')
    settle(db, {})
    db.sql('ALTER PUBLICATION powersync ADD TABLE t')
    settle(db, {'a': 0, 'b': 0})
    db.sql('ALTER PUBLICATION powersync SET TABLE t WHERE (n < 5)')
    db.sql("INSERT INTO t VALUES ('secret', 9)")
    found = wait_until(lambda: [s for s in db.status() if s['last_error'] and 'row filter' in s['last_error']], 30,
                       lambda: db.status(), 0.05)
    check(found[0]['last_error_sqlstate'] == '0A000' and found[0]['hint'], found)
    check('secret' not in (visible(db) or {}), 'a row that the publication hides was delivered')


@case('a table that comes under a wildcard with rows brings them')
def under_a_wildcard(frame):
    db = frame.database("""CREATE SCHEMA s; CREATE TABLE w_1 (id text PRIMARY KEY, n int);
        CREATE TABLE other (id text PRIMARY KEY, n int); CREATE TABLE s.w_2 (id text PRIMARY KEY, n int);
        CREATE UNLOGGED TABLE w_3 (id text PRIMARY KEY, n int); CREATE TABLE w_4 (id text PRIMARY KEY, n int);
        INSERT INTO w_1 VALUES ('1', 1); INSERT INTO other VALUES ('2', 2); INSERT INTO s.w_2 VALUES ('3', 3);
        INSERT INTO w_3 VALUES ('4', 4); INSERT INTO w_4 VALUES ('5', 5)""", publication=False)
    db.sql('CREATE PUBLICATION powersync FOR TABLE w_1, other, s.w_2')
    db.deploy(global_rules('SELECT id, n FROM "w_%"'))
    db.start()
    db.wait_served()
    expected = {'1': 1}
    settle(db, expected)
    before = db.served().stream
    for statement, row in (('ALTER TABLE other RENAME TO w_other', '2'), ('ALTER TABLE s.w_2 SET SCHEMA public', '3'),
                           ('ALTER TABLE w_3 SET LOGGED; ALTER PUBLICATION powersync ADD TABLE w_3', '4'),
                           ('ALTER PUBLICATION powersync ADD TABLE w_4', '5')):
        db.sql(statement)
        expected[row] = int(row)
        settle(db, expected)
    db.sql('BEGIN; CREATE TEMP TABLE w_temp (id text PRIMARY KEY, n int); INSERT INTO w_temp VALUES (\'9\', 9); COMMIT')
    log = frame.cluster.log_position()
    db.sql("CREATE TABLE w_new (id text PRIMARY KEY, n int); ALTER PUBLICATION powersync ADD TABLE w_new; INSERT INTO w_new VALUES ('6', 6)")
    settle(db, {**expected, '6': 6})
    equal(copied_again(frame, log), 0, 'a table created under the stream needs no copy')
    equal(db.served().stream, before, 'the stream goes on')


@case('stale: a rename is seen after a restart, a new enum label is none')
def staleness(frame):
    db = frame.database("CREATE TYPE e AS ENUM ('a', 'c'); CREATE TABLE t (id text PRIMARY KEY, n int, v e)")
    db.sql("INSERT INTO t VALUES ('1', 1, 'a')")
    db.deploy(global_rules('SELECT * FROM t'))
    db.start()
    db.wait_served()
    log = frame.cluster.log_position()
    db.sql("ALTER TYPE e ADD VALUE 'b' BEFORE 'c'")
    db.sql("INSERT INTO t VALUES ('2', 2, 'b')")
    db.sql('ALTER TABLE t ADD b text')
    db.sql("UPDATE t SET b = 'x'")
    db.wait()
    equal(copied_again(frame, log), 0, 'nothing is stale yet')
    restart_worker(db)
    db.wait()
    db.sql('ALTER TABLE t RENAME b TO c')
    db.sql("INSERT INTO t VALUES ('3', 3, 'c', 'y')")
    wait_until(lambda: sorted(json.loads(row).get('c') or '' for row in db.reduced().all_rows().values()) == ['x', 'x', 'y'], 60,
               lambda: db.reduced().all_rows(), 0.02)
    equal(copied_again(frame, log), 1, 'a renamed column')


@case('stale: ALTER TABLE wrote the table anew, and its shape does not tell')
def rewritten(frame):
    commands = {
        'ALTER TABLE t ADD b uuid DEFAULT gen_random_uuid()': True,
        'ALTER TABLE t ALTER n TYPE int USING n + 1': True,
        'VACUUM FULL t': False,
        'CLUSTER t USING t_pkey': False,
        'ALTER TABLE t ADD b int': False}
    if frame.cluster.value('SHOW server_version_num') >= '170000':
        commands['ALTER TABLE t ALTER g SET EXPRESSION AS (id || 2)'] = True
    for command, expected in commands.items():
        db = frame.replicating("CREATE TABLE t (id text PRIMARY KEY, n int, g text GENERATED ALWAYS AS (id || 1) STORED);"
                               " INSERT INTO t VALUES ('a', 1)", ALL)
        log = frame.cluster.log_position()
        db.sql(command)
        db.wait()
        equal(copied_again(frame, log), int(expected), command)
        settle(db, dict(db.sql('SELECT id, n FROM t')))


@case('a table that gets another access method leaves, and nothing of it is called stale')
def another_access_method(frame):
    db = frame.replicating("CREATE ACCESS METHOD heap2 TYPE TABLE HANDLER heap_tableam_handler;"
                           " CREATE TABLE t (id text PRIMARY KEY, n int); INSERT INTO t VALUES ('a', 1)", ALL)
    stream, log = db.served().stream, frame.cluster.log_position()
    db.sql('ALTER TABLE t SET ACCESS METHOD heap2')
    settle(db, {})
    equal(db.served().stream, stream)
    equal(copied_again(frame, log), 0)


@case('tables without identity: inserts, and a word about the rest')
def no_identity(frame):
    db = frame.database('CREATE TABLE t (id text, n int)', publication=False)
    db.deploy(ALL)
    db.start()
    db.wait_served()
    db.sql("INSERT INTO t VALUES ('a', 0), ('b', 0)")
    restart_worker(db)
    db.wait()
    equal(visible(db), {'a': 0, 'b': 0})
    check('no replica identity' in (db.status()[0]['hint'] or ''), db.status())
    db.sql("UPDATE t SET n = 5 WHERE id = 'a'")
    db.wait()
    check('do not reach the buckets' in (db.status()[0]['hint'] or ''), db.status())
    restart_worker(db)
    wait_until(lambda: 'do not reach the buckets' in (db.status()[0]['hint'] or ''), 30, lambda: str(db.status()))


@case('a row whose stored copy is missing is read again, whatever its key is')
def read_again(frame):
    for key in ('text', 'ltree', 'int[]'):
        db = frame.database('CREATE EXTENSION ltree; CREATE TABLE t '
                            f'(k {key} PRIMARY KEY, id text, n int, v text); ALTER TABLE t ALTER v SET STORAGE EXTERNAL;'
                            ' ALTER TABLE t REPLICA IDENTITY FULL')
        value = '{1,2}' if key == 'int[]' else 'a.b'
        db.sql(f"INSERT INTO t VALUES ('{value}', '1', 1, repeat('v', 5000))")
        db.deploy(ALL)
        db.start()
        db.wait_served()
        db.sql('ALTER TABLE t REPLICA IDENTITY DEFAULT')
        db.sql('UPDATE t SET n = 2')
        settle(db, {'1': 2})
        check(db.status()[0]['rereads'] > 0, db.status())
        stopped(db)
        db.sql('UPDATE t SET n = 3')
        db.sql('ALTER TABLE t ADD extra int')
        db.start()
        settle(db, {'1': 3})


def needs_rereads(frame, count, key='i::text', **options):
    """A table whose rows are stored without a copy of their out-of-line values, so that a change asks for the row."""
    db = frame.database('CREATE TABLE t (id text PRIMARY KEY, n int, v text);'
                        ' ALTER TABLE t ALTER id SET STORAGE PLAIN; ALTER TABLE t ALTER v SET STORAGE EXTERNAL;'
                        ' ALTER TABLE t REPLICA IDENTITY FULL', **options)
    db.sql(f"INSERT INTO t SELECT {key}, 1, repeat('v', 3000) FROM generate_series(1, {count}) i")
    stream = db.deploy(ALL)
    db.start()
    db.wait_served(stream)
    db.sql('ALTER TABLE t REPLICA IDENTITY DEFAULT')
    return db


@case('a row is read again only when the commit that asks for it is visible')
def straggling_reread(frame):
    db = needs_rereads(frame, 2)
    pid = db.status()[0]['pid']

    def standby(name):
        frame.cluster.sql(f"ALTER SYSTEM SET synchronous_standby_names = '{name}'")
        frame.cluster.sql('SELECT pg_reload_conf()')
        wait_until(lambda: frame.cluster.value('SHOW synchronous_standby_names') == name, 30, 'the setting', 0.01)
    standby('nobody')
    try:
        with contextlib.closing(db.connect()) as c:
            thread = threading.Thread(target=lambda: c.cursor().execute(
                "BEGIN; UPDATE t SET n = 2 WHERE id = '1'; UPDATE t SET id = '3' WHERE id = '2'; COMMIT"))
            thread.start()
            try:
                wait_until(lambda: db.status()[0]['rereads'] == 2, 30, lambda: db.status(), 0.01)
                wait_until(lambda: db.status()[0]['waits_for_pid'] == c.info.backend_pid, 30, lambda: db.status(), 0.01)
            finally:
                standby('')
                thread.join(60)
    finally:
        standby('')
    db.wait()
    equal(visible(db), {'1': 2, '3': 1})
    equal(db.status()[0]['pid'], pid, 'the worker went on')


@case('a transaction asks for more rows to be read again than there is memory for: the table is copied again')
def too_many_rereads(frame):
    db = needs_rereads(frame, 3000, "lpad(i::text, 1500, '-')", queue_size='1MB')
    stream, log = db.served().stream, frame.cluster.log_position()
    db.sql('UPDATE t SET n = 2 WHERE id > lpad(%s, 1500, %s)', ('2800', '-'))
    db.wait()
    equal(copied_again(frame, log), 0, 'a few rows are read again')
    equal(sorted(visible(db).values()), [1] * 2800 + [2] * 200)
    db.sql('UPDATE t SET n = 3')
    wait_until(lambda: 'pgsync has copied table' in frame.cluster.log(log), 90, lambda: db.status(), 0.05)
    check('had to be read again' in frame.cluster.log(log), 'the reason is not in the log')
    wait_until(lambda: set(visible(db).values()) == {3}, 60, lambda: db.status(), 0.05)
    rereads = db.status()[0]['rereads']
    db.sql('UPDATE t SET n = 4')
    db.wait()
    equal((len(visible(db)), set(visible(db).values())), (3000, {4}))
    equal(db.status()[0]['rereads'], rereads, 'the copy has stored a copy of each row')
    equal(db.served().stream, stream, 'the stream goes on')


@contextlib.contextmanager
def own_memory(db, most):
    """In the block the worker's own memory, without shared buffers, stays below this, in bytes."""
    seen, ended = [], threading.Event()

    def look():
        while not ended.wait(0.001):
            with contextlib.suppress(OSError, StopIteration), open(f'/proc/{pid}/status') as f:
                seen.append(next(int(line.split()[1]) * 1024 for line in f if line.startswith('RssAnon:')))
    pid = wait_until(lambda: db.status()[0]['pid'], 30, lambda: db.status(), 0.001)
    thread = threading.Thread(target=look)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
    check(seen and max(seen) < most, lambda: f'the worker used {max(seen, default=None)} bytes')


@case('a whole row as identity that is too large: rejected unread, its old version removed, found again when it fits')
def too_large_identity(frame):
    large = "repeat('x', 60000000)"
    db = frame.database('CREATE TABLE t (id text, n int, v text); ALTER TABLE t REPLICA IDENTITY FULL', row_limit='1MB')
    db.sql(f"INSERT INTO t VALUES ('a', 1, 'small'), ('large', 1, {large})")
    db.deploy(ALL)
    db.start()
    with own_memory(db, 50_000_000):
        db.wait_served()
    equal(visible(db), {'a': 1}, 'after the copy')
    equal(db.status()[0]['rejected_rows'], 1)
    # the server's decoding itself allocates such a value once
    with own_memory(db, 100_000_000):
        db.sql(f"UPDATE t SET v = {large} WHERE id = 'a'")
        db.sql(f"INSERT INTO t VALUES ('c', 1, {large}), ('b', 1, repeat('y', 500000))")
        db.wait()
        equal(visible(db), {'b': 1}, 'rejected')
        equal(db.status()[0]['rejected_rows'], 3)
        db.sql("UPDATE t SET v = 'fits', n = 2 WHERE id = 'a'")
        db.sql("DELETE FROM t WHERE id = 'large'")
        db.wait()
    equal(visible(db), {'a': 2, 'b': 1})
    stopped(db)
    db.configure(row_limit='100kB')
    db.start()
    db.sql("DELETE FROM t WHERE id = 'b'")
    db.wait()
    equal(visible(db), {'a': 2}, 'stored under a larger limit')


@case('nothing of a table owner runs with the worker\'s rights')
def no_escalation(frame):
    db = frame.database('CREATE ROLE mallory LOGIN; CREATE SCHEMA m AUTHORIZATION mallory')
    try:
        db.sql("""SET ROLE mallory; SET search_path = m;
            CREATE FUNCTION m.evil(text) RETURNS bool LANGUAGE plpgsql AS $$ BEGIN
                IF (SELECT rolsuper FROM pg_roles WHERE rolname = current_user) THEN ALTER ROLE mallory SUPERUSER; END IF;
                RETURN true; END $$;
            CREATE DOMAIN m.d AS text CHECK (m.evil(VALUE));
            CREATE TYPE m.c AS (x m.d);
            CREATE TABLE m.t (k m.c[] PRIMARY KEY, id text, n int, v text);
            ALTER TABLE m.t ALTER v SET STORAGE EXTERNAL;
            ALTER TABLE m.t REPLICA IDENTITY FULL;
            INSERT INTO m.t VALUES (ARRAY[ROW('a')::m.c], '1', 1, repeat('v', 5000))""")
        db.deploy(global_rules('SELECT id, n FROM m.t'))
        db.start()
        db.wait_served()
        db.sql('SET ROLE mallory; ALTER TABLE m.t REPLICA IDENTITY DEFAULT; UPDATE m.t SET n = 2')
        settle(db, {'1': 2})
        check(not db.value("SELECT rolsuper FROM pg_roles WHERE rolname = 'mallory'"), 'mallory became superuser')
    finally:
        db.stop()
        db.sql('DROP OWNED BY mallory CASCADE; DROP ROLE mallory')


@case('a storage ahead of the server: named, and a new deploy is served')
def history_changed(frame):
    db = frame.database('CREATE TABLE t (id text PRIMARY KEY, n int)')
    db.sql("INSERT INTO t VALUES ('1', 1)")
    stream = db.deploy(ALL)
    db.start()
    db.wait_served()
    stopped(db)
    db.mongo.sync_rules.update_one({'_id': stream}, {'$set': {'last_checkpoint_lsn': '7FFFFFFF/00000000'}})
    db.start()
    found = wait_until(lambda: [s for s in db.status() if s['phase'] == 'history_changed'], 30, lambda: db.status(), 0.05)
    check('pgsync_deploy()' in found[0]['hint'], found)
    db.sql("INSERT INTO t VALUES ('2', 1)")
    new = db.deploy(ALL)
    db.wait_served(new)
    settle(db, {'1': 1, '2': 1})


def rejected(db):
    return {key: (table, reason, lsn) for table, key, reason, lsn in
            db.sql("SELECT schema_name || '.' || table_name, row_key, reason, lsn FROM pgsync_rejected_rows")}


@case('pgsync_rejected_rows names what was left out, also after a restart, until it is stored, gone, or its stream is')
def rejected_rows(frame):
    large = "repeat('x', 200000)"
    db = frame.database("CREATE TABLE t (id text PRIMARY KEY, n int, v text); CREATE TABLE other (a int, b int, v text, PRIMARY KEY (a, b))",
                        row_limit='100kB')
    db.sql(f"INSERT INTO t VALUES ('copied', 1, {large}), ('well', 1, 'v')")
    db.deploy(select_all('t', 'other'))
    equal(rejected(db), {}, 'nothing is there yet')
    db.start()
    db.wait_served()
    before = db.value('SELECT pg_current_wal_insert_lsn()')
    db.sql(f"INSERT INTO t VALUES ('new', 1, {large}); UPDATE t SET v = {large} WHERE id = 'well'; INSERT INTO other VALUES (1, 2, {large})")
    db.wait()
    equal(db.status()[0]['rejected_rows'], 4)
    found = rejected(db)
    reason = 'the row is larger than "pgsync.row_limit"'
    equal({k: v[:2] for k, v in found.items()},
          {'id=copied': ('public.t', reason), 'id=new': ('public.t', reason), 'id=well': ('public.t', reason),
           'a=1, b=2': ('public.other', reason)})
    check(db.value('SELECT bool_and((lsn > %s) = (row_key <> %s)) FROM pgsync_rejected_rows', (before, 'id=copied')), found)
    check(db.value("SELECT bool_and(rejected_at BETWEEN now() - interval '1 hour' AND now() + interval '1 second') FROM pgsync_rejected_rows"), found)

    # without a worker, and with the next one, whose counters begin anew
    stopped(db)
    equal(rejected(db), found)
    db.start()
    db.sql("UPDATE t SET v = 'fits' WHERE id = 'new'")
    db.wait()
    equal(set(rejected(db)), {'id=copied', 'id=well', 'a=1, b=2'}, 'stored')
    db.sql("DELETE FROM t WHERE id = 'copied'; UPDATE t SET id = 'well too' WHERE id = 'well'")
    db.wait()
    equal(set(rejected(db)), {'id=well too', 'a=1, b=2'}, 'deleted, moved')
    db.sql('TRUNCATE t')
    db.wait()
    equal(set(rejected(db)), {'a=1, b=2'}, 'truncated')
    equal(db.status()[0]['rejected_rows'], 1)

    # the next stream leaves it out by itself; what the old one said goes with it
    new = db.deploy(select_all('t', 'other'))
    db.wait_served(new)
    wait_until(lambda: db.sql('SELECT stream, row_key FROM pgsync_rejected_rows') == [(new, 'a=1, b=2')], 60,
               lambda: db.sql('SELECT * FROM pgsync_rejected_rows'), 0.05)
    db.sql('DROP TABLE other')
    db.wait()
    equal(rejected(db), {})
