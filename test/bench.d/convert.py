#!/usr/bin/env python3
"""convert: rows a second that the server turns from Datums into JSON on one core, and where the time goes."""
import os
import subprocess
import sys
import tempfile

# instead of this folder, whose copy.py is not Python's
sys.path[0] = os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', 'lib')

from cluster import Cluster                                     # noqa: E402
from measure import INSERT, SCHEMA                              # noqa: E402

HERE = os.path.dirname(os.path.abspath(__file__))
ROWS = int(os.environ.get('PGSYNC_BENCH_ROWS', 100000))
REPETITIONS = int(os.environ.get('PGSYNC_BENCH_REPETITIONS', 9))
OTHERS = """
CREATE EXTENSION citext;
CREATE TYPE mood AS ENUM ('sad', 'happy');
CREATE TYPE comp AS (a int, b text, c bool);
CREATE TABLE others AS SELECT i, i * 1.5::float8 AS float8, (i / 3.0)::float4 AS float4, i * 1000000000000 AS int8,
    date '2026-01-01' + i %% 365 AS date, timestamp '2026-01-01' + i * interval '1 s 7 us' AS timestamp,
    'mood'::name AS name, 'happy'::mood AS enum, ROW(i, 'text ' || i, true)::comp AS composite,
    int4range(i, i + 5) AS range, ARRAY[i, i + 1, NULL] AS ints,
    ('Text ' || i)::citext AS citext, inet '192.168.0.1' + i AS inet,
    i * interval '1 min' AS interval, md5(i::text)::bytea AS bytea,
    json_build_object('k', i) AS json FROM generate_series(1, %s) i
"""


def main():
    config = os.environ.get('PG_CONFIG', 'pg_config')
    made = subprocess.run(['make', '-s', '-C', HERE, f'PG_CONFIG={config}', 'build/convert.so'],
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if made.returncode != 0:
        print(made.stdout)
        return 1
    folder = tempfile.mkdtemp(prefix='convert.', dir=os.environ.get('PGSYNC_WORK'))
    cluster = Cluster(folder, config={'shared_preload_libraries': None, 'shared_buffers': '256MB', 'jit': 'off'}).create()
    cluster.start()
    try:
        cluster.sql(SCHEMA)
        cluster.sql(INSERT, {'seed': 'convert', 'first': 1, 'last': ROWS})
        cluster.sql(OTHERS % ROWS)
        cluster.sql(f"""CREATE FUNCTION bench_convert(regclass, int, int, bool, text) RETURNS float8
            AS '{HERE}/build/convert.so' LANGUAGE C STRICT""")

        def rate(table, column, custom=True):
            return cluster.value('SELECT bench_convert(%s, %s, %s, %s, %s)', (table, ROWS, REPETITIONS, custom, column))

        def columns(table):
            return [r[0] for r in cluster.sql('SELECT attname FROM pg_attribute WHERE attrelid = %s::regclass AND attnum > 0 '
                                              'ORDER BY attnum', (table,))]
        whole = rate('todos', '')
        print(f'todos, {ROWS} rows in memory: {whole:.0f} rows/s to JSON, {rate("todos", "*"):.0f} rows/s to values', flush=True)
        apart = 1e9 / rate('todos', '-')
        print(f'  of {1e9 / whole:.0f} ns a row: {apart:.0f} taking the tuple apart, '
              f'{1e9 / whole - 1e9 / rate("todos", "*"):.0f} the JSON object', flush=True)
        for table in ('todos', 'others'):
            apart = 1e9 / rate(table, '-')
            times = {c: 1e9 / rate(table, c) - apart for c in columns(table)}
            print(f'  {table}, ns a value: ' + ', '.join(f'{c} {t:.0f}' for c, t in sorted(times.items(), key=lambda x: -x[1])),
                  flush=True)
    finally:
        cluster.remove_all()
        subprocess.run(['rm', '-rf', folder])
    return 0


if __name__ == '__main__':
    sys.exit(main())
