"""bugs_tables.py - what public bug reports say of identity, TOAST and tables that change (bug-cases.md).

Each case copied, streamed, and compared with a fresh stream (ways.py).
"""
import json

from frame import case, global_rules, ops_of, select_all
from suite import check, equal
from ways import G, Ways, settle, what_clients_see


def keyed(rows, table='t'):
    return {(table, i): {'id': i, **columns} for i, columns in rows.items()}


@case('b01_full_noop: an update under FULL that changes nothing, then delete')
def b01_full_noop(frame):
    uuid = '00000000-0000-0000-0000-000000000001'
    ways = Ways(frame, 'CREATE TABLE t (id uuid PRIMARY KEY, d text); ALTER TABLE t REPLICA IDENTITY FULL', select_all('t'),
                [f"INSERT INTO t VALUES ('{uuid}', 'x')"])
    ways.sql('UPDATE t SET d = d')
    ways.expect(keyed({uuid: {'d': 'x'}}))
    ways.sql('DELETE FROM t')
    ways.expect({})
    for db in ways.dbs.values():
        equal([op[0] for op in ops_of(db, G)], ['PUT', 'PUT', 'REMOVE'], 'an update under FULL is one PUT')
        equal(db.mongo.pgsync_row_state_1.count_documents({}), 0, 'stored rows')
    ways.end()


BIG = "(SELECT string_agg(md5(i::text), '') FROM generate_series(1, 1300) i)"


def toast(frame, identity, then=()):
    """Unchanged out-of-line values: only n changes, then the key, then both."""
    ways = Ways(frame, f'CREATE TABLE t (id text PRIMARY KEY, n text, big text, arr text[]); ALTER TABLE t REPLICA IDENTITY {identity}',
                select_all('t'), [f"INSERT INTO t VALUES ('1', '1', {BIG}, ARRAY[{BIG}])"])
    big = ways.dbs['copy'].value(f'SELECT {BIG}')
    values = {'big': big, 'arr': json.dumps([big])}
    steps = ["UPDATE t SET n = '2'", "UPDATE t SET id = '5'", "UPDATE t SET id = '6', n = '3'", *then, "UPDATE t SET n = '4'",
             'VACUUM FULL t', "UPDATE t SET n = '5'"]
    ways.sql(*steps)
    ways.expect(keyed({'6': {'n': '5', **values}}))
    for db in ways.dbs.values():
        puts = [op[2] for op in ops_of(db, G) if op[0] == 'PUT']
        check(all(p['big'] == big and p['arr'] == values['arr'] for p in puts), 'a PUT without the full value')
        equal(sorted({p['n'] for p in puts}), ['1', '2', '3', '4', '5'])
    equal(ways.each(lambda db: db.status()[0]['rereads']), 0, 'rows read again')
    ways.sql("UPDATE t SET big = 'small', arr = NULL", "UPDATE t SET n = '6'")
    ways.end(keyed({'6': {'n': '6', 'big': 'small', 'arr': None}}))


@case('b15_toast_default: unchanged TOAST values, default identity')
def b15_toast_default(frame):
    toast(frame, 'DEFAULT')


@case('b16_toast_full: unchanged TOAST values under FULL')
def b16_toast_full(frame):
    toast(frame, 'FULL')


@case('b16_toast_full_reverted: unchanged TOAST values, from FULL back to DEFAULT')
def b16_toast_full_reverted(frame):
    ways = Ways(frame, 'CREATE TABLE t (id text PRIMARY KEY, n text, big text, arr text[]); ALTER TABLE t REPLICA IDENTITY FULL',
                select_all('t'), [f"INSERT INTO t VALUES ('1', '1', {BIG}, ARRAY[{BIG}])"])
    big = ways.dbs['copy'].value(f'SELECT {BIG}')
    ways.sql("UPDATE t SET n = '2'", 'ALTER TABLE t REPLICA IDENTITY DEFAULT', "UPDATE t SET n = '3'")
    ways.end(keyed({'1': {'n': '3', 'big': big, 'arr': json.dumps([big])}}))


