"""gen_steps.py - the steps of the generator: one random statement in one of several sessions.

A step asks the catalog, picks a kind and a table that no other session's open
transaction stands in the way of, and runs one statement (or several as one
string).  What the server refuses is counted and rolled back.  Which kinds
there are is in gen_dml.py and gen_ddl.py.
"""
import io
from collections import Counter

import psycopg2

from gen_ddl import Ddl
from gen_dml import DML, Dml
from gen_tables import Deck, Refused

CONTROLS = {'commit': 5, 'rollback': 2, 'savepoint': 6, 'rollback to savepoint': 8, 'release savepoint': 4,
            'prepare transaction': 4, 'logical message': 3}
ENDS_OF_PREPARED = ['commit prepared', 'rollback prepared']


class Session:
    """One connection; what its open transaction has touched."""

    def __init__(self, number, connection):
        self.number, self.connection = number, connection
        self.cursor = connection.cursor()
        self.cursor.execute("SET lock_timeout = '1500ms'; SET statement_timeout = '30s'; SET client_min_messages = error;"
                            'SET search_path = public, types')
        self.forget()

    def forget(self):
        self.open, self.savepoints = False, []          # (name, length of done)
        self.done = []                                  # what is counted at the commit: (counter, key, number)
        self.ddl, self.dml, self.rows = set(), set(), set()

    def back_to(self, at):
        del self.savepoints[at + 1:]
        del self.done[self.savepoints[at][1]:]


