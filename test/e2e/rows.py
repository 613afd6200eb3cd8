"""rows.py - every kind of change of a row, from COMMIT to the bucket."""
import contextlib
import threading

import oracle
from frame import case, expect, expect_lookups, global_rules, ops_of, select_all
from suite import check, equal, wait_until

G = 'global[]'

LISTS = """
CREATE TABLE lists (id uuid PRIMARY KEY, name text, owner_id text);
CREATE TABLE todos (id uuid PRIMARY KEY, list_id uuid, title text, done bool, rank int);
"""
LIST_RULES = """
bucket_definitions:
  everyone:
    data:
      - SELECT id, name FROM lists
  by_list:
    parameters: SELECT id AS list_id FROM lists WHERE owner_id = request.user_id()
    data:
      - SELECT * FROM lists WHERE id = bucket.list_id
      - SELECT id, list_id, title, done FROM todos WHERE list_id = bucket.list_id
"""


def uuid(n):
    return f'00000000-0000-0000-0000-{n:012d}'


def by_list(n):
    return f'by_list["{uuid(n)}"]'


def list_row(n, name, owner):
    return {'id': uuid(n), 'name': name, 'owner_id': owner}


@case('insert, update, delete, move between buckets; lookups follow')
def changes(frame):
    db = frame.replicating(LISTS, LIST_RULES)
    db.sql(f"INSERT INTO lists VALUES ('{uuid(1)}', 'one', 'u1'), ('{uuid(2)}', 'two', 'u2')")
    db.sql(f"INSERT INTO todos VALUES ('{uuid(11)}', '{uuid(1)}', 'milk', false, 1), ('{uuid(12)}', '{uuid(2)}', 'tea', NULL, 2)")
    db.wait()
    milk = {'id': uuid(11), 'list_id': uuid(1), 'title': 'milk', 'done': 0}
    tea = {'id': uuid(12), 'list_id': uuid(2), 'title': 'tea', 'done': None}
    names = {('lists', uuid(1)): {'id': uuid(1), 'name': 'one'}, ('lists', uuid(2)): {'id': uuid(2), 'name': 'two'}}
    expect(db, {'everyone[]': names,
                by_list(1): {('lists', uuid(1)): list_row(1, 'one', 'u1'), ('todos', uuid(11)): milk},
                by_list(2): {('lists', uuid(2)): list_row(2, 'two', 'u2'), ('todos', uuid(12)): tea}})
    expect_lookups(db, {('by_list', '1', 'u1'): [{'list_id': uuid(1)}], ('by_list', '1', 'u2'): [{'list_id': uuid(2)}]})

    db.sql(f"UPDATE todos SET list_id = '{uuid(2)}' WHERE title = 'milk'")
    db.sql("UPDATE lists SET owner_id = 'u1'")
    db.sql("DELETE FROM todos WHERE title = 'tea'")
    db.wait()
    expect(db, {'everyone[]': names,
                by_list(1): {('lists', uuid(1)): list_row(1, 'one', 'u1')},
                by_list(2): {('lists', uuid(2)): list_row(2, 'two', 'u1'),
                             ('todos', uuid(11)): {**milk, 'list_id': uuid(2)}}})
    expect_lookups(db, {('by_list', '1', 'u1'): [{'list_id': uuid(1)}, {'list_id': uuid(2)}]})
    equal([op for op in ops_of(db, by_list(1)) if op[1] == uuid(11)],
          [('PUT', uuid(11), milk), ('REMOVE', uuid(11), None)], 'ops of the moved row')


@case('a column set to null leaves its bucket; another user-side parameter')
def nulls(frame):
    db = frame.replicating(LISTS, LIST_RULES)
    db.sql(f"INSERT INTO todos VALUES ('{uuid(11)}', '{uuid(1)}', 'a', true, 1)")
    db.sql('UPDATE todos SET list_id = NULL')
    db.wait()
    expect(db, {})


