#!/usr/bin/env python3
"""generator: random tables of all types, random DML and DDL; buckets compared with SQL and with a fresh stream.

A database lives through cycles.  In each, rules are deployed and steps are
taken while they are copied, while they catch up and while they stream, from
several sessions at once; the worker is ended now and then.  Then all is quiet:
what is stored must be what SELECT finds in the tables (read another way:
pg_values.py), and what a fresh stream of the same rules stores.  The next
cycle's rules are of another edition: without compatibility options (1), with
all of them (2), sync streams (3).

At the end it prints how often what was done, by phase.  What has never been done
fails it; in full also a type, an identity or a kind of DDL that was not there
in some phase.  The statements are in a file: named
when something differs.
"""
import contextlib
import io
import json
import os
import sys
import time
from collections import Counter

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', 'lib'))

import psycopg2                                                 # noqa: E402

import gen_ddl                                                  # noqa: E402
import gen_dml                                                  # noqa: E402
import gen_steps                                                # noqa: E402
import gen_tables                                               # noqa: E402
import oracle                                                   # noqa: E402
import pg_values                                                # noqa: E402
from campaign import arguments                                  # noqa: E402
from cluster import free_port                                   # noqa: E402
from hold import copy_held                                      # noqa: E402
from proxy import Proxy                                         # noqa: E402
from stand import Stand                                         # noqa: E402
from suite import Failed, Suite, check, shorten, wait_until     # noqa: E402

SETTLED = 120           # seconds for a stream to be complete once nothing changes any more
CYCLE = 50              # steps of a cycle
WORLD = 1000            # steps of a database; then another one begins
PHASES = ['before', 'copy', 'catch-up', 'stream']
BEFORE_CATCH_UP = ('starting', 'no rules', 'creating slot', 'copying')
TRANSACTIONS = list(gen_steps.CONTROLS) + gen_steps.ENDS_OF_PREPARED


class Real(float):
    """A number with a point: another value than the same without one, unlike in Python."""

    def __eq__(self, other):
        return isinstance(other, Real) and (float(self) == float(other) or repr(self) == repr(other))

    def __ne__(self, other):
        return not self == other

    __hash__ = float.__hash__


def parsed(text):
    """A row's data; a null is as good as none."""
    row = json.loads(text, parse_float=Real, parse_constant=Real)
    return {key: value for key, value in row.items() if value is not None}


SPENT = Counter()


def timed(what):
    @contextlib.contextmanager
    def timer():
        start = time.monotonic()
        try:
            yield
        finally:
            SPENT[what] += time.monotonic() - start
    return timer()


def row_difference(got, expected, limit=8):
    """Like suite.difference(), but of a row that differs only the columns that do."""
    lines = []
    for key in sorted(set(got) | set(expected), key=repr):
        mine, other = got.get(key), expected.get(key)
        if mine is None or other is None or not isinstance(mine, dict):
            if mine != other:
                lines.append(f'{"missing" if mine is None else "too much" if other is None else "differs"} {key!r}: '
                             f'{shorten(other if mine is None else mine, 300)}')
            continue
        for name in sorted(set(mine) | set(other)):
            if mine.get(name) != other.get(name):
                lines.append(f'{key!r}, column {name!r}: got {shorten(mine.get(name), 300)}, '
                             f'expected {shorten(other.get(name), 300)}')
    return '\n'.join(lines[:limit] + ([f'... and {len(lines) - limit} more'] if len(lines) > limit else []))


