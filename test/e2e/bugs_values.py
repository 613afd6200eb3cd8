"""bugs_values.py - what public bug reports say of values and names (bug-cases.md): each copied, streamed, and fresh."""
import json

from frame import case, global_rules, select_all
from suite import check, equal
from ways import G, Ways, both

NEW = 'config:\n  edition: 2\n'          # with the custom types of PostgreSQL


def keyed(rows):
    """{id: columns} -> rows of table t"""
    return {('t', i): {'id': i, **columns} for i, columns in rows.items()}


@case('b03_years: before 100 and after 9999')
def b03_years(frame):
    both(frame, 'CREATE TABLE t (id text PRIMARY KEY, z timestamptz, a timestamptz[])', select_all('t'),
         ["INSERT INTO t VALUES ('a', '0022-02-03 12:13:14+03', '{0022-02-03 12:13:14+03,NULL}'),"
          " ('b', '10022-02-03 12:13:14+03', '{10022-02-03 12:13:14+03}')"],
         keyed({'a': {'z': '0022-02-03 09:13:14Z', 'a': '["0022-02-03 09:13:14Z",null]'}, 'b': {'z': None, 'a': '[null]'}}))


@case('b05_infinite: dates and timestamps, and in arrays')
def b05_infinite(frame):
    def row(day, time):
        return {'d': day, 's': f'{day} {time}', 'z': f'{day} {time}Z', 'da': f'["{day}"]', 'sa': f'["{day} {time}"]',
                'za': f'["{day} {time}Z"]'}
    both(frame, 'CREATE TABLE t (id text PRIMARY KEY, d date, s timestamp, z timestamptz, da date[], sa timestamp[], za timestamptz[])',
         select_all('t'),
         ["INSERT INTO t SELECT i, v::date, v::timestamp, v::timestamptz, ARRAY[v::date], ARRAY[v::timestamp], ARRAY[v::timestamptz]"
          " FROM (VALUES ('a', 'infinity'), ('b', '-infinity')) x (i, v)"],
         keyed({'a': row('9999-12-31', '23:59:59'), 'b': row('0000-01-01', '00:00:00')}))


@case('b06_not_a_number: NaN and Infinity in numeric and float')
def b06_not_a_number(frame):
    """Bare NaN in data is what the service stores, too (sync-rules.md 8.2)."""
    both(frame, 'CREATE TABLE t (id text PRIMARY KEY, n numeric, f float8, r real, a numeric[])', select_all('t'),
         ["INSERT INTO t VALUES ('a', 'NaN', 'NaN', 'NaN', '{NaN,Infinity}'), ('b', 'Infinity', '-Infinity', 'Infinity', '{-Infinity}'),"
          " ('c', 1012345000999912345001230123445566.00000000, 1e308, 0.1, '{1.50}')"],
         keyed({'a': {'n': 'NaN', 'f': 'NaN', 'r': 'NaN', 'a': '["NaN","Infinity"]'},
                'b': {'n': 'Infinity', 'f': '-Infinity', 'r': 'Infinity', 'a': '["-Infinity"]'},
                'c': {'n': '1012345000999912345001230123445566.00000000', 'f': 1e308, 'r': 0.1, 'a': '["1.50"]'}}))