@case('truncate of several tables with CASCADE empties buckets and lookups')
def truncate(frame):
    schema = """CREATE TABLE a (id text PRIMARY KEY, u text);
        CREATE TABLE b (id text PRIMARY KEY, a_id text REFERENCES a);"""
    rules = """
bucket_definitions:
  global:
    data: [SELECT * FROM a, SELECT * FROM b]
  by_a:
    parameters: SELECT id AS a FROM a WHERE u = request.user_id()
    data:
      - SELECT * FROM b WHERE a_id = bucket.a
"""
    db = frame.replicating(schema, rules)
    db.sql("INSERT INTO a SELECT i::text, 'u' || i FROM generate_series(1, 3) i;"
           'INSERT INTO b SELECT i::text, i::text FROM generate_series(1, 3) i')
    db.wait()
    equal(len(db.reduced().all_rows()), 9)
    db.sql("TRUNCATE a CASCADE; INSERT INTO a VALUES ('9', 'u9')")
    db.wait()
    expect(db, {G: {('a', '9'): {'id': '9', 'u': 'u9'}}})
    expect_lookups(db, {('by_a', '1', 'u9'): [{'a': '9'}]})
    db.sql('SET session_replication_role = replica; TRUNCATE a, b')
    db.wait()
    expect(db, {})


@case('B01 an update under REPLICA IDENTITY FULL that changes nothing, then delete')
def full_noop(frame):
    db = frame.replicating('CREATE TABLE t (id uuid PRIMARY KEY, d text); ALTER TABLE t REPLICA IDENTITY FULL',
                           select_all('t'))
    db.sql(f"INSERT INTO t VALUES ('{uuid(1)}', 'x')")
    db.sql('UPDATE t SET d = d')
    db.sql('DELETE FROM t')
    db.wait()
    expect(db, {})
    equal([op[0] for op in ops_of(db, G)], ['PUT', 'PUT', 'REMOVE'], 'an update under FULL is one PUT')


@case('B15 an unchanged TOAST value under the default identity')
def toast(frame):
    db = frame.replicating('CREATE TABLE t (id text PRIMARY KEY, n text, big text, arr text[])', select_all('t'))
    big = db.value("SELECT string_agg(md5(i::text), '') FROM generate_series(1, 1300) i")
    db.sql("INSERT INTO t VALUES ('1', '1', %s, ARRAY[%s])", (big, big))
    db.sql("UPDATE t SET n = '2'")
    db.sql("UPDATE t SET id = '5', n = '3'")
    db.wait()
    expect(db, {G: {('t', '5'): {'id': '5', 'n': '3', 'big': big, 'arr': f'["{big}"]'}}})
    puts = [op for op in ops_of(db, G) if op[0] == 'PUT']
    check(all(p[2]['big'] == big for p in puts), 'a PUT without the full value')


@case('B15 the same row was only copied, never streamed, before its update')
def toast_after_copy(frame):
    db = frame.database('CREATE TABLE t (id text PRIMARY KEY, n text, big text)')
    db.sql("INSERT INTO t SELECT i::text, '1', (SELECT string_agg(md5(j::text || i), '') FROM generate_series(1, 300) j) FROM generate_series(1, 20) i")
    stream = db.deploy(select_all('t'))
    db.start()
    db.wait_served(stream)
    db.sql("UPDATE t SET n = '2'")
    db.wait()
    rows = db.sql('SELECT id, n, big FROM t')
    expect(db, {G: {('t', r[0]): dict(zip(('id', 'n', 'big'), r)) for r in rows}})


@case('B16 an unchanged TOAST value under FULL, then DEFAULT again')
def toast_full(frame):
    db = frame.replicating('CREATE TABLE t (id text PRIMARY KEY, n text, big text); ALTER TABLE t REPLICA IDENTITY FULL',
                           select_all('t'))
    big = db.value("SELECT string_agg(md5(i::text), '') FROM generate_series(1, 1300) i")
    db.sql("INSERT INTO t VALUES ('1', '1', %s)", (big,))
    db.sql("UPDATE t SET n = '2'")
    db.wait()
    expect(db, {G: {('t', '1'): {'id': '1', 'n': '2', 'big': big}}})


@case('B18 key changes as last statement, and a swap through a spare value')
def keys(frame):
    db = frame.replicating('CREATE TABLE t (id text PRIMARY KEY, p text)', select_all('t'))
    db.sql("INSERT INTO t VALUES ('1', 'a'), ('2', 'b')")
    db.sql("UPDATE t SET id = '3' WHERE id = '1'")
    db.wait()
    expect(db, {G: {('t', '2'): {'id': '2', 'p': 'b'}, ('t', '3'): {'id': '3', 'p': 'a'}}})
    db.sql("BEGIN; UPDATE t SET id = 'x' WHERE id = '2'; UPDATE t SET id = '2' WHERE id = '3';"
           "UPDATE t SET id = '3' WHERE id = 'x'; COMMIT")
    db.wait()
    expect(db, {G: {('t', '2'): {'id': '2', 'p': 'a'}, ('t', '3'): {'id': '3', 'p': 'b'}}})


