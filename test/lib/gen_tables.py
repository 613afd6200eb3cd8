"""gen_tables.py - the tables of the generator: making them, and reading from the catalog what they are now.

Nothing is remembered of a table but its name: each step asks the catalog, in
its own session, so that what another step did or rolled back needs no
book-keeping.
"""
import gen_values
import pg_values
from pg_values import load_types

SCHEMAS = ['public', 's1', 'Odd schéma']
PUBLICATION = 'powersync'

CATALOG = """
    SELECT c.oid::bigint, n.nspname, c.relname, c.relkind, c.relpersistence, c.relreplident, c.relispartition,
           (SELECT i.inhparent::bigint FROM pg_inherits i WHERE i.inhrelid = c.oid),
           pg_get_expr(c.relpartbound, 0),
           coalesce((SELECT json_agg(json_build_array(a.attname, a.atttypid::bigint, format_type(a.atttypid, a.atttypmod),
                                     a.attnotnull, a.attgenerated <> '' OR a.attidentity <> '', a.attinhcount) ORDER BY a.attnum)
                       FROM pg_attribute a WHERE a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped), '[]'),
           coalesce((SELECT json_agg(json_build_array(k.relname, i.indisprimary, i.indisunique, i.indimmediate, i.indisvalid,
                                     i.indisreplident, i.indpred IS NULL,
                                     (SELECT json_agg(a.attname ORDER BY x.n) FROM unnest(i.indkey::int2[]) WITH ORDINALITY AS x(a, n)
                                        JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum = x.a)) ORDER BY k.relname)
                       FROM pg_index i JOIN pg_class k ON k.oid = i.indexrelid WHERE i.indrelid = c.oid), '[]'),
           coalesce((SELECT json_agg(f.confrelid::bigint) FROM pg_constraint f WHERE f.conrelid = c.oid AND f.contype = 'f'), '[]'),
           coalesce((SELECT json_agg(p.conname ORDER BY p.conname) FROM pg_constraint p WHERE p.conrelid = c.oid AND p.contype = 'p'), '[]'),
           EXISTS (SELECT 1 FROM pg_publication_rel r WHERE r.prrelid = c.oid),
           EXISTS (SELECT 1 FROM pg_publication_namespace p WHERE p.pnnspid = c.relnamespace)
      FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
     WHERE n.nspname = ANY (%s) AND c.relkind IN ('r', 'p')
     ORDER BY c.oid"""


def quote(name):
    return '"' + name.replace('"', '""') + '"'


def literal(text):
    """A string constant; null is NULL."""
    if text is None:
        return 'NULL'
    if '\\' in text:
        return " E'" + text.replace('\\', '\\\\').replace("'", "''") + "'"
    return "'" + text.replace("'", "''") + "'"


class Refused(Exception):
    """The kind has nothing to work on now."""


class Column:
    def __init__(self, name, type_oid, type_name, not_null, generated, inherited):
        self.name, self.type, self.type_name = name, type_oid, type_name
        self.not_null, self.generated, self.inherited = not_null, generated, inherited


class Index:
    def __init__(self, name, primary, unique, immediate, valid, replident, whole, columns):
        self.name, self.primary, self.unique, self.immediate, self.valid = name, primary, unique, immediate, valid
        self.usable = unique and immediate and valid and whole
        self.replident, self.columns = replident, columns or []