@case('b18_key_changes: the last statement of a transaction, and a swap')
def b18_key_changes(frame):
    ways = Ways(frame, 'CREATE TABLE t (id text PRIMARY KEY, p text)', select_all('t'), ["INSERT INTO t VALUES ('1', 'a'), ('2', 'b')"])
    ways.sql("BEGIN; INSERT INTO t VALUES ('9', 'z'); UPDATE t SET id = '3' WHERE id = '1'; COMMIT")
    ways.expect(keyed({'2': {'p': 'b'}, '3': {'p': 'a'}, '9': {'p': 'z'}}))
    ways.sql("BEGIN; UPDATE t SET id = 'x' WHERE id = '2'; UPDATE t SET id = '2' WHERE id = '3'; UPDATE t SET id = '3' WHERE id = 'x';"
             'COMMIT')
    ways.expect(keyed({'2': {'p': 'a'}, '3': {'p': 'b'}, '9': {'p': 'z'}}), 'swapped')
    ways.sql("BEGIN; DELETE FROM t WHERE id = '9'; UPDATE t SET id = '9' WHERE id = '3'; UPDATE t SET id = id || '0', p = p || id;"
             "INSERT INTO t VALUES ('9', 'new'); COMMIT")
    ways.end(keyed({'20': {'p': 'a2'}, '90': {'p': 'b9'}, '9': {'p': 'new'}}))


@case('b19_partition_order: a partition with its columns in another order, attached later')
def b19_partition_order(frame):
    ways = Ways(frame, """CREATE TABLE p (id text, at date, http int, st text, PRIMARY KEY (id, at)) PARTITION BY RANGE (at);
                CREATE TABLE q (st text, junk int, http int, at date NOT NULL, id text NOT NULL, PRIMARY KEY (id, at));
                ALTER TABLE q DROP junk; CREATE TABLE q_2026 PARTITION OF p FOR VALUES FROM ('2026-01-01') TO ('2027-01-01')""",
                global_rules('SELECT id, http, st FROM "q%" AS p'), ["INSERT INTO q (id, at, http, st) VALUES ('1', '2025-01-01', 200, 'IA')"])
    ways.sql("ALTER TABLE p ATTACH PARTITION q FOR VALUES FROM ('2025-01-01') TO ('2026-01-01')",
             "INSERT INTO p VALUES ('2', '2025-02-01', 404, 'NY'), ('3', '2026-02-01', 1, 'XX')", "UPDATE p SET http = 500 WHERE id = '1'")
    rows = {'1': {'http': 500, 'st': 'IA'}, '2': {'http': 404, 'st': 'NY'}, '3': {'http': 1, 'st': 'XX'}}
    ways.expect(keyed(rows, 'p'))
    ways.sql("UPDATE p SET at = '2026-03-01' WHERE id = '2'", "UPDATE p SET at = '2025-03-01', http = 2 WHERE id = '3'",
             'ALTER TABLE p DETACH PARTITION q_2026', "UPDATE q_2026 SET st = 'TX'")
    ways.end(keyed({'1': rows['1'], '2': {'http': 404, 'st': 'TX'}, '3': {'http': 2, 'st': 'XX'}}, 'p'))


TRUNCATED = """
bucket_definitions:
  global:
    data: [SELECT * FROM a, SELECT * FROM b]
  by_a:
    parameters: SELECT id AS a FROM a WHERE u = request.user_id()
    data:
      - SELECT * FROM b WHERE a_id = bucket.a
  by_b:
    parameters: SELECT a_id AS a FROM b WHERE id = request.user_id()
    data:
      - SELECT * FROM a WHERE id = bucket.a
"""