@case('B27 the key has another name in the rules; two rows with one id')
def renamed_key(frame):
    db = frame.replicating('CREATE TABLE t (uuid_acesso uuid PRIMARY KEY, v int);'
                           'CREATE TABLE s (k int PRIMARY KEY, v int)',
                           global_rules('SELECT uuid_acesso AS id, v FROM t', "SELECT 'x' AS id, v FROM s"))
    db.sql(f"INSERT INTO t VALUES ('{uuid(1)}', 1), ('{uuid(2)}', 2)")
    db.sql(f"UPDATE t SET v = 5 WHERE v = 1; UPDATE t SET uuid_acesso = '{uuid(3)}' WHERE v = 2")
    db.sql('INSERT INTO s VALUES (1, 10), (2, 20)')
    db.wait()
    first, third = ('t', uuid(1)), ('t', uuid(3))
    rows = {first: {'id': uuid(1), 'v': 5}, third: {'id': uuid(3), 'v': 2}}
    expect(db, {G: {**rows, ('s', 'x'): {'id': 'x', 'v': 20}}})
    db.sql('DELETE FROM s WHERE k = 2; DELETE FROM t WHERE v = 5')
    db.wait()
    expect(db, {G: {third: rows[third], ('s', 'x'): {'id': 'x', 'v': 10}}})


@case('B36 savepoints, messages, prepared transactions across a restart, rolled back ones')
def transactions(frame):
    db = frame.replicating('CREATE TABLE t (id text PRIMARY KEY)', select_all('t'))
    db.sql("BEGIN; INSERT INTO t VALUES ('1'); SAVEPOINT a; INSERT INTO t VALUES ('2'); SAVEPOINT b;"
           "INSERT INTO t VALUES ('3'); ROLLBACK TO a; INSERT INTO t VALUES ('4');"
           "SELECT pg_logical_emit_message(true, 'x', 'y'); INSERT INTO t VALUES ('5'); COMMIT")
    db.sql("BEGIN; INSERT INTO t VALUES ('7'); ROLLBACK")

    def rows(*ids):
        return {G: {('t', i): {'id': i} for i in ids}}
    db.wait()
    expect(db, rows('1', '4', '5'))
    db.sql("BEGIN; INSERT INTO t VALUES ('6'); PREPARE TRANSACTION 'p'")
    db.sql("BEGIN; INSERT INTO t VALUES ('8'); PREPARE TRANSACTION 'q'")
    db.wait()
    expect(db, rows('1', '4', '5'), 'prepared')
    frame.cluster.restart()
    db.sql("COMMIT PREPARED 'p'")
    db.sql("ROLLBACK PREPARED 'q'")
    db.wait()
    expect(db, rows('1', '4', '5', '6'), 'after COMMIT PREPARED')


