"""frame.py - what the end-to-end cases share: a fresh database for each, and rows compared with what is expected.

A case is a function that takes a Frame; @case registers it.  Databases and
their MongoDB databases are dropped at the end of a case that passed.
"""
import json

import oracle
from suite import check, difference, equal, wait_until

CASES = []


def case(name):
    def register(function):
        CASES.append((name, function))
        return function
    return register


def select_all(*tables):
    """The rules R(t) of the bug cases: one bucket with all rows."""
    data = ''.join(f'      - {json.dumps("SELECT * FROM " + t)}\n' for t in tables)
    return 'bucket_definitions:\n  global:\n    data:\n' + data


def global_rules(*queries):
    return 'bucket_definitions:\n  global:\n    data:\n' + ''.join(f'      - {json.dumps(q)}\n' for q in queries)


class Frame:
    def __init__(self, stand):
        self.stand, self.cluster = stand, stand.cluster
        self.number = 0
        self.databases = []

    def database(self, schema='', **options):
        self.number += 1
        db = self.stand.database(f'e2e{self.number}')
        self.databases.append(db)
        return db.create(schema, **options)

    def replicating(self, schema, rules, **options):
        """A new database that streams: schema made, rules deployed, started, first checkpoint there."""
        db = self.database(schema, **options)
        stream = db.deploy(rules)
        db.start()
        db.wait_served(stream)
        return db

    def clean(self):
        for db in self.databases:
            db.drop()
        self.databases = []

    def both_ways(self, schema, rules, statements, expected, **options):
        """The same statements before the start (initial copy) and after it (stream): both must give `expected`,
        {bucket: {(table, id): dict}}.  statements: a list, each run by itself."""
        for way in ('copy', 'stream'):
            db = self.database(schema, **options)
            if way == 'copy':
                for s in statements:
                    db.sql(s)
            stream = db.deploy(rules)
            db.start()
            db.wait_served(stream)
            if way == 'stream':
                for s in statements:
                    db.sql(s)
            db.wait()
            expect(db, expected, way)
        return db


def expect(db, expected, what=''):
    """Visible rows, {bucket: {(table, id): dict}}; and nothing in the storage breaks the contract."""
    state = db.reduced()
    got, flat = oracle.compare_rows(state, expected)
    check(got == flat, lambda: f'{what}: buckets differ:\n{difference(got, flat)}')
    wrong = oracle.problems(db.mongo)
    check(not wrong, lambda: f'{what}: {wrong[:8]}')
    return state


def settle(db, expected):
    """Until these are the visible rows, over copies that go on beside the stream; then as expect()."""
    def differs():
        got, flat = oracle.compare_rows(db.reduced(), expected)
        return difference(got, flat) if got != flat else None
    wait_until(lambda: not differs(), 60, lambda: f'{differs()}\n{db.status()}', 0.05)
    wait_until(lambda: not oracle.problems(db.mongo), 30, lambda: str(oracle.problems(db.mongo)[:8]), 0.05)


def ops_of(db, bucket):
    """[(op, row id, parsed data or None)] of one bucket, in order."""
    return [(op['op'], op['row_id'], json.loads(op['data']) if op.get('data') else None)
            for op in db.ops() if oracle.short_bucket(op['_id']['b']) == bucket]


def lookups(db):
    now = db.served()
    return oracle.read_lookups(db.mongo, now.stream, now.checkpoint)


def expect_lookups(db, expected):
    """expected: {(name, query, values...): [parameter dict, ...]}"""
    expected = {oracle.lookup_bytes(*key): sorted(json.dumps(p, sort_keys=True) for p in parameters)
                for key, parameters in expected.items()}
    equal(lookups(db), expected, 'lookups')