@case('b21_truncate: several tables with CASCADE: the same subkeys, lookups gone')
def b21_truncate(frame):
    ways = Ways(frame, """CREATE TABLE a (id text PRIMARY KEY, u text, n serial);
                CREATE TABLE b (id text PRIMARY KEY, a_id text REFERENCES a, n serial)""", TRUNCATED,
                ["INSERT INTO a SELECT i::text, 'u' || i FROM generate_series(1, 3) i",
                 'INSERT INTO b SELECT i::text, i::text FROM generate_series(1, 3) i'])
    equal(ways.each(lambda db: len(db.reduced().all_rows())), 12)
    ways.sql('TRUNCATE a RESTART IDENTITY CASCADE', "INSERT INTO a VALUES ('9', 'u9')", "INSERT INTO b VALUES ('8', '9')")
    a, b = {'id': '9', 'u': 'u9', 'n': 1}, {'id': '8', 'a_id': '9', 'n': 1}
    rows = {G: {('a', '9'): a, ('b', '8'): b}, 'by_a["9"]': {('b', '8'): b}, 'by_b["9"]': {('a', '9'): a}}
    ways.expect(rows, lookups={('by_a', '1', 'u9'): [{'a': '9'}], ('by_b', '1', '8'): [{'a': '9'}]})
    for db in ways.dbs.values():
        for bucket in (G, 'by_a["2"]', 'by_b["2"]'):
            ops = [(op['op'], op['subkey']) for op in db.ops() if op['_id']['b'].endswith(bucket) and op['row_id'] in '123']
            puts, removes = [sorted(subkey for kind, subkey in ops if kind == k) for k in ('PUT', 'REMOVE')]
            check(puts, f'no op in {bucket}')
            equal(removes, puts, f'subkeys in {bucket}')
    ways.sql('SET session_replication_role = replica; TRUNCATE a, b')
    ways.end({}, lookups={})


@case('b23_column_again: dropped and added again with the same name and type')
def b23_column_again(frame):
    ways = Ways(frame, 'CREATE TABLE t (id text PRIMARY KEY, f1 text, f2 text)', select_all('t'),
                ["INSERT INTO t VALUES ('1', 'o', 'o'), ('3', 'o', 'o')"])
    ways.sql('ALTER TABLE t DROP f2', 'ALTER TABLE t ADD f2 text', "INSERT INTO t VALUES ('2', 'c', 'c')", "UPDATE t SET f1 = 'u' WHERE id = '3'")
    ways.end(keyed({'1': {'f1': 'o', 'f2': None}, '2': {'f1': 'c', 'f2': 'c'}, '3': {'f1': 'u', 'f2': None}}))


@case('b24_first_column: dropped, then others renamed and of another type')
def b24_first_column(frame):
    ways = Ways(frame, 'CREATE TABLE t (f1 int, f2 int, f3 int, id text PRIMARY KEY)', select_all('t'), ["INSERT INTO t VALUES (1, 2, 3, 'a')"])
    ways.sql('ALTER TABLE t ADD f4 int', "INSERT INTO t VALUES (1, 2, 3, 'b', 4)")
    ways.expect(keyed({'a': {'f1': 1, 'f2': 2, 'f3': 3, 'f4': None}, 'b': {'f1': 1, 'f2': 2, 'f3': 3, 'f4': 4}}), 'a column added')
    ways.sql('ALTER TABLE t DROP f1', "INSERT INTO t VALUES (2, 3, 'c', 4)")
    ways.expect(keyed({'a': {'f2': 2, 'f3': 3, 'f4': None}, 'b': {'f2': 2, 'f3': 3, 'f4': 4}, 'c': {'f2': 2, 'f3': 3, 'f4': 4}}), 'dropped')
    ways.sql('ALTER TABLE t RENAME f2 TO f9', 'ALTER TABLE t ALTER f9 TYPE text', "INSERT INTO t VALUES ('two', 3, 'd', 4)")
    ways.end(keyed({'a': {'f9': '2', 'f3': 3, 'f4': None}, 'b': {'f9': '2', 'f3': 3, 'f4': 4}, 'c': {'f9': '2', 'f3': 3, 'f4': 4},
                    'd': {'f9': 'two', 'f3': 3, 'f4': 4}}))


