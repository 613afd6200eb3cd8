"""sync_streams.py - sync streams through PostgreSQL: compiled here, or compiled by the API and stored.

The scenario v2_streams is that of the conformance vectors (storage/scenario_v2_streams.json): the plan and the
operations are what PowerSync's own code stored for the same config and steps.
"""
import json

from frame import case, expect, expect_lookups
from scenario import A1, A1_G2, A1_GLOBAL, A1_RENAMED, A2_GLOBAL, A9, A9_GLOBAL, CHANGES, KEY_CHANGE, ROWS, SCHEMA, written
from streams import deploy_as_api, stream_document
from suite import check, equal, wait_until

STREAMS = """
config:
  edition: 3
streams:
  by_user:
    query: >-
      SELECT items.id, items.name, items.group_id, items.amount, items.big FROM items
      INNER JOIN memberships ON items.group_id = memberships.group_id WHERE memberships.user_id = auth.user_id()
  global:
    auto_subscribe: true
    query: SELECT id, name FROM items
"""
BY_USER, GLOBAL = 'by_user|0', 'global|0'
G1, G2 = BY_USER + '["g1"]', BY_USER + '["g2"]'
A2 = ('{"id":"a2","name":"Second","group_id":"g1","amount":2.0,"big":5}', 1689773352)
EXPECTED = {
    G1: [('PUT', 'a1', A1), ('PUT', 'a2', A2), ('REMOVE', 'a1', None), ('REMOVE', 'a2', None), ('PUT', 'a9', A9)],
    G2: [('PUT', 'a1', A1_G2), ('REMOVE', 'a1', None)],
    GLOBAL + '[]': [('PUT', 'a1', A1_GLOBAL), ('PUT', 'a2', A2_GLOBAL), ('PUT', 'a1', A1_RENAMED), ('REMOVE', 'a2', None),
                    ('REMOVE', 'a1', None), ('PUT', 'a9', A9_GLOBAL)],
}


def column(name):
    return {'type': 'data', 'source': {'column': name}}


def source(number, keys, columns):
    return {'hash': number, 'table': {'connection': None, 'schema': None, 'table': 'items'}, 'outputTableName': 'items',
            'tableValuedFunctions': [], 'filters': [], 'partitionBy': [{'expr': column(key)} for key in keys],
            'columns': [{'expr': column(name), 'alias': name} for name in columns]}


SUB = {'type': 'function', 'function': '->>', 'parameters': [
    {'type': 'data', 'source': {'request': 'auth'}}, {'type': 'lit_string', 'value': '$.sub'}]}
PLAN = {
    'compatibility': {'edition': 3, 'overrides': {}},
    'plan': {
        'version': 1,
        'dataSources': [source(276225872, ['group_id'], ['id', 'name', 'group_id', 'amount', 'big']),
                        source(128360978, [], ['id', 'name'])],
        'buckets': [{'hash': 106002849, 'uniqueName': BY_USER, 'sources': [0]},
                    {'hash': 188213126, 'uniqueName': GLOBAL, 'sources': [1]}],
        'parameterIndexes': [{
            'hash': 413336224, 'table': {'connection': None, 'schema': None, 'table': 'memberships'},
            'tableValuedFunctions': [], 'filters': [], 'partitionBy': [{'expr': column('user_id')}],
            'output': [column('group_id')], 'lookupScope': {'lookupName': 'lookup', 'queryId': '0'}}],
        'streams': [
            {'stream': {'name': 'by_user', 'priority': 3, 'isSubscribedByDefault': False}, 'queriers': [{
                'requestFilters': [], 'lookupStages': [[{
                    'type': 'parameter', 'lookup': 0, 'instantiation': [{'type': 'request', 'expr': SUB}]}]],
                'bucket': 0, 'sourceInstantiation': [
                    {'type': 'lookup', 'lookup': {'stageId': 0, 'idInStage': 0}, 'resultIndex': 0}]}]},
            {'stream': {'name': 'global', 'priority': 3, 'isSubscribedByDefault': True}, 'queriers': [{
                'requestFilters': [], 'lookupStages': [], 'bucket': 1, 'sourceInstantiation': []}]}]},
    'eventDescriptors': {}, 'errors': []}


def steps(frame, deploy, first_rows_in_stream):
    db = frame.database(SCHEMA)
    if not first_rows_in_stream:
        db.sql(ROWS)
    stream = deploy(db)
    db.start()
    db.wait_served(stream)
    if first_rows_in_stream:
        db.sql(ROWS)
        db.wait()
    expect_lookups(db, {('lookup', '0', 'u1'): [{'0': 'g1'}]})
    db.sql(CHANGES)
    db.wait()
    expect_lookups(db, {})
    db.sql(KEY_CHANGE)
    db.wait()
    equal(written(db), EXPECTED, 'operations')
    row = {'id': 'a9', 'name': 'First "q"'}
    expect(db, {G1: {('items', 'a9'): {**row, 'group_id': 'g1', 'amount': 1.5, 'big': 9007199254740993}},
                GLOBAL + '[]': {('items', 'a9'): row}})
    return db, stream


