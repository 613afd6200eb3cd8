"""gen_steps.py - the steps of the generator: one random statement in one of several sessions.

A step asks the catalog, picks a kind and a table that no other session's open
transaction stands in the way of, and runs one statement (or several as one
string).  What the server refuses is counted and rolled back.
"""
import io
from collections import Counter

import psycopg2

import gen_values
from gen_tables import (IDENTITIES, PUBLICATION, Catalog, Deck, Types, is_ruled, literal, quote, type_group)

ROWS = 24               # a table that has more loses some

# DDL by what it does to rows that are not written again: nothing; or it makes them stale, or brings or removes a table
PLAIN_DDL = ['add column', 'rename table away', 'drop table', 'recreate table', 'create table', 'truncate', 'truncate cascade',
             'truncate several', 'detach partition', 'drop partition', 'create partition', 'enum value added', 'set unlogged',
             'publication drop table', 'publication drop schema', 'vacuum full', 'cluster', 'drop and add column in one']
COPYING_DDL = ['rename table in', 'move to another schema', 'attach partition', 'replica identity', 'primary key dropped',
               'primary key added', 'set logged', 'publication add table', 'publication add schema']
STALE_DDL = ['drop column', 'rename column', 'retype column', 'retype key', 'add column with default',
             'add column with volatile default', 'add generated column', 'enum value renamed', 'composite attribute added',
             'composite attribute renamed']
ALL_DDL = PLAIN_DDL + COPYING_DDL + STALE_DDL
STALE_DDL.append(PLAIN_DDL.pop(PLAIN_DDL.index('drop and add column in one')))

DML = {'insert': 6, 'insert several': 3, 'upsert': 3, 'copy': 2, 'update': 8, 'update, large value unchanged': 3, 'update large value': 2,
       'update without change': 1, 'key change': 3, 'key swap': 2, 'delete': 3, 'delete several': 1, 'bulk update': 1,
       'row to another partition': 3, 'merge': 1}


CONTROLS = {'commit': 8, 'rollback': 3, 'savepoint': 8, 'rollback to savepoint': 5, 'release savepoint': 2, 'prepare transaction': 2,
            'logical message': 2}


class Refused(Exception):
    """The kind has nothing to work on now."""


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