@case('b26_table_again: dropped and created with another shape')
def b26_table_again(frame):
    ways = Ways(frame, 'CREATE TABLE t (id text PRIMARY KEY, c1 int)', select_all('t'), ["INSERT INTO t VALUES ('1', 1), ('2', 2)"])
    ways.sql('DROP TABLE t', 'CREATE TABLE t (id text PRIMARY KEY, c2 text)', "INSERT INTO t VALUES ('9', 'bar')")
    ways.expect(keyed({'9': {'c2': 'bar'}}))
    ways.sql("BEGIN; DROP TABLE t; CREATE TABLE t (c3 text, id text PRIMARY KEY); INSERT INTO t VALUES ('x', '9'); SAVEPOINT s;"
             "DROP TABLE t; CREATE TABLE t (id int); INSERT INTO t VALUES (1); ROLLBACK TO s; INSERT INTO t VALUES ('y', '8'); COMMIT")
    ways.end(keyed({'9': {'c3': 'x'}, '8': {'c3': 'y'}}))


@case('b27_renamed_key: the key has another name in the rules; two rows with one id')
def b27_renamed_key(frame):
    def uuid(n):
        return f'00000000-0000-0000-0000-{n:012d}'
    ways = Ways(frame, 'CREATE TABLE t (uuid_acesso uuid PRIMARY KEY, v int); CREATE TABLE s (k int PRIMARY KEY, v int)',
                global_rules('SELECT uuid_acesso AS id, v FROM t', "SELECT 'x' AS id, v FROM s"),
                [f"INSERT INTO t VALUES ('{uuid(1)}', 1), ('{uuid(2)}', 2)", 'INSERT INTO s VALUES (1, 10), (2, 20)'])
    ways.sql('UPDATE t SET v = 5 WHERE v = 1', f"UPDATE t SET uuid_acesso = '{uuid(3)}' WHERE v = 2")
    ways.expect({**keyed({uuid(1): {'v': 5}, uuid(3): {'v': 2}}), ('s', 'x'): {'id': 'x', 'v': 20}})
    ways.sql('DELETE FROM s WHERE k = 2', 'DELETE FROM t WHERE v = 5')
    ways.end({**keyed({uuid(3): {'v': 2}}), ('s', 'x'): {'id': 'x', 'v': 10}})


# ---------------------------------------------------------------- reserve

@case('reserve_deferrable_key: no replica identity, which status says; under FULL the whole row is')
def reserve_deferrable_key(frame):
    ways = Ways(frame, 'CREATE TABLE t (id text PRIMARY KEY DEFERRABLE INITIALLY DEFERRED, n int)', select_all('t'),
                ["INSERT INTO t VALUES ('1', 1), ('2', 2)"])
    ways.expect(keyed({'1': {'n': 1}, '2': {'n': 2}}))
    for db in ways.dbs.values():
        check('no replica identity' in (db.status()[0]['hint'] or ''), db.status())
        found = [row for row in db.sql('SELECT level, message FROM pgsync_validate(%s)', (select_all('t'),)) if 'identity' in row[1]]
        check(found and found[0][0] == 'warning', found)
    ways.end()
    full = Ways(frame, 'CREATE TABLE t (id text PRIMARY KEY DEFERRABLE INITIALLY DEFERRED, n int); ALTER TABLE t REPLICA IDENTITY FULL',
                select_all('t'), ["INSERT INTO t VALUES ('1', 1), ('2', 2)"])
    full.sql("UPDATE t SET id = CASE id WHEN '1' THEN '2' ELSE '1' END", "INSERT INTO t VALUES ('3', 3)", 'DELETE FROM t WHERE n = 2')
    full.end(keyed({'2': {'n': 1}, '3': {'n': 3}}))


