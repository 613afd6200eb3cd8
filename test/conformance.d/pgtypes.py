#!/usr/bin/env python3
"""pgtypes: values of every type from a PostgreSQL server to the storage, by the copy and by the stream.

usage: pgtypes.py FILE...     (test/conformance starts it)

Each set of compatibility options of the vectors is a database of its own, which replicates tables with a column for
each case: a row that is there before the start, and one that is written after it.  Both must come out as the vectors
say, to the byte.  The databases, and the server, have other formats and another time zone than the vectors' server had.

A case may have been recorded in a session with another zone than UTC.  Where the zone shows (a timestamptz inside a
raw text; offsets with seconds; years that differ) pgsync gives what the service gives in UTC, see utc_expected().
"""
import collections
import contextlib
import json
import os
import re
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', 'lib'))

import psycopg2                         # noqa: E402

import oracle                           # noqa: E402
from stand import Stand                 # noqa: E402
from suite import check                 # noqa: E402

OPTIONS = {
    'iso': 'timestamps_iso8601: true', 'custom': 'custom_postgres_types: true',
    'noiso': 'timestamps_iso8601: false', 'nocustom': 'custom_postgres_types: false',
    **{p: f'timestamp_max_precision: {p}' for p in ('seconds', 'milliseconds', 'microseconds', 'nanoseconds')},
}
CONTEXTS = ['edition1', 'edition1_iso', 'edition1_custom', 'edition2', 'edition2_nocustom', 'edition2_noiso',
            'edition2_seconds', 'edition2_milliseconds', 'edition2_microseconds', 'edition2_nanoseconds', 'edition3']
# as unlike what the service asks for as can be
FORMATS = {'datestyle': 'SQL, DMY', 'intervalstyle': 'iso_8601', 'bytea_output': 'escape', 'extra_float_digits': '-10',
           'timezone': 'Asia/Kolkata', 'xmlbinary': 'hex'}
PLAIN = {'datestyle': 'ISO, MDY', 'intervalstyle': 'postgres', 'bytea_output': 'hex', 'extra_float_digits': '1'}
MOST_COLUMNS = 400


def fallback(context):
    """The context whose expectation counts where a case names none of its own."""
    return context.split('_')[0] if '_' in context else 'edition2' if context == 'edition3' else context


def rules(context, tables):
    edition = int(context[7])
    options = ''.join(f', {OPTIONS[o]}' for o in context.split('_')[1:])
    config = f'config: {{edition: {edition}{options}}}\n'
    queries = [q for t in tables for q in t.queries()]
    if edition < 3:
        return config + 'bucket_definitions:\n  all:\n    data:\n' + ''.join(f'      - {json.dumps(q)}\n' for q in queries)
    return config + 'streams:\n' + ''.join(f'  s{i}:\n    auto_subscribe: true\n    query: {json.dumps(q)}\n'
                                            for i, q in enumerate(queries))


class Table:
    """Cases that were recorded in one time zone, a column each.  Blobs have no JSON: a query shows their hex."""

    def __init__(self, name, zone, cases):
        self.name, self.zone, self.cases = name, zone, cases

    def columns(self):
        return [(f'c{i}', case) for i, case in enumerate(self.cases)]

    def create(self):
        return f'CREATE TABLE {self.name} (id text PRIMARY KEY' + \
            ''.join(f', {c} {case["pg_type"]}' for c, case in self.columns()) + ')'

    def insert(self, row):
        return f"INSERT INTO {self.name} VALUES ('{row}'" + ''.join(f', {case["sql"]}' for _, case in self.columns()) + ')'

    def blobs(self):
        return [c for c, case in self.columns()
                if any(isinstance(e.get('value'), dict) and 'blob' in e['value'] for e in case['expected'].values())]

    def queries(self):
        hexes = ''.join(f', hex({c}) AS {c}' for c in self.blobs())
        return [f'SELECT * FROM {self.name}'] + ([f'SELECT id{hexes} FROM {self.name} AS {self.name}_hex'] if hexes else [])


# ---------------------------------------------------------------- expectations

def timestamptz_in_utc(text, context):
    """10.3 for a value printed in UTC."""
    match = re.fullmatch(r'(\d{4}-\d\d-\d\d) (\d\d:\d\d:\d\d)(\.\d+)?\+00', text)
    if match is None:
        return None
    date, clock, fraction = match.groups()
    edition, *options = context.split('_')
    iso = 'iso' in options or (edition != 'edition1' and 'noiso' not in options)
    if not iso:
        return f'{date} {clock}{fraction or ""}Z'
    digits = {'seconds': 0, 'milliseconds': 3}.get(options[0] if options else '', 6)
    fraction = ('.' + (fraction or '.')[1:].ljust(6, '0')[:digits]) if digits else ''
    return f'{date}T{clock}{fraction}Z'


