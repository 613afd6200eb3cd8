#!/usr/bin/env python3
"""fuzz: any bytes as rules, SQL, JSON, a stored plan, values, printed ones: no crash, no undefined behaviour, and what is said of the output holds.

Built with clang's libFuzzer, under ASan and UBSan; the short form builds the
same functions with the compiler that is there anyway, replays the corpus and
mutates it blindly, so test/run needs no clang. An input that fails is kept,
and the command that shows it again is printed.
"""
import argparse
import os
import pathlib
import re
import subprocess
import sys
import time

TEST = pathlib.Path(__file__).resolve().parents[1]
FUZZ = TEST / 'fuzz'
sys.path[:0] = [str(TEST / 'lib'), str(FUZZ)]

import corpus                                                   # noqa: E402
from suite import Suite, check                                  # noqa: E402

NAMES = ('yaml', 'sql', 'json', 'plan', 'evaluate', 'functions', 'printed')


def build(short, names):
    """The programs; a name -> path dict."""
    kind = 'san' if short else 'fuzz'
    targets = [f'build/{kind}/fuzz_{name}' for name in names]
    command = ['make', '-s', '-C', str(FUZZ), f'-j{os.cpu_count()}', f"PG_CONFIG={os.environ.get('PG_CONFIG', 'pg_config')}"]
    made = subprocess.run(command + ([] if short else ['FUZZ=1']) + targets, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True)
    check(made.returncode == 0, f'the fuzz programs do not build:\n{made.stdout[-3000:]}')
    return {name: FUZZ / target for name, target in zip(names, targets)}


def command_of(program, options, name, folders, failed):
    dictionary = FUZZ / 'dict' / name
    if options.short:
        return [program, f'-seconds={options.seconds}', f'-seed={options.seed}', f'-artifact={failed}',
                f'-dict={dictionary}', folders[-1]]
    return [program, f'-max_total_time={options.seconds}', f'-seed={options.seed}', f'-exact_artifact_path={failed}',
            f'-dict={dictionary}', '-timeout=60', '-rss_limit_mb=2048', '-print_final_stats=1', *folders]


def figures(log):
    """what a run says of itself, in one line"""
    found = re.findall(r'cov: (\d+) ft: (\d+) corp: (\d+)/', log)
    units = re.findall(r'number_of_executed_units: (\d+)', log)
    blind = re.findall(r'replayed (\d+), mutated (\d+)', log)
    if blind:
        return f'{sum(map(int, blind[-1]))} executions'
    return (f"{units[-1] if units else '?'} executions" +
            (f', coverage {found[-1][0]} edges, {found[-1][1]} features, {found[-1][2]} inputs' if found else ''))


def fuzz(name, program, work, options):
    made, grown = work / 'corpus' / name, work / 'found' / name
    count = corpus.make(name, made)
    check(count > 0, 'no input to begin with')
    grown.mkdir(parents=True, exist_ok=True)
    failed = work / f'failed-{name}'
    failed.unlink(missing_ok=True)
    command = [str(part) for part in command_of(program, options, name, [grown, made], failed)]
    log = work / f'{name}.log'
    start = time.monotonic()
    with open(log, 'w', encoding='utf-8') as out:
        status = subprocess.run(command, stdout=out, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL).returncode
    text = log.read_text(encoding='utf-8', errors='replace')
    print(f'    {name:<10} {count} inputs, {figures(text)}, {time.monotonic() - start:.0f} s', flush=True)
    if status != 0:
        reason = re.search(r'does not hold: .*|runtime error: .*|ERROR: .*|.*took too long', text)
        check(False, f"{reason.group(0) if reason else f'exit status {status}'}\n    log: {log}\n    input: {failed}\n"
                     f'    again: {program} {failed}')


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument('--seconds', type=int, help='of each program (default 300; 5 in the short form)')
    parser.add_argument('--only', default='', help=f"comma-separated: {' '.join(NAMES)}")
    parser.add_argument('--seed', type=int, default=int(time.time()) % 1000000, help='default: from the clock')
    parser.add_argument('--short', action='store_true', help='the form for test/run: without clang, some seconds each')
    parser.add_argument('--work', help='folder for corpus and findings; what was found there is used again')
    options = parser.parse_args()
    if options.seconds is None:
        options.seconds = 5 if options.short else 300
    names = [name for name in NAMES if not options.only or name in options.only.split(',')]
    print(f'seed {options.seed}, {options.seconds} s each', flush=True)
    work = pathlib.Path(options.work or pathlib.Path(os.environ.get('PGSYNC_WORK', '/tmp')) / 'fuzz')
    work.mkdir(parents=True, exist_ok=True)
    suite = Suite('fuzz')
    programs = {}
    suite.run('build', lambda: programs.update(build(options.short, names)))
    for name in names if programs else ():
        suite.run(name, fuzz, name, programs[name], work, options)
    return suite.end()


if __name__ == '__main__':
    sys.exit(main())