@case('scenario v2_streams: compiled here, first rows copied')
def copied(frame):
    db, stream = steps(frame, lambda db: db.deploy(STREAMS), False)
    equal(stream_document(db, stream)['serialized_plan'], PLAN, 'the stored plan')


@case('scenario v2_streams: compiled here, first rows streamed')
def streamed(frame):
    steps(frame, lambda db: db.deploy(STREAMS), True)


@case('scenario v2_streams: deployed by the API with its own plan')
def by_api(frame):
    def deploy(db):
        # the numbers as another driver may write them; the plan is what counts, not what the text would give now
        plan = json.loads(json.dumps(PLAN), parse_int=float)
        return deploy_as_api(db, STREAMS.replace('SELECT id, name FROM items', 'SELECT id FROM items'), serialized_plan=plan)
    steps(frame, deploy, False)


@case('a stored plan of a newer version is refused where the API shows it')
def newer(frame):
    db = frame.database(SCHEMA)
    plan = json.loads(json.dumps(PLAN))
    plan['plan']['version'] = 3
    stream = deploy_as_api(db, STREAMS, serialized_plan=plan)
    db.start()
    wait_until(lambda: stream_document(db, stream)['last_fatal_error'], 30, lambda: db.status(), 0.05)
    check('version 3' in stream_document(db, stream)['last_fatal_error'], lambda: stream_document(db, stream))
    equal([(s['phase'], s['last_error_sqlstate']) for s in db.status() if s['stream'] == stream], [('stopped', '0A000')])
    equal(db.mongo.bucket_data.count_documents({}), 0)


@case('streams of edition 3: JSON arrays, parameters of several tables, names that mean something elsewhere')
def wider(frame):
    schema = """CREATE TABLE notes (id text PRIMARY KEY, tags text, owner text, "Big Name" int);
        CREATE TABLE people (id text PRIMARY KEY, team text);
        CREATE TABLE teams (id text PRIMARY KEY, lead text)"""
    rules = """
config:
  edition: 3
event_definitions:
  created:
    payloads:
      - SELECT id FROM people
streams:
  by_tag:
    query: SELECT notes.id, notes."Big Name" FROM notes, json_each(notes.tags) AS t WHERE t.value = subscription.parameter('tag')
  of_team:
    query: >-
      SELECT * FROM notes WHERE owner IN (SELECT people.id FROM people INNER JOIN teams ON people.team = teams.id
      WHERE teams.lead = auth.user_id())
"""
    rows = ["""INSERT INTO notes VALUES ('n1', '["a","b"]', 'p1', 7), ('n2', '[]', 'p2', NULL);
        INSERT INTO people VALUES ('p1', 't1'), ('p2', 't1'); INSERT INTO teams VALUES ('t1', 'u9')""",
            "UPDATE notes SET tags = '[\"b\",\"c\"]' WHERE id = 'n1'"]
    full = {'n1': {'id': 'n1', 'tags': '["b","c"]', 'owner': 'p1', 'Big Name': 7},
            'n2': {'id': 'n2', 'tags': '[]', 'owner': 'p2', 'Big Name': None}}
    tagged = {('notes', 'n1'): {'id': 'n1', 'Big Name': 7}}
    db = frame.both_ways(schema, rules, rows, {
        'by_tag|0["b"]': tagged, 'by_tag|0["c"]': tagged,
        'of_team|0["p1"]': {('notes', 'n1'): full['n1']}, 'of_team|0["p2"]': {('notes', 'n2'): full['n2']}})
    equal(stream_document(db, db.served().stream)['serialized_plan']['eventDescriptors'], {'created': ['SELECT id FROM people']})


@case('streams of edition 2')
def alpha(frame):
    schema = """CREATE TABLE notes (id text PRIMARY KEY, owner text, list text);
        CREATE TABLE members (id text PRIMARY KEY, list text, who text)"""
    rules = """
config:
  edition: 2
streams:
  mine:
    query: SELECT * FROM notes WHERE owner = auth.user_id() OR list IN (SELECT list FROM members WHERE who = auth.user_id())
"""
    rows = ["""INSERT INTO notes VALUES ('n1', 'u1', 'l1'), ('n2', 'u2', 'l2'); INSERT INTO members VALUES ('m', 'l2', 'u1')""",
            "UPDATE notes SET list = 'l1' WHERE id = 'n2'"]
    n1 = {('notes', 'n1'): {'id': 'n1', 'owner': 'u1', 'list': 'l1'}}
    n2 = {('notes', 'n2'): {'id': 'n2', 'owner': 'u2', 'list': 'l1'}}
    db = frame.both_ways(schema, rules, rows, {
        'mine|0["u1"]': n1, 'mine|0["u2"]': n2, 'mine|1["l1"]': {**n1, **n2}})
    expect_lookups(db, {('mine', '0', 'u1'): [{'result': 'l2'}]})
    equal(stream_document(db, db.served().stream)['serialized_plan'], None)