class Table:
    def __init__(self, row):
        (self.oid, self.schema, self.name, self.kind, self.persistence, self.identity, self.is_partition, self.parent,
         self.bound, columns, indexes, self.references, keys, self.published_itself, self.published_by_schema) = row
        self.columns = [Column(*c) for c in columns]
        self.indexes = [Index(*i) for i in indexes]
        self.primary_key = keys[0] if keys else None
        self.family = {self.oid}

    @property
    def full_name(self):
        return f'{quote(self.schema)}.{quote(self.name)}'

    @property
    def is_root(self):
        return self.kind == 'p'

    @property
    def names(self):
        return [c.name for c in self.columns]

    def column(self, name):
        return next((c for c in self.columns if c.name == name), None)

    def identity_columns(self):
        """Names, or None where no old row can be named; all of them under FULL without a usable primary key."""
        primary = next((i for i in self.indexes if i.primary and i.usable), None)
        if self.identity == 'f':
            return primary.columns if primary else self.names
        if self.identity == 'd':
            return primary.columns if primary else None
        if self.identity == 'i':
            found = next((i for i in self.indexes if i.replident and i.usable), None)
            return found.columns if found else None
        return None

    def identity_kind(self):
        """One of IDENTITIES."""
        primary = next((i for i in self.indexes if i.primary), None)
        if self.identity == 'f':
            return 'FULL with key' if primary and primary.usable else 'FULL, deferrable key' if primary else 'FULL without key'
        if self.identity == 'n':
            return 'NOTHING'
        columns = self.identity_columns()
        if columns is None:
            return 'no key'
        if self.identity == 'i':
            return 'USING INDEX'
        return 'primary key' if len(columns) == 1 else 'several columns'


IDENTITIES = ['primary key', 'several columns', 'USING INDEX', 'FULL with key', 'FULL, deferrable key', 'FULL without key',
              'NOTHING', 'no key']


class Catalog:
    """All tables as one session sees them now."""

    def __init__(self, cursor):
        cursor.execute(CATALOG, (SCHEMAS,))
        self.tables = [Table(row) for row in cursor.fetchall()]
        self.by_oid = {t.oid: t for t in self.tables}
        for t in self.tables:           # what one command may lock together
            for other in [t.parent] + t.references:
                if other in self.by_oid and self.by_oid[other].family is not t.family:
                    merged = t.family | self.by_oid[other].family
                    for oid in merged:
                        self.by_oid[oid].family = merged

    def children(self, table):
        return [t for t in self.tables if t.parent == table.oid]

    def is_referenced(self, table):
        return any(table.oid in t.references for t in self.tables)

    def find(self, schema, name):
        return next((t for t in self.tables if (t.schema, t.name) == (schema, name)), None)

    def published(self, table):
        while table:
            if table.published_itself or table.published_by_schema:
                return True
            table = self.by_oid.get(table.parent) if table.is_partition else None
        return False

    def can_change(self, table):
        """Whether the server takes UPDATE and DELETE: what is published needs an identity."""
        if table.is_root:
            return all(self.can_change(c) for c in self.children(table))
        return table.identity_columns() is not None


class Types:
    """The types of the database, as a session sees them; builtin ones are read once."""

    def __init__(self):
        self.known = None

    def read(self, cursor):
        self.known = load_types(cursor)
        cursor.execute('SELECT enumtypid, array_agg(enumlabel::text ORDER BY enumsortorder) FROM pg_enum GROUP BY 1')
        self.labels = dict(cursor.fetchall())
        return self


SETUP = """
    CREATE SCHEMA s1; CREATE SCHEMA "Odd schéma"; CREATE SCHEMA outside;
    CREATE TYPE types.mood AS ENUM ('sad', 'ok', 'very happy');
    CREATE TYPE types."Mood" AS ENUM ('sad', 'it''s');
    CREATE DOMAIN types.rating AS int4; CREATE DOMAIN types.rated AS types.rating; CREATE DOMAIN types.fdom AS float8;
    CREATE DOMAIN types.tsdom AS timestamptz; CREATE DOMAIN types.bdom AS bool; CREATE DOMAIN types.jdom AS jsonb;
    CREATE DOMAIN types.bytes AS bytea; CREATE DOMAIN types.numbers AS int4[]; CREATE DOMAIN types.feeling AS types.mood;
    CREATE TYPE types.comp AS (a int4, b text, "C d" bool);
    CREATE TYPE types.nested AS (c types.comp, ts timestamptz, arr int4[], m types.mood, r types.rating, j json, d date);
    CREATE TYPE types.frange AS RANGE (subtype = float8, multirange_type_name = types.fmultirange);
    CREATE DOMAIN types.cdom AS types.comp;
"""
RANGES = ['int4', 'int8', 'num', 'ts', 'tstz', 'date']
COMPOSED = ([f'{name}range' for name in RANGES] + [f'{name}multirange' for name in RANGES] + ['types.frange', 'types.fmultirange']
            + ['types.comp', 'types.nested', 'types.cdom'])