@case('b07_quotes_in_names: quotes, blanks and apostrophes')
def b07_quotes_in_names(frame):
    """
    A doubled quote in the rules stays two quotes (sync-rules.md 2.1), so a table
    with one is reached through a wildcard, its column through *.
    """
    both(frame, '''CREATE TABLE "foo""' bar" (id int PRIMARY KEY, "more ""'q" int);
         CREATE TABLE "two""""s" (id int PRIMARY KEY, "a """"" int); CREATE TABLE "emp'loyee" (id int PRIMARY KEY, " x " int)''',
         global_rules('SELECT * FROM "foo%"', 'SELECT id::text AS id, "a """ AS q FROM "two""s"',
                      '''SELECT id::text AS id, " x " AS x FROM "emp'loyee"'''),
         ['''INSERT INTO "foo""' bar" VALUES (1, 2), (2, 2)''', '''INSERT INTO "two""""s" VALUES (1, 3)''',
          '''INSERT INTO "emp'loyee" VALUES (1, 4)'''],
         {("foo\"' bar", '1'): {'id': 1, "more \"'q": 5}, ('two""s', '1'): {'id': '1', 'q': 3}, ("emp'loyee", '1'): {'id': '1', 'x': 4}},
         ['''UPDATE "foo""' bar" SET "more ""'q" = 5''', '''DELETE FROM "foo""' bar" WHERE id = 2'''])


@case('b09_other_scripts: names that are not ASCII, and as long as names can be')
def b09_other_scripts(frame):
    table, column = 'ж' * 31 + 'x', '名' * 21
    equal((len(table.encode()), len(column.encode())), (63, 63))
    rows = [f'INSERT INTO "{t}" VALUES (\'1\', \'а\', \'山\'), (\'2\', \'x\', NULL)' for t in ('таблица', table)]
    changes = [s for t in ('таблица', table) for s in (f'UPDATE "{t}" SET "имя" = \'б\' WHERE id = \'1\'',
                                                      f'DELETE FROM "{t}" WHERE id = \'2\'')]
    both(frame, f'CREATE TABLE "таблица" (id text PRIMARY KEY, "имя" text, "名前" text);'
         f'CREATE TABLE "{table}" (id text PRIMARY KEY, "имя" text, "{column}" text)',
         global_rules('SELECT * FROM "таблица"', f'SELECT * FROM "{table}"'), rows,
         {('таблица', '1'): {'id': '1', 'имя': 'б', '名前': '山'}, (table, '1'): {'id': '1', 'имя': 'б', column: '山'}}, changes)


@case('b11_enum_twice: enums of one name in two schemas')
def b11_enum_twice(frame):
    both(frame, "CREATE SCHEMA s2; CREATE TYPE mood AS ENUM ('sad', 'so'); CREATE TYPE s2.mood AS ENUM ('bad', 'so');"
         'CREATE TABLE t (id text PRIMARY KEY, a mood, b s2.mood)', select_all('t'),
         ["INSERT INTO t VALUES ('1', 'sad', 'bad')"], keyed({'1': {'a': 'so', 'b': 'bad'}, '2': {'a': 'sad', 'b': 'so'}}),
         ["UPDATE t SET a = 'so'", "INSERT INTO t VALUES ('2', 'sad', 'so')"])


@case('b13_enum_changed: a label added and used, one renamed')
def b13_enum_changed(frame):
    ways = Ways(frame, "CREATE TYPE mood AS ENUM ('sad', 'happy'); CREATE TABLE t (id text PRIMARY KEY, m mood, x int)", select_all('t'),
                ["INSERT INTO t VALUES ('1', 'sad'), ('2', 'sad'), ('3', 'happy')"])
    ways.sql("ALTER TYPE mood ADD VALUE 'great'", "INSERT INTO t VALUES ('4', 'great')")
    ways.expect(keyed({'1': {'m': 'sad'}, '2': {'m': 'sad'}, '3': {'m': 'happy'}, '4': {'m': 'great'}}), 'added')
    ways.sql("ALTER TYPE mood RENAME VALUE 'sad' TO 'blue'", "UPDATE t SET x = 1 WHERE m = 'blue' AND id = '1'")
    ways.end(keyed({'1': {'m': 'blue', 'x': 1}, '2': {'m': 'blue'}, '3': {'m': 'happy'}, '4': {'m': 'great'}}))


ARRAYS = ("CREATE TYPE mood AS ENUM ('sad', 'happy');"
          'CREATE TABLE t (id text PRIMARY KEY, m mood[], b box[], x text[], o int[], e int[][])')
