"""gen_ddl.py - changes of tables, types and the publication: which kinds there are, and how each is put into words.

Part of gen_steps.Steps, which runs them.  Whatever happens, a table keeps a
column id, and the partitioned ones their column n.
"""
from gen_tables import IDENTITIES, PUBLICATION, Catalog, Refused, is_ruled, literal, quote

# by what it does: takes tables away or changes nothing of stored rows; brings tables with rows in them; makes rows stale
PLAIN_DDL = ['add column', 'rename table away', 'drop table', 'recreate table', 'create table', 'truncate', 'truncate cascade',
             'truncate several', 'detach partition', 'drop partition', 'create partition', 'enum value added', 'set unlogged',
             'publication drop table', 'publication drop schema', 'vacuum full', 'cluster']
COPYING_DDL = ['rename table in', 'move to another schema', 'attach partition', 'replica identity', 'primary key dropped',
               'primary key added', 'set logged', 'publication add table', 'publication add schema']
STALE_DDL = ['drop column', 'rename column', 'retype column', 'retype key', 'add column with default',
             'add column with volatile default', 'add generated column', 'enum value renamed', 'composite attribute added',
             'composite attribute renamed', 'drop and add column in one']
ALL_DDL = PLAIN_DDL + COPYING_DDL + STALE_DDL


class Ddl:
    """ddl_KIND(session, catalog): True if it was done, False if the server refused it, or raises Refused."""

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
            kind = self.random.choice(['bigint', f'integer USING {name} + 1', 'numeric(14,2)'] if c.name == 'k' else
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

    def publish(self, s, schema, name):
        self.alone(s, 'the publication')
        return f'ALTER PUBLICATION {PUBLICATION} ADD TABLE {quote(schema)}.{quote(name)}'

    def ddl_create_table(self, s, cat):
        if len(cat.tables) > 38:
            raise Refused
        schema = self.random.choice(['public', 'public', 's1'])
        name = self.maker.fresh(self.random.choice(['w_', 'w_', 'odd']))
        statements = self.maker.table(schema, name)
        if schema == 'public' and self.random.random() < 0.8:
            statements.insert(self.random.randint(1, len(statements)), self.publish(s, schema, name))
        return self.run(s, '; '.join(statements))

    def ddl_drop_table(self, s, cat):
        found = [t for t in self.renamable(cat) if t.schema != 'Odd schéma' and t.name not in ('child',)]
        if len(cat.tables) < 30:
            found = [t for t in found if not (t.schema == 'public' and t.name.startswith('t'))] or found
        t = self.pick(s, found)
        return self.run(s, f'DROP TABLE {t.full_name}')

    def ddl_recreate_table(self, s, cat):
        t = self.pick(s, self.renamable(cat))
        if t.name == 'child':
            raise Refused
        statements = [f'DROP TABLE {t.full_name}'] + self.maker.table(t.schema, t.name)
        if t.published_itself:
            statements.append(self.publish(s, t.schema, t.name))
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

    def alone(self, s, name):
        """What is no table, and what two transactions cannot change at a time."""
        if name in self.others(s, 0):
            raise Refused
        s.ddl.add(name)
        return name

    def ddl_enum_value_added(self, s, cat):
        name = self.alone(s, self.random.choice(['types.mood', 'types."Mood"']))
        labels = self.labels(s, name)
        if len(labels) > 30:
            raise Refused
        where = self.random.choice(['', ' BEFORE ', ' AFTER '])
        if where:
            where += literal(self.random.choice(labels))
        return self.run(s, f'ALTER TYPE {name} ADD VALUE {literal(self.maker.fresh("lä bel"))}{where}')

    def ddl_enum_value_renamed(self, s, cat):
        name = self.alone(s, self.random.choice(['types.mood', 'types."Mood"']))
        label = self.random.choice(self.labels(s, name))
        return self.run(s, f'ALTER TYPE {name} RENAME VALUE {literal(label)} TO {literal(self.maker.fresh("re named"))}')

    def ddl_composite_attribute_added(self, s, cat):
        name = self.random.choice(['types.comp', 'types.nested'])
        self.alone(s, 'composites')
        kind = self.random.choice(['int4', 'text', 'timestamptz', 'types.rating', 'numeric[]'])
        return self.run(s, f'ALTER TYPE {name} ADD ATTRIBUTE {quote(self.maker.fresh("att ribute"))} {kind} CASCADE')

    def ddl_composite_attribute_renamed(self, s, cat):
        name = self.random.choice(['types.comp', 'types.nested'])
        self.alone(s, 'composites')
        s.cursor.execute('SELECT attname FROM pg_attribute WHERE attrelid = (SELECT typrelid FROM pg_type WHERE oid = %s::regtype)'
                         ' AND attnum > 0 AND NOT attisdropped ORDER BY attnum', (name,))
        attribute = self.random.choice([row[0] for row in s.cursor.fetchall()])
        new = quote(self.maker.fresh('renamed '))
        return self.run(s, f'ALTER TYPE {name} RENAME ATTRIBUTE {quote(attribute)} TO {new} CASCADE')

    def ddl_set_unlogged(self, s, cat):
        t = self.pick(s, [t for t in cat.tables if t.persistence == 'p' and not t.is_root and not t.references
                          and not cat.is_referenced(t)])
        if t.published_itself:
            self.alone(s, 'the publication')
            return self.run(s, f'ALTER PUBLICATION {PUBLICATION} DROP TABLE {t.full_name}; ALTER TABLE {t.full_name} SET UNLOGGED')
        return self.alter(s, t, 'SET UNLOGGED')

    def ddl_set_logged(self, s, cat):
        t = self.pick(s, [t for t in cat.tables if t.persistence == 'u' and not t.is_root])
        sql = f'ALTER TABLE {t.full_name} SET LOGGED'
        if t.schema == 'public' and not t.is_partition:
            sql += '; ' + self.publish(s, t.schema, t.name)
        return self.run(s, sql)

    def ddl_publication_add_table(self, s, cat):
        t = self.pick(s, [t for t in cat.tables if not t.published_itself and t.persistence == 'p' and not t.is_partition])
        return self.run(s, self.publish(s, t.schema, t.name))

    def ddl_publication_drop_table(self, s, cat):
        self.alone(s, 'the publication')
        t = self.pick(s, [t for t in cat.tables if t.published_itself])
        return self.run(s, f'ALTER PUBLICATION {PUBLICATION} DROP TABLE {t.full_name}')

    def schema_published(self, s):
        s.cursor.execute('SELECT count(*) FROM pg_publication_namespace')
        return s.cursor.fetchone()[0] > 0

    def ddl_publication_drop_schema(self, s, cat):
        self.alone(s, 'the publication')
        if not self.schema_published(s):
            raise Refused
        return self.run(s, f'ALTER PUBLICATION {PUBLICATION} DROP TABLES IN SCHEMA s1')

    def ddl_publication_add_schema(self, s, cat):
        self.alone(s, 'the publication')
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