MADE = ['types.mood', 'types."Mood"', 'types.rating', 'types.rated', 'types.fdom', 'types.tsdom', 'types.bdom', 'types.jdom',
        'types.bytes', 'types.numbers', 'types.feeling', 'types.hstore', 'types.citext']
MADE_ARRAYS = ['types.mood[]', 'types.rating[]', 'types.tsdom[]', 'types.hstore[]', 'types.comp[]', 'types.frange[]',
               'tsrange[]', 'int4multirange[]', 'types.feeling[]']
MODIFIED = ['numeric(12,3)', 'varchar(40)', 'char(5)', 'bit(3)', 'timestamp(3)', 'timestamptz(0)', 'time(2)', 'interval(1)']


def spelled(name):
    return '"char"' if name == 'char' else name


# of arrays of these the contract does not say whether the service knows them
NO_ARRAYS = ('int2vector', 'oidvector', 'line', 'txid_snapshot', 'pg_snapshot')


def all_types(without=()):
    """As CREATE TABLE takes them."""
    scalars = [spelled(name) for name in gen_values.BUILTIN]
    arrays = [spelled(name) + '[]' for name in gen_values.BUILTIN if name not in NO_ARRAYS]
    found = scalars + MODIFIED + arrays + MADE + MADE_ARRAYS + COMPOSED
    return [t for t in found if not any(word in t for word in without)]


DOMAINS = ('rating', 'rated', 'fdom', 'tsdom', 'bdom', 'jdom', 'bytes', 'numbers', 'feeling')


def type_group(name):
    """What the counts are by; name as spelled in the lists above or printed with a search_path that has them all."""
    name = name.removeprefix('types.')
    if name.endswith(')'):
        name = name.partition('(')[0].replace('char', 'bpchar').replace('varbpchar', 'varchar')
    if name.endswith('[]'):
        element = type_group(name[:-2])
        return 'array' if element in gen_values.SCALARS or element == '"char"' else f'array of {element}'
    for words, group in ((('multirange',), 'multirange'), (('range',), 'range'), (DOMAINS + ('cdom',), 'domain'),
                         (('comp', 'nested'), 'composite'), (('mood', 'Mood'), 'enum'), (('hstore', 'citext'), 'extension')):
        if any(w in name for w in words):
            return group
    return name


def optional_types(cursor):
    """Makes the extensions that are there; words for the types that are not."""
    cursor.execute("SELECT name FROM pg_available_extensions WHERE name IN ('hstore', 'citext')")
    there = [row[0] for row in cursor.fetchall()]
    for name in there:
        cursor.execute(f'CREATE EXTENSION {name} SCHEMA types')
    cursor.execute("SELECT setting LIKE '%with-libxml%' FROM pg_config() WHERE name = 'CONFIGURE'")
    return [name for name in ('hstore', 'citext') if name not in there] + ([] if cursor.fetchone()[0] else ['xml'])


class Deck:
    """Draws without replacement, then shuffles again: what is rare comes, too."""

    def __init__(self, random, cards):
        self.random, self.cards, self.left = random, list(cards), []

    def draw(self):
        if not self.left:
            self.left = self.cards[:]
            self.random.shuffle(self.left)
        return self.left.pop()


def one_of_each(random, names):
    """All types, in the order of drawing reversed: at first one of each group."""
    names = random.sample(names, len(names))
    first = {type_group(name): name for name in names}.values()
    return [name for name in names if name not in first] + list(first)


ODD_COLUMNS = ['Col X', 'naïve 名', 'sel"ect', 'order', '42', "it's", 'a.b', 'tab\there', 'x%y', 'UPPER']
ODD_TABLES = ['odd Ω table', 'odd"quote', "odd'apostrophe", 'odd%percent', 'odd.dot', 'odd_' + 'n' * 59, 'odd\\back', 'Odd']


