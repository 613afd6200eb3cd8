"""gen_dml.py - changes of rows: which kinds there are, and how each is put into words.

Part of gen_steps.Steps, which runs them.  Each id is used once only, so that
what is stored can be compared by it, whatever the identity of the table.
"""
import gen_values
from gen_tables import Catalog, Refused, Types, constant, copy_text, fitted, literal, quote, short, type_group

ROWS = 24               # a table that has more loses some

DML = {'insert': 6, 'insert several': 3, 'upsert': 3, 'copy': 2, 'update': 8, 'update, large value unchanged': 3,
       'update large value': 2, 'update without change': 1, 'key change': 3, 'key swap': 2, 'delete': 3, 'delete several': 1, 'bulk update': 1,
       'row to another partition': 3, 'merge': 1}


class Dml:
    """dml_KIND(session, catalog, table, kind), each of which may raise Refused."""

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
        return gen_values.Values(self.random, types.known, types.labels)

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
            some = f'SELECT id FROM {table.full_name} ORDER BY id LIMIT {ROWS // 2}'
            if not self.run(s, f'DELETE FROM {table.full_name} WHERE id IN ({some})'):
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
            s.cursor.execute(f'SELECT {", ".join(quote(c) + "::text" for c in found[0].columns)} FROM {table.full_name}'
                             f' WHERE id = {literal(row["id"])}')
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
            sql = '; '.join(f'UPDATE {table.full_name} SET id = {literal(new)} WHERE id = {literal(old)}'
                            for new, old in ((spare, a), (a, b), (b, spare)))
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
        sql = (f'MERGE INTO {table.full_name} t USING (VALUES ({literal(a)}, false), ({literal(b)}, true)) v(id, gone)'
               ' ON t.id = v.id'
               " WHEN MATCHED AND gone THEN DELETE WHEN MATCHED THEN UPDATE SET grp = 'merged'")
        if a != b and self.run(s, sql):
            self.count_rows(s, cat, table, kind)
