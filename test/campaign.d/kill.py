#!/usr/bin/env python3
"""kill: strikes under load, half during initial copy and catch-up; a reader checks every checkpoint.

Strikes: SIGTERM of the worker, kill -9 of the postmaster, immediate shutdown,
SIGSTOP/SIGCONT, SIGTERM and kill -9 of the storage server, cut connections;
at size also a network that delays, or that swallows everything.

A round: load runs; the strike; replication must go on within 30 s of its end;
then the load pauses, everything committed must become visible, and what is
stored is compared with SQL over the tables, with what was published before,
and with the storage contract.

kill -9 of the test storage server may lose what it acknowledged: there the
right outcome is convergence, or a state that names what happened and
convergence after the documented call.
"""
import os
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', 'lib'))

import psycopg2                                                 # noqa: E402
from pymongo.errors import PyMongoError                         # noqa: E402

import load                                                     # noqa: E402
import oracle                                                   # noqa: E402
from campaign import arguments, figures                         # noqa: E402
from proxy import Proxy                                         # noqa: E402
from cluster import free_port                                   # noqa: E402
from stand import Stand                                         # noqa: E402
from suite import Failed, Suite, check, difference, wait_until  # noqa: E402

RECOVERY = 30                   # seconds, measured from the end of the strike
CONVERGENCE = 120               # seconds for everything committed to be visible, load paused
BEFORE_STREAMING = ('starting', 'no rules', 'creating slot', 'copying', 'catching up')