class Maker:
    """CREATE TABLE statements."""

    def __init__(self, random, without_types=()):
        self.random = random
        self.types = Deck(random, all_types(without_types))
        self.types.left = one_of_each(random, self.types.cards)
        self.groups = len({type_group(name) for name in self.types.cards})
        self.identities = Deck(random, IDENTITIES)
        self.odd = Deck(random, ODD_COLUMNS)
        self.number = 0

    def fresh(self, prefix):
        self.number += 1
        return f'{prefix}{self.number}'

    def random_columns(self, count):
        found = []
        for _ in range(count):
            name = self.odd.draw()
            if name in [n for n, _ in found] or self.random.random() < 0.7:
                name = self.fresh('c')
            found.append((name, self.types.draw()))
        return found

    def columns(self, count, extra=()):
        """Base columns, in any order among the others."""
        found = [('grp', 'text'), ('n', 'int'), ('big', 'text')] + self.random_columns(count) + list(extra)
        self.random.shuffle(found)
        at = self.random.randint(0, len(found))
        found[at:at] = [('id', 'text NOT NULL'), ('k', 'int NOT NULL')]
        return ', '.join(f'{quote(name)} {kind}' for name, kind in found)

    def table(self, schema, name, identity=None, count=None, more=''):
        """Statements, without the publication."""
        identity = identity or self.identities.draw()
        count = self.random.randint(3, 7) if count is None else count
        full = f'{quote(schema)}.{quote(name)}'
        columns = self.columns(count)
        if self.random.random() < 0.25:
            columns += ', "made" text GENERATED ALWAYS AS (id || \'!\') STORED'
        key = {'primary key': 'PRIMARY KEY (id)', 'several columns': self.random.choice(['PRIMARY KEY (id, k)', 'PRIMARY KEY (k, id)']),
               'FULL with key': 'PRIMARY KEY (id)', 'FULL, deferrable key': 'PRIMARY KEY (id) DEFERRABLE',
               'NOTHING': 'PRIMARY KEY (id)'}.get(identity)
        statements = [f'CREATE TABLE {full} ({columns}{", " + key if key else ""}){more}']
        if identity == 'USING INDEX':
            index = self.fresh('using_')
            over = self.random.choice(['id', 'k', 'id, k', 'k, id'])
            statements.append(f'CREATE UNIQUE INDEX {index} ON {full} ({over})')
            statements.append(f'ALTER TABLE {full} REPLICA IDENTITY USING INDEX {index}')
        if identity.startswith('FULL'):
            statements.append(f'ALTER TABLE {full} REPLICA IDENTITY FULL')
        if identity == 'NOTHING':
            statements.append(f'ALTER TABLE {full} REPLICA IDENTITY NOTHING')
        if self.random.random() < 0.3:
            statements.append(f'ALTER TABLE {full} ALTER big SET STORAGE EXTERNAL')
        return statements

    def everything(self):
        """The tables of a database at its start."""
        out = ['CREATE TABLE hold0 (id text PRIMARY KEY)']
        for i, identity in enumerate(IDENTITIES):
            out += self.table('public', f't{i}', identity)
        out.append('CREATE TABLE hold1 (id text PRIMARY KEY)')
        out += self.partitioned('public', 'part0') + self.partitioned('s1', 'part1')
        out += self.table('public', 'parent', 'primary key', 2)
        reference = ('pid', 'text REFERENCES parent ON DELETE CASCADE ON UPDATE CASCADE')
        out.append(f'CREATE TABLE child ({self.columns(2, [reference])}, PRIMARY KEY (id))')
        out += self.table('public', 'inh_parent', 'primary key', 3)
        out.append('CREATE TABLE inh_child (own int4[], PRIMARY KEY (id)) INHERITS (inh_parent)')
        for name in self.random.sample(ODD_TABLES, 3):
            out += self.table('public', name, None)
        out += self.table('s1', 'x0') + self.table('Odd schéma', 'x1') + self.table('public', 'w_0')
        out += self.table('outside', 'never', count=0)
        while len(self.types.left) > len(self.types.cards) - self.groups:        # every kind of type is in some table
            out += self.table('public', self.fresh('w_'), count=8)
        out.append('CREATE TABLE hold2 (id text PRIMARY KEY)')
        return out

    def partitioned(self, schema, name):
        full = f'{quote(schema)}.{quote(name)}'
        out = [f'CREATE TABLE {full} ({self.columns(3)}, PRIMARY KEY (id, n)) PARTITION BY LIST (n)']
        for leaf, bound in (('_0', 'FOR VALUES IN (0, 1, 2)'), ('_1', 'FOR VALUES IN (3)'), ('_2', 'FOR VALUES IN (4, 5)'),
                            ('_rest', 'DEFAULT')):
            out.append(f'CREATE TABLE {quote(schema)}.{quote(name + leaf)} PARTITION OF {full} {bound}')
        return out


