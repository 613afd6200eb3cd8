"""corpus.py NAME FOLDER - the inputs that fuzzing begins with: our own seeds and, where they are, texts of the vectors.

The vectors are those that PGSYNC_CONFORMANCE names; without, the seeds are all.
"""
import functools
import hashlib
import json
import os
import pathlib
import random
import sys

HERE = pathlib.Path(__file__).resolve().parent


@functools.lru_cache
def vectors():
    """(kind, cases) of every file"""
    folder = pathlib.Path(os.environ.get('PGSYNC_CONFORMANCE') or HERE.parents[2] / 'shared' / 'conformance')
    return [(path.parent.name, json.loads(path.read_text(encoding='utf-8')).get('cases', []))
            for kind in ('rules', 'sqlparse', 'pgtypes') for path in sorted((folder / kind).glob('*.json'))]


def texts(value):
    """every text of a row's values"""
    if isinstance(value, dict):
        for v in value.values():
            yield from texts(v)
    elif isinstance(value, list):
        for v in value:
            yield from texts(v)
    elif isinstance(value, str):
        yield value


def wrapper(case):
    """a stored plan as the service wraps it"""
    return json.dumps({'plan': case['serialized_plan'],
                       'compatibility': {'edition': 3, 'overrides': {}}, 'eventDescriptors': {}})


def of_case(name, kind, case):
    if name == 'sql' and kind == 'sqlparse':
        yield case['sql']
    if name == 'printed' and kind == 'pgtypes':
        # the types of the seeds: an array, a composite, a range
        for kinds in (b'\x01\x1e', b'\x04\x04\x06\x1e\x01\x1e\x07\x18', b'\x07\x18'):
            yield kinds + b'\0' + case['pg_text'].encode('utf-8', 'surrogatepass')
    if kind != 'rules':
        return
    if name == 'yaml':
        yield case['sync_rules']
    elif name == 'evaluate':
        # the bytes behind the rules make the values: any will do, the same for the same rules
        values = random.Random(case['sync_rules']).randbytes(120)
        yield case['sync_rules'].encode('utf-8', 'surrogatepass') + b'\0' + values
    elif name == 'plan' and case.get('serialized_plan'):
        yield wrapper(case)
    elif name in ('json', 'functions'):
        for text in texts([i.get('row') for i in case.get('inputs', [])]):
            if name == 'functions':
                yield b'\x0b\x05\x02\x05\x01' + text.encode('utf-8', 'surrogatepass')
            elif text[:1] in ('{', '['):
                yield b'$.a\0' + text.encode('utf-8', 'surrogatepass')


def inputs(name):
    for path in sorted((HERE / 'seeds' / name).iterdir()):
        yield path.read_bytes()
    for kind, cases in vectors():
        for case in cases:
            for found in of_case(name, kind, case):
                yield found if isinstance(found, bytes) else found.encode('utf-8', 'surrogatepass')


def make(name, folder):
    """Writes every input once; returns how many there are."""
    folder = pathlib.Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    found = set(inputs(name))
    for data in found:
        (folder / hashlib.sha256(data).hexdigest()[:16]).write_bytes(data)
    return len(found)


if __name__ == '__main__':
    print(make(*sys.argv[1:]))