TIMESTAMP = re.compile(r'-?infinity|NULL|\d+-\d\d-\d\d \d\d:\d\d:\d\d(?:\.\d+)?[+-][\d:]+(?: BC)?')


def shows_zone(text, utc_text):
    """Whether the service's value of a timestamptz depends on the session's zone (the bad cases of 10.3)."""
    far = [t for t in (text, utc_text) if 'BC' in t or len(t.partition('-')[0]) > 4]
    return bool(re.search(r'[+-]\d\d:\d\d:\d\d( BC)?$', text) or (far and text[0].isdigit()))


def in_utc(case, context, text, utc_text):
    """The expected text, a timestamptz or JSON of several, as it is in a session in UTC; None for NULL."""
    printed, utc = TIMESTAMP.findall(case['pg_text']), TIMESTAMP.findall(utc_text)
    if not any(shows_zone(p, u) for p, u in zip(printed, utc)):
        return text
    values = json.loads(text) if text is not None and text[0] in '[{' else [text]
    places = [k for k in values if not k.endswith('_exclusive')] if isinstance(values, dict) else range(len(values))
    check(len(places) == len(printed) == len(utc), f'{case["id"]}: what it would be in UTC is not known')
    for place, p, u in zip(places, printed, utc):
        if shows_zone(p, u):
            values[place] = timestamptz_in_utc(u, context)
    return values[0] if text is None or text[0] not in '[{' else json.dumps(values, separators=(',', ':'), ensure_ascii=False)


def utc_expected(case, context, utc_text):
    expected = case['expected'].get(context) or case['expected'][fallback(context)]
    if case.get('session_timezone', 'UTC') == 'UTC' or 'value' not in expected:
        return expected
    value = expected['value']
    if value == {'text': case['pg_text']}:
        return {'value': {'text': utc_text}, 'json': json.dumps(utc_text, ensure_ascii=False)}
    if value is None or 'text' in value:
        text = in_utc(case, context, value and value['text'], utc_text)
        return {'value': text and {'text': text}, 'json': json.dumps(text, ensure_ascii=False)}
    return expected


def difference(table, expected, data):
    """{column: what the data has instead}; data and expectations are texts of JSON, which may hold NaN."""
    wanted = [(c, expected[c]) for c, _ in table.columns() if expected[c] is not None]
    wrong, at = {}, data.index('"id":') + len('"id":"') if '"id":' in data else 0
    at = data.index('"', at) + 1
    for i, (column, text) in enumerate(wanted):
        whole = f',"{column}":{text}'
        if data.startswith(whole, at) and data[at + len(whole):at + len(whole) + 1] in (',', '}'):
            at += len(whole)
            continue
        following = [data.find(f',"{c}":', at + 1) for c, _ in wanted[i + 1:]]
        end = next((f for f in following if f >= 0), len(data) - 1)
        wrong[column] = data[at:end]
        at = end
    if data[at:] != '}':
        wrong.setdefault(wanted[-1][0] if wanted else 'id', data[at:])
    return wrong


# ---------------------------------------------------------------- the run