ARRAY_ROW = ("INSERT INTO t VALUES ('1', '{sad,happy}', ARRAY[box(point '(1,2)', point '(3,4)')], "
             """ARRAY['}te][xt{"', NULL, 'null', repeat('hello world', 65000)], '[2:3]={7,8}', '{{1,2},{3,NULL}}')""")


def array_row(**columns):
    text = json.dumps(['}te][xt{"', None, 'null', 'hello world' * 65000], separators=(',', ':'))
    return keyed({'1': {'x': text, 'o': '[7,8]', 'e': '[[1,2],[3,null]]', **columns}})


@case('b14_arrays: of enums and boxes, odd bounds, long strings')
def b14_arrays(frame):
    # box[] is split at commas and its numbers are none: so does the service (vectors pgtypes)
    both(frame, ARRAYS, select_all('t'), [ARRAY_ROW], array_row(m='{sad,happy}', b='["(3","4)","(1","2)"]'))


@case('b14_arrays_new: the same with custom types')
def b14_arrays_new(frame):
    both(frame, ARRAYS, NEW + select_all('t'), [ARRAY_ROW], array_row(m='["sad","happy"]', b='[NaN]'))


# ---------------------------------------------------------------- reserve

@case('reserve_padding: char(n) keeps its blanks on both ways, also as a key')
def reserve_padding(frame):
    both(frame, 'CREATE TABLE t (id char(4) PRIMARY KEY, c char(5), a char(3)[])', select_all('t'),
         ["INSERT INTO t VALUES ('a', 'ab', '{x,yz}'), ('b', '', NULL)"],
         keyed({'a   ': {'c': 'ab   ', 'a': '["x  ","yz "]'}, 'b   ': {'c': 'new  ', 'a': None}}),
         ["UPDATE t SET c = 'new' WHERE id = 'b'"])


@case('reserve_json_nul: \\u0000 is text for json, and what the rules take out of it')
def reserve_json_nul(frame):
    both(frame, 'CREATE TABLE t (id text PRIMARY KEY, j json)', global_rules("SELECT id, j, j ->> 'a' AS a FROM t"),
         [r"""INSERT INTO t VALUES ('1', '{"a":"x\u0000y"}'), ('2', '{"a": "\u0000"}')"""],
         keyed({'1': {'j': '{"a":"x\\u0000y"}', 'a': 'x\0y'}, '2': {'j': '{"a": "\\u0000"}', 'a': '\0'}}))


DOMAINS = """CREATE DOMAIN d1 AS int CHECK (VALUE > 0); CREATE DOMAIN d2 AS d1 NOT NULL; CREATE DOMAIN da AS int[];
    CREATE DOMAIN db AS bool; CREATE TYPE c AS (a int[], t text, d d2);
    CREATE TABLE t (id text PRIMARY KEY, d d2, a da, b db, c c, ca c[], dd d1[])"""
DOMAIN_ROW = """INSERT INTO t VALUES ('1', 7, '{1,NULL}', true, ROW('{1,2}', 'x "y"', 3), ARRAY[ROW('{}', '', 1)::c, NULL], '{4,5}')"""


@case('reserve_domains: of domains and of arrays, composites of arrays')
def reserve_domains(frame):
    both(frame, DOMAINS, select_all('t'), [DOMAIN_ROW],
         keyed({'1': {'d': '7', 'a': '{1,NULL}', 'b': 't', 'c': '("{1,2}","x ""y""",3)', 'ca': '{"({},\\"\\",1)",NULL}', 'dd': '{4,5}'}}))


@case('reserve_domains_new: the same with custom types')
def reserve_domains_new(frame):
    both(frame, DOMAINS, NEW + select_all('t'), [DOMAIN_ROW],
         keyed({'1': {'d': 7, 'a': '[1,null]', 'b': 1, 'c': '{"a":[1,2],"t":"x \\"y\\"","d":3}',
                      'ca': '[{"a":[],"t":"","d":1},null]', 'dd': '[4,5]'}}))


