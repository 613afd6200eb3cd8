#!/usr/bin/env python3
"""eval: rows a second that the rules engine evaluates on one core, without PostgreSQL and MongoDB."""
import os
import pathlib
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent


def main():
    make = ['make', '-s', '-C', str(HERE), f"PG_CONFIG={os.environ.get('PG_CONFIG', 'pg_config')}", 'build/eval_rules']
    made = subprocess.run(make, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if made.returncode != 0:
        print(made.stdout)
        return 1
    return subprocess.run([HERE / 'build' / 'eval_rules']).returncode


if __name__ == '__main__':
    sys.exit(main())
