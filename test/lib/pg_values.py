"""pg_values.py - what the sync rules see of a PostgreSQL value: a second reading of it, from the printed text.

Given the text that a type's output function prints (DateStyle ISO, UTC and so
on, see SETTINGS) and the catalog's word on the type, it says which value the
service makes of it.  Written from the contract alone and by another way than
pgsync's, which goes by the value's internal form; so a fault that its copy and
its stream share is seen.
"""
import json
import re
from dataclasses import dataclass, field

SETTINGS = {'datestyle': 'ISO, YMD', 'intervalstyle': 'postgres', 'bytea_output': 'hex', 'extra_float_digits': '1',
            'timezone': 'UTC', 'lc_monetary': 'C', 'search_path': ''}


class Blob:
    """bytea: in no JSON."""


class Real(float):
    """A number that is printed with a point: 1.0 is not 1."""

    def __repr__(self):
        return real_text(self)


@dataclass
class Type:
    oid: int
    name: str
    kind: str                   # typtype
    array_of: int               # element type of a true array, else 0
    base: int                   # of a domain
    subtype: int                # of a range; of a multirange its range
    delimiter: str
    builtin: bool
    attributes: list = field(default_factory=list)      # of a composite: (name, type)


@dataclass
class Options:
    iso8601: bool = False
    custom_types: bool = False
    digits: int = 6


def load_types(cursor):
    """{oid: Type} of the whole catalog."""
    cursor.execute("""
        SELECT t.oid, t.typname, t.typtype,
               CASE WHEN t.typcategory = 'A' AND t.typname NOT IN ('int2vector', 'oidvector') THEN t.typelem ELSE 0 END,
               t.typbasetype, coalesce(r.rngsubtype, m.rngtypid, 0), t.typdelim, t.oid < 16384
          FROM pg_catalog.pg_type t LEFT JOIN pg_catalog.pg_range r ON r.rngtypid = t.oid
               LEFT JOIN pg_catalog.pg_range m ON m.rngmultitypid = t.oid""")
    types = {row[0]: Type(*row) for row in cursor.fetchall()}
    cursor.execute("""
        SELECT t.oid, a.attname, a.atttypid
          FROM pg_catalog.pg_type t JOIN pg_catalog.pg_class c ON c.oid = t.typrelid AND c.relkind = 'c'
               JOIN pg_catalog.pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
         ORDER BY a.attnum""")
    for oid, name, attribute in cursor.fetchall():
        types[oid].attributes.append((name, attribute))
    return types


# ---------------------------------------------------------------- JSON

def real_text(value):
    """A REAL in data: as JavaScript prints it, with .0 where that is all digits."""
    if value != value:
        return 'NaN'
    if value in (float('inf'), float('-inf')):
        return 'Infinity' if value > 0 else '-Infinity'
    if value == 0:
        return '0.0'
    sign, text = ('-', repr(-float(value))) if value < 0 else ('', repr(float(value)))
    mantissa, _, exponent = text.partition('e')
    whole, _, fraction = mantissa.partition('.')
    if fraction == '0':
        fraction = ''
    digits, point = whole + fraction, len(whole) + int(exponent or 0)
    stripped = digits.lstrip('0')
    point -= len(digits) - len(stripped)
    digits = stripped.rstrip('0')
    if len(digits) <= point <= 21:
        text = digits + '0' * (point - len(digits)) + '.0'
    elif 0 < point <= 21:
        text = f'{digits[:point]}.{digits[point:]}'
    elif -6 < point <= 0:
        text = '0.' + '0' * -point + digits
    else:
        text = digits[0] + ('.' + digits[1:] if digits[1:] else '') + f'e{"+" if point > 0 else "-"}{abs(point - 1)}'
    return sign + text


class Verbatim(str):
    """JSON text that goes as it is into an array or object."""


def to_json(value):
    if value is None or value is Blob:
        return 'null'
    if isinstance(value, Verbatim):
        return str(value)
    if isinstance(value, Real):
        return real_text(value)
    if isinstance(value, int):
        return str(value)
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False)
    if isinstance(value, list):
        return '[' + ','.join(map(to_json, value)) + ']'
    return '{' + ','.join(f'{json.dumps(k, ensure_ascii=False)}:{to_json(v)}' for k, v in value.items()
                          if v is not Blob) + '}'


# ---------------------------------------------------------------- times

def timestamp(text, with_zone, options):
    separator, end = ('T' if options.iso8601 else ' '), ('Z' if with_zone else '')
    if text in ('infinity', '-infinity'):
        date, time, fraction = ('9999-12-31', '23:59:59', '') if text == 'infinity' else ('0000-01-01', '00:00:00', '')
    else:
        found = re.fullmatch(r'(\d+-\d\d-\d\d) (\d\d:\d\d:\d\d)(\.\d+)?(\+00)?', text)
        if not found or with_zone and len(found[1]) > 10:
            return None
        date, time, fraction = found[1], found[2], found[3] or ''
    return date + separator + time + (padded(fraction, options) if options.iso8601 else fraction) + end


def padded(fraction, options):
    return ('.' + fraction[1:].ljust(6, '0')[:options.digits]) if options.digits else ''


def date(text):
    return {'infinity': '9999-12-31', '-infinity': '0000-01-01'}.get(text, text)


def time_of_day(text, options):
    if not options.iso8601:
        return text
    time, _, fraction = text.partition('.')
    return time + padded('.' + fraction, options)


