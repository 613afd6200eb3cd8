"""gen_values.py - random values of every type, as the text that the type's input function reads.

A value of a composed type is put together from values of its parts, so what is
known here is the built-in scalars only; all else follows from the catalog
(pg_values.Type).  Nothing is random but what the given generator makes.
"""
import string

WORDS = ['a', 'Ω', "it's", 'x,y', '{z}', '"q"', 'back\\slash', ' ', '', 'null', 'NULL', 'line\nbreak', 'tab\tstop', '😀',
         '(p)', '[r]', 'ß', '\u2028', 'e\u0301', '\x7f', 'a\\"b']


def word(r):
    return r.choice(WORDS) if r.random() < 0.5 else ''.join(r.choices(string.ascii_letters, k=r.randint(1, 12)))


def integer(bits):
    def make(r):
        top = 1 << (bits - 1)
        return str(r.choice([0, 1, -1, top - 1, -top, r.randint(-100, 100), r.randint(-top, top - 1)]))
    return make


def unsigned(r):
    return str(r.choice([0, 1, 4294967295, r.randint(0, 1 << 31)]))


def float_of(r):
    return r.choice(['0', '-0', '1', '0.1', '-2.5', '1e30', '1.5e-7', '123456.789', str(r.uniform(-1e6, 1e6)), '1e-6'])


def not_finite(r):
    return r.choice(['NaN', 'Infinity', '-Infinity'])


def json_text(r):
    return r.choice(['null', '1', '1.0', '"x"', '[]', '{"a": [1, 2.5, null]}', '{"k": "v", "k": "w"}', '[ 1,2 ]', 'true',
                     '{"é": {"b": "\\u0041\\n"}}', str(r.randint(0, 999))])


def day(r, years=(1, 9999)):
    return f'{r.randint(*years):04d}-{r.randint(1, 12):02d}-{r.randint(1, 28):02d}'


def clock(r):
    return f'{r.randint(0, 23):02d}:{r.randint(0, 59):02d}:{r.randint(0, 59):02d}' + \
        r.choice(['', '', '.5', '.123', '.000001', '.999999', f'.{r.randint(0, 999999):06d}'])


def date(r):
    return r.choice(['infinity', '-infinity', '0044-03-15 BC', '99999-12-31', day(r), day(r), day(r, (1990, 2030))])


def timestamp(r):
    return r.choice(['infinity', '-infinity', '0044-03-15 01:02:03 BC', '12345-01-02 03:04:05', f'{day(r)} {clock(r)}',
                     f'{day(r, (1970, 2040))} {clock(r)}'])


def timestamptz(r):
    return timestamp(r) if r.random() < 0.3 else f'{day(r, (2, 9998))} {clock(r)}{r.choice(["+00", "+05:30", "-11", "Z"])}'


def interval(r):
    return r.choice(['0', '1 day', '-1 year 2 mons -3 days 04:05:06.789', f'{r.randint(-99, 99)} hours', '1 mon -1 day'])


def number(r):
    return r.choice(['0', '1.50', '-0.001', 'NaN', 'Infinity', '-Infinity', '1012345000999912345001230123445566.00000000',
                     str(r.randint(-10 ** 20, 10 ** 20)), f'{r.uniform(-99, 99):.4f}'])


def bits(n):
    return lambda r: ''.join(r.choice('01') for _ in range(n))


def point(r):
    return f'({r.randint(-9, 9)},{r.choice([0, 1.5, -2, 1e20])})'


def many(make, low, high, form):
    return lambda r: form.format(','.join(make(r) for _ in range(r.randint(low, high))))


def hex_bytes(r):
    return '\\x' + ''.join(f'{r.randrange(256):02x}' for _ in range(r.randint(0, 20)))


def uuid(r):
    text = f'{r.getrandbits(128):032x}'
    return f'{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}'


def lsn(r):
    return f'{r.choice([0, 1, 255, 0xFFFFFFFF]):X}/{r.getrandbits(r.choice([4, 16, 32])):X}'


def lexemes(r):
    return r.choice(['', "'cat':3 'dog':5A,7", "a fat 'it''s'", "'x y':1"])


