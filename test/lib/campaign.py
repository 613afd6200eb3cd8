"""campaign.py - what the scripts of test/campaign.d share: arguments, the seed, figures.

A campaign measures and asserts; in its short form (--short, what test/run
calls) it asserts the outcome only, never a time or an amount of memory.
"""
import argparse
import contextlib
import os
import random
import statistics
import time


def arguments(description, rounds, more=lambda parser: None):
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument('--rounds', type=int, help=f'rounds of each kind (default {rounds})')
    parser.add_argument('--seed', type=int, default=None, help='default: from the clock')
    parser.add_argument('--short', action='store_true', help='the form for test/run: few rounds, no time asserted')
    parser.add_argument('--only', default='', help='comma-separated kinds')
    more(parser)
    options = parser.parse_args()
    if options.seed is None:
        options.seed = int(time.time()) % 1000000
    if options.rounds is None:
        options.rounds = 1 if options.short else rounds
    print(f'seed {options.seed}, rounds {options.rounds}', flush=True)
    options.random = random.Random(options.seed)
    return options


def percentile(values, p):
    values = sorted(values)
    return values[min(len(values) - 1, round(p / 100 * (len(values) - 1)))]


def figures(values, unit='s', digits=2):
    if not values:
        return 'none'
    return (f'median {statistics.median(values):.{digits}f}, p95 {percentile(values, 95):.{digits}f}, '
            f'max {max(values):.{digits}f} {unit}')


# ---------------------------------------------------------------- a process' memory and wake-ups

def memory(pid):
    """Private and resident memory of a process, in kB.  Private: what is its own, without shared buffers."""
    found = {}
    with contextlib.suppress(OSError):
        with open(f'/proc/{pid}/smaps_rollup') as f:
            for line in f:
                name, _, rest = line.partition(':')
                if name.startswith('Private_'):
                    found['private'] = found.get('private', 0) + int(rest.split()[0])
        with open(f'/proc/{pid}/status') as f:
            for line in f:
                name, _, rest = line.partition(':')
                if name in ('VmHWM', 'VmRSS'):
                    found[name] = int(rest.split()[0])
    return found


def switches(pid):
    """Voluntary context switches of all threads of a process: each is one time that a thread went to sleep."""
    return sum(thread_switches(pid).values())


def thread_switches(pid):
    """{(thread's name, id): voluntary context switches}"""
    found = {}
    for task in os.listdir(f'/proc/{pid}/task'):
        with contextlib.suppress(OSError):
            with open(f'/proc/{pid}/task/{task}/status') as f:
                fields = dict(line.split(':', 1) for line in f)
            found[(fields['Name'].strip(), int(task))] = int(fields['voluntary_ctxt_switches'])
    return found
