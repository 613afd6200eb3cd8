#!/usr/bin/env python3
"""copy: rows a second of the initial copy, slot made to copy done, and to served."""
import os
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', 'lib'))

from campaign import memory                                     # noqa: E402
from measure import INSERT, RULES, SCHEMA, stand                # noqa: E402

ROWS = int(os.environ.get('PGSYNC_BENCH_ROWS', 200000))


def main():
    with stand() as s:
        for name, rules in RULES.items():
            db = s.database('copy_' + name.replace(' ', '_')).create(SCHEMA)
            db.sql(INSERT, {'seed': 'copy', 'first': 1, 'last': ROWS})
            db.sql('VACUUM ANALYZE')
            s.cluster.sql('CHECKPOINT')
            stream = db.deploy(rules)
            times, peak = {}, 0
            db.start()
            while 'served' not in times:
                now = time.perf_counter()
                if 'slot' not in times and db.slots():
                    times['slot'] = now
                d = db.mongo.sync_rules.find_one({'_id': stream}, {'snapshot_done': 1, 'state': 1})
                if d['snapshot_done'] and 'copied' not in times:
                    times['copied'] = now
                if d['state'] == 'ACTIVE':
                    times['served'] = now
                for status in db.status():
                    if status['pid']:
                        peak = max(peak, memory(status['pid']).get('private', 0))
                time.sleep(0.02)
            rows = ROWS + 100
            print(f"rules {name}: {rows} rows, {rows / (times['copied'] - times['slot']):.0f} rows/s from slot to copied, "
                  f"{rows / (times['served'] - times['slot']):.0f} to served; private memory {peak // 1024} MB", flush=True)
            db.drop()


if __name__ == '__main__':
    main()