@case('reserve_identity_index_dropped: REPLICA IDENTITY USING INDEX, and the index goes')
def reserve_identity_index_dropped(frame):
    ways = Ways(frame, 'CREATE TABLE t (id text PRIMARY KEY, k int NOT NULL, n int); CREATE UNIQUE INDEX t_k ON t (k);'
                ' ALTER TABLE t REPLICA IDENTITY USING INDEX t_k', select_all('t'), ["INSERT INTO t VALUES ('1', 1, 1), ('2', 2, 2)"])
    ways.sql('UPDATE t SET n = 3, k = 3 WHERE k = 1')
    ways.expect(keyed({'1': {'k': 3, 'n': 3}, '2': {'k': 2, 'n': 2}}))
    ways.sql('DROP INDEX t_k', "INSERT INTO t VALUES ('4', 4, 4)")
    ways.expect(keyed({'1': {'k': 3, 'n': 3}, '2': {'k': 2, 'n': 2}, '4': {'k': 4, 'n': 4}}), 'without identity')
    for db in ways.dbs.values():
        check('no replica identity' in (db.status()[0]['hint'] or ''), db.status())
    ways.sql('ALTER TABLE t REPLICA IDENTITY DEFAULT', "UPDATE t SET n = 9 WHERE id = '2'", "DELETE FROM t WHERE id = '1'")
    ways.end(keyed({'2': {'k': 2, 'n': 9}, '4': {'k': 4, 'n': 4}}))


MEMBERS = """
bucket_definitions:
  by_list:
    parameters: SELECT id AS list FROM lists WHERE request.user_id() IN members
    data:
      - SELECT id, name FROM lists WHERE id = bucket.list
"""
MEMBER_STREAMS = """
config:
  edition: 3
streams:
  mine:
    query: >-
      SELECT todos.id, todos.list_id FROM todos WHERE list_id IN
      (SELECT lists.id FROM lists, json_each(lists.members) AS m WHERE m.value = auth.user_id())
"""


@case('reserve_many_lookups: json_each gives several lookups of one row')
def reserve_many_lookups(frame):
    ways = Ways(frame, 'CREATE TABLE lists (id text PRIMARY KEY, name text, members jsonb); CREATE TABLE todos (id text PRIMARY KEY, list_id text)',
                MEMBER_STREAMS, ["""INSERT INTO lists VALUES ('l1', 'a', '["u1", "u2", "u2", null]'), ('l2', 'b', '["u2", "u3"]')""",
                                 "INSERT INTO todos VALUES ('t1', 'l1'), ('t2', 'l2')"])
    todos = {'mine|0["l1"]': {('todos', 't1'): {'id': 't1', 'list_id': 'l1'}}, 'mine|0["l2"]': {('todos', 't2'): {'id': 't2', 'list_id': 'l2'}}}
    before = ways.each(lambda db: len(what_clients_see(db)['lookups']))
    equal(before, 3, 'lookups of u1, u2, u3')
    ways.sql("""UPDATE lists SET members = '["u3", "u4", "u1"]' WHERE id = 'l1'""", "UPDATE lists SET members = '[]' WHERE id = 'l2'")
    ways.end(todos)
    equal(ways.each(lambda db: len(what_clients_see(db)['lookups'])), 3, 'lookups of u3, u4, u1')


@case('reserve_70000_lookups: of one row, then deleted')
def reserve_70000_lookups(frame):
    """More than fit into one flush, and more than 65,535.  Counted only: to read them takes the test long."""
    count = 70000
    db = frame.replicating('CREATE TABLE lists (id text PRIMARY KEY, name text, members jsonb)', MEMBERS)

    def written():
        db.wait()
        entries = db.mongo.bucket_parameters
        return entries.count_documents({'bucket_parameters.list': 'l1'}), entries.count_documents({'bucket_parameters': []})
    db.sql(f"INSERT INTO lists VALUES ('l1', 'a', (SELECT jsonb_agg('u' || i) FROM generate_series(1, {count}) i))")
    equal(written(), (count, 0), 'inserted')
    db.sql('DELETE FROM lists')
    equal(written(), (count, count), 'deleted')
    settle(db)
    equal((db.status()[0]['last_error'], db.status()[0]['rejected_rows']), (None, 0))