class Run:
    def __init__(self, stand, setup, cases, file):
        self.stand, self.setup, self.cases, self.file = stand, setup, cases, file
        self.failures = collections.defaultdict(list)       # case id -> what is wrong
        self.utc_texts = {}
        self.tables = []

    def fail(self, case, message):
        self.failures[case['id']].append(message)

    def prepare(self, db):
        for statement in self.setup:
            extensions = re.fullmatch(r'CREATE EXTENSION (.*)', statement)
            for part in [f'CREATE EXTENSION {e}' for e in re.split(r',\s*', extensions[1])] if extensions else [statement]:
                db.sql(part)

    def print_in_utc(self):
        """The text of every value in UTC, and which cases cannot be run at all."""
        db = self.stand.database('printing').create(extension=False, publication=False)
        self.prepare(db)
        good = collections.defaultdict(list)
        with contextlib.closing(db.connect()) as c, c.cursor() as cursor:
            for case in self.cases:
                try:
                    self.session(cursor, case.get('session_timezone', 'UTC'))
                    cursor.execute(f"CREATE TEMP TABLE one (v {case['pg_type']}); INSERT INTO one VALUES ({case['sql']})")
                    cursor.execute("SELECT format('%s', v) FROM one")
                    printed = cursor.fetchone()[0]
                    cursor.execute("SET timezone = 'UTC'; SELECT format('%s', v) FROM one")
                    self.utc_texts[case['id']] = cursor.fetchone()[0]
                    cursor.execute('DROP TABLE one')
                    good[case.get('session_timezone', 'UTC')].append(case)
                    if printed != case['pg_text']:
                        self.fail(case, f'this server prints {printed!r}, the vectors {case["pg_text"]!r}')
                except psycopg2.Error as error:
                    self.fail(case, f'the value cannot be made: {error}')
        db.drop()
        for zone, cases in good.items():
            alone = [case for case in cases if any(e.get('conversion_error') for e in case['expected'].values())]
            rest = [case for case in cases if case not in alone]
            for group in [rest[i:i + MOST_COLUMNS] for i in range(0, len(rest), MOST_COLUMNS)] + [[c] for c in alone]:
                self.tables.append(Table(f't{len(self.tables)}', zone, group))

    @staticmethod
    def session(cursor, zone):
        for name, value in {**PLAIN, 'timezone': zone}.items():
            cursor.execute(f'SET {name} = %s', (value,))

    def write(self, db, row):
        with contextlib.closing(db.connect()) as c, c.cursor() as cursor:
            for table in self.tables:
                self.session(cursor, table.zone)
                cursor.execute(table.insert(row))

    def start(self, context):
        db = self.stand.database(context).create()
        self.prepare(db)
        for name, value in FORMATS.items():
            db.cluster.sql(f"ALTER DATABASE {context} SET {name} = '{value}'")
        for table in self.tables:
            db.sql(table.create())
        self.write(db, 'copy')
        db.deploy(rules(context, self.tables))
        db.start()
        return db

    def compare(self, context, db):
        found = {}
        for key, data in db.reduced().all_rows().items():
            _, table, row = key
            found[table, row] = data
        for table in self.tables:
            expected = {c: utc_expected(case, context, self.utc_texts[case['id']]) for c, case in table.columns()}
            for way in ('copy', 'stream'):
                self.compare_row(context, way, table, expected, found)

    def compare_row(self, context, way, table, expected, found):
        cases = dict(table.columns())
        data = found.get((table.name, way))
        if any(e.get('conversion_error') for e in expected.values()):
            if data is not None:
                self.fail(table.cases[0], f'{context}, {way}: expected no row, got {data}')
            return
        if data is None:
            for case in table.cases:
                self.fail(case, f'{context}, {way}: there is no row')
            return
        texts = {c: e['json'] for c, e in expected.items()}
        for column, got in difference(table, texts, data).items():
            self.fail(cases[column], f'{context}, {way}: got {got[:400]}, expected {str(texts[column])[:400]}')
        blobs = json.loads(found.get((f'{table.name}_hex', way), '{}'))
        for column in table.blobs():
            value = expected[column]['value']
            if isinstance(value, dict) and 'blob' in value and blobs.get(column, '').lower() != value['blob']:
                self.fail(cases[column], f'{context}, {way}: got blob {blobs.get(column)}, expected {value["blob"]}')

    def run(self):
        self.print_in_utc()
        for batch in (CONTEXTS[:6], CONTEXTS[6:]):
            databases = [(context, self.start(context)) for context in batch]
            for context, db in databases:
                db.wait_served()
                self.write(db, 'stream')
            for context, db in databases:
                db.wait()
                self.compare(context, db)
                db.drop()

    def report(self):
        for case in self.cases:
            if case['id'] in self.failures:
                problems = self.failures[case['id']]
                print(f"not ok - {case['id']} {case['pg_type']} {case['sql'][:100]}")
                for problem in problems[:4]:
                    print(f'    {problem}')
                if len(problems) > 4:
                    print(f'    ... and {len(problems) - 4} more')
        return len(self.cases) - len(self.failures), len(self.failures)


def main():
    passed = failed = 0
    config = {name: f"'{value}'" for name, value in FORMATS.items()}
    with Stand('pgtypes', config={**config, 'pgsync.max_workers': '12'}) as stand:
        for file in sys.argv[1:]:
            with open(file, encoding='utf-8') as f:
                vectors = json.load(f)
            check(vectors.get('format') == 1, f'{file}: unknown format {vectors.get("format")}')
            run = Run(stand, vectors['setup'], vectors['cases'], file)
            run.run()
            p, f = run.report()
            passed, failed = passed + p, failed + f
    print(f'{passed} passed, {failed} failed')
    return 1 if failed or not passed else 0


if __name__ == '__main__':
    sys.exit(main())