# ---------------------------------------------------------------- composed texts

def parse_array(text, delimiter):
    """Nested lists of texts and None."""
    if text.startswith('['):
        text = text[text.index('=') + 1:]
    at = 0

    def element():
        nonlocal at
        if text[at] == '{':
            at += 1
            found = []
            while text[at] != '}':
                found.append(element())
                if text[at] == delimiter:
                    at += 1
            at += 1
            return found
        if text[at] == '"':
            at += 1
            out = []
            while text[at] != '"':
                if text[at] == '\\':
                    at += 1
                out.append(text[at])
                at += 1
            at += 1
            return ''.join(out)
        out = []
        while text[at] not in (delimiter, '}'):
            if text[at] == '\\':
                at += 1
            out.append(text[at])
            at += 1
        word = ''.join(out)
        return None if word == 'NULL' else word

    return element()


def parse_fields(text):
    """The fields of a composite or of a range without its brackets; unquoted nothing is None."""
    fields, at = [], 0
    while True:
        out, quoted = [], False
        while at < len(text) and text[at] != ',':
            if text[at] == '"':
                quoted = True
                at += 1
                while True:
                    if text[at] == '"':
                        if text[at + 1:at + 2] != '"':
                            break
                        at += 1
                    elif text[at] == '\\':
                        at += 1
                    out.append(text[at])
                    at += 1
                at += 1
            else:
                if text[at] == '\\':
                    at += 1
                out.append(text[at])
                at += 1
        fields.append(''.join(out) if out or quoted else None)
        if at >= len(text):
            return fields
        at += 1


def split_multirange(text):
    """The texts of the ranges: brackets inside quotes do not count."""
    found, start, quoted, at = [], None, False, 0
    text = text[1:-1]
    while at < len(text):
        c = text[at]
        if c == '\\':
            at += 1
        elif c == '"':
            quoted = not quoted
        elif not quoted and c in '([' and start is None:
            start = at
        elif not quoted and c in ')]':
            found.append(text[start:at + 1])
            start = None
        elif start is None and c not in ', ':
            assert text.startswith('empty', at)
        at += 1
    return found


# ---------------------------------------------------------------- values

SIMPLE = {
    'int2': int, 'int4': int, 'int8': int, 'oid': int,
    'float4': lambda text: Real(text), 'float8': lambda text: Real(text),
    'bool': lambda text: 1 if text == 't' else 0,
    'bytea': lambda text: Blob,
    'pg_lsn': lambda text: '/'.join(part.rjust(8, '0') for part in text.split('/')),
    'date': date,
}


class Values:
    def __init__(self, types, options):
        self.types, self.options = types, options

    def column(self, oid, text):
        """What a column of this type holds to the rules: None, int, Real, str or Blob."""
        value = self.value(self.types[oid], text)
        return to_json(value) if isinstance(value, (list, dict)) else str(value) if isinstance(value, Verbatim) else value

    def value(self, t, text):
        """The same with lists and dicts where it is composed."""
        if text is None:
            return None
        custom = self.options.custom_types
        if t.array_of:
            element = self.types[t.array_of]
            if t.name == '_box':
                return [Real('nan') for _ in parse_array(text, ';')] if custom else text[1:-1].split(',') if text != '{}' else []
            if custom or element.builtin and element.kind == 'b':
                return self.elements(element, parse_array(text, t.delimiter))
            return text
        if t.builtin and t.kind == 'b':
            return self.simple(t, text)
        if not custom:
            return text
        if t.kind == 'd':
            return self.value(self.types[t.base], text)
        if t.kind == 'c':
            fields = parse_fields(text[1:-1])
            return {name: self.value(self.types[a], f) for (name, a), f in zip(t.attributes, fields)}
        if t.kind == 'r':
            return self.range(t, text)
        if t.kind == 'm':
            return [self.range(self.types[t.subtype], part) for part in split_multirange(text)]
        return text

    def elements(self, element, found):
        return [self.elements(element, f) if isinstance(f, list) else self.value(element, f) for f in found]

    def simple(self, t, text):
        if t.name in SIMPLE:
            return SIMPLE[t.name](text)
        if t.name in ('timestamp', 'timestamptz'):
            return timestamp(text, t.name == 'timestamptz', self.options)
        if t.name == 'time':
            return time_of_day(text, self.options)
        if t.name in ('json', 'jsonb'):
            return Verbatim(text)
        if t.name == 'line' and self.options.custom_types:
            return [Real(part) for part in text[1:-1].split(',')]
        return text

    def range(self, t, text):
        if text == 'empty':
            return text
        lower, upper = parse_fields(text[1:-1])
        subtype = self.types[t.subtype]
        return {'lower': self.value(subtype, lower), 'upper': self.value(subtype, upper),
                'lower_exclusive': int(text[0] == '('), 'upper_exclusive': int(text[-1] == ')')}


# ---------------------------------------------------------------- rows

UNESCAPED = {'b': '\b', 'f': '\f', 'n': '\n', 'r': '\r', 't': '\t', 'v': '\v'}


def parse_copy(data):
    """Rows of COPY ... TO STDOUT in text format: lists of texts and None."""
    def one(part):
        if part == '\\N':
            return None
        return re.sub(r'\\(.)', lambda m: UNESCAPED.get(m[1], m[1]), part) if '\\' in part else part

    lines = data.split('\n')
    return [[one(part) for part in line.split('\t')] for line in lines[:-1]]