class Ground:
    """One database under load, its reader, and what can be done to it."""

    def __init__(self, stand, proxy, name, options):
        self.stand, self.proxy, self.options = stand, proxy, options
        self.random = options.random
        uri = stand.storage.uri
        if proxy:
            uri = uri.replace(f':{stand.storage.port}', f':{proxy.port}')
        self.db = stand.database(name, uri=uri).create()
        short = options.short
        self.load = load.Load(self.db.connect, options.seed, filler=4000 if short else 12000,
                              rate=15.0 if short else 10.0, large_share=0.03 if short else 0.015)
        with self.db.connect(), self.db.connect() as c:
            self.load.setup(c)
        wait_until(self.indexed, 150, 'indexes for the reader: a transaction that was cut off keeps the test server busy for a minute')
        self.reader = load.Reader(self.load, lambda: stand.storage.client(
            socketTimeoutMS=60000, serverSelectionTimeoutMS=2000)[self.db.storage_name])
        self.tag = 0
        self.recoveries, self.phases = [], []

    def indexed(self):
        try:
            oracle.index_for_reading(self.db.mongo)
            return True
        except PyMongoError:
            return False

    def begin(self):
        self.db.deploy(load.rules('0'))
        self.db.start()
        self.reader.start()
        self.load.start()

    def end(self):
        try:
            self.load.stop()
        finally:
            self.reader.stop()

    # ---- status, also while the server is away

    def status(self):
        try:
            return self.db.status()
        except psycopg2.Error:
            return []

    def stream_status(self, stream):
        return next((s for s in self.status() if s['stream'] == stream), None)

    def workers(self):
        return [s['pid'] for s in self.status() if s['pid']]

    # ---- strikes: each returns when it has ended

    def worker_term(self):
        pids = self.workers()
        check(pids, lambda: f'no worker to strike: {self.status()}')
        os.kill(self.random.choice(pids), 15)

    def postmaster_kill(self):
        self.stand.cluster.kill()
        self.stand.cluster.start()

    def immediate(self):
        self.stand.cluster.stop('immediate')
        self.stand.cluster.start()

    def storage_stop(self):
        self.stand.storage.freeze()
        time.sleep(self.random.choice([0.3, 2.0, 5.0]))
        self.stand.storage.thaw()

    def storage_term(self):
        self.stand.storage.stop()
        time.sleep(self.random.uniform(0, 2))
        self.stand.storage.start()

    def storage_kill(self):
        with self.reader.verifying:             # what it reads of the new server must not meet what it knew of the old one
            self.stand.storage.kill()
            self.stand.storage.start()
            self.reader.forget_wanted = True

    def cut(self):
        for _ in range(self.random.randrange(1, 6)):
            self.proxy.cut()
            time.sleep(self.random.uniform(0, 0.2))
        if self.random.random() < 0.5:
            self.proxy.refuse()
            self.proxy.cut()
            time.sleep(self.random.uniform(0.2, 2))
            self.proxy.normal()

    def delay(self):
        self.proxy.delay(self.random.choice([0.02, 0.2]))
        time.sleep(4)
        self.proxy.normal()

    def black_hole(self):
        self.proxy.black_hole()
        time.sleep(self.random.choice([1.0, 8.0, 25.0]))
        self.proxy.normal()

    # ---- one round

    def round(self, strike, during_copy, first):
        postmaster = self.stand.cluster.postmaster()
        log = self.stand.cluster.log_position()
        stream = None
        if during_copy:
            stream = self.before_copy_strike(first)
        else:
            mark = self.load.model.committed
            self.reader.wait_for(lambda r: r.k >= mark, CONVERGENCE, 'a reader close behind')
            time.sleep(self.random.uniform(0, 0.6))
        self.phases.append(self.phase(stream))
        before = self.document(stream)
        getattr(self, strike)()
        ended = time.monotonic()
        recovery = self.wait_recovery(stream, before, ended, strike)
        if stream is not None:
            self.wait_for_change_over(stream)
        self.converge(strike)
        self.check_server(strike, postmaster, log)
        if not self.options.short:
            check(recovery <= RECOVERY, f'replication went on only {recovery:.1f} s after the strike')
        self.recoveries.append(recovery)
        self.load.resume()

    def before_copy_strike(self, first):
        """A new deployment, seen at work; returns its stream."""
        if first:
            stream = wait_until(lambda: next(iter(self.db.mongo.sync_rules.find()), None), 30, 'a stream')['_id']
        else:
            self.tag += 1
            stream = self.db.deploy(load.rules(self.tag))
        wanted = self.random.choice(['creating slot', 'copying', 'copying', 'copying', 'catching up'])

        def reached():
            s = self.stream_status(stream)
            return s and (s['phase'] == wanted or s['phase'] in ('catching up', 'streaming')) and s['pid']
        wait_until(reached, 60, lambda: f'stream {stream} at {wanted}: {self.status()}', 0.005)
        if wanted == 'copying':
            time.sleep(self.random.uniform(0, 0.4 if self.options.short else 1.2))
        return stream

    def phase(self, stream):
        found = self.status()
        if stream is not None:
            found = [s for s in found if s['stream'] == stream]
        return found[0]['phase'] if found else 'none'

    def document(self, stream):
        return self.db.mongo.sync_rules.find_one({'_id': stream}) if stream is not None else None

    def is_served(self, stream):
        now = self.db.served()
        return now and now.stream == stream

    def wait_recovery(self, stream, before, ended, strike):
        """Seconds from the strike's end until replication went on: a commit made after it is visible where a stream is
        served; a stream in the making has written something (each of its writes changes its document)."""
        mark = self.load.model.committed
        deadline = CONVERGENCE

        def went_on(r):
            if self.named(strike):
                return True
            if r.stream is not None and r.k > mark:
                return stream is None or r.stream == stream or self.document(stream) != before
            return r.stream is None and stream is not None and self.document(stream) != before
        try:
            self.reader.wait_for(went_on, deadline, f'replication going on after {strike}')
        except TimeoutError as error:
            raise Failed(f'{error}; status: {self.status()}')
        return time.monotonic() - ended

    def wait_for_change_over(self, stream):
        """Under load at first; the served stream comes first, so where the machine is full only without."""
        def served():
            return self.reader.violation or self.is_served(stream)
        try:
            wait_until(served, CONVERGENCE / 2, 'the stream served', 0.1)
        except Failed:
            print(f'    stream {stream} does not catch up under load; load pauses', flush=True)
            self.load.pause()
            wait_until(served, CONVERGENCE, lambda: f'stream {stream} served; {self.status()}', 0.1)

    def named(self, strike):
        """Only after kill -9 of the storage server: a stop that says what happened counts as an outcome."""
        if strike != 'storage_kill':
            return False
        return any(s['phase'] in ('stopped', 'history_changed') and s['last_error'] for s in self.status())

    def converge(self, strike):
        self.load.pause()
        committed = self.load.model.committed
        self.wait_visible(committed, lambda: self.named(strike))
        if self.named(strike):
            stopped = [s for s in self.status() if s['phase'] in ('stopped', 'history_changed')]
            print(f"    named: {stopped[0]['last_error']} - {stopped[0]['hint']}", flush=True)
            self.tag += 1
            self.db.deploy(load.rules(self.tag))
            self.db.start()
            self.wait_visible(committed)
        db = self.db.mongo
        # a new stream may become the served one just now
        wait_until(lambda: oracle.served(db).stream == self.reader.stream, CONVERGENCE,
                   lambda: f'the reader is at stream {self.reader.stream}, served is {oracle.served(db)}')
        with self.reader.verifying:
            now = oracle.served(db)
            check(now.stream == self.reader.stream, f'the reader is at stream {self.reader.stream}, served is {now}')
            self.compare_with_sql()
            self.reader.immutable(db)
        wrong = oracle.problems(db, now.stream)
        check(not wrong, lambda: f'{now}: {wrong[:8]}')

    def wait_visible(self, committed, or_else=lambda: False):
        try:
            self.reader.wait_for(lambda r: r.k == committed or or_else(), CONVERGENCE, 'everything committed visible')
        except TimeoutError as error:
            raise Failed(f'{error}; status: {self.status()}')

    def compare_with_sql(self):
        with self.db.connect() as c:
            expected = oracle.expected_from_sql(c, [
                "SELECT 'everyone[]', 'ledger', id, json_build_object('id', id, 'k', k, 'hash', hash) FROM ledger",
                "SELECT 'everyone[]', 'filler', id, json_build_object('id', id, 'label', label) FROM filler",
                "SELECT 'everyone[]', 'scratch', id, json_build_object('id', id, 't', t) FROM scratch",
                """SELECT format('by_group["%s"]', grp), 'account', id,
                    json_build_object('id', id, 'grp', grp, 'v', v, 'note', note) FROM account""",
                """SELECT format('by_group["%s"]', grp), 'item', id,
                    json_build_object('id', id, 'grp', grp, 'qty', qty, 'big', big) FROM item"""])
            got, expected = oracle.compare_rows(self.reader.state, expected)
            check(got == expected, lambda: 'buckets are not what SQL says:\n' + difference(got, expected))
            with c.cursor() as cursor:
                cursor.execute('SELECT owner_id, id FROM groups')
                rows = cursor.fetchall()
        lookups = {}
        for owner, group in rows:
            lookups.setdefault(oracle.lookup_bytes('by_group', '1', owner), []).append(f'{{"grp": "{group}"}}')
        lookups = {k: sorted(v) for k, v in lookups.items()}
        got = oracle.read_lookups(self.db.mongo, self.reader.stream, self.reader.checkpoint)
        check(got == lookups, lambda: f'lookups are not what SQL says:\n{difference(got, lookups)}')

    def check_server(self, strike, postmaster, log):
        crashes = self.stand.cluster.crashes(log)
        check(not crashes, lambda: f'server processes crashed: {crashes[:5]}')
        if strike not in ('postmaster_kill', 'immediate'):
            check(self.stand.cluster.postmaster() == postmaster, 'the postmaster was restarted')
            restarts = self.stand.cluster.log(log).count('all server processes terminated; reinitializing')
            check(not restarts, 'the server restarted all of its processes')