class Steps:
    def __init__(self, db, random, maker, log, ddl, sessions=3):
        self.db, self.random, self.maker, self.log = db, random, maker, log
        self.sessions = [Session(i, db.connect()) for i in range(sessions)]
        self.prepared = {}              # gid -> (ddl, dml, rows, what is counted at the commit)
        self.ddl_kinds = Deck(random, ddl)
        self.dml_kinds = Deck(random, [kind for kind, weight in DML.items() for _ in range(weight)])
        self.controls = Deck(random, [kind for kind, weight in CONTROLS.items() for _ in range(weight)])
        self.ends_of_prepared = Deck(random, ['COMMIT', 'COMMIT', 'ROLLBACK'])
        self.counts, self.types, self.identities = Counter(), Counter(), Counter()      # by (what, phase)
        self.refused = Counter()
        self.number = 0
        self.serial = 0
        self.finite = False

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
        if s.open and dice < 0.35:
            return self.draw(self.controls, lambda kind: getattr(self, 'do_' + kind.replace(' ', '_'))(s))
        if not s.open and dice < 0.45:
            self.control(s, 'BEGIN' if r.random() < 0.9 else 'BEGIN ISOLATION LEVEL REPEATABLE READ')
            s.open = True
            return None
        if not s.open and self.prepared and dice < 0.6:
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
        command = self.ends_of_prepared.draw()
        self.control(s, f"{command} PREPARED '{gid}'")
        done = self.prepared.pop(gid)[3]
        if command == 'COMMIT':
            self.settle_counts(done)
        self.counts[(f'{command.lower()} prepared', self.phase)] += 1

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
        t = self.random.choice(found)
        (session.ddl if for_ddl else session.dml).update(t.family)
        return t

    # ---- rows

    def ids(self, s, table, only=True):
        held = self.others(s, 2)
        s.cursor.execute(f'SELECT id FROM {"ONLY " if only and not table.is_root else ""}{table.full_name} ORDER BY id LIMIT 200')
        return [row[0] for row in s.cursor.fetchall() if row[0] not in held]

    def row(self, s, table):
        found = self.ids(s, table)
        if not found:
            raise Refused
        row_id = self.random.choice(found)
        s.rows.add(row_id)
        return row_id

    def some_n(self, cat, table):
        """Values of n that the table takes: a partition or root by its bounds."""
        leaves = cat.children(table) if table.is_root else [table] if table.is_partition else []
        if not leaves:
            return list(range(10))
        bounds = [leaf.bound or '' for leaf in leaves]
        taken = {int(v.strip(" '")) for b in bounds if 'IN (' in b for v in b[b.index('(') + 1:-1].split(',')}
        if table.is_root:
            return sorted(taken) + ([7, 8, 9] if 'DEFAULT' in bounds else [])
        if 'DEFAULT' in bounds:
            siblings = cat.children(cat.by_oid[table.parent])
            used = {int(v.strip(" '")) for x in siblings if 'IN (' in (x.bound or '')
                    for v in x.bound[x.bound.index('(') + 1:-1].split(',')}
            return [v for v in range(10) if v not in used]
        return sorted(taken)

    def fresh_id(self):
        self.serial += 1
        return f'{self.random.choice(["r", "ü", "x y", "Q"])}{self.serial}'

    def value(self, s, cat, table, column, values):
        """The text for a column."""
        r = self.random
        name = column.name
        if name == 'id':
            return self.fresh_id()
        if name == 'k' and column.type_name in ('integer', 'bigint'):
            self.serial += 1
            return str(self.serial)
        if name == 'n' and column.type_name in ('integer', 'bigint'):
            found = self.some_n(cat, table)
            if not found:
                raise Refused
            return str(r.choice(found))
        if name == 'grp' and column.type_name in ('text', 'character varying'):
            return r.choice(['g0', 'g1', 'gü "2"', '', None])
        if name == 'pid' and table.references:
            return r.choice([None] + self.ids(s, cat.by_oid[table.references[0]]))
        if name == 'big' and column.type_name == 'text':
            return r.choice([None, 'small']) if r.random() < 0.4 else gen_values.toast(r, r.choice([2500, 4000, 9000]))
        text = values.text(column.type)
        if text is None and column.not_null:
            return values.text(column.type) or '0'
        return fitted(column, text)

    def values(self, s):
        types = Types().read(s.cursor)
        return gen_values.Values(self.random, types.known, types.labels, self.finite)

    def new_row(self, s, cat, table, values):
        """{column: text}"""
        row = {}
        for column in table.columns:
            if column.generated or (self.random.random() < 0.05 and not column.not_null):
                continue
            row[column.name] = self.value(s, cat, table, column, values)
            if row[column.name] is not None:
                self.note(s, self.types, type_group(short(column.type_name)))
        s.rows.add(row.get('id'))
        return row

    def count_rows(self, s, cat, table, what, number=1):
        leaf = cat.children(table)[0] if table.is_root and cat.children(table) else table
        self.note(s, self.identities, leaf.identity_kind(), number)
        if leaf.is_partition:
            self.note(s, self.identities, 'partition', number)
        self.note(s, self.counts, what)

    def dml(self, s):
        cat = Catalog(s.cursor)
        tables = [t for t in cat.tables if t.column('id') and not (t.is_root and not cat.children(t))]

        def attempt(kind):
            table = self.dml_table(s, cat, kind, tables)
            getattr(self, 'dml_' + ''.join(c if c.isalnum() else '_' for c in kind))(s, cat, table, kind)
        self.draw(self.dml_kinds, attempt)

    def insert_into(self, s, full_name):
        """For the first rows."""
        cat = Catalog(s.cursor)
        self.dml_insert_several(s, cat, next(t for t in cat.tables if t.full_name == full_name), 'insert several')

    def dml_table(self, s, cat, kind, tables):
        if kind == 'row to another partition':
            tables = [t for t in tables if t.is_root]
        elif not kind.startswith(('insert', 'copy')):
            tables = [t for t in tables if cat.can_change(t)]
        table = self.pick(s, tables, for_ddl=False)
        s.cursor.execute(f'SELECT count(*) FROM {table.full_name}')
        count = s.cursor.fetchone()[0]
        if count > ROWS and kind.startswith(('insert', 'copy')):
            if not cat.can_change(table):
                raise Refused
            if table.family & self.others(s, 1):
                raise Refused
            if not self.run(s, f'DELETE FROM {table.full_name} WHERE id IN (SELECT id FROM {table.full_name} ORDER BY id LIMIT {ROWS // 2})'):
                raise Refused
            self.count_rows(s, cat, table, 'delete several', ROWS // 2)
        return table

    def insert_text(self, cat, table, rows):
        names = list(rows[0])
        return (f'INSERT INTO {table.full_name} ({", ".join(map(quote, names))}) VALUES '
                + ', '.join('(' + ', '.join(constant(table.column(n), row.get(n)) for n in names) + ')' for row in rows))

    def dml_insert(self, s, cat, table, kind):
        if self.run(s, self.insert_text(cat, table, [self.new_row(s, cat, table, self.values(s))])):
            self.count_rows(s, cat, table, kind)

    def dml_insert_several(self, s, cat, table, kind):
        values = self.values(s)
        rows = [self.new_row(s, cat, table, values) for _ in range(self.random.randint(2, 5))]
        if self.run(s, self.insert_text(cat, table, rows)):
            self.count_rows(s, cat, table, kind, len(rows))

    def dml_copy(self, s, cat, table, kind):
        values = self.values(s)
        names = [c.name for c in table.columns if not c.generated]
        rows = [self.new_row(s, cat, table, values) for _ in range(self.random.randint(1, 4))]
        text = ''.join('\t'.join(copy_text(row.get(n)) for n in names) + '\n' for row in rows)
        if self.run(s, f'COPY {table.full_name} ({", ".join(map(quote, names))}) FROM STDIN', text):
            self.count_rows(s, cat, table, kind, len(rows))

    def dml_upsert(self, s, cat, table, kind):
        found = [i for i in table.indexes if i.usable and 'id' in i.columns]
        if not found:
            raise Refused
        row = self.new_row(s, cat, table, self.values(s))
        existing = self.ids(s, table)
        if existing and self.random.random() < 0.7:
            row['id'] = self.random.choice(existing)
            s.rows.add(row['id'])
            s.cursor.execute(f'SELECT {", ".join(quote(c) + "::text" for c in found[0].columns)} FROM {table.full_name} WHERE id = %s',
                             (row['id'],))
            row.update(zip(found[0].columns, s.cursor.fetchone()))      # or there would be two rows of one id
        names = [n for n in row if n not in found[0].columns]
        arbiter = ', '.join(map(quote, found[0].columns))
        action = 'DO NOTHING' if self.random.random() < 0.3 or not names else \
            'DO UPDATE SET ' + ', '.join(f'{quote(n)} = excluded.{quote(n)}' for n in names if n != 'n' or not table.is_root)
        if self.run(s, self.insert_text(cat, table, [row]) + f' ON CONFLICT ({arbiter}) {action}'):
            self.count_rows(s, cat, table, kind)

    def changed(self, s, cat, table, values, count, exclude=('big',)):
        keys = set(table.identity_columns() or []) | {'id', 'k', *exclude}
        if table.identity == 'f':
            keys = {'id', 'k', *exclude}
        if table.is_root or table.is_partition:
            keys.add('n')
        found = [c for c in table.columns if c.name not in keys and not c.generated]
        if not found:
            raise Refused
        found = self.random.sample(found, min(count, len(found)))
        texts = {c.name: self.value(s, cat, table, c, values) for c in found}
        for c in found:
            if texts[c.name] is not None:
                self.note(s, self.types, type_group(short(c.type_name)))
        return ', '.join(f'{quote(c.name)} = {constant(c, texts[c.name])}' for c in found)

    def dml_update(self, s, cat, table, kind):
        row = self.row(s, table)
        text = self.changed(s, cat, table, self.values(s), self.random.randint(1, 3))
        if self.run(s, f'UPDATE {table.full_name} SET {text} WHERE id = {literal(row)}'):
            self.count_rows(s, cat, table, kind)

    def dml_update__large_value_unchanged(self, s, cat, table, kind):
        if not table.column('big') or table.column('big').type_name != 'text':
            raise Refused
        s.cursor.execute(f'SELECT id FROM {table.full_name} WHERE length(big) > 2000 ORDER BY id')
        found = [row[0] for row in s.cursor.fetchall() if row[0] not in self.others(s, 2)]
        if not found:
            raise Refused
        row = self.random.choice(found)
        s.rows.add(row)
        text = self.changed(s, cat, table, self.values(s), 1)
        if self.run(s, f'UPDATE {table.full_name} SET {text} WHERE id = {literal(row)}'):
            self.count_rows(s, cat, table, kind)

    def dml_update_large_value(self, s, cat, table, kind):
        column = table.column('big')
        if not column or column.type_name != 'text':
            raise Refused
        row = self.row(s, table)
        text = constant(column, self.value(s, cat, table, column, None))
        if self.run(s, f'UPDATE {table.full_name} SET big = {text} WHERE id = {literal(row)}'):
            self.count_rows(s, cat, table, kind)

    def dml_update_without_change(self, s, cat, table, kind):
        row = self.row(s, table)
        if self.run(s, f'UPDATE {table.full_name} SET id = id WHERE id = {literal(row)}'):
            self.count_rows(s, cat, table, kind)

    def dml_key_change(self, s, cat, table, kind):
        row, new = self.row(s, table), self.fresh_id()
        s.rows.add(new)
        more = ''
        if table.column('k') and self.random.random() < 0.4:
            self.serial += 1
            more = f', k = {self.serial}'
        if self.run(s, f'UPDATE {table.full_name} SET id = {literal(new)}{more} WHERE id = {literal(row)}'):
            self.count_rows(s, cat, table, kind)

    def dml_key_swap(self, s, cat, table, kind):
        found = self.ids(s, table)
        if len(found) < 2:
            raise Refused
        a, b = self.random.sample(found, 2)
        s.rows.update({a, b})
        spare = self.fresh_id()
        if 'deferrable' in table.identity_kind():
            sql = (f'UPDATE {table.full_name} SET id = CASE id WHEN {literal(a)} THEN {literal(b)} ELSE {literal(a)} END'
                   f' WHERE id IN ({literal(a)}, {literal(b)})')
        else:
            update = f'UPDATE {table.full_name} SET id = {{}} WHERE id = {{}}'
            sql = '; '.join(update.replace('{}', '%s') % (literal(x), literal(y)) for x, y in ((spare, a), (a, b), (b, spare)))
        if self.run(s, sql):
            self.count_rows(s, cat, table, kind, 2)

    def dml_delete(self, s, cat, table, kind):
        row = self.row(s, table)
        if self.run(s, f'DELETE FROM {table.full_name} WHERE id = {literal(row)}'):
            self.count_rows(s, cat, table, kind)

    def dml_delete_several(self, s, cat, table, kind):
        found = self.ids(s, table)
        if len(found) < 4:
            raise Refused
        found = self.random.sample(found, len(found) // 3)
        s.rows.update(found)
        if self.run(s, f'DELETE FROM {table.full_name} WHERE id IN ({", ".join(map(literal, found))})'):
            self.count_rows(s, cat, table, kind, len(found))

    def dml_bulk_update(self, s, cat, table, kind):
        if table.family & self.others(s, 1):
            raise Refused           # it would wait for rows of others
        text = self.changed(s, cat, table, self.values(s), 2)
        if self.run(s, f'UPDATE {table.full_name} SET {text}'):
            self.count_rows(s, cat, table, kind, len(self.ids(s, table)))

    def dml_row_to_another_partition(self, s, cat, table, kind):
        row = self.row(s, table)
        values = self.some_n(cat, table)
        if not values:
            raise Refused
        if self.run(s, f'UPDATE {table.full_name} SET n = {self.random.choice(values)} WHERE id = {literal(row)}'):
            self.count_rows(s, cat, table, kind)

    def dml_merge(self, s, cat, table, kind):
        if table.is_root or table.is_partition or any(t.parent == table.oid for t in cat.tables) or table.parent:
            raise Refused
        if not table.column('grp') or table.column('grp').type_name != 'text':
            raise Refused
        a, b = self.row(s, table), self.row(s, table)
        sql = (f'MERGE INTO {table.full_name} t USING (VALUES ({literal(a)}, false), ({literal(b)}, true)) v(id, gone) ON t.id = v.id'
               " WHEN MATCHED AND gone THEN DELETE WHEN MATCHED THEN UPDATE SET grp = 'merged'")
        if a != b and self.run(s, sql):
            self.count_rows(s, cat, table, kind)

    # ---- DDL

    def ddl(self, s):
        cat = Catalog(s.cursor)

        def attempt(kind):
            if getattr(self, 'ddl_' + kind.replace(' ', '_'))(s, cat):
                self.note(s, self.counts, kind)
        self.draw(self.ddl_kinds, attempt)

    def plain_tables(self, cat):
        return [t for t in cat.tables if not t.is_partition]

    def reshapable(self, cat):
        """Tables whose columns may be changed: not partitions, and heirs only in columns of their own."""
        return [t for t in self.plain_tables(cat) if t.schema in ('public', 's1', 'Odd schéma')]

    def droppable_columns(self, table):
        keep = {'id', 'n'} if table.is_root or table.parent else {'id'}
        return [c for c in table.columns if c.name not in keep and c.inherited == 0]

    def new_column(self, table):
        name = self.maker.odd.draw()
        if name in table.names or self.random.random() < 0.5:
            name = self.maker.fresh('c')
        return quote(name)

    def alter(self, s, table, action):
        return self.run(s, f'ALTER TABLE {table.full_name} {action}')

    def constant_of(self, s, kind):
        """A constant of a type by its name."""
        s.cursor.execute('SELECT %s::regtype::oid::bigint', (kind,))
        oid = s.cursor.fetchone()[0]
        text = None
        values = self.values(s)
        for _ in range(5):
            text = text if text is not None else values.text(oid)
        if kind.startswith('char('):
            text = (text or '')[:5]
        elif kind.startswith('varchar('):
            text = (text or '')[:40]
        elif kind == 'bit(3)':
            text = '101'
        elif kind.startswith('numeric('):
            text = '1.5'
        return f'{literal(text)}::{kind}'

    def ddl_add_column(self, s, cat):
        t = self.pick(s, self.reshapable(cat))
        return self.alter(s, t, f'ADD COLUMN {self.new_column(t)} {self.maker.types.draw()}')

    def ddl_add_column_with_default(self, s, cat):
        t = self.pick(s, self.reshapable(cat))
        kind = self.maker.types.draw()
        return self.alter(s, t, f'ADD COLUMN {self.new_column(t)} {kind} DEFAULT {self.constant_of(s, kind)}')

    def ddl_add_column_with_volatile_default(self, s, cat):
        t = self.pick(s, self.reshapable(cat))
        kind = self.random.choice(['uuid DEFAULT gen_random_uuid()', 'timestamptz DEFAULT clock_timestamp()',
                                   'float8 DEFAULT random()', 'bigserial'])
        return self.alter(s, t, f'ADD COLUMN {self.new_column(t)} {kind}')

    def ddl_add_generated_column(self, s, cat):
        t = self.pick(s, self.reshapable(cat))
        return self.alter(s, t, f"ADD COLUMN {self.new_column(t)} text GENERATED ALWAYS AS (id || '?') STORED")

    def ddl_drop_column(self, s, cat):
        t = self.pick(s, self.reshapable(cat))
        found = self.droppable_columns(t)
        if len(found) < 3:
            raise Refused
        return self.alter(s, t, f'DROP COLUMN {quote(self.random.choice(found).name)}')

    def ddl_drop_and_add_column_in_one(self, s, cat):
        t = self.pick(s, self.reshapable(cat))
        found = [c for c in self.droppable_columns(t) if c.name != 'k']
        if not found:
            raise Refused
        c = self.random.choice(found)
        kind = c.type_name if not c.generated else 'text'
        return self.alter(s, t, f'DROP COLUMN {quote(c.name)}, ADD COLUMN {quote(c.name)} {kind}')

    def ddl_rename_column(self, s, cat):
        t = self.pick(s, self.reshapable(cat))
        found = self.droppable_columns(t)
        if not found:
            raise Refused
        new = self.random.choice(['grp', 'big', self.maker.fresh('c'), self.maker.odd.draw()])
        if new in t.names:
            new = self.maker.fresh('c')
        return self.alter(s, t, f'RENAME COLUMN {quote(self.random.choice(found).name)} TO {quote(new)}')

    def ddl_retype_column(self, s, cat):
        t = self.pick(s, self.reshapable(cat))
        found = [c for c in self.droppable_columns(t) if not c.generated and c.name != 'pid']
        if not found:
            raise Refused
        c = self.random.choice(found)
        name = quote(c.name)
        if c.type_name == 'integer':
            kind = self.random.choice([f'bigint', f'integer USING {name} + 1', f'numeric(14,2)'] if c.name == 'k' else
                                      ['bigint', f'integer USING {name} + 1', f'text USING {name}::text', 'float8'])
        elif c.type_name == 'text':
            kind = self.random.choice(['varchar', f'bytea USING convert_to({name}, \'UTF8\')', f'text USING {name} || \'.\'',
                                       f'text[] USING ARRAY[{name}]'])
        elif c.name == 'k':
            kind = f'integer USING {name}::integer'
        else:
            kind = f'text USING {name}::text'
        return self.alter(s, t, f'ALTER COLUMN {name} TYPE {kind}')

    def ddl_retype_key(self, s, cat):
        t = self.pick(s, [t for t in self.reshapable(cat) if not cat.is_referenced(t) and not t.parent
                          and not any(c.parent == t.oid for c in cat.tables)])
        kind = 'varchar(99)' if t.column('id').type_name == 'text' else 'text'
        return self.alter(s, t, f'ALTER COLUMN id TYPE {kind}')

    def renamable(self, cat):
        return [t for t in cat.tables if not t.is_root and not t.is_partition and not t.parent and not cat.is_referenced(t)
                and not cat.children(t)]

    def ddl_rename_table_away(self, s, cat):
        t = self.pick(s, [t for t in self.renamable(cat) if is_ruled(t.schema, t.name) and t.schema != 's1'])
        return self.alter(s, t, f'RENAME TO {quote(self.maker.fresh("away_"))}')

    def ddl_rename_table_in(self, s, cat):
        t = self.pick(s, [t for t in self.renamable(cat) if t.schema == 'public' and t.name != 'child'])
        names = [f't{i}' for i in range(len(IDENTITIES))] + ['Odd', self.maker.fresh('w_'), self.maker.fresh('odd%"')]
        names = [n for n in names if not cat.find('public', n)]
        return self.alter(s, t, f'RENAME TO {quote(self.random.choice(names))}')

    def ddl_move_to_another_schema(self, s, cat):
        t = self.pick(s, self.renamable(cat))
        schema = self.random.choice([x for x in ('public', 's1', 'Odd schéma') if x != t.schema])
        return self.alter(s, t, f'SET SCHEMA {quote(schema)}')

    def publish(self, schema, name):
        return f'ALTER PUBLICATION {PUBLICATION} ADD TABLE {quote(schema)}.{quote(name)}'

    def ddl_create_table(self, s, cat):
        if len(cat.tables) > 38:
            raise Refused
        schema = self.random.choice(['public', 'public', 's1'])
        name = self.maker.fresh(self.random.choice(['w_', 'w_', 'odd']))
        statements = self.maker.table(schema, name)
        if schema == 'public' and self.random.random() < 0.8:
            statements.insert(self.random.randint(1, len(statements)), self.publish(schema, name))
        return self.run(s, '; '.join(statements))

    def ddl_drop_table(self, s, cat):
        found = [t for t in self.renamable(cat) if t.schema != 'Odd schéma' and t.name not in ('child',)]
        if len(cat.tables) < 30:
            found = [t for t in found if not (t.schema == 'public' and t.name.startswith('t') and is_ruled('public', t.name))] or found
        t = self.pick(s, found)
        return self.run(s, f'DROP TABLE {t.full_name}')

    def ddl_recreate_table(self, s, cat):
        t = self.pick(s, self.renamable(cat))
        if t.name == 'child':
            raise Refused
        statements = [f'DROP TABLE {t.full_name}'] + self.maker.table(t.schema, t.name)
        if t.published_itself:
            statements.append(self.publish(t.schema, t.name))
        return self.run(s, '; '.join(statements))

    def ddl_truncate(self, s, cat):
        t = self.pick(s, [t for t in cat.tables if not cat.is_referenced(t)])
        only = 'ONLY ' if not t.is_root and self.random.random() < 0.3 else ''
        return self.run(s, f'TRUNCATE {only}{t.full_name} {self.random.choice(["", "RESTART IDENTITY"])}')

    def ddl_truncate_cascade(self, s, cat):
        t = self.pick(s, [t for t in cat.tables if cat.is_referenced(t)])
        return self.run(s, f'TRUNCATE {t.full_name} CASCADE')

    def ddl_truncate_several(self, s, cat):
        found = self.free(s, [t for t in cat.tables if not cat.is_referenced(t)], True)
        if len(found) < 3:
            raise Refused
        found = self.random.sample(found, self.random.randint(2, 3))
        for t in found:
            s.ddl.update(t.family)
        return self.run(s, f'TRUNCATE {", ".join(t.full_name for t in found)} RESTART IDENTITY')

    def roots(self, cat):
        return [t for t in cat.tables if t.is_root]

    def free_value(self, cat, root):
        used = set()
        for leaf in cat.children(root):
            if 'IN (' in (leaf.bound or ''):
                used |= {int(v.strip(" '")) for v in leaf.bound[leaf.bound.index('(') + 1:-1].split(',')}
        found = [v for v in range(10) if v not in used]
        if not found:
            raise Refused
        return self.random.choice(found)

    def clear_default(self, cat, root, value):
        """The rows of a value that is to get a partition of its own."""
        for leaf in cat.children(root):
            if leaf.bound == 'DEFAULT':
                if not cat.can_change(leaf):
                    return [f'TRUNCATE {leaf.full_name}']
                return [f'DELETE FROM {leaf.full_name} WHERE n = {value}']
        return []

    def ddl_attach_partition(self, s, cat):
        root = self.pick(s, self.roots(cat))
        value = self.free_value(cat, root)
        detached = [t for t in cat.tables if t.schema == root.schema and t.name.startswith(root.name + '_') and not t.is_partition
                    and t.names == root.names and [c.type for c in t.columns] == [c.type for c in root.columns]]
        detached = self.free(s, detached, True)
        statements = self.clear_default(cat, root, value)
        if detached and self.random.random() < 0.6:
            leaf = self.random.choice(detached)
            s.ddl.update(leaf.family)
            if cat.can_change(leaf):
                statements.append(f'UPDATE {leaf.full_name} SET n = {value}')
            else:
                statements.append(f'TRUNCATE {leaf.full_name}')
            name = leaf.full_name
        else:
            # the columns in another order, and with a gap
            name = f'{quote(root.schema)}.{quote(self.maker.fresh(root.name + "_"))}'
            columns = [c for c in root.columns if not c.generated]
            if any(c.generated for c in root.columns):
                statements.append(f'CREATE TABLE {name} (LIKE {root.full_name} INCLUDING ALL)')
            else:
                columns = self.random.sample(columns, len(columns))
                text = ', '.join(f'{quote(c.name)} {c.type_name}{" NOT NULL" if c.not_null else ""}' for c in columns)
                statements.append(f'CREATE TABLE {name} (gone int, {text}, PRIMARY KEY (id, n)); ALTER TABLE {name} DROP gone')
            first = '' if not root.column('k') else ', k'
            self.serial += 2
            statements.append(f"INSERT INTO {name} (id, n{first}) VALUES ('p{self.serial}', {value}{first and ', 0'}),"
                              f" ('p{self.serial - 1}', {value}{first and ', 1'})")
        statements.append(f'ALTER TABLE {root.full_name} ATTACH PARTITION {name} FOR VALUES IN ({value})')
        return self.run(s, '; '.join(statements))

    def ddl_create_partition(self, s, cat):
        root = self.pick(s, self.roots(cat))
        value = self.free_value(cat, root)
        name = f'{quote(root.schema)}.{quote(self.maker.fresh(root.name + "_"))}'
        statements = self.clear_default(cat, root, value)
        statements.append(f'CREATE TABLE {name} PARTITION OF {root.full_name} FOR VALUES IN ({value})')
        return self.run(s, '; '.join(statements))

    def leaf(self, s, cat):
        found = [t for t in cat.tables if t.is_partition and len(cat.children(cat.by_oid[t.parent])) > 2]
        return self.pick(s, found)

    def ddl_detach_partition(self, s, cat):
        leaf = self.leaf(s, cat)
        root = cat.by_oid[leaf.parent]
        concurrently = ''
        if not s.open and not any(x.bound == 'DEFAULT' for x in cat.children(root)) and not any(x.open for x in self.sessions) \
                and not self.prepared:
            concurrently = ' CONCURRENTLY'
        return self.run(s, f'ALTER TABLE {root.full_name} DETACH PARTITION {leaf.full_name}{concurrently}')

    def ddl_drop_partition(self, s, cat):
        return self.run(s, f'DROP TABLE {self.leaf(s, cat).full_name}')

    def ddl_replica_identity(self, s, cat):
        t = self.pick(s, [t for t in cat.tables if not t.is_root])
        choices = ['DEFAULT', 'FULL', 'FULL', 'NOTHING'] + [f'USING INDEX {quote(i.name)}' for i in t.indexes if i.usable
                                                            and all(t.column(c) and t.column(c).not_null for c in i.columns)]
        return self.alter(s, t, f'REPLICA IDENTITY {self.random.choice(choices)}')

    def ddl_primary_key_dropped(self, s, cat):
        t = self.pick(s, [t for t in cat.tables if t.primary_key and not t.is_partition and not cat.is_referenced(t)])
        return self.alter(s, t, f'DROP CONSTRAINT {quote(t.primary_key)}')

    def ddl_primary_key_added(self, s, cat):
        t = self.pick(s, [t for t in cat.tables if not t.primary_key and not t.is_partition])
        key = 'id, n' if t.is_root else self.random.choice(['id', 'id', 'id, k' if t.column('k') else 'id'])
        return self.alter(s, t, f'ADD PRIMARY KEY ({key})')

    def labels(self, s, name):
        s.cursor.execute('SELECT enumlabel FROM pg_enum WHERE enumtypid = %s::regtype ORDER BY enumsortorder', (name,))
        return [row[0] for row in s.cursor.fetchall()]

    def the_type(self, s, name):
        """Types are locked by nobody who uses them, but two sessions may not change one."""
        if name in self.others(s, 0):
            raise Refused
        s.ddl.add(name)
        return name

    def ddl_enum_value_added(self, s, cat):
        name = self.the_type(s, self.random.choice(['types.mood', 'types."Mood"']))
        labels = self.labels(s, name)
        if len(labels) > 30:
            raise Refused
        where = self.random.choice(['', f' BEFORE {literal(self.random.choice(labels))}', f' AFTER {literal(self.random.choice(labels))}'])
        return self.run(s, f'ALTER TYPE {name} ADD VALUE {literal(self.maker.fresh("lä bel"))}{where}')

    def ddl_enum_value_renamed(self, s, cat):
        name = self.the_type(s, self.random.choice(['types.mood', 'types."Mood"']))
        label = self.random.choice(self.labels(s, name))
        return self.run(s, f'ALTER TYPE {name} RENAME VALUE {literal(label)} TO {literal(self.maker.fresh("re named"))}')

    def ddl_composite_attribute_added(self, s, cat):
        name = self.the_type(s, self.random.choice(['types.comp', 'types.nested']))
        kind = self.random.choice(['int4', 'text', 'timestamptz', 'types.rating', 'numeric[]'])
        return self.run(s, f'ALTER TYPE {name} ADD ATTRIBUTE {quote(self.maker.fresh("att ribute"))} {kind} CASCADE')

    def ddl_composite_attribute_renamed(self, s, cat):
        name = self.the_type(s, self.random.choice(['types.comp', 'types.nested']))
        s.cursor.execute('SELECT attname FROM pg_attribute WHERE attrelid = (SELECT typrelid FROM pg_type WHERE oid = %s::regtype)'
                         ' AND attnum > 0 AND NOT attisdropped ORDER BY attnum', (name,))
        attribute = self.random.choice([row[0] for row in s.cursor.fetchall()])
        return self.run(s, f'ALTER TYPE {name} RENAME ATTRIBUTE {quote(attribute)} TO {quote(self.maker.fresh("renamed "))} CASCADE')

    def ddl_set_unlogged(self, s, cat):
        t = self.pick(s, [t for t in cat.tables if t.persistence == 'p' and not t.is_root and not t.references
                          and not cat.is_referenced(t)])
        if t.published_itself:
            return self.run(s, f'ALTER PUBLICATION {PUBLICATION} DROP TABLE {t.full_name}; ALTER TABLE {t.full_name} SET UNLOGGED')
        return self.alter(s, t, 'SET UNLOGGED')

    def ddl_set_logged(self, s, cat):
        t = self.pick(s, [t for t in cat.tables if t.persistence == 'u' and not t.is_root])
        sql = f'ALTER TABLE {t.full_name} SET LOGGED'
        if t.schema == 'public' and not t.is_partition:
            sql += '; ' + self.publish(t.schema, t.name)
        return self.run(s, sql)

    def ddl_publication_add_table(self, s, cat):
        t = self.pick(s, [t for t in cat.tables if not t.published_itself and t.persistence == 'p' and not t.is_partition])
        return self.run(s, self.publish(t.schema, t.name))

    def ddl_publication_drop_table(self, s, cat):
        t = self.pick(s, [t for t in cat.tables if t.published_itself])
        return self.run(s, f'ALTER PUBLICATION {PUBLICATION} DROP TABLE {t.full_name}')

    def schema_published(self, s):
        s.cursor.execute('SELECT count(*) FROM pg_publication_namespace')
        return s.cursor.fetchone()[0] > 0

    def ddl_publication_drop_schema(self, s, cat):
        self.the_type(s, 'schema of the publication')
        if not self.schema_published(s):
            raise Refused
        return self.run(s, f'ALTER PUBLICATION {PUBLICATION} DROP TABLES IN SCHEMA s1')

    def ddl_publication_add_schema(self, s, cat):
        self.the_type(s, 'schema of the publication')
        if self.schema_published(s):
            raise Refused
        return self.run(s, f'ALTER PUBLICATION {PUBLICATION} ADD TABLES IN SCHEMA s1')

    def ddl_vacuum_full(self, s, cat):
        if s.open:
            raise Refused
        t = self.pick(s, [t for t in cat.tables if not t.is_root])
        s.ddl.clear()
        return self.run(s, f'VACUUM FULL {t.full_name}')

    def ddl_cluster(self, s, cat):
        t = self.pick(s, [t for t in cat.tables if not t.is_root and [i for i in t.indexes if i.valid]])
        return self.run(s, f'CLUSTER {t.full_name} USING {quote(self.random.choice(t.indexes).name)}')


def short(type_name):
    """The catalog's long names of types as gen_tables spells them."""
    base, brackets = (type_name[:-2], '[]') if type_name.endswith('[]') else (type_name, '')
    base = LONG.get(base.split('(')[0], base.split('(')[0])
    if base.startswith(('timestamp', 'time', 'interval')):
        base = {'timestamp with time zone': 'timestamptz', 'timestamp without time zone': 'timestamp', 'time with time zone': 'timetz',
                'time without time zone': 'time', 'interval': 'interval'}.get(without_precision(type_name.removesuffix('[]')), base)
    return base + brackets


def without_precision(name):
    head, bracket, tail = name.partition('(')
    return head + tail.partition(')')[2] if bracket else name


LONG = {'boolean': 'bool', 'smallint': 'int2', 'integer': 'int4', 'bigint': 'int8', 'real': 'float4', 'double precision': 'float8',
        'character varying': 'varchar', 'character': 'bpchar', 'bit varying': 'varbit'}


def fitted(column, text):
    """Cut to the column's length."""
    if text is None:
        return None
    name = column.type_name
    if name.startswith(('character(', 'character varying(')):
        return text[:int(name[name.index('(') + 1:name.index(')')])]
    if name.startswith('bit(') and not name.endswith('[]'):
        size = int(name[4:-1])
        return (text * size)[:size]
    if name.startswith('numeric('):
        return '1.25' if text in ('Infinity', '-Infinity') or len(text) > 9 else text
    return text


def constant(column, text):
    return f'{literal(text)}::{column.type_name}' if text is not None and column.type_name not in ('text', 'integer') else literal(text)


def copy_text(text):
    if text is None:
        return '\\N'
    return text.replace('\\', '\\\\').replace('\t', '\\t').replace('\n', '\\n').replace('\r', '\\r')


