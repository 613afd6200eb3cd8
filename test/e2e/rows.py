"""rows.py - every kind of change of a row, from COMMIT to the bucket."""
import contextlib
import threading

import oracle
from frame import case, expect, expect_lookups, global_rules, ops_of, select_all
from suite import equal, wait_until

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


@case('insert, update and delete of one row within a transaction')
def within(frame):
    db = frame.replicating('CREATE TABLE t (id text PRIMARY KEY, n int)', select_all('t'))
    db.sql("BEGIN; INSERT INTO t VALUES ('a', 1); UPDATE t SET n = 2; DELETE FROM t; INSERT INTO t VALUES ('a', 3);"
           "INSERT INTO t VALUES ('b', 1); DELETE FROM t WHERE id = 'b'; COMMIT")
    db.wait()
    expect(db, {G: {('t', 'a'): {'id': 'a', 'n': 3}}})


@case('numbers, arrays, enums, json: copy and stream agree')
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