class Steps(Dml, Ddl):
    def __init__(self, db, random, maker, log, ddl, sessions=3):
        self.db, self.random, self.maker, self.log = db, random, maker, log
        self.sessions = [Session(i, db.connect()) for i in range(sessions)]
        self.prepared = {}              # gid -> (ddl, dml, rows, what is counted at the commit)
        self.ddl_kinds = Deck(random, ddl)
        self.dml_kinds = Deck(random, [kind for kind, weight in DML.items() for _ in range(weight)])
        self.controls = Deck(random, [kind for kind, weight in CONTROLS.items() for _ in range(weight)])
        self.ends_of_prepared = Deck(random, ENDS_OF_PREPARED)
        self.counts, self.types, self.identities = Counter(), Counter(), Counter()      # by (what, phase)
        self.refused = Counter()
        self.number = 0
        self.serial = 0
        self.hot = set()

    def close(self):
        for s in self.sessions:
            s.connection.close()

    # ---- running

    def run(self, session, sql, copy=None):
        """False: the server refused it, and what was open is rolled back."""
        self.log(f'-- {self.number} session {session.number} {self.phase}\n{sql};' + (f'\n{copy}\\.' if copy is not None else ''))
        try:
            if copy is None:
                session.cursor.execute(sql)
            else:
                session.cursor.copy_expert(sql, io.StringIO(copy))
            return True
        except psycopg2.Error as error:
            self.failed(session, error)
            return False

    def failed(self, session, error):
        if session.connection.closed:
            raise error
        text = str(error).splitlines()[0]
        self.refused[f'{error.pgcode} {text}'] += 1
        self.log(f'-- refused: {error.pgcode} {text}')
        if session.open:
            if session.savepoints and self.random.random() < 0.5:
                self.control(session, f'ROLLBACK TO {session.savepoints[-1][0]}')
                session.back_to(len(session.savepoints) - 1)
            else:
                self.control(session, 'ROLLBACK')
                session.forget()

    def control(self, session, sql):
        self.log(f'-- {self.number} session {session.number} {self.phase}\n{sql};')
        session.cursor.execute(sql)

    def step(self, phase):
        """One statement; phase is what it is counted under."""
        self.phase = phase
        self.number += 1
        for _ in range(20):
            session = self.random.choice(self.sessions)
            try:
                return self.try_step(session)
            except Refused:
                pass
            except psycopg2.Error as error:     # of a query that only looks
                self.failed(session, error)
            finally:
                if not session.open:
                    session.forget()
        raise Refused('nothing can be done')

    def try_step(self, s):
        r = self.random
        dice = r.random()
        if s.open and dice < 0.4:
            return self.draw(self.controls, lambda kind: getattr(self, 'do_' + kind.replace(' ', '_'))(s))
        if not s.open and dice < 0.5:
            self.control(s, 'BEGIN' if r.random() < 0.9 else 'BEGIN ISOLATION LEVEL REPEATABLE READ')
            s.open = True
            return None
        if not s.open and self.prepared and dice < 0.65:
            return self.finish_prepared(s)
        return self.ddl(s) if r.random() < 0.4 else self.dml(s)

    def draw(self, deck, attempt):
        """Tries the next cards; those that cannot be played come again soon."""
        back = []
        try:
            for _ in range(6):
                card = deck.draw()
                try:
                    return attempt(card)
                except Refused:
                    back.append(card)
        finally:
            deck.left += back
        raise Refused

    def note(self, s, counter, what, number=1):
        """Counts at the commit what has been done now."""
        if s.open:
            s.done.append((counter, (what, self.phase), number))
        else:
            counter[(what, self.phase)] += number

    def settle_counts(self, done):
        for counter, key, number in done:
            counter[key] += number

    def do_commit(self, s):
        self.control(s, 'COMMIT')
        self.settle_counts(s.done)
        s.forget()
        self.note(s, self.counts, 'commit')

    def do_rollback(self, s):
        self.control(s, 'ROLLBACK')
        s.forget()
        self.note(s, self.counts, 'rollback')

    def do_savepoint(self, s):
        self.serial += 1
        name = f'sp{self.serial}'
        self.control(s, f'SAVEPOINT {name}')
        s.savepoints.append((name, len(s.done)))
        self.counts[('savepoint', self.phase)] += 1

    def do_rollback_to_savepoint(self, s):
        if not s.savepoints or not s.done:
            raise Refused
        at = self.random.randrange(len(s.savepoints))
        self.control(s, f'ROLLBACK TO {s.savepoints[at][0]}')
        s.back_to(at)
        self.counts[('rollback to savepoint', self.phase)] += 1

    def do_release_savepoint(self, s):
        if not s.savepoints:
            raise Refused
        at = self.random.randrange(len(s.savepoints))
        self.control(s, f'RELEASE {s.savepoints[at][0]}')
        del s.savepoints[at:]
        self.counts[('release savepoint', self.phase)] += 1

    def do_prepare_transaction(self, s):
        if len(self.prepared) > 1 or not s.done:
            raise Refused
        self.serial += 1
        gid = f'g{self.serial}'
        if self.run(s, f"PREPARE TRANSACTION '{gid}'"):
            self.prepared[gid] = (s.ddl, s.dml, s.rows, s.done)
            s.forget()
            self.note(s, self.counts, 'prepare transaction')
        s.forget()

    def do_logical_message(self, s):
        self.run(s, f"SELECT pg_logical_emit_message({self.random.choice(['true', 'false'])}, 'x', 'y')")
        self.note(s, self.counts, 'logical message')

    def finish_prepared(self, s):
        gid = self.random.choice(sorted(self.prepared))
        kind = self.ends_of_prepared.draw()
        self.control(s, f"{kind.upper()} '{gid}'")
        done = self.prepared.pop(gid)[3]
        if kind == 'commit prepared':
            self.settle_counts(done)
        self.counts[(kind, self.phase)] += 1

    def prefer(self, missing):
        """What is to come next, as far as it can."""
        self.ddl_kinds.left = [kind for kind in self.ddl_kinds.cards if kind in missing] or self.ddl_kinds.left
        self.dml_kinds.left = [kind for kind in DML if kind in missing] or self.dml_kinds.left
        wanted = [kind for kind in CONTROLS if kind in missing]
        if any(kind in missing for kind in ENDS_OF_PREPARED):
            wanted.append('prepare transaction')
            self.ends_of_prepared.left = [kind for kind in ENDS_OF_PREPARED if kind in missing]
        if 'rollback to savepoint' in wanted or 'release savepoint' in wanted:
            wanted.append('savepoint')
        self.controls.left = wanted or self.controls.left

    def quiesce(self):
        """No transaction is open any more."""
        self.number += 1
        for s in self.sessions:
            if s.open:
                self.do_commit(s) if self.random.random() < 0.8 else self.do_rollback(s)
        while self.prepared:
            self.finish_prepared(self.sessions[0])

    # ---- choosing

    def others(self, session, index):
        found = set()
        for s in self.sessions:
            if s is not session:
                found |= (s.ddl, s.dml, s.rows)[index]
        for held in self.prepared.values():
            found |= held[index]
        return found

    def free(self, session, tables, for_ddl):
        """Those that no other open transaction holds against us."""
        held = self.others(session, 0)
        if for_ddl:
            held = held | self.others(session, 1)
        return [t for t in tables if not t.family & held and not t.name.startswith('hold')]

    def pick(self, session, tables, for_ddl=True):
        found = self.free(session, tables, for_ddl)
        if not found:
            raise Refused
        # much to the same tables: at one time, and in one transaction
        mine = session.ddl | session.dml
        for preferred in ([t for t in found if t.oid in mine], [t for t in found if t.oid in self.hot]):
            if preferred and self.random.random() < 0.4:
                found = preferred
        if self.number % 20 == 0:
            self.hot = {t.oid for t in self.random.sample(tables, min(4, len(tables)))}
        t = self.random.choice(found)
        (session.ddl if for_ddl else session.dml).update(t.family)
        return t