@case('B36 two sessions upsert one key many times')
def upserts(frame):
    db = frame.replicating('CREATE TABLE t (id text PRIMARY KEY, n int)', select_all('t'))

    def work():
        with contextlib.closing(db.connect()) as c, c.cursor() as cursor:
            for _ in range(200):
                cursor.execute("INSERT INTO t VALUES ('k', 1) ON CONFLICT (id) DO UPDATE SET n = t.n + 1")
    threads = [threading.Thread(target=work) for _ in range(2)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    db.wait()
    expect(db, {G: {('t', 'k'): {'id': 'k', 'n': 400}}})


@case('insert, update and delete of one row within a transaction')
def within(frame):
    db = frame.replicating('CREATE TABLE t (id text PRIMARY KEY, n int)', select_all('t'))
    db.sql("BEGIN; INSERT INTO t VALUES ('a', 1); UPDATE t SET n = 2; DELETE FROM t; INSERT INTO t VALUES ('a', 3);"
           "INSERT INTO t VALUES ('b', 1); DELETE FROM t WHERE id = 'b'; COMMIT")
    db.wait()
    expect(db, {G: {('t', 'a'): {'id': 'a', 'n': 3}}})


@case('B35 transactions around the size of a flush; each is visible whole')
def sizes(frame):
    db = frame.replicating('CREATE TABLE t (id text PRIMARY KEY)', select_all('t'))
    total = 0
    for n in (1999, 2000, 2001, 4000, 4001, 9):
        db.sql('INSERT INTO t SELECT %s || i FROM generate_series(1, %s) i', (f'{n}-', n))
        total += n
    db.wait()
    equal(len(db.reduced().all_rows()), total)
    db.sql('DELETE FROM t')
    db.wait()
    expect(db, {})


@case('B35 a row that is too large as JSON is rejected, its old version removed, and the stream goes on')
def too_large(frame):
    db = frame.replicating('CREATE TABLE t (id text PRIMARY KEY, x text)', select_all('t'))
    db.sql("""INSERT INTO t VALUES ('old', 'small'); INSERT INTO t VALUES ('a', repeat('"', 8000000));
        UPDATE t SET x = repeat('"', 8000000) WHERE id = 'old'; INSERT INTO t VALUES ('b', 'fine')""")
    db.wait()
    expect(db, {G: {('t', 'b'): {'id': 'b', 'x': 'fine'}}})
    check(db.status()[0]['rejected_rows'] >= 2, lambda: f'rejected rows are counted: {db.status()}')
    db.sql("UPDATE t SET x = 'ok'")
    db.wait()
    expect(db, {G: {('t', i): {'id': i, 'x': 'ok'} for i in ('a', 'b', 'old')}})


@case('B05 B03 dates at the edge: infinite, before year 100, after 9999')
def dates(frame):
    frame.both_ways(
        'CREATE TABLE t (id text PRIMARY KEY, d date, s timestamp, z timestamptz)', select_all('t'),
        ["INSERT INTO t VALUES ('a', 'infinity', 'infinity', 'infinity'), ('b', '-infinity', '-infinity', '-infinity')",
         "INSERT INTO t VALUES ('c', NULL, NULL, '0022-02-03 12:13:14+03'), ('d', NULL, NULL, '10022-02-03 12:13:14+03')"],
        {G: {('t', 'a'): {'id': 'a', 'd': '9999-12-31', 's': '9999-12-31 23:59:59', 'z': '9999-12-31 23:59:59Z'},
             ('t', 'b'): {'id': 'b', 'd': '0000-01-01', 's': '0000-01-01 00:00:00', 'z': '0000-01-01 00:00:00Z'},
             ('t', 'c'): {'id': 'c', 'd': None, 's': None, 'z': '0022-02-03 09:13:14Z'},
             ('t', 'd'): {'id': 'd', 'd': None, 's': None, 'z': None}}})


@case('B06 B14 numbers, arrays, enums, json: copy and stream agree')
def values(frame):
    frame.both_ways(
        "CREATE TYPE mood AS ENUM ('sad', 'happy');"
        'CREATE TABLE t (id text PRIMARY KEY, n numeric, m mood, a int[], j jsonb, b bool, f float8, s smallint, i bigint, y bytea)',
        select_all('t'),
        ["INSERT INTO t VALUES ('a', 'NaN', 'sad', '{1,2}', '{\"k\": [1, \"x\"]}', true, 1.5, -7, 9007199254740993, '\\x00ff')",
         "INSERT INTO t VALUES ('b', 1012345000999912345001230123445566.00000000, NULL, NULL, NULL, NULL, 1e308, NULL, NULL, NULL)"],
        {G: {('t', 'a'): {'id': 'a', 'n': 'NaN', 'm': 'sad', 'a': '[1,2]', 'j': '{"k": [1, "x"]}', 'b': 1, 'f': 1.5,
                          's': -7, 'i': 9007199254740993},
             ('t', 'b'): {'id': 'b', 'n': '1012345000999912345001230123445566.00000000', 'm': None, 'a': None,
                          'j': None, 'b': None, 'f': 1e308, 's': None, 'i': None, 'y': None}}})


@case('B07 B09 names with blanks, apostrophes, and in other scripts')
def names(frame):
    # a doubled quote in a name is not undone by the rules language (sync-rules.md 2.1): such a table cannot be named
    frame.both_ways(
        'CREATE TABLE "foo\' bar" (id int PRIMARY KEY, "more \'q" int); CREATE TABLE "emp\'loyee" (id int PRIMARY KEY);'
        'CREATE TABLE "таблица" (id text PRIMARY KEY, "имя" text, "名前" text)',
        global_rules('SELECT id::text AS id, "more \'q" AS q FROM "foo\' bar"',
                     'SELECT id::text AS id FROM "emp\'loyee"', 'SELECT * FROM "таблица"'),
        ['INSERT INTO "foo\' bar" VALUES (1, 2)', 'INSERT INTO "emp\'loyee" VALUES (1)',
         "INSERT INTO \"таблица\" VALUES ('1', 'а', '山')", "INSERT INTO \"таблица\" VALUES ('2', 'x', NULL)",
         "UPDATE \"таблица\" SET \"имя\" = 'б' WHERE id = '1'", "DELETE FROM \"таблица\" WHERE id = '2'"],
        {G: {("foo' bar", '1'): {'id': '1', 'q': 2}, ("emp'loyee", '1'): {'id': '1'},
             ('таблица', '1'): {'id': '1', 'имя': 'б', '名前': '山'}}})


@case('B11 enums of one name in two schemas')
def enums(frame):
    frame.both_ways(
        "CREATE SCHEMA s2; CREATE TYPE mood AS ENUM ('sad'); CREATE TYPE s2.mood AS ENUM ('bad');"
        'CREATE TABLE t (id text PRIMARY KEY, a mood, b s2.mood)', select_all('t'),
        ["INSERT INTO t VALUES ('1', 'sad', 'bad')"],
        {G: {('t', '1'): {'id': '1', 'a': 'sad', 'b': 'bad'}}})


@case('B13 an enum value added while streaming')
def enum_added(frame):
    db = frame.replicating("CREATE TYPE mood AS ENUM ('sad'); CREATE TABLE t (id text PRIMARY KEY, m mood)", select_all('t'))
    db.sql("INSERT INTO t VALUES ('1', 'sad')")
    db.sql("ALTER TYPE mood ADD VALUE 'great'")
    db.sql("INSERT INTO t VALUES ('2', 'great')")
    db.wait()
    expect(db, {G: {('t', '1'): {'id': '1', 'm': 'sad'}, ('t', '2'): {'id': '2', 'm': 'great'}}})


@case('filters: several data queries, comparisons, and rows that match none')
def filters(frame):
    rules = """
bucket_definitions:
  open:
    data:
      - SELECT id, title FROM todos WHERE done = false
      - SELECT id, title FROM todos WHERE rank > 5 AND done = true
  mine:
    parameters: SELECT request.user_id() AS person
    data:
      - SELECT id, name FROM lists WHERE owner_id = bucket.person
"""
    frame.both_ways(
        LISTS, rules,
        [f"INSERT INTO todos SELECT ('00000000-0000-0000-0000-' || lpad(i::text, 12, '0'))::uuid, NULL, 't' || i, i % 2 = 0, i FROM generate_series(1, 8) i",
         f"INSERT INTO lists VALUES ('{uuid(1)}', 'n', 'u1'), ('{uuid(2)}', 'm', NULL)",
         'UPDATE todos SET done = NULL WHERE rank = 7'],
        {'open[]': {('todos', uuid(i)): {'id': uuid(i), 'title': f't{i}'} for i in (1, 3, 5, 6, 8)},
         'mine["u1"]': {('lists', uuid(1)): {'id': uuid(1), 'name': 'n'}}})


@case('a table without rows, rules without that table: nothing is stored of others')
def others(frame):
    db = frame.replicating(LISTS + 'CREATE TABLE other (id int PRIMARY KEY)', LIST_RULES)
    db.sql('INSERT INTO other SELECT generate_series(1, 100)')
    db.wait()
    expect(db, {})
    equal(db.mongo.bucket_data.count_documents({}), 0)


@case('B33 only unrelated things happen: the confirmed position follows')
def unrelated(frame):
    db = frame.replicating('CREATE TABLE t (id text PRIMARY KEY); CREATE TABLE other (i int); CREATE UNLOGGED TABLE u (i int)',
                           select_all('t'))

    def confirmed():
        return db.value("SELECT confirmed_flush_lsn >= %s FROM pg_replication_slots WHERE database = current_database()", (lsn,))
    for statement in ('INSERT INTO other SELECT generate_series(1, 20000)', 'INSERT INTO u SELECT generate_series(1, 20000)',
                      'SELECT pg_switch_wal(); CHECKPOINT'):
        for part in statement.split(';'):
            db.sql(part)
        lsn = db.value('SELECT pg_current_wal_lsn()')
        db.sql('INSERT INTO other VALUES (1)')
        wait_until(confirmed, 60, lambda: f'the slot confirms {lsn}: {db.status()}', 0.1)
    lsn = frame.cluster.value('SELECT pg_current_wal_lsn()')
    frame.cluster.sql('CREATE TABLE IF NOT EXISTS elsewhere AS SELECT generate_series(1, 20000)')
    lsn = frame.cluster.value('SELECT pg_current_wal_lsn()')
    frame.cluster.sql('DROP TABLE elsewhere')
    wait_until(confirmed, 60, lambda: f'the slot confirms {lsn} of another database: {db.status()}', 0.1)


@case('rows that move between pages during the copy are there once')
def moving(frame):
    db = frame.database('CREATE TABLE t (id int PRIMARY KEY, n int, pad text) WITH (fillfactor = 100)',
                        copy_chunk_size='64kB')
    db.sql("INSERT INTO t SELECT i, 0, repeat('x', 100) FROM generate_series(1, 8000) i")
    stop = threading.Event()

    def churn():
        with contextlib.closing(db.connect()) as c, c.cursor() as cursor:
            i = 0
            while not stop.is_set():
                i += 1
                cursor.execute('UPDATE t SET n = n + 1 WHERE id %% 97 = %s', (i % 97,))
                if i % 5 == 0:
                    cursor.execute('UPDATE t SET id = -id WHERE id = %s', (i,))
    thread = threading.Thread(target=churn)
    thread.start()
    try:
        stream = db.deploy(global_rules('SELECT id::text AS id, n FROM t'))
        db.start()
        db.wait_served(stream)
    finally:
        stop.set()
        thread.join()
    db.wait()
    rows = db.sql('SELECT id::text, n FROM t')
    state = expect(db, {G: {('t', i): {'id': i, 'n': n} for i, n in rows}})
    equal(sum(len(s) for s in state.buckets[G].values()), 8000, 'rows by subkey')


@case('TRUNCATE, DELETE and key changes while the copy runs')
def truncate_during_copy(frame):
    db = frame.database('CREATE TABLE t (id int PRIMARY KEY, n int); CREATE TABLE s (id int PRIMARY KEY)', copy_chunk_size='64kB')
    db.sql('INSERT INTO t SELECT i, 0 FROM generate_series(1, 20000) i; INSERT INTO s SELECT generate_series(1, 20000)')
    stream = db.deploy(global_rules('SELECT id::text AS id, n FROM t', 'SELECT id::text AS id FROM s'))
    db.start()
    wait_until(lambda: any(s['phase'] in ('copying', 'catching up', 'streaming') for s in db.status()), 60, 'the copy')
    db.sql('TRUNCATE s; INSERT INTO s VALUES (1), (2); DELETE FROM t WHERE id % 2 = 0; UPDATE t SET id = id + 100000 WHERE id % 3 = 0')
    db.wait_served(stream)
    db.wait()
    rows = db.sql('SELECT id::text, n FROM t')
    expect(db, {G: {**{('t', i): {'id': i, 'n': n} for i, n in rows},
                    ('s', '1'): {'id': '1'}, ('s', '2'): {'id': '2'}}})


@case('checkpoints grow, and bucket checksums are what a client adds up')
def checksums(frame):
    db = frame.replicating('CREATE TABLE t (id text PRIMARY KEY, n int)', select_all('t'))
    seen = []
    for i in range(5):
        db.sql("INSERT INTO t VALUES (%s, 0)", (str(i),))
        db.wait()
        now = db.served()
        ops = db.ops()
        seen.append((now.checkpoint, now.position))
        equal(max(int(op['_id']['o']) for op in ops), now.checkpoint, 'the last op is the checkpoint')
        equal(oracle.bucket_checksum(ops), oracle.signed32(sum(
            oracle.put_checksum('t', str(k), f'{{"id":"{k}","n":0}}') for k in range(i + 1))))
    equal(seen, sorted(set(seen)), 'op ids and positions')
