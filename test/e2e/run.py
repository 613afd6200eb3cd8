#!/usr/bin/env python3
"""The end-to-end suite: rows committed in PostgreSQL, read from the storage as the API reads them.

usage: run.py [WORDS]   only cases whose name contains WORDS
"""
import os
import sys

here = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [here, os.path.join(here, '..', 'lib')]

from frame import CASES, Frame          # noqa: E402
from stand import Stand                 # noqa: E402
from suite import Suite                 # noqa: E402
import broken                           # noqa: E402, F401
import bugs                             # noqa: E402, F401
import failover                         # noqa: E402, F401
import identity                         # noqa: E402, F401
import operations                       # noqa: E402, F401
import order                            # noqa: E402, F401
import parts                            # noqa: E402, F401
import passed_over                      # noqa: E402, F401
import recopy                           # noqa: E402, F401
import replace                          # noqa: E402, F401
import rows                             # noqa: E402, F401
import scenario                         # noqa: E402, F401
import shapes                           # noqa: E402, F401
import streams                          # noqa: E402, F401
import sync_streams                     # noqa: E402, F401
import tables                           # noqa: E402, F401
import toast                            # noqa: E402, F401
import transactions                     # noqa: E402, F401
import user_types                       # noqa: E402, F401
import waits                            # noqa: E402, F401


def main():
    suite = Suite('e2e', ' '.join(sys.argv[1:]))
    with Stand('e2e', config={'max_prepared_transactions': '10', 'pgsync.max_workers': '8'}) as stand:
        frame = Frame(stand)
        for name, function in CASES:
            if not suite.wanted(name):
                continue
            log = stand.cluster.log_position()
            with suite.case(name):
                try:
                    function(frame)
                    crashes = stand.cluster.crashes(log)
                    if crashes:
                        raise RuntimeError(f'server processes crashed: {crashes[:3]}')
                except BaseException:
                    for db in frame.databases:
                        try:
                            print(f'    {db.name}: {db.status()}')
                        except Exception as error:
                            print(f'    {db.name}: {error}')
                    print('    ' + '\n    '.join(stand.cluster.log(log).strip().split('\n')[-12:]))
                    raise
                finally:
                    if not stand.cluster.running():
                        stand.cluster.start()
                    frame.clean()
    return suite.end()


if __name__ == '__main__':
    sys.exit(main())
