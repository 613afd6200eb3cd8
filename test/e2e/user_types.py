"""user_types.py - values whose types are not the server's own, settings of the server, and what values may not do to a worker."""
import contextlib
import json
import os
import random
import subprocess
import time

import oracle
from frame import case, expect, global_rules, select_all
from suite import check, equal, wait_until
from tables import own_memory, restart_worker

G = 'global[]'
HERE = os.path.dirname(os.path.abspath(__file__))
CUSTOM = 'config: {edition: 2}\n'


def rows(db, table):
    """{id: row} of what clients see of a table."""
    return {row_id: json.loads(data) for (_, name, row_id), data in db.reduced().all_rows().items() if name == table}


def start_and_wait(db, rules):
    stream = db.deploy(rules)
    db.start()
    db.wait_served(stream)
    return stream


# ---------------------------------------------------------------- foreign code

def evil_module():
    """A type whose output function does what its value says."""
    folder = os.path.join(HERE, '..', 'module')
    done = subprocess.run(['make', '-s', '-C', folder, f"PG_CONFIG={os.environ.get('PG_CONFIG', 'pg_config')}", 'build/evil.so'],
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    check(done.returncode == 0, done.stdout)
    return os.path.abspath(os.path.join(folder, 'build', 'evil.so'))


def evil_database(frame, schema):
    db = frame.database(f"""
        CREATE TYPE evil;
        CREATE FUNCTION evil_in(cstring) RETURNS evil AS '{evil_module()}' LANGUAGE C STRICT IMMUTABLE;
        CREATE FUNCTION evil_out(evil) RETURNS cstring AS '{evil_module()}' LANGUAGE C STRICT STABLE;
        CREATE TYPE evil (INPUT = evil_in, OUTPUT = evil_out, LIKE = text);
        CREATE ROLE mallory LOGIN;
        CREATE SCHEMA m AUTHORIZATION mallory;
        CREATE TABLE evil_log (x text);
        GRANT ALL ON evil_log TO mallory;
        SET ROLE mallory;
        {schema}""")
    return db


@contextlib.contextmanager
def without_mallory(db):
    try:
        yield
    finally:
        db.stop()
        db.sql('DROP OWNED BY mallory CASCADE; DROP ROLE mallory')


HARMLESS = {'fine': 'fine', 'set': 'set', 'lock and leave': 'lock and leave', 'bytes': 'a\ufffd\ufffd',
            'who': 'mallory, restricted 1, read only 1, path '}
HARMFUL = ('error', 'error of bytes', 'cancel', 'memory', 'more memory', 'recurse', 'write', 'lock and fail', 'terminate', 'superuser')


@case('output functions of foreign types: they run as the owner, and what they raise is the row\'s failure')
def foreign_code(frame):
    db = evil_database(frame, """
        CREATE DOMAIN m.d AS evil;
        CREATE TYPE m.c AS (a int, e m.d);
        CREATE TABLE m.plain (id text PRIMARY KEY, v evil, r daterange);
        CREATE TABLE m.domains (id text PRIMARY KEY, v m.d, r daterange);
        CREATE TABLE m.arrays (id text PRIMARY KEY, v evil[], r daterange);
        CREATE TABLE m.composites (id text PRIMARY KEY, v m.c, r daterange);
        CREATE TABLE m.whole (id text, v evil, r daterange);
        ALTER TABLE m.whole REPLICA IDENTITY FULL;""")
    made = {'plain': '%s', 'domains': '%s', 'arrays': 'ARRAY[%s::evil]', 'composites': 'ROW(1, %s::m.d)::m.c', 'whole': '%s'}

    def insert(way):
        with contextlib.closing(db.connect()) as c, c.cursor() as cursor:
            for table, value in made.items():
                for what in (*HARMLESS, *HARMFUL):
                    cursor.execute(f"INSERT INTO m.{table} VALUES (%s, {value}, '[2024-01-01,2024-02-01)')",
                                   (f'{way} {what}', what))

    def verify(*ways):
        db.wait()
        for table in made:
            text = {'arrays': '{{"{0}"}}', 'composites': '(1,"{0}")'}.get(table, '{0}')
            expected = {}
            for way in ways:
                for what, printed in HARMLESS.items():
                    plain = text.replace('"', '') if what in ('fine', 'set', 'bytes') else text
                    expected[f'{way} {what}'] = plain.replace('{{', '{').replace('}}', '}').replace('{0}', printed)
            got = rows(db, table)
            equal({i: row['v'] for i, row in got.items()}, expected, table)
            equal({row['r'] for row in got.values()}, {'[2024-01-01,2024-02-01)'}, 'printed after "set"')

    with without_mallory(db):
        insert('copy')
        start_and_wait(db, select_all(*(f'm.{t}' for t in made)))
        verify('copy')
        pid, each = db.status()[0]['pid'], len(HARMFUL) * len(made)
        equal(db.status()[0]['rejected_rows'], each, 'rejected by the copy')
        insert('stream')
        verify('copy', 'stream')
        equal(db.status()[0]['rejected_rows'], 2 * each, 'rejected')
        reasons = {reason for (reason,) in db.sql("SELECT reason FROM pgsync_rejected_rows WHERE row_key LIKE '%error of bytes%'")}
        equal(reasons, {'column "v" cannot be converted: evil: ? ?'})
        equal(db.status()[0]['pid'], pid, 'the worker went on')
        check(not db.value("SELECT rolsuper FROM pg_roles WHERE rolname = 'mallory'"), 'mallory became superuser')
        equal(db.value('SELECT count(*) FROM evil_log'), 0)

        # a good row goes bad, and good again; bad ones are deleted
        db.sql("UPDATE m.plain SET v = 'error' WHERE id = 'stream fine'")
        db.sql("DELETE FROM m.whole WHERE id LIKE '%error' OR id LIKE '%fine'")
        db.wait()
        check('stream fine' not in rows(db, 'plain'), 'the old version is there')
        check('stream fine' not in rows(db, 'whole'), 'deleted')
        db.sql("UPDATE m.plain SET v = 'good' WHERE id = 'stream fine'")
        db.wait()
        equal(rows(db, 'plain')['stream fine']['v'], 'good')
        equal(db.status()[0]['pid'], pid, 'the worker went on')
        check(not oracle.problems(db.mongo), lambda: oracle.problems(db.mongo)[:5])
        # the dry run says what the worker does
        found = db.sql("SELECT kind, message FROM pgsync_evaluate(%s, 'm.plain', '{\"id\": \"copy error\"}')",
                       (select_all('m.plain'),))
        check(len(found) == 1 and found[0][0] == 'error' and 'column "v"' in found[0][1] and 'evil: error' in found[0][1], found)
        found = db.value("SELECT message FROM pgsync_evaluate(%s, 'm.plain', '{\"id\": \"copy error of bytes\"}')",
                         (select_all('m.plain'),))
        check('evil: ? ?' in found, found)


@case('an output function that does not end is ended, and the rows behind it come')
def foreign_code_sleeps(frame):
    db = evil_database(frame, 'CREATE TABLE m.t (id text PRIMARY KEY, v evil);')
    with without_mallory(db):
        db.sql("INSERT INTO m.t VALUES ('a', 'sleep'), ('b', 'fine')")
        start_and_wait(db, select_all('m.t'))
        pid = db.status()[0]['pid']
        db.sql("BEGIN; INSERT INTO m.t VALUES ('c', 'sleep'); INSERT INTO m.t VALUES ('d', 'fine'); COMMIT")
        db.wait()
        equal({i: row['v'] for i, row in rows(db, 't').items()}, {'b': 'fine', 'd': 'fine'})
        equal((db.status()[0]['rejected_rows'], db.status()[0]['pid']), (2, pid))
        wait_until(lambda: 'took more than' in frame.cluster.log(), 60, 'the reason in the log', 0.1)
        # a stop does not wait for it
        db.sql("INSERT INTO m.t VALUES ('e', 'sleep')")
        db.stop()
        wait_until(lambda: not db.cluster.value(f'SELECT count(*) FROM pg_stat_activity WHERE pid = {pid}'), 5, 'the end', 0.02)


# ---------------------------------------------------------------- values

@case('values of user-defined types: copy and stream agree')
def user_types(frame):
    schema = """
        CREATE EXTENSION hstore; CREATE EXTENSION citext; CREATE EXTENSION ltree;
        CREATE TYPE mood AS ENUM ('sad', 'very happy');
        CREATE DOMAIN d1 AS int; CREATE DOMAIN d2 AS d1; CREATE DOMAIN da AS int[]; CREATE DOMAIN db AS bytea;
        CREATE TYPE c1 AS (a d2, gone text, b text, "9" bool, f float8[]);
        ALTER TYPE c1 DROP ATTRIBUTE "9";
        ALTER TYPE c1 ADD ATTRIBUTE m mood, ADD ATTRIBUTE "7" jsonb;
        ALTER TYPE c1 RENAME ATTRIBUTE gone TO kept;
        CREATE TYPE c2 AS (c c1, cs c1[], t timestamptz, y bytea);
        CREATE DOMAIN dc AS c2;
        CREATE TYPE floats AS RANGE (subtype = float8, multirange_type_name = multifloats);
        CREATE TYPE c3 AS (a d2, "9" text, b mood[], y bytea, n jsonb, r floats);
        CREATE TYPE moods AS RANGE (subtype = mood);
        CREATE TABLE t (id text PRIMARY KEY, m mood[], d d2[], da da, das da[], db db, c c1, c2 dc, c3 c3, r floats,
            ms multifloats[], em moods, h hstore[], ci citext[], l ltree, money money, x xml, n name, nn name, q "char", b box[],
            z timestamptz[])"""
    values = [
        r"""INSERT INTO t (id, m, d, da, das, db, c, c2, c3) VALUES ('1', '[0:1]={sad,NULL}', '{{1},{2}}', '{{1,2}}',
            ('{"{1,2}",NULL}'::da[]), '\xff', ROW(1, 'k', 'b"\ {}(),', '{1,NULL,NaN}', 'very happy', '{"a": 1.0}')::c1,
            ROW(ROW(NULL, '', 'NULL', NULL, NULL, NULL)::c1, ARRAY[ROW(2, NULL, NULL, '{}', 'sad', '1')::c1], '2024-01-01 12:00+02',
            '\x00')::c2, ROW(5, 'x y', '{sad}', '\x00', '{"k": 1.0}', '[1,)')::c3)""",
        """INSERT INTO t (id, r, ms, em, h, ci, l, money, x, n, nn, q, b, z) VALUES ('2', '[1,2.5)',
            ARRAY['{[1,2],(3,)}'::multifloats, '{}'], '[sad,"very happy"]', ARRAY['a=>1, b=>NULL'::hstore], '{A,b}', 'a.b', -1234.5,
            '<?xml version="1.0" encoding="UTF-8"?><a/>', 'plain', '{a}', (-56)::"char", '{(2,2),(0,0);(3,3),(1,1)}',
            '{infinity,"0044-03-15 12:00 BC","2024-01-01 12:00+02"}')"""]
    null = dict.fromkeys('m d da das c c2 c3 r ms em h ci l money x n nn q b z'.split())
    base = {'id': '2', 'l': 'a.b', 'money': '-$1,234.50', 'x': '<a/>', 'n': 'plain', 'q': '\\310'}
    custom = {
        '1': {**null, 'id': '1', 'm': '["sad",null]', 'd': '[[1],[2]]', 'da': '[[1,2]]', 'das': '[[1,2],null]',
              # a dropped attribute has no field, and what follows it is read as another type: it cannot be, and stays a text
              'c': '(1,k,"b""\\\\ {}(),","{1,NULL,NaN}","very happy","{""a"": 1.0}")',
              'c2': '("(,"""",NULL,,,)","{""(2,,,{},sad,1)""}","2024-01-01 10:00:00+00","\\\\x00")',
              'c3': '{"9":"x y","a":5,"b":["sad"],"n":{"k": 1.0},'
                    '"r":{"lower":1.0,"upper":null,"lower_exclusive":0,"upper_exclusive":1}}'},
        '2': {**null, **base, 'nn': '["a"]', 'r': '{"lower":1.0,"upper":2.5,"lower_exclusive":0,"upper_exclusive":1}',
              'ms': '[[{"lower":1.0,"upper":2.0,"lower_exclusive":0,"upper_exclusive":0},'
                    '{"lower":3.0,"upper":null,"lower_exclusive":1,"upper_exclusive":1}],[]]',
              'em': '{"lower":"sad","upper":"very happy","lower_exclusive":0,"upper_exclusive":0}',
              'h': '["\\"a\\"=>\\"1\\", \\"b\\"=>NULL"]', 'ci': '["A","b"]', 'b': '[NaN,NaN]',
              'z': '["9999-12-31T23:59:59.000000Z",null,"2024-01-01T10:00:00.000000Z"]', 'db': None}}
    printed = {
        '1': {**null, 'id': '1', 'm': '[0:1]={sad,NULL}', 'd': '{{1},{2}}', 'da': '{{1,2}}', 'das': '{"{1,2}",NULL}', 'db': '\\xff',
              'c': custom['1']['c'], 'c2': custom['1']['c2'], 'c3': '(5,"x y",{sad},"\\\\x00","{""k"": 1.0}","[1,)")'},
        '2': {**null, **base, 'nn': '{a}', 'r': '[1,2.5)', 'ms': '{"{[1,2],(3,)}","{}"}', 'em': '[sad,"very happy"]',
              'h': '{"\\"a\\"=>\\"1\\", \\"b\\"=>NULL"}', 'ci': '{A,b}', 'b': '["(2","2)","(0","0);(3","3)","(1","1)"]',
              'z': '["9999-12-31 23:59:59Z",null,"2024-01-01 10:00:00Z"]', 'db': None}}
    for config, expected in ((CUSTOM, custom), ('', printed)):
        frame.both_ways(schema, config + select_all('t'), values, {G: {('t', i): row for i, row in expected.items()}})


def random_literals(r):
    """{type: a random literal of it}; None: NULL"""
    def number(digits):
        return f'{r.choice(["", "-"])}{r.randrange(10 ** r.randrange(1, digits))}'

    def real(low, high):
        return r.choice(['NaN', 'Infinity', '-Infinity', '-0', '1e21', '1e-7', '0.1',
                         f'{number(17)}e{r.randrange(low, high)}', repr(r.uniform(-1e6, 1e6))])

    def clock():
        return f'{r.randrange(24):02}:{r.randrange(60):02}:{r.randrange(60):02}'

    def moment():
        year = r.choice([1, 44, 99, 1582, 1899, 1970, 2024, 9999, 10000, 250000])
        fraction = r.choice(['', '.5', '.000001', '.999999', '.12', f'.{r.randrange(10 ** 6):06}'])
        return r.choice(['infinity', '-infinity',
                         f'{year:04}-{r.randrange(1, 13):02}-{r.randrange(1, 29):02} {clock()}{fraction}'
                         f'{r.choice(["", "", " BC"]) if year < 3000 else ""}'])

    def characters():
        return ''.join(r.choice('ab{}()[],;"\\\'=: \t\né\u2028😀NUL\x7f') for _ in range(r.randrange(8)))
    document = {characters(): r.choice([None, True, 1.5, 10 ** 20, [characters()], {}])}
    time_of_day = clock() + r.choice(['', '.5', '.123456'])
    a_date = f'{r.randrange(1, 4000):04}-02-03'
    literals = {
        'bool': r.choice('tf'), 'int2': str(r.randrange(-32768, 32768)), 'int4': number(10), 'int8': number(19),
        'oid': str(r.randrange(2 ** 32)), 'float4': real(-20, 15), 'float8': real(-300, 280),
        'numeric': r.choice(['NaN', 'Infinity', f'{number(40)}.{r.randrange(10 ** 9):09}', number(9)]),
        'text': characters(), 'varchar': characters(), 'bpchar': characters(), 'uuid': f'{r.randrange(2 ** 128):032x}',
        'date': r.choice(['infinity', '-infinity', a_date, a_date + ' BC', '99999-02-03']), 'time': time_of_day,
        'timestamp': moment(), 'timestamptz': moment(), 'timetz': time_of_day + '+05:30',
        'interval': f'{number(5)} mons {number(9)} s', 'jsonb': json.dumps(document), 'json': json.dumps(document, indent=1),
        'bytea': '\\x' + r.randbytes(r.randrange(5)).hex(), 'pg_lsn': f'{r.randrange(2 ** 32):X}/{r.randrange(2 ** 32):X}',
        'inet': f'10.0.0.{r.randrange(256)}', 'bit varying': f'{r.randrange(256):b}', 'point': f'({real(-9, 9)},{real(-9, 9)})',
        'tsvector': "'a':1 'b c':2"}
    return {kind: None if r.random() < 0.1 else literal for kind, literal in literals.items()}


# printed in a composite these are read as another type, and make it a text
NOT_IN_COMPOSITES = {'point'}


@case('direct conversion and the reading of printed values agree on random values')
def random_values(frame):
    seed = int(os.environ.get('PGSYNC_TEST_SEED', time.time_ns() % 1000000))
    print(f'    seed {seed}')
    r = random.Random(seed)
    kinds = list(random_literals(r))
    names = {kind: f'c{i}' for i, kind in enumerate(kinds)}
    columns = ', '.join(f'{n} {k}, {n}a {k}[]' for k, n in names.items())
    inside = ', '.join(f'{n} {k}, {n}a {k}[]' for k, n in names.items() if k not in NOT_IN_COMPOSITES)
    wrapped = ', '.join(f'{n}, {n}a' for k, n in names.items() if k not in NOT_IN_COMPOSITES)
    db = frame.database(f'CREATE TYPE comp AS ({inside}); CREATE TABLE t (id text PRIMARY KEY, {columns}, c comp)')

    def insert(way):
        with contextlib.closing(db.connect()) as c, c.cursor() as cursor:
            for i in range(150):
                values = []
                for kind in kinds:
                    values.append(random_literals(r)[kind])
                    elements = [random_literals(r)[kind] for _ in range(r.randrange(4))]
                    values.append(elements)
                places = ', '.join(f'%s::{k}, %s::text[]::{k}[]' for k in kinds)
                cursor.execute(f"INSERT INTO t VALUES ('{way} {i}', {places})", values)
            cursor.execute(f"UPDATE t SET c = ROW({wrapped})::comp WHERE id LIKE '{way}%%'")

    insert('copy')
    precision = r.choice(['seconds', 'milliseconds', 'microseconds'])
    start_and_wait(db, f'config: {{edition: 2, timestamp_max_precision: {precision}}}\n' + select_all('t'))
    insert('stream')
    db.wait()
    got = rows(db, 't')
    equal(len(got), 300)
    for name, row in got.items():
        composite = json.loads(row['c'])
        for kind, n in names.items():
            if kind in NOT_IN_COMPOSITES:
                continue
            if kind == 'bytea':
                # a blob has no JSON; where it is null, it is null in both
                equal((n in row, row.get(n)), (n in composite, composite.get(n)), f'{name}: {kind}')
            else:
                direct = row[n] if kind not in ('json', 'jsonb') or row[n] is None else json.loads(row[n])
                # NaN is not equal to itself
                equal(repr(composite[n]), repr(direct), f'{name}: {kind}')
            equal(repr(composite[n + 'a']), repr(json.loads(row[n + 'a'])), f'{name}: {kind}[]')


@case('geometries, where PostGIS is there')
def geometries(frame):
    if not frame.cluster.value("SELECT count(*) FROM pg_available_extensions WHERE name = 'postgis'"):
        print('    PostGIS is not installed: nothing was tested')
        return
    value = """ST_GeomFromEWKT('SRID=4326;POINT(1.5 2)'), ARRAY['LINESTRING(0 0,1 1)'::geometry, NULL, 'POINT Z (1 2 3)'],
        'POINT(9.25 -3)', ST_Dump('MULTIPOINT(3 4)'::geometry)"""
    query = 'SELECT *, st_asgeojson(g) AS json, st_x(p) AS x, st_astext(geog) AS text FROM t'
    point, line, third = (frame.cluster.value(f"SELECT encode({make}, 'hex')") for make in (
        r"'\x0101000020e6100000000000000000f83f0000000000000040'::bytea",
        r"'\x010200000002000000' || decode(repeat('00', 16), 'hex') || decode(repeat('000000000000f03f', 2), 'hex')",
        r"'\x0101000080000000000000f03f00000000000000400000000000000840'::bytea"))
    dumped = '0101000000000000000000084000000000000010' + '40'
    geog = '0101000020e61000000000000000802240000000000000' + '08c0'
    raw = {'gs': f'{{{line}:NULL:{third}}}'.upper(), 'd': f'({{1}},{dumped})'}
    read = {'gs': f'["{line}",null,"{third}"]'.upper().replace('NULL', 'null'), 'd': f'{{"path":[1],"geom":"{dumped}"}}'}
    for config, expected in (('', raw), (CUSTOM, read)):
        frame.both_ways('CREATE EXTENSION postgis; CREATE TABLE t (id text PRIMARY KEY, g geometry, gs geometry[],'
                        ' p geometry(Point), d geometry_dump, geog geography)', config + global_rules(query),
                        [f"INSERT INTO t SELECT 'a', {value}, 'POINT(9.25 -3)'"],
                        {G: {('t', 'a'): {'id': 'a', 'g': point.upper(), 'p': '0101000000000000000080224000000000000008C0',
                                          'geog': geog.upper(), 'json': '{"type":"Point","coordinates":[1.5,2.0]}', 'x': 9.25,
                                          'text': 'POINT(9.25 -3)', **expected}}})


@case('values at their limits: deep composites, nulls in arrays, a gigabyte, and rows behind them')
def limits(frame):
    depth = 30
    deep = ''.join(f'CREATE TYPE c{i} AS (x {"int" if i == 0 else f"c{i - 1}"});' for i in range(depth))
    schema = deep + f"""CREATE TYPE holder AS (a int[]); CREATE TYPE numbers AS (n numeric[]); CREATE TYPE mood AS ENUM ('a'); CREATE DOMAIN da AS int[];
        CREATE TABLE t (id text PRIMARY KEY, a int[], h holder, d da, m mood[], n numeric[], j jsonb, hn numbers, c c{depth - 1}, v text COMPRESSION lz4)"""
    db = frame.database(schema)

    def insert(way):
        many = "(SELECT array_fill(NULL::int, ARRAY[10000000]))"
        moods = many.replace('int', 'mood', 1)
        numbers = 'array_fill(1e131000::numeric, ARRAY[10000])'
        for number, (columns, value) in enumerate((('a', many), ('h', f'ROW({many})::holder'), ('d', many), ('m', moods),
                                                   ('n', numbers), ('j', f'to_jsonb({numbers})'), ('hn', f'ROW({numbers})::numbers'),
                                                   ('v', "repeat(repeat('x', 100000), 10000)"))):
            db.sql(f"INSERT INTO t (id, {columns}) VALUES ('{way} {number}', {value})")
        db.sql(f"INSERT INTO t (id, a) VALUES ('{way} null', array_fill(NULL::int, ARRAY[1000])),"
               f" ('{way} bytes', array_fill(1, ARRAY[1000]))")
        nested = 'ROW(' * depth + '1' + ')' * depth
        db.sql(f"INSERT INTO t (id, c) VALUES ('{way} deep', {nested})")

    insert('copy')
    db.deploy(CUSTOM + select_all('t'))
    db.start()
    with own_memory(db, 100_000_000):
        db.wait_served()
    pid = db.status()[0]['pid']
    # the server's own decoding allocates the gigabyte once
    with own_memory(db, 1_100_000_000):
        insert('stream')
        db.wait()
    got = rows(db, 't')
    equal(sorted(got), [f'{way} {what}' for way in ('copy', 'stream') for what in ('bytes', 'null')])
    equal(got['copy null']['a'], '[' + ','.join(['null'] * 1000) + ']')
    equal((db.status()[0]['rejected_rows'], db.status()[0]['pid']), (18, pid))


@case('types of millions of attributes, and values deeper than can be printed: rows behind them come')
def wide_types(frame):
    # a few types, each with forty attributes of the one before
    wide = 'CREATE TYPE x0 AS (i int);' + ''.join(
        f'CREATE TYPE x{n + 1} AS ({", ".join(f"w{i} x{n}" for i in range(40))});' for n in range(4))
    db = frame.database(wide + """
        CREATE FUNCTION deepest() RETURNS tsquery LANGUAGE plpgsql AS
            $$ DECLARE q tsquery = '!a'; BEGIN FOR i IN 1..14 LOOP q = ts_rewrite(q, 'a'::tsquery, q); END LOOP; RETURN q; END $$;
        CREATE TABLE t (id text PRIMARY KEY, x x4, q tsquery[])""")

    def insert(way):
        db.sql(f"INSERT INTO t (id, q) VALUES ('{way} deep', ARRAY[deepest()]), ('{way} fine', ARRAY['!a'::tsquery])")
        db.sql(f"UPDATE t SET x.w1.w2.w3.w4.i = 5 WHERE id = '{way} fine'")

    insert('copy')
    db.deploy(CUSTOM + select_all('t'))
    db.start()
    with own_memory(db, 100_000_000):
        db.wait_served()
        pid = db.status()[0]['pid']
        insert('stream')
        db.wait()
    got = rows(db, 't')
    equal({i: row['q'] for i, row in got.items()}, dict.fromkeys(['copy fine', 'stream fine'], '["!\'a\'"]'))
    for row in got.values():
        equal(json.loads(row['x'])['w1']['w2']['w3']['w4'], {'i': 5})
    equal((db.status()[0]['rejected_rows'], db.status()[0]['pid']), (2, pid))


# ---------------------------------------------------------------- settings and encodings

STRANGE = {'datestyle': 'German, DMY', 'timezone': 'America/New_York', 'intervalstyle': 'sql_standard', 'bytea_output': 'escape',
           'extra_float_digits': '-15', 'quote_all_identifiers': 'on', 'xmlbinary': 'hex', 'search_path': 'public'}


@case('values do not depend on the settings of server, database and role, nor on a change of them')
def settings(frame):
    columns = 'd date[], z timestamptz, tz tstzrange, i interval, b db, f float8, fs float4[], r dr, o regclass, t timetz'
    value = r"'{2024-02-29}', '2024-02-29 13:14:15.5+00', '[2024-02-29 13:14:15+00,)', '1 year -2 days', '\x00ff', 0.1, '{0.3}', " \
        "'[0.1,0.3)', 'public.other', '13:14:15+02'"
    expected = {'d': '["2024-02-29"]', 'z': '2024-02-29 13:14:15.5Z', 'tz': '["2024-02-29 13:14:15+00",)', 'i': '1 year -2 days',
                'b': '\\x00ff', 'f': 0.1, 'fs': '[0.3]', 'r': '[0.1,0.3)', 'o': 'public.other', 't': '13:14:15+02'}
    db = frame.database('CREATE DOMAIN db AS bytea; CREATE TYPE dr AS RANGE (subtype = float8); CREATE TABLE other ();'
                        f' CREATE TABLE t (id text PRIMARY KEY, {columns})')
    cluster = frame.cluster

    def everywhere(command):
        for name in STRANGE:
            yield command.format(name=name, value=STRANGE[name])
    try:
        db.sql(f"INSERT INTO t VALUES ('copy', {value})")
        for command in everywhere(f"ALTER DATABASE {db.name} SET {{name}} = '{{value}}'"):
            cluster.sql(command)
        start_and_wait(db, select_all('t'))
        db.sql(f"SET datestyle = 'ISO'; INSERT INTO t VALUES ('database', {value})")
        db.wait()
        for command in everywhere(f"ALTER ROLE postgres SET {{name}} = '{{value}}'"):
            cluster.sql(command)
        restart_worker(db)
        db.sql(f"SET datestyle = 'ISO'; INSERT INTO t VALUES ('role', {value})")
        db.wait()
        for command in everywhere("ALTER SYSTEM SET {name} = '{value}'"):
            cluster.sql(command)
        before = cluster.value('SELECT pg_conf_load_time()')
        cluster.sql('SELECT pg_reload_conf()')
        wait_until(lambda: cluster.value('SELECT pg_conf_load_time()') > before, 30, 'the reload')
        db.sql(f"SET datestyle = 'ISO'; INSERT INTO t VALUES ('reload', {value})")
        db.wait()
        expect(db, {G: {('t', i): {'id': i, **expected} for i in ('copy', 'database', 'role', 'reload')}})
        printed = db.sql("SELECT data FROM pgsync_evaluate(%s, 't', '{\"id\": \"copy\"}')", (select_all('t'),))
        equal(json.loads(printed[0][0]), {'id': 'copy', **expected}, 'the dry run')
    finally:
        for name in STRANGE:
            cluster.sql(f'ALTER ROLE postgres RESET {name}')
            cluster.sql(f'ALTER SYSTEM RESET {name}')
        cluster.sql('SELECT pg_reload_conf()')


@case('a database in another encoding is refused when it is switched on')
def encodings(frame):
    for encoding in ('SQL_ASCII', 'LATIN1', 'EUC_JP'):
        name = f'enc_{encoding.lower()}'
        frame.cluster.sql(f"CREATE DATABASE {name} ENCODING '{encoding}' LC_COLLATE 'C' LC_CTYPE 'C' TEMPLATE template0")
        try:
            frame.cluster.sql('CREATE EXTENSION pgsync', database=name)
            frame.cluster.sql(f"ALTER DATABASE {name} SET pgsync.mongodb_database = 'x'")
            for call in ('pgsync_start()', "pgsync_deploy('bucket_definitions: {}')"):
                try:
                    frame.cluster.sql(f'SELECT {call}', database=name)
                    check(False, f'{call} in {encoding}')
                except Exception as error:
                    check('encoding UTF8' in str(error) and encoding in str(error), str(error))
        finally:
            frame.cluster.sql(f'DROP DATABASE {name} WITH (FORCE)')


# ---------------------------------------------------------------- types that change

# type of the column, its value, what happens, and whether untouched rows print otherwise: as text, and as JSON
CHANGES = [
    ('mood[]', "'{a}'", "ALTER TYPE mood RENAME VALUE 'a' TO 'z'", True, True),
    ('dmood', "'a'", "ALTER TYPE mood RENAME VALUE 'a' TO 'z'", True, True),
    ('dmood[]', "'{a}'", "ALTER TYPE mood RENAME VALUE 'a' TO 'z'", True, True),
    ('moods', "'[a,b]'", "ALTER TYPE mood RENAME VALUE 'a' TO 'z'", True, True),
    ('outers[]', "ARRAY['(\"(1,a)\",x)'::outers]", "ALTER TYPE mood RENAME VALUE 'a' TO 'z'", True, True),
    ('outers[]', "ARRAY['(\"(1,a)\",x)'::outers]", "ALTER TYPE mood ADD VALUE 'c'", False, False),
    ('inners', "'(1,a)'", 'ALTER TYPE inners ADD ATTRIBUTE y int', True, True),
    ('outers[]', "ARRAY['(\"(1,a)\",x)'::outers]", 'ALTER TYPE inners ADD ATTRIBUTE y int', True, True),
    ('douters', "'(\"(1,a)\",x)'", 'ALTER TYPE inners RENAME ATTRIBUTE x TO y', False, True),
    ('outers', "'(\"(1,a)\",x)'", 'ALTER TYPE inners DROP ATTRIBUTE x', True, True),
    ('outers', "'(\"(1,a)\",x)'", 'ALTER TYPE inners RENAME TO others', False, False),
    ('outers', "'(\"(1,a)\",x)'", 'ALTER DOMAIN douters ADD CHECK (true)', False, False),
    ('tables', "'(1,a)'", 'ALTER TABLE tables ADD w int', True, True),
    ('tables', "'(1,a)'", 'CREATE INDEX ON tables (p); ANALYZE tables', False, False),
    ('int', '1', "ALTER TYPE mood RENAME VALUE 'a' TO 'z'", False, False),
    ('int', '1', 'ALTER TABLE t ADD v2 outers[]', False, False),
]
TYPES = """
    CREATE TYPE mood AS ENUM ('a', 'b'); CREATE DOMAIN dmood AS mood; CREATE TYPE moods AS RANGE (subtype = mood);
    CREATE TYPE inners AS (x int, m mood); CREATE TYPE outers AS (c inners, t text); CREATE DOMAIN douters AS outers;
    CREATE TABLE tables (p int, q text);
"""


def put_counts(db):
    """{table: PUTs}; the tables of the changes have a row each that is never written again."""
    found = {}
    for op in db.ops():
        if op['op'] == 'PUT':
            found[op['table']] = found.get(op['table'], 0) + 1
    return found


def noticed(db):
    """Tables that are marked stale, or have been copied again."""
    names = {d['_id']: d['table_name'] for d in db.mongo.source_tables.find()}
    marked = {names[d['_id']] for d in db.mongo.pgsync_tables.find({'stale': True}) if d['_id'] in names}
    return marked | {table for table, count in put_counts(db).items() if count > 1}


@case('a type below a column changes: noticed if untouched rows print otherwise, and only then')
def type_changes(frame):
    for config, column in (('config: {edition: 1}\n', 3), (CUSTOM, 4)):
        # tables of one name, so that they can be renamed apart after their types were made
        db = frame.database()
        for i, (kind, value, *_) in enumerate(CHANGES):
            db.sql(f"""CREATE SCHEMA s{i}; SET search_path = s{i}; {TYPES}
                CREATE TABLE t (id text PRIMARY KEY, v {kind}); INSERT INTO t VALUES ('1', {value});
                ALTER TABLE t RENAME TO t{i}""")
        start_and_wait(db, config + select_all(*(f's{i}.t{i}' for i in range(len(CHANGES)))))
        for i, change in enumerate(CHANGES):
            for command in change[2].replace('TABLE t ', f'TABLE t{i} ').split(';'):
                db.sql(f'SET search_path = s{i}; {command}')
        expected = {f't{i}' for i, change in enumerate(CHANGES) if change[column]}
        db.wait()
        wait_until(lambda: noticed(db) >= expected, 30, lambda: f'missing: {sorted(expected - noticed(db))}', 0.1)
        equal(sorted(noticed(db) - expected), [], 'noticed for nothing')
