"""scenario.py - the steps of the conformance scenario v2_legacy through PostgreSQL: same ops, same order, same checksums.

The expected ops are those that PowerSync's own storage code wrote (file
storage/scenario_v2_legacy.json of the vectors); op ids, source table ids and so
the checksums of REMOVE differ between runs, and are checked by formula.
"""
import oracle
from frame import case, expect, expect_lookups
from suite import equal

SCHEMA = """
CREATE TABLE items (id text PRIMARY KEY, name text, group_id text, amount float8, big int8, bin bytea);
CREATE TABLE memberships (id text PRIMARY KEY, group_id text, user_id text, level int8);
"""
RULES = """
bucket_definitions:
  by_user:
    parameters:
      - SELECT group_id FROM memberships WHERE user_id = request.user_id() AND level = request.parameters() ->> 'level'
    data:
      - SELECT id, name, group_id, amount, big, bin FROM items WHERE group_id = bucket.group_id
  global:
    data:
      - SELECT id, name FROM items
"""
ROWS = r"""
INSERT INTO items VALUES ('a1', 'First "q"', 'g1', 1.5, 9007199254740993, '\x0102'), ('a2', 'Second', 'g1', 2, 5, NULL);
INSERT INTO memberships VALUES ('m1', 'g1', 'u1', 3);
"""
CHANGES = """
BEGIN;
UPDATE items SET name = 'Renamed', group_id = 'g2' WHERE id = 'a1';
DELETE FROM items WHERE id = 'a2';
DELETE FROM memberships WHERE id = 'm1';
COMMIT;
"""
KEY_CHANGE = """
UPDATE items SET id = 'a9', name = 'First "q"', group_id = 'g1' WHERE id = 'a1';
"""

A1 = ('{"id":"a1","name":"First \\"q\\"","group_id":"g1","amount":1.5,"big":9007199254740993}', 2771198962)
A2 = ('{"id":"a2","name":"Second","group_id":"g1","amount":2.0,"big":5,"bin":null}', 539534250)
A1_GLOBAL = ('{"id":"a1","name":"First \\"q\\""}', 1325778610)
A2_GLOBAL = ('{"id":"a2","name":"Second"}', 2518899257)
A1_G2 = ('{"id":"a1","name":"Renamed","group_id":"g2","amount":1.5,"big":9007199254740993}', 3369922197)
A1_RENAMED = ('{"id":"a1","name":"Renamed"}', 626150755)
A9 = ('{"id":"a9","name":"First \\"q\\"","group_id":"g1","amount":1.5,"big":9007199254740993}', 520335488)
A9_GLOBAL = ('{"id":"a9","name":"First \\"q\\""}', 2175207421)

G1, G2, GLOBAL = 'by_user["g1"]', 'by_user["g2"]', 'global[]'
EXPECTED = {
    G1: [('PUT', 'a1', A1), ('PUT', 'a2', A2), ('REMOVE', 'a1', None), ('REMOVE', 'a2', None), ('PUT', 'a9', A9)],
    G2: [('PUT', 'a1', A1_G2), ('REMOVE', 'a1', None)],
    GLOBAL: [('PUT', 'a1', A1_GLOBAL), ('PUT', 'a2', A2_GLOBAL), ('PUT', 'a1', A1_RENAMED), ('REMOVE', 'a2', None),
             ('REMOVE', 'a1', None), ('PUT', 'a9', A9_GLOBAL)],
}


def written(db):
    result = {}
    for op in db.ops():
        put = (op['data'], op['checksum']) if op['op'] == 'PUT' else None
        result.setdefault(oracle.short_bucket(op['_id']['b']), []).append((op['op'], op['row_id'], put))
    return result


def run(frame, first_rows_in_stream):
    db = frame.database(SCHEMA)
    if not first_rows_in_stream:
        db.sql(ROWS)
    stream = db.deploy(RULES)
    db.start()
    db.wait_served(stream)
    if first_rows_in_stream:
        db.sql(ROWS)
        db.wait()
    expect_lookups(db, {('by_user', '1', 'u1', 3): [{'group_id': 'g1'}]})
    db.sql(CHANGES)
    db.wait()
    expect_lookups(db, {})
    db.sql(KEY_CHANGE)
    db.wait()
    equal(written(db), EXPECTED, 'operations')
    row = {'id': 'a9', 'name': 'First "q"'}
    expect(db, {G1: {('items', 'a9'): {**row, 'group_id': 'g1', 'amount': 1.5, 'big': 9007199254740993}},
                GLOBAL: {('items', 'a9'): row}})


@case('scenario v2_legacy: first rows copied')
def copied(frame):
    run(frame, False)


@case('scenario v2_legacy: first rows streamed')
def streamed(frame):
    run(frame, True)
