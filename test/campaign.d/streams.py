#!/usr/bin/env python3
"""streams: random queries of edition 3 sync the rows that the same SQL finds.

Each query is compiled; a second reading of the plan (plan_model.py) says which
rows a client gets, SQLite says which ones the query means.  Hashes and the
order of keys are computed again, too.  Left out is what the service itself
does otherwise: a negated IN or && (it asks for an element that differs).
"""
import json
import os
import sqlite3
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', 'lib'))

from campaign import arguments                                  # noqa: E402
from plan_model import bucket_hash, key_hashes, source_hash, synced_ids     # noqa: E402
from suite import Suite, check, equal                           # noqa: E402

UNIT = os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', 'unit')
QUERIES, DATABASES = 200, 3     # a round's; contents that each query is tried on

REQUEST = {'auth': {'sub': 'a', 'org': 'b', 'list': ['a', 'c']}, 'subscription': {'p': 'c', 'ids': ['b', 'd']}}
TABLES = {'t': ('id', 'x', 'y', 'n', 'list'), 'u': ('id', 'uid', 'org 😀', 'n', 'list'),
          'v': ('id', 'w', '😀', 'n', 'list')}
TEXTS = ['a', 'b', 'c', 'd', "it's", '😀']     # of rows

# the same in a stream and in SQLite
SCALARS = [('auth.user_id()', "'a'"), ("auth.parameter('org')", "'b'"), ("subscription.parameter('p')", "'c'"),
           ('upper(auth.user_id())', "'A'"), ("'d'", "'d'"), ("'it''s'", "'it''s'"), ("'😀'", "'😀'")]
ARRAYS = [("auth.parameter('list')", """'["a","c"]'"""), ("subscription.parameter('ids')", """'["b","d"]'"""),
          ("""'["a","d"]'""", """'["a","d"]'""")]


def quoted(name):
    return name if name.isalnum() and name.isascii() else f'"{name}"'


class Generator:
    """Makes pairs of the same condition: as a stream has it, and as SQLite has it."""

    def __init__(self, random):
        self.random = random
        self.number = 0
        self.searched = set()

    def name(self, prefix):
        self.number += 1
        return f'{prefix}{self.number}'

    def column(self, scope, kind=''):
        """scope: (name, table); table None is json_each().  kind: 'n', 'list' or text"""
        name, table = self.random.choice([s for s in scope if s[1] or not kind])
        if table is None:
            return f'{name}.value'
        columns = [c for c in TABLES[table] if c != 'id' and (c == kind if kind else c not in ('n', 'list'))]
        return f'{name}.{quoted(self.random.choice(columns))}'

    def plain(self, scope):
        column, text = self.column(scope, 'n'), self.column(scope)
        return self.random.choice([(f'{column} = 1',) * 2, (f'{column} > 0',) * 2, (f'{column} > 0.5',) * 2,
                                   (f'{column} BETWEEN 1 AND 1.25',) * 2,
                                   (f"CAST({column} AS text) = '1'",) * 2,
                                   (f"CASE WHEN {text} = 'it''s' THEN 2 WHEN {text} = '😀' THEN 1.5 ELSE 0 END > 1",) * 2,
                                   (f"CASE {column} WHEN 1 THEN 'a' WHEN 2 THEN 'b' ELSE 'c' END = 'b'",) * 2,
                                   (f'{column} IN ARRAY[0, 2]', f'{column} IN (0, 2)')])

    def member(self, scope):
        array = self.random.choice(ARRAYS)
        scalar = self.random.choice(SCALARS)
        column, list_column = self.column(scope), self.column(scope, 'list')
        elements = '(SELECT value FROM json_each({}))'.format
        # the service takes two searches of one array for one key: both must then find the same element, unlike in SQL
        kind = self.random.randrange(3)
        if kind > 0 and list_column in self.searched:
            return self.equality(scope)
        if kind > 0:
            self.searched.add(list_column)
        return [
            (f'{column} IN {array[0]}', f'{column} IN {elements(array[1])}'),
            (f'{scalar[0]} IN {list_column}', f'{scalar[1]} IN {elements(list_column)}'),
            (f'{list_column} && {array[0]}',
             f'EXISTS (SELECT 1 FROM json_each({list_column}) AS a, json_each({array[1]}) AS b WHERE a.value = b.value)'),
        ][kind]

    def equality(self, scope):
        column, other = self.column(scope), self.column(scope)
        scalar, second = self.random.choice(SCALARS), self.random.choice(SCALARS)
        return self.random.choice([(f'{column} = {scalar[0]}', f'{column} = {scalar[1]}'), (f'{column} = {other}',) * 2,
                                   (f'{scalar[0]} = {second[0]}', f'{scalar[1]} = {second[1]}')])

    def subquery(self, scope, depth):
        name, table = self.name('s'), self.random.choice(list(TABLES))
        inner, source = [(name, table)], f'{table} AS {name}'
        if self.random.random() < 0.3:
            inner.append((self.name('e'), None))
            source += f', json_each({name}.list) AS {inner[1][0]}'
            self.searched.add(f'{name}.list')
        where = self.condition(inner, depth - 1, 2)
        left = self.random.choice([(self.column(scope),) * 2, (self.column(scope),) * 2, self.random.choice(SCALARS)])
        select = f'SELECT {self.column(inner)} FROM {source} WHERE'
        return tuple(f'{side} IN ({select} {w})' for side, w in zip(left, where))

    def leaf(self, scope, depth):
        kind = self.random.random()
        if kind < 0.25:
            return self.plain(scope)
        if kind < 0.5:
            return self.member(scope)
        if kind < 0.8 or depth <= 0:
            return self.equality(scope)
        return self.subquery(scope, depth)

    def condition(self, scope, depth, size):
        kind = self.random.random()
        if size <= 0 or kind < 0.35:
            return self.leaf(scope, depth)
        if kind < 0.45:
            return tuple(f'NOT ({side})' for side in self.random.choice([self.plain, self.equality])(scope))
        operator = 'AND' if kind < 0.8 else 'OR'
        pairs = zip(self.condition(scope, depth, size - 1), self.condition(scope, depth, size - 1))
        return tuple(f'({a} {operator} {b})' for a, b in pairs)

    def query(self):
        scope, source = [('t', 't')], 't'
        self.searched = set()
        for _ in range(self.random.choice([0, 0, 1, 1, 2])):
            name, table = self.name('j'), self.random.choice(list(TABLES))
            source += f' JOIN {table} AS {name} ON {self.column(scope)} = {self.column([(name, table)])}'
            scope.append((name, table))
        if self.random.random() < 0.2:
            source += ', json_each(t.list) AS tl'
            scope.append(('tl', None))
            self.searched.add('t.list')
        where = self.condition(scope, 2, 3)
        sources = [source, source]
        if self.random.random() < 0.2:
            array, column = self.random.choice(ARRAYS), self.column(scope)
            sources = [f'{source}, json_each({a}) AS rq' for a in array]
            where = [f'({side}) AND rq.value = {column}' for side in where]
        return (f'SELECT t.id FROM {sources[0]} WHERE {where[0]}',
                f'SELECT DISTINCT t.id FROM {sources[1]} WHERE {where[1]}')


