"""plan_model.py - a second reading of stored edition-3 plans: what they are worth, and their hashes.

Written from the contract (sync-rules.md, 7.2, 7.3, 7.5, 7.6) and not from the
C code, to be held against it.  It takes plans on trust and knows only what
test/campaign.d/streams.py writes: no NULL, no blob, every CASE with ELSE.
"""
import itertools
import json


# ---------------------------------------------------------------- values

def evaluate(expr, row, elements, request):
    """row: column -> value; elements: the present row of each json_each(); request: source -> dict"""
    def value(e):
        return evaluate(e, row, elements, request)

    kind = expr['type']
    if kind == 'data':
        source = expr['source']
        if 'function' in source:
            return elements[source['function']][source['outputName']]
        return row[source['column']] if 'column' in source else json.dumps(request[source['request']])
    if kind == 'lit_string':
        return expr['value']
    if kind == 'lit_int':
        return int(expr['base10'])
    if kind == 'lit_double':
        return float(expr['value'])
    if kind == 'between':
        return int(value(expr['low']) <= value(expr['value']) <= value(expr['high']))
    if kind == 'case_when':
        for arm in expr['whens']:
            if value(arm['when']) == value(expr['operand']) if 'operand' in expr else value(arm['when']):
                return value(arm['then'])
        return value(expr['else'])
    if kind == 'cast':
        return {'text': str, 'integer': int}[expr['cast_as']](value(expr['operand']))
    if kind == 'unary':
        return int(not value(expr['operand']))
    if kind == 'scalar_in':
        return int(value(expr['target']) in [value(e) for e in expr['in']])
    if kind == 'binary':
        left, right = value(expr['left']), value(expr['right'])
        return int({'and': lambda: bool(left) and bool(right), 'or': lambda: bool(left) or bool(right),
                    '=': lambda: left == right, '<': lambda: left < right, '>': lambda: left > right}[expr['operator']]())
    assert kind == 'function', expr
    arguments = [value(e) for e in expr['parameters']]
    if expr['function'] == 'upper':
        return arguments[0].upper()
    assert expr['function'] == '->>', expr
    found = json.loads(arguments[0])[arguments[1].removeprefix('$.')]
    return found if isinstance(found, str) else json.dumps(found)


def elements_of(text):
    return [{'key': i, 'value': v} for i, v in enumerate(json.loads(text))]


def source_rows(source, data):
    """(row, elements, partition values) of a data source or index"""
    for row in data[source['table']['table']]:
        inputs = [evaluate(f['functionInputs'][0], row, None, None) for f in source['tableValuedFunctions']]
        for elements in itertools.product(*map(elements_of, inputs)):
            if all(evaluate(f, row, elements, None) for f in source['filters']):
                yield row, elements, tuple(evaluate(k['expr'], row, elements, None) for k in source['partitionBy'])


# ---------------------------------------------------------------- the query side

def parameter(value, found, request):
    """found: (stage, id) -> outputs of that lookup; an intersection of different values is None"""
    if value['type'] == 'request':
        return evaluate(value['expr'], None, None, request)
    if value['type'] == 'lookup':
        return found[value['lookup']['stageId'], value['lookup']['idInStage']][value['resultIndex']]
    values = [parameter(v, found, request) for v in value['values']]
    return values[0] if len(set(values)) == 1 else None


def before(found, stage):
    """What a lookup of that stage may refer to."""
    return {key: outputs for key, outputs in found.items() if key[0] < stage}


def lookup_rows(plan, lookup, found, data, request):
    if lookup['type'] == 'parameter':
        index = plan['parameterIndexes'][lookup['lookup']]
        wanted = tuple(parameter(v, found, request) for v in lookup['instantiation'])
        return {tuple(evaluate(o, row, elements, None) for o in index['output'])
                for row, elements, keys in source_rows(index, data) if keys == wanted}
    rows = elements_of(evaluate(lookup['functionInputs'][0], None, None, request))
    return {tuple(evaluate(o, row, None, None) for o in lookup['outputs'])
            for row in rows if all(evaluate(f, row, None, None) for f in lookup['filters'])}


def synced_ids(plan, data, request):
    """ids of all rows in the buckets that a client with this request has"""
    ids = set()
    for querier in (q for stream in plan['streams'] for q in stream['queriers']):
        if not all(evaluate(f, None, None, request) for f in querier['requestFilters']):
            continue
        combinations = [{}]
        for stage, lookups in enumerate(querier['lookupStages']):
            for number, lookup in enumerate(lookups):
                combinations = [found | {(stage, number): outputs} for found in combinations
                                for outputs in lookup_rows(plan, lookup, before(found, stage), data, request)]
        buckets = {tuple(parameter(v, found, request) for v in querier['sourceInstantiation'])
                   for found in combinations}
        for source in plan['buckets'][querier['bucket']]['sources']:
            ids |= {row['id'] for row, _, keys in source_rows(plan['dataSources'][source], data) if keys in buckets}
    return ids


