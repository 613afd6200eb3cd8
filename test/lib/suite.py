"""suite.py - the small frame of our Python suites: named cases, a count, deadlines instead of sleeps.

It prints one line a case and, last, `N passed, N failed`. It knows nothing
of PostgreSQL or MongoDB.  A case that raises has failed; nothing is retried.
"""
import contextlib
import os
import sys
import time
import traceback


class Failed(AssertionError):
    """A check did not hold."""


def check(condition, message):
    if not condition:
        raise Failed(message() if callable(message) else message)


def equal(got, expected, what=''):
    if got != expected:
        raise Failed(f'{what + ": " if what else ""}got {shorten(got)}, expected {shorten(expected)}')


def shorten(value, limit=1500):
    text = repr(value)
    return text if len(text) <= limit else text[:limit] + f'... ({len(text)} characters)'


def difference(got, expected, limit=8):
    """What differs between two dicts, in words; '' when they are equal."""
    lines = []
    for key in sorted(set(got) | set(expected), key=repr):
        if key not in got:
            lines.append(f'missing {key!r}: {shorten(expected[key], 300)}')
        elif key not in expected:
            lines.append(f'too much {key!r}: {shorten(got[key], 300)}')
        elif got[key] != expected[key]:
            lines.append(f'differs {key!r}: got {shorten(got[key], 300)}, expected {shorten(expected[key], 300)}')
    more = len(lines) - limit
    return '\n'.join(lines[:limit] + ([f'... and {more} more'] if more > 0 else []))


class Timeout(Failed):
    pass


def wait_until(probe, timeout, what, interval=0.02):
    """Call probe until it gives something true, and return that.  `what` is said when time is up."""
    deadline = time.monotonic() + timeout
    while True:
        result = probe()
        if result:
            return result
        if time.monotonic() >= deadline:
            raise Timeout(f'not within {timeout:g} s: {what() if callable(what) else what}')
        time.sleep(interval)


class Suite:
    """with suite.case('name'): ...   then suite.end() -> exit status"""

    def __init__(self, name, only=None):
        self.name = name
        self.passed = self.failed = self.skipped = 0
        self.only = only or os.environ.get('PGSYNC_TEST_ONLY')
        self.failures = []

    def wanted(self, name):
        return not self.only or self.only in name

    @contextlib.contextmanager
    def case(self, name):
        start = time.monotonic()
        try:
            yield
        except Exception as error:          # KeyboardInterrupt and SystemExit go through
            self.failed += 1
            self.failures.append(name)
            text = str(error) if isinstance(error, Failed) else traceback.format_exc()
            where = traceback.extract_tb(sys.exc_info()[2])
            line = next((f'{os.path.basename(f.filename)}:{f.lineno}' for f in reversed(where)
                         if f.filename != __file__), '')
            print(f'not ok - {name} ({time.monotonic() - start:.1f} s) at {line}', flush=True)
            for part in text.rstrip().split('\n'):
                print('    ' + part, flush=True)
        else:
            self.passed += 1
            print(f'ok - {name} ({time.monotonic() - start:.1f} s)', flush=True)

    def run(self, name, function, *args):
        """One case from a function."""
        if self.wanted(name):
            with self.case(name):
                function(*args)

    def skip(self, name, why):
        self.skipped += 1
        print(f'skipped - {name}: {why}', flush=True)

    def end(self):
        if self.skipped:
            print(f'{self.skipped} skipped', flush=True)
        print(f'{self.passed} passed, {self.failed} failed', flush=True)
        return 1 if self.failed or not (self.passed or self.skipped) else 0