SCALARS = {
    'bool': lambda r: r.choice('tf'), 'int2': integer(16), 'int4': integer(32), 'int8': integer(64), 'oid': unsigned,
    'float4': float_of, 'float8': float_of, 'numeric': number, 'money': lambda r: f'{r.randint(-10 ** 9, 10 ** 9) / 100:.2f}',
    'text': word, 'varchar': word, 'bpchar': word, 'name': lambda r: word(r)[:30].lstrip('{'), 'char': lambda r: r.choice(['a', '', '\\', '~']),
    'bytea': hex_bytes, 'uuid': uuid, 'json': json_text, 'jsonb': json_text,
    'jsonpath': lambda r: r.choice(['$', '$.a[*] ? (@ > 1)', 'strict $."b c"']),
    'xml': lambda r: r.choice(['<a/>', '<a b="c">é &amp; x</a>', 'text']),
    'date': date, 'time': lambda r: r.choice(['24:00:00', '00:00:00', clock(r)]),
    'timetz': lambda r: clock(r) + r.choice(['+00', '-08', '+05:30', '+12:34:56']),
    'timestamp': timestamp, 'timestamptz': timestamptz, 'interval': interval,
    'inet': lambda r: r.choice(['10.1.2.3', '10.1.2.3/8', '::1', '2001:db8::/32']),
    'cidr': lambda r: r.choice(['10.0.0.0/8', '192.168.1.0/24', '2001:db8::/32']),
    'macaddr': lambda r: f'08:00:2b:01:02:{r.randrange(256):02x}',
    'macaddr8': lambda r: f'08:00:2b:01:02:03:04:{r.randrange(256):02x}',
    'bit': bits(1), 'varbit': lambda r: bits(r.randint(0, 12))(r), 'tsvector': lexemes,
    'tsquery': lambda r: r.choice(["'fat' & ( 'rat' | !'cat' )", "'x':*A", "'it''s' <-> 'y'"]),
    'point': point, 'line': lambda r: f'{{{r.randint(1, 9)},{r.randint(-9, 9)},0.5}}', 'lseg': lambda r: f'[{point(r)},{point(r)}]',
    'box': lambda r: f'{point(r)},{point(r)}', 'circle': lambda r: f'<{point(r)},{r.randint(0, 9)}>',
    'path': lambda r: r.choice(['[{}]', '({})']).format(f'{point(r)},{point(r)}'),
    'polygon': many(point, 1, 4, '({})'), 'pg_lsn': lsn,
    'txid_snapshot': lambda r: '10:20:10,14', 'pg_snapshot': lambda r: '10:20:10,14,15',
    'xid': unsigned, 'xid8': lambda r: str(r.getrandbits(40)), 'cid': unsigned,
    'tid': lambda r: f'({r.randrange(1000)},{r.randrange(1, 99)})',
    'int2vector': lambda r: r.choice(['', '1', '1 2 -3']), 'oidvector': lambda r: r.choice(['', '1', '1 4294967295']),
    'refcursor': word, 'regclass': lambda r: r.choice(['pg_class', 'pg_type', '-', '99999999']),
    'regtype': lambda r: r.choice(['integer', 'text[]', '-', 'timestamp with time zone']),
    'regproc': lambda r: r.choice(['now', 'pg_sleep', '-']), 'regprocedure': lambda r: r.choice(['abs(integer)', '-']),
    'regoper': lambda r: r.choice(['pg_catalog.||/', '0']), 'regoperator': lambda r: '+(integer,integer)',
    'regrole': lambda r: r.choice(['postgres', 'pg_monitor', '-']), 'regnamespace': lambda r: 'pg_catalog',
    'regconfig': lambda r: 'english', 'regdictionary': lambda r: 'simple', 'regcollation': lambda r: '"C"',
    'aclitem': lambda r: r.choice(['postgres=arw/postgres', '=r/postgres']),
    'hstore': lambda r: r.choice(['', '"a"=>"1", "b"=>NULL', '"k \\"q\\""=>"v,w"']), 'citext': word,
}
BUILTIN = [name for name in SCALARS if name not in ('hstore', 'citext')]

# bounds that every range of the type takes, in order
BOUNDS = {
    'int4': lambda r: r.randint(-99, 99), 'int8': lambda r: r.randint(-10 ** 12, 10 ** 12), 'numeric': lambda r: r.randint(-999, 999) / 100,
    'float8': lambda r: r.randint(-99, 99) / 4, 'date': lambda r: day(r), 'timestamp': lambda r: f'{day(r)} {clock(r)}',
    'timestamptz': lambda r: f'{day(r)} {clock(r)}+00'}


def quoted(text):
    return '"' + text.replace('\\', '\\\\').replace('"', '\\"') + '"'


class Values:
    """Texts of random values; labels: {enum's oid: its labels}."""

    def __init__(self, random, types, labels):
        self.random, self.types, self.labels = random, types, labels

    def text(self, oid, depth=0):
        """The text of a value; None is null."""
        r, t = self.random, self.types[oid]
        if r.random() < (0.12 if depth == 0 else 0.2):
            return None
        if t.array_of:
            return self.array(t, depth)
        if t.kind == 'd':
            return self.text(t.base, depth)
        if t.kind == 'e':
            return r.choice(self.labels[oid]) if self.labels.get(oid) else None
        if t.kind == 'c':
            fields = [self.text(a, depth + 1) for _, a in t.attributes]
            return '(' + ','.join('' if f is None else quoted(f) for f in fields) + ')'
        if t.kind == 'r':
            return self.range(t)
        if t.kind == 'm':
            return '{' + ','.join(self.range(self.types[t.subtype]) for _ in range(r.randint(0, 3))) + '}'
        if t.name in ('float4', 'float8') and r.random() < 0.2:
            return not_finite(r)
        return SCALARS[t.name](r)

    def array(self, t, depth):
        r = self.random
        if t.name == '_box':            # the service takes these apart at the wrong character: plain ones only
            return '{' + ';'.join(SCALARS['box'](r) for _ in range(r.randint(1, 3))) + '}'
        if r.random() < 0.15:
            return '{}'

        def elements():
            found = (self.text(t.array_of, depth + 1) for _ in range(size))
            return '{' + t.delimiter.join('NULL' if e is None else quoted(e) for e in found) + '}'

        size = r.randint(1, 3)
        kind = r.random()
        if kind < 0.2:
            return '{' + t.delimiter.join(elements() for _ in range(r.randint(1, 2))) + '}'
        if kind < 0.35:
            return f'[{-1}:{size - 2}]={elements()}'
        return elements()

    def range(self, t):
        r = self.random
        if r.random() < 0.1:
            return 'empty'
        make = BOUNDS[self.types[t.subtype].name]
        low, high = sorted([make(r), make(r)])
        low, high = (f'"{b}"' for b in (low, high))
        return r.choice('[(') + (low if r.random() < 0.8 else '') + ',' + (high if r.random() < 0.8 else '') + r.choice('])')


def toast(r, size):
    """Text that does not become smaller by compression."""
    alphabet = string.ascii_letters + string.digits
    return ''.join(r.choices(alphabet, k=size))