def contents(random):
    def value(column, number):
        if column == 'id':
            return str(number)
        if column == 'n':
            return random.randint(0, 2)
        if column == 'list':
            return json.dumps([random.choice('abcd') for _ in range(random.randint(1, 3))])
        return random.choice(TEXTS)

    return {table: [{column: value(column, i) for column in columns} for i in range(random.randint(2, 7))]
            for table, columns in TABLES.items()}


def sqlite_ids(data, sql):
    database = sqlite3.connect(':memory:')
    for table, columns in TABLES.items():
        database.execute(f'CREATE TABLE {table} ({", ".join(map(quoted, columns))})')
        for row in data[table]:
            database.execute(f'INSERT INTO {table} VALUES ({", ".join("?" * len(columns))})', [row[c] for c in columns])
    return {row[0] for row in database.execute(sql)}


def compile_all(queries):
    documents = [f'config:\n  edition: 3\nstreams:\n  s:\n    query: {json.dumps(q, ensure_ascii=False)}\n' for q in queries]
    done = subprocess.run([f'{UNIT}/build/plan_of'], input='\n%%\n'.join(documents), capture_output=True, text=True,
                          check=True)
    return done.stdout.splitlines()


def check_hashes(plan, query):
    for source in plan['dataSources'] + plan['parameterIndexes']:
        equal(source['hash'], source_hash(source), f'hash: {query}')
        hashes = key_hashes(source)
        equal(hashes, sorted(hashes), f'order of keys: {query}')
    for bucket in plan['buckets']:
        equal(bucket['hash'], bucket_hash(bucket, plan['dataSources']), f'hash of bucket: {query}')


def one_round(options):
    generator = Generator(options.random)
    pairs = [generator.query() for _ in range(QUERIES)]
    results = compile_all([query for query, _ in pairs])
    equal(len(results), QUERIES)
    refused = 0
    for (query, sql), result in zip(pairs, results):
        if result.startswith('refused '):
            # the only thing here that streams cannot do
            check('mixes several tables' in result, lambda: f'{result}: {query}')
            check('NOT' in query, lambda: f'{result}: {query}')
            refused += 1
            continue
        plan = json.loads(result.removeprefix('plan '))['plan']
        check_hashes(plan, query)
        for _ in range(DATABASES):
            data = contents(options.random)
            equal(synced_ids(plan, data, REQUEST), sqlite_ids(data, sql), f'{query}\non {json.dumps(data)}')
    check(refused < QUERIES / 3, lambda: f'{refused} of {QUERIES} queries are refused')


def main():
    options = arguments(__doc__, 20)
    subprocess.run(['make', '-s', '-C', UNIT, 'build/plan_of'], check=True)
    suite = Suite('streams')
    for number in range(options.rounds):
        suite.run(f'{QUERIES} queries, round {number + 1}', one_round, options)
    return suite.end()


if __name__ == '__main__':
    sys.exit(main())