STRIKES = ['worker_term', 'postmaster_kill', 'immediate', 'storage_stop', 'storage_term', 'cut', 'storage_kill']
AT_SIZE = ['delay', 'black_hole']


def main():
    options = arguments(__doc__, 20)
    strikes = options.only.split(',') if options.only else STRIKES + ([] if options.short else AT_SIZE)
    suite = Suite('kill')
    with Stand('kill') as stand:
        proxy = None
        if stand.storage.own:
            proxy = Proxy(free_port(stand.storage.port + 1), stand.storage.port).start()
        elif 'storage' in ''.join(strikes):
            strikes = [s for s in strikes if s in ('worker_term', 'postmaster_kill', 'immediate')]
            suite.skip('strikes at the storage', 'PGSYNC_MONGODB_URI is set')
        for number, strike in enumerate(strikes):
            ground = Ground(stand, proxy, f'kill_{strike}', options)
            try:
                ground.begin()
                for i in range(options.rounds):
                    during_copy = (i + number) % 2 == 0 if options.rounds > 1 else number % 2 == 0
                    name = f"{strike} {i + 1} during {'copy' if during_copy else 'streaming'}"
                    if i == 0 and not during_copy:
                        ground.db.wait_served()
                    with suite.case(name):
                        ground.round(strike, during_copy, i == 0)
                    if suite.failures and suite.failures[-1] == name:
                        print('    status: ' + repr(ground.status()), flush=True)
                        break                   # what follows would fail for the same reason
            except Exception as error:
                with suite.case(f'{strike}: set-up'):
                    raise error
            finally:
                ground.end()
            r = ground.reader
            hit = sum(p in BEFORE_STREAMING for p in ground.phases)
            print(f'    {strike}: recovery {figures(ground.recoveries)}; {r.checkpoints} checkpoints checked in '
                  f'{r.streams} streams; {ground.load.counts()}; {hit} of {len(ground.phases)} strikes before '
                  f'streaming: {ground.phases}', flush=True)
            if not suite.failures:
                ground.db.drop()
            else:
                stand.keep = True
                ground.db.stop()
    return suite.end()


if __name__ == '__main__':
    sys.exit(main())