class World:
    """One database and its rules."""

    def __init__(self, stand, proxy, name, options, log):
        self.stand, self.proxy, self.options, self.log, self.random = stand, proxy, options, log, options.random
        uri = stand.storage.uri
        if proxy:
            uri = uri.replace(f':{stand.storage.port}', f':{proxy.port}')
        self.db = stand.database(name, uri=uri).create(publication=False, copy_chunk_size='64kB')
        self.make_tables()
        self.steps = gen_steps.Steps(self.db, self.random, self.maker, log, options.ddl)
        self.editions = gen_tables.Deck(self.random, options.editions)
        self.rules = None
        self.deployments = 0
        self.restarts = Counter()
        self.rows = 0
        self.connection = self.db.connect(options='-c statement_timeout=60s')

    def close(self):
        self.steps.close()
        self.connection.close()

    def status(self):
        with self.connection.cursor() as cursor:
            cursor.execute('SELECT * FROM pgsync_status()')
            return [dict(zip([d.name for d in cursor.description], row)) for row in cursor.fetchall()]

    def something_is_missing(self, totals):
        """In the short form a kind may not have come, or was rolled back: a little more then, of these first."""
        done = {kind for counts in (self.steps.counts, totals.counts) for (kind, _), number in counts.items() if number}
        missing = set(self.options.ddl + list(gen_dml.DML) + TRANSACTIONS) - done
        self.steps.prefer(missing)
        return self.options.short and missing

    def make_tables(self):
        with self.db.connect() as c, c.cursor() as cursor:
            cursor.execute('SET search_path = public, types')
            cursor.execute('CREATE SCHEMA types')
            self.options.without_types += gen_tables.optional_types(cursor)
            self.maker = gen_tables.Maker(self.random, self.options.without_types)
            statements = [gen_tables.SETUP] + self.maker.everything()
            for statement in statements:
                self.log(statement + ';')
                cursor.execute(statement)
            cursor.execute("""SELECT string_agg(c.oid::regclass::text, ', ' ORDER BY c.oid) FROM pg_class c
                JOIN pg_namespace n ON n.oid = c.relnamespace
                WHERE n.nspname IN ('public', 'Odd schéma', 'outside') AND c.relkind IN ('r', 'p') AND NOT c.relispartition""")
            sql = f'CREATE PUBLICATION {gen_tables.PUBLICATION} FOR TABLE {cursor.fetchone()[0]}, TABLES IN SCHEMA s1'
            self.log(sql + ';')
            cursor.execute(sql)
            cursor.execute("INSERT INTO hold0 VALUES ('h0'); INSERT INTO hold1 VALUES ('h1'); INSERT INTO hold2 VALUES ('h2')")

    # ---- steps

    def newest(self):
        """Status of the stream made last."""
        found = [s for s in self.status() if s['stream'] is not None]
        return max(found, key=lambda s: s['stream']) if found else None

    def phase(self, assumed):
        s = self.newest()
        if s is None or s['phase'] in BEFORE_CATCH_UP:
            return assumed if assumed != 'stream' else 'copy'
        return 'catch-up' if s['phase'] == 'catching up' else 'stream' if s['phase'] == 'streaming' else assumed

    def take(self, count, assumed):
        for _ in range(count):
            phase = self.phase(assumed)
            self.steps.step(phase)
            # one that ends in the middle of a write keeps the test server busy for a minute
            if self.random.random() < self.options.restarts and not self.options.short:
                self.restart_worker(phase)

    def restart_worker(self, phase):
        pids = [s['pid'] for s in self.status() if s['pid']]
        if pids:
            self.log('-- worker ended')
            self.db.sql('SELECT pg_terminate_backend(%s)', (self.random.choice(pids),))
            self.restarts[phase] += 1

    def fill(self):
        """Some rows for the first copy."""
        self.steps.phase = PHASES[0]
        session = self.steps.sessions[0]
        with self.db.connect() as c, c.cursor() as cursor:
            tables = [t for t in gen_tables.Catalog(cursor).tables if not t.is_root and not t.name.startswith('hold')]
        for table in tables * 2:
            self.steps.insert_into(session, table.full_name)
            session.forget()

    # ---- a cycle

    def deploy(self, rules):
        self.log(f'-- deploying edition {rules.edition}')
        with self.connection.cursor() as cursor:
            cursor.execute('SELECT pgsync_deploy(%s)', (rules.text(),))
            stream = cursor.fetchone()[0]
        if not self.deployments:
            self.db.start()
        self.deployments += 1
        self.rules = rules
        return stream

    def deploy_under_load(self, rules, copy_steps, catch_up_steps):
        """Half of the time the copy is held until its steps are taken; else transactions are open that were so before."""
        if self.random.random() < 0.6 or not self.deployments:
            self.steps.quiesce()
            hold = self.random.choice(['hold0', 'hold1', 'hold2'])
            with copy_held(self.db, hold, lambda: self.deploy(rules)):
                self.take(copy_steps, 'copy')
        else:
            self.deploy(rules)
            self.take(copy_steps, 'copy')
        if not self.proxy:
            return self.take(catch_up_steps, 'catch-up')    # nothing of ours to slow down
        try:
            self.until_catching_up()
            self.stand.storage.freeze()
            self.take(catch_up_steps, 'catch-up')
        finally:
            self.stand.storage.thaw()
            self.proxy.normal()

    def until_catching_up(self):
        """Open transactions may stand in the way of a stream that had to begin again."""
        start = time.monotonic()
        while time.monotonic() < start + SETTLED:
            s = self.newest()
            if s and s['phase'] in ('catching up', 'streaming'):
                return
            # or catching up would be over before it is seen
            at_last = s and s['phase'] == 'copying' and 0 < (s['copy_tables_total'] or 0) <= (s['copy_tables_done'] or 0) + 1
            self.proxy.delay(0.004 if at_last else 0)
            if s and s['waits_for'] or time.monotonic() > start + 3:
                self.steps.quiesce()
            time.sleep(0.003)
        raise Failed(f'no stream catches up: {self.status()}')

    def is_complete(self):
        """The newest stream is served, copies nothing, and nothing of it is stale."""
        now = self.db.served()
        newest = max((d['_id'] for d in self.db.mongo.sync_rules.find({}, {'_id': 1})), default=None)
        if now is None or newest != now.stream:
            return None
        status = [s for s in self.status() if s['stream'] == now.stream]
        if not status or status[0]['phase'] != 'streaming':
            return None
        return None if self.db.mongo.pgsync_tables.find_one({'group_id': now.stream, 'stale': True}) else now.stream

    def settle(self):
        """Nothing is open, all is stored; returns the stream."""
        with timed('settling'):
            return self.settled()

    def settled(self):
        self.steps.quiesce()
        deadline = time.monotonic() + SETTLED

        def left():
            return max(1.0, deadline - time.monotonic())
        while True:
            stream = wait_until(self.is_complete, left(),
                                lambda: f'a complete stream; status: {self.status()}, tables: {self.unsettled()}', 0.05)
            self.db.wait(timeout=left())
            if self.is_complete() == stream:
                return stream

    def unsettled(self):
        return list(self.db.mongo.pgsync_tables.find({'stale': True}))

    def cycle(self):
        count = min(CYCLE, self.options.steps)
        with timed('copy and catch-up'):
            self.deploy_under_load(gen_tables.Rules(self.editions.draw()), count // 4, count // 4)
        self.settle()
        self.compare_with_sql('after copy and catch-up')
        with timed('streaming'):
            if self.options.short:
                self.restart_worker('stream')
            if self.proxy:          # slower, so that more happens while a table is copied again
                self.proxy.delay(self.random.choice([0, 0.002, 0.01]))
            self.take(count - count // 4 * 2, 'stream')
            if self.proxy:
                self.proxy.normal()
        stream = self.settle()
        stored = self.compare_with_sql('after streaming')
        lookups = self.lookups()
        self.check_storage(stream)
        with timed('fresh stream'):
            fresh = self.deploy(self.rules)
            check(self.settle() >= fresh, 'the fresh stream is served')
        for what, before, now in (('buckets', stored, self.reduced()), ('lookups', lookups, self.lookups())):
            check(before == now, lambda: f'edition {self.rules.edition}: {what} as stored (got) differ from those of a fresh stream '
                  '(expected):\n' + row_difference(before, now))

    def checked_cycle(self, log_position):
        try:
            self.cycle()
        except psycopg2.Error as error:
            raise Failed(f'{type(error).__name__}: {error}; status: {self.status()}')
        crashes = self.stand.cluster.crashes(log_position)
        check(not crashes, lambda: f'server processes crashed: {crashes[:3]}')

    def lookups(self):
        now = self.db.served()
        return oracle.read_lookups(self.db.mongo, now.stream, now.checkpoint)

    # ---- comparisons

    def reduced(self):
        return {key: parsed(data) for key, data in self.db.reduced().all_rows().items()}

    def check_storage(self, stream):
        # NaN and Infinity are bare in data: as the service writes them
        wrong = [w for w in oracle.problems(self.db.mongo, stream) if not w.endswith((' NaN in data', 'Infinity in data'))]
        check(not wrong, lambda: str(wrong[:8]))

    def compare_with_sql(self, when):
        with timed('comparing with SQL'):
            return self.compared_with_sql(when)

    def compared_with_sql(self, when):
        stored = self.reduced()
        expected = self.expected()
        self.rows += len(expected)
        got = self.of_simple_queries(stored)
        if got != expected:
            time.sleep(3)
            later = ', and three seconds later as it should be' if self.of_simple_queries(self.reduced()) == expected else ''
            raise Failed(f'edition {self.rules.edition}, {when}: stored (got) differs from SQL (expected){later}:\n'
                         + row_difference(got, expected, 30))
        return stored

    def of_simple_queries(self, rows):
        return {key: row for key, row in rows.items()
                if key[0] == self.rules.everything or key[0].startswith(self.rules.by_group + '[')}

    def expected(self):
        """Rows of the buckets whose queries are SELECT *, from the tables themselves."""
        found = {}
        with self.db.connect() as c, c.cursor() as cursor:
            for name, value in pg_values.SETTINGS.items():
                cursor.execute('SELECT set_config(%s, %s, false)', (name, value))
            values = pg_values.Values(pg_values.load_types(cursor), self.rules.options)
            catalog = gen_tables.Catalog(cursor)
            for table in catalog.tables:
                if table.kind != 'r' or table.persistence != 'p' or not gen_tables.is_ruled(table.schema, table.name):
                    continue
                if not catalog.published(table):
                    continue
                out = io.StringIO()
                cursor.copy_expert(f'COPY (SELECT * FROM ONLY {table.full_name}) TO STDOUT', out)
                for texts in pg_values.parse_copy(out.getvalue()):
                    row = {column.name: values.column(column.type, text) for column, text in zip(table.columns, texts)}
                    data = parsed(pg_values.to_json(row))
                    found[(self.rules.everything, table.name, row['id'])] = data
                    group = row.get('grp')
                    if group is not None and group is not pg_values.Blob and not table.name.startswith('hold'):
                        found[(f'{self.rules.by_group}[{bucket_parameter(group)}]', table.name, row['id'])] = data
        return found


def bucket_parameter(value):
    if isinstance(value, float):
        if value != value or value in (float('inf'), float('-inf')):
            return 'null'
        return pg_values.real_text(value).removesuffix('.0')
    return pg_values.to_json(value)


# ---------------------------------------------------------------- counts

class Totals:
    def __init__(self):
        self.counts, self.types, self.identities, self.restarts, self.refused = (Counter() for _ in range(5))
        self.rows = self.deployments = 0

    def add(self, world):
        for name in ('counts', 'types', 'identities', 'refused'):
            getattr(self, name).update(getattr(world.steps, name))
        self.restarts.update(world.restarts)
        self.rows += world.rows
        self.deployments += world.deployments

    def show(self, options):
        groups = sorted({gen_tables.type_group(name) for name in gen_tables.all_types(options.without_types)})
        kinds = [('DDL', options.ddl, self.counts), ('DML', list(gen_dml.DML), self.counts),
                 ('transactions', TRANSACTIONS, self.counts),
                 ('changes by identity', gen_tables.IDENTITIES + ['partition'], self.identities),
                 ('values by type', groups, self.types)]
        missing = []
        for title, names, counts in kinds:
            print(f'{title} ({", ".join(PHASES)}):')
            line = ''
            for name in names:
                numbers = [counts[(name, phase)] for phase in PHASES]
                by_phase = not options.short and title not in ('DML', 'transactions')
                if not sum(numbers) or by_phase and not all(numbers[1:]):
                    missing.append(f'{name} {numbers}')
                item = f'  {name} {" ".join(map(str, numbers))};'
                if len(line) + len(item) > 118:
                    print(line)
                    line = ''
                line += item
            print(line)
        refused = sum(self.refused.values())
        print(f'worker ended: {dict(self.restarts)}; {self.deployments} deployments; {self.rows} rows compared with SQL; '
              f'{refused} statements refused', flush=True)
        for what, number in self.refused.most_common(8 if not options.verbose else 100):
            print(f'    {number} {what}')
        print('seconds: ' + ', '.join(f'{what} {seconds:.1f}' for what, seconds in SPENT.items()))
        return missing


def more_arguments(parser):
    parser.add_argument('--steps', type=int, help='in all (default 10000; 200 with --short)')
    parser.add_argument('--ddl', default='all', help='kinds of DDL, separated by commas; all; plain (no table is copied again); '
                        'copying (nor is a row stale); -KIND leaves one out')
    parser.add_argument('--editions', default='1,2,3')
    parser.add_argument('--restarts', type=float, default=0.02, help='how likely the worker is ended after a step')
    parser.add_argument('--without-types', type=lambda text: [w for w in text.split(',') if w], default=[],
                        help='types whose names contain one of these words are left out')
    parser.add_argument('--verbose', action='store_true')


def chosen_ddl(text):
    groups = {'all': gen_ddl.ALL_DDL, 'plain': gen_ddl.PLAIN_DDL, 'copying': gen_ddl.PLAIN_DDL + gen_ddl.COPYING_DDL}
    kinds, without = [], set()
    for word in text.split(','):
        if word.startswith('-'):
            without.add(word[1:])
        else:
            kinds += groups.get(word, [word])
    unknown = (set(kinds) | without) - set(gen_ddl.ALL_DDL)
    if unknown:
        sys.exit(f'generator: no such DDL: {sorted(unknown)}; there are: {", ".join(gen_ddl.ALL_DDL)}')
    return [k for k in kinds if k not in without]


def main():
    options = arguments(__doc__, 1, more_arguments)
    options.steps = options.steps or (200 if options.short else 10000)
    options.ddl = chosen_ddl(options.ddl)
    options.editions = [int(e) for e in options.editions.split(',')]
    suite, totals = Suite('generator'), Totals()
    statements = os.path.join(os.environ.get('PGSYNC_WORK') or '/tmp', f'generator-{options.seed}.sql')
    config = {'max_prepared_transactions': '10', 'max_locks_per_transaction': '256', 'pgsync.restart_delay_max': "'1s'"}
    with Stand('generator', config=config) as stand, open(statements, 'w') as file:
        proxy = Proxy(free_port(stand.storage.port + 1), stand.storage.port).start() if stand.storage.own else None

        def log(text):
            print(text, file=file, flush=True)
        done, number, interrupted = 0, 0, False
        while done < options.steps and not suite.failed and not interrupted:
            number += 1
            position = stand.cluster.log_position()
            with timed('setting up'):
                world = World(stand, proxy, f'gen{number}', options, log)
                world.fill()
            taken = 0
            while not suite.failed and taken < WORLD and (
                    done + taken < options.steps or taken < options.steps + 300 and world.something_is_missing(totals)):
                try:
                    with suite.case(f'database {number}, cycle {taken // CYCLE + 1}'):
                        world.checked_cycle(position)
                except KeyboardInterrupt:
                    interrupted = True
                    break
                taken += CYCLE
            if suite.failed:
                print(f'    seed {options.seed}; statements: {statements}; status: {world.status()}')
                stand.keep = True
            done += taken
            totals.add(world)
            world.close()
            if not suite.failed:
                world.db.drop()
        missing = totals.show(options)
        if interrupted:
            suite.skip('nothing is left out', f'interrupted after {done} steps')
        elif not suite.failed:
            with suite.case('nothing is left out'):
                check(not missing, lambda: 'never, or not in each phase: ' + '; '.join(missing))
        if not suite.failed:
            os.unlink(statements)
    return suite.end()


if __name__ == '__main__':
    sys.exit(main())