@case('reserve_numbers: large ones keep their digits')
def reserve_numbers(frame):
    both(frame, 'CREATE TABLE t (id text PRIMARY KEY, i bigint, a bigint[], f float8, n numeric, o oid)', select_all('t'),
         ["INSERT INTO t VALUES ('1', 9223372036854775807, '{-9223372036854775808,2129020}', 2129020, 2129020e20, 4294967295),"
          " ('2', 2129020, '{}', 1e21, -0.000, 0)"],
         keyed({'1': {'i': 9223372036854775807, 'a': '[-9223372036854775808,2129020]', 'f': 2129020.0,
                      'n': '212902000000000000000000000', 'o': 4294967295},
                '2': {'i': 2129020, 'a': '[]', 'f': 1e21, 'n': '0.000', 'o': 0}}))


@case('reserve_times: 24:00, negative intervals')
def reserve_times(frame):
    schema = 'CREATE TABLE t (id text PRIMARY KEY, t time, z timetz, i interval)'
    rows = ["SET IntervalStyle = iso_8601; SET TimeZone = 'Asia/Tokyo'; SET DateStyle = german;"
            " INSERT INTO t VALUES ('1', '24:00:00', '24:00:00+00', '-1 year -2 mons +3 days -04:05:06'),"
            " ('2', '00:00:00.5', '12:00:00-03:30', '1 mon -1 day +00:00:00.25')"]
    expected = keyed({'1': {'t': '24:00:00', 'z': '24:00:00+00', 'i': '-1 years -2 mons +3 days -04:05:06'},
                      '2': {'t': '00:00:00.5', 'z': '12:00:00-03:30', 'i': '1 mon -1 days +00:00:00.25'}})
    both(frame, schema, select_all('t'), rows, expected)
    expected[('t', '1')]['t'] = '24:00:00.000000'
    expected[('t', '2')]['t'] = '00:00:00.500000'
    both(frame, schema, NEW + select_all('t'), rows, expected)


@case('reserve_quoted_columns: names that contain quotes, begin with digits, or are numbers')
def reserve_quoted_columns(frame):
    rules = global_rules('SELECT * FROM "1t"', 'SELECT id, "2c", "7" AS "0" FROM "1t" AS "9u"').replace('global:', '3b:')
    row = {'id': 'a', '"q"': 'x', '2c': 'y', '7': 'z'}
    ways = Ways(frame, 'CREATE TABLE "1t" (id text PRIMARY KEY, """q""" text, "2c" text, "7" text)', rules,
                ["INSERT INTO \"1t\" VALUES ('a', 'x', 'y', 'w')"], slot_prefix='9lives_')
    ways.sql("UPDATE \"1t\" SET \"7\" = 'z'")
    ways.end({'3b[]': {('1t', 'a'): row, ('9u', 'a'): {'id': 'a', '2c': 'y', '0': 'z'}}})
    for db in ways.dbs.values():
        check(all(name.startswith('9lives_') for name in db.slots()), lambda: str(db.slots()))
        texts = [op['data'] for op in db.ops() if op.get('data')]
        equal(texts[-2:], ['{"7":"z","id":"a","\\"q\\"":"x","2c":"y"}', '{"0":"z","id":"a","2c":"y"}'], 'order of keys')


@case('reserve_cast: CAST(\'-12\' AS integer) is -12')
def reserve_cast(frame):
    both(frame, 'CREATE TABLE t (id text PRIMARY KEY, v text)',
         global_rules("SELECT id, CAST('-12' AS integer) AS a, CAST(v AS integer) AS b, v::integer AS c FROM t WHERE CAST(v AS integer) = -12"),
         ["INSERT INTO t VALUES ('1', '-12'), ('2', '-13')"], {G: keyed({'1': {'a': -12, 'b': -12, 'c': -12}})})