# ---------------------------------------------------------------- rules

def everything_queries():
    return ([f'SELECT * FROM hold{i}' for i in range(3)] + [f'SELECT * FROM t{i}' for i in range(len(IDENTITIES))]
            + ['SELECT * FROM "part%"', 'SELECT * FROM parent', 'SELECT * FROM child', 'SELECT * FROM "inh_%"',
               'SELECT * FROM "odd%"', 'SELECT * FROM "Odd"', 'SELECT * FROM "w_%"', 'SELECT * FROM s1."%"',
               'SELECT * FROM "Odd schéma".x1'])


def is_ruled(schema, name):
    """Whether those queries read a table of that name."""
    if schema == 's1':
        return True
    if schema == 'Odd schéma':
        return name == 'x1'
    if schema != 'public':
        return False
    return (name in ('hold0', 'hold1', 'hold2', 'parent', 'child', 'Odd') or name in [f't{i}' for i in range(len(IDENTITIES))]
            or name.startswith(('part', 'inh_', 'odd', 'w_')))


class Rules:
    """A config of one edition, and how its buckets are called."""

    def __init__(self, edition):
        self.edition = edition
        self.options = pg_values.Options(iso8601=edition > 1, custom_types=edition > 1)
        self.everything = 'everything[]' if edition < 3 else 'everything|0[]'
        self.by_group = 'by_group' if edition < 3 else 'by_group|0'

    def text(self):
        if self.edition == 3:
            return self.streams()
        lines = ['config:', f'  edition: {self.edition}'] if self.edition > 1 else []
        lines += ['bucket_definitions:', '  everything:', '    data:']
        lines += [f"      - '{q}'" for q in everything_queries()]
        lines += ['  by_group:', '    parameters: SELECT request.user_id() AS grp', '    data:']
        lines += [f"      - '{q} WHERE grp = bucket.grp'" for q in everything_queries() if 'hold' not in q]
        lines += ['  some:', '    parameters: SELECT grp FROM t0 WHERE id = request.user_id()', '    data:',
                  "      - SELECT id, n, grp AS g, big FROM t1 WHERE n > 3 AND bucket.grp = grp",
                  "      - SELECT id, upper(grp) AS u FROM \"w_%\" WHERE bucket.grp = grp AND NOT n = 2"]
        return '\n'.join(lines) + '\n'

    def streams(self):
        lines = ['config:', '  edition: 3', 'streams:', '  everything:', '    auto_subscribe: true', '    queries:']
        lines += [f"      - '{q}'" for q in everything_queries()]
        lines += ['  by_group:', '    accept_potentially_dangerous_queries: true', '    queries:']
        lines += [f'''      - "{q.replace(chr(34), chr(92) + chr(34))} WHERE grp = subscription.parameter('grp')"'''
                  for q in everything_queries() if 'hold' not in q]
        lines += ['  some:', "    query: SELECT t1.* FROM t1 JOIN t0 ON t0.grp = t1.grp WHERE t0.id = auth.user_id() AND t1.n > 3"]
        return '\n'.join(lines) + '\n'


# ---------------------------------------------------------------- words

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