# ---------------------------------------------------------------- hashes

MASK = 0x1fffffff
PRECEDENCE = {'or': 1, 'and': 2, '=': 4, 'is': 4, '<': 5, '<=': 5, '>': 5, '>=': 5, '+': 7, '-': 7, '*': 8, '||': 9}


class Hash:
    def __init__(self):
        self.state = 614160925

    def number(self, value):
        h = (self.state + value) & MASK
        h = (h + ((h & 0x7ffff) << 10)) & MASK
        self.state = h ^ (h >> 6)

    def text(self, text):
        units = text.encode('utf-16-le')
        for low, high in zip(units[::2], units[1::2]):
            self.number(low | high << 8)

    def finish(self):
        h = self.state
        h = (h + ((h & 0x3ffffff) << 3)) & MASK
        h ^= h >> 11
        return (h + ((h & 0x3fff) << 15)) & MASK

    def expr(self, expr):
        inputs = []
        self.text(canonical(expr, 0, inputs))
        for source in inputs:
            self.text(source.get('outputName') or source['column'])

    def function(self, function):
        self.text(function['functionName'])
        for expr in function['functionInputs']:
            self.expr(expr)

    def key(self, expr, source):
        if expr['type'] == 'data' and 'function' in expr['source']:
            self.function(source['tableValuedFunctions'][expr['source']['function']])
        self.expr(expr)


def canonical(expr, outer, inputs):
    """The canonical text of an expression; its ?s are appended to inputs."""
    kind = expr['type']
    if kind == 'data':
        inputs.append(expr['source'])
        return '?'
    if kind == 'lit_int':
        return expr['base10']
    if kind == 'lit_double':
        return repr(float(expr['value']))
    if kind == 'cast':
        return f'CAST({canonical(expr["operand"], 0, inputs)} AS {expr["cast_as"]})'
    if kind == 'case_when':
        text = f'CASE {canonical(expr["operand"], 0, inputs)}' if 'operand' in expr else 'CASE'
        for arm in expr['whens']:
            text += f' WHEN {canonical(arm["when"], 0, inputs)} THEN {canonical(arm["then"], 0, inputs)}'
        return f'{text} ELSE {canonical(expr["else"], 0, inputs)} END'
    if kind == 'lit_string':
        return "'" + expr['value'].replace("'", "''") + "'"
    if kind == 'function':
        return f'"{expr["function"]}"({", ".join(canonical(e, 0, inputs) for e in expr["parameters"])})'
    if kind == 'unary':
        own, text = 3, f'not {canonical(expr["operand"], 3, inputs)}'
    elif kind == 'between':
        own, parts = 4, [canonical(expr[part], 4, inputs) for part in ('value', 'low', 'high')]
        text = f'{parts[0]} BETWEEN {parts[1]} AND {parts[2]}'
    elif kind == 'scalar_in':
        own, text = 4, f'{canonical(expr["target"], 4, inputs)} IN '
        text += f'({", ".join(canonical(e, 0, inputs) for e in expr["in"])})'
    else:
        own = PRECEDENCE[expr['operator']]
        text = canonical(expr['left'], own, inputs) + f' {expr["operator"]} ' + canonical(expr['right'], own, inputs)
    return f'({text})' if outer >= own else text


def key_hashes(source):
    hashes = []
    for key in source['partitionBy']:
        h = Hash()
        h.key(key['expr'], source)
        hashes.append(h.finish())
    return hashes


def source_hash(source):
    h = Hash()
    for part in ('connection', 'schema', 'table'):
        h.text(source['table'][part] or '')
    for expr in source['filters']:
        h.expr(expr)
    for key in source['partitionBy']:
        h.key(key['expr'], source)
    for function in source['tableValuedFunctions']:
        h.function(function)
    for column in source.get('columns', []):
        if column != 'star':
            h.expr(column['expr'])
            h.text(column['alias'])
    h.text(source.get('outputTableName') or '')
    for expr in source.get('output', []):
        h.expr(expr)
    return h.finish()


def bucket_hash(bucket, sources):
    h = Hash()
    h.number(sum(sources[i]['hash'] for i in bucket['sources']) & 0x7fffffff)
    return h.finish()
