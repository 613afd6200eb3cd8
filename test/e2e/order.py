"""order.py - what comes later must not be taken for what was there: keys that are used again."""
from frame import case, expect, global_rules
from hold import copy_held
from suite import check, equal
from tables import stopped

G = 'global[]'
TABLE = """CREATE TABLE hold (id text PRIMARY KEY);
CREATE TABLE t (id text PRIMARY KEY, n int, v text);
ALTER TABLE t ALTER v SET STORAGE EXTERNAL;
CREATE FUNCTION long(text) RETURNS text IMMUTABLE LANGUAGE sql AS $$ SELECT repeat($1, 5000) $$;
"""
RULES = global_rules('SELECT id FROM hold', 'SELECT id, n, v FROM t')

# ---------------------------------------------------------------- keys that are used again

ROWS = "INSERT INTO t SELECT k, 1, long(left(k, 1)) FROM unnest(ARRAY['a1', 'b2', 'c3', 'd3', 'e4', 'f4']) k"
REUSED = [
    # by a new row, in the same transaction and in the next one
    "BEGIN; UPDATE t SET id = 'new1' WHERE id = 'a1'; INSERT INTO t VALUES ('a1', 2, long('x')); COMMIT",
    "UPDATE t SET id = 'new2' WHERE id = 'b2'",
    "INSERT INTO t VALUES ('b2', 2, long('y'))",
    # by a row that moves there with its value
    "BEGIN; UPDATE t SET id = 'new3' WHERE id = 'c3'; UPDATE t SET id = 'c3' WHERE id = 'd3'; COMMIT",
    "UPDATE t SET id = 'new4', n = 3 WHERE id = 'e4'",
    "UPDATE t SET id = 'e4' WHERE id = 'f4'",
]
AFTER = {'new1': (1, 'a'), 'a1': (2, 'x'), 'new2': (1, 'b'), 'b2': (2, 'y'), 'new3': (1, 'c'), 'c3': (1, 'd'),
         'new4': (3, 'e'), 'e4': (1, 'f')}


def expect_rows(db, rows, what):
    equal({i: (n, v) for i, n, v in db.sql('SELECT id, n, v FROM t')},
          {i: (n, letter * 5000) for i, (n, letter) in rows.items()}, 'the test itself')
    expect(db, {G: {('t', i): {'id': i, 'n': n, 'v': letter * 5000} for i, (n, letter) in rows.items()}}, what)


@case('a key that is used again before the fence of the copy: the value of the row that left it')
def key_used_again_in_copy(frame):
    db = frame.database(TABLE)
    db.sql(ROWS)

    def start():
        db.deploy(RULES)
        db.start()
    with copy_held(db, 'hold', start):
        for statement in REUSED:
            db.sql(statement)
    db.wait_served()
    db.wait()
    expect_rows(db, AFTER, 'copy')
    check(db.status()[0]['rereads'] > 0, lambda: f'the copied rows were trusted: {db.status()}')


@case('a key that is used again in the stream, and before the fence of a row that is read again')
def key_used_again_in_stream(frame):
    db = frame.replicating(TABLE, RULES, queue_size='1MB')
    db.sql(ROWS)
    for statement in REUSED:
        db.sql(statement)
    db.wait()
    expect_rows(db, AFTER, 'stream')
    equal(db.status()[0]['rereads'], 0, 'nothing had to be read again')

    # a row of which no copy is stored is read again, as it is later: that is another one by then
    db.sql('ALTER TABLE t REPLICA IDENTITY FULL')
    db.sql("DELETE FROM t")
    db.sql("INSERT INTO t VALUES ('k', 1, long('a'))")
    db.sql('ALTER TABLE t REPLICA IDENTITY DEFAULT')
    db.wait()
    stopped(db)
    db.sql("UPDATE t SET n = 2")
    # more than the worker's queue takes: it has read the row again before it gets to what follows
    for _ in range(2):
        db.sql('INSERT INTO hold SELECT repeat(gen_random_uuid()::text, 20) FROM generate_series(1, 2000)')
    db.sql("UPDATE t SET id = 'l'")
    db.sql("INSERT INTO t VALUES ('k', 5, long('b'))")
    db.sql('TRUNCATE hold')
    db.start()
    db.wait()
    expect_rows(db, {'l': (2, 'a'), 'k': (5, 'b')}, 'read again')
