"""with_storage.py COMMAND... - run a command with a storage server of its own.

The command finds the server in PGSYNC_TEST_MONGODB_URI.  With that set already
nothing is started; with PGSYNC_MONGODB_URI set that server is used.
"""
import os
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', 'lib'))


def main():
    command = sys.argv[1:]
    if os.environ.get('PGSYNC_TEST_MONGODB_URI'):
        return subprocess.call(command)
    from storage import Storage
    with tempfile.TemporaryDirectory(prefix='pgsync-unit.') as folder:
        storage = Storage(os.path.join(folder, 'storage')).start()
        try:
            return subprocess.call(command, env={**os.environ, 'PGSYNC_TEST_MONGODB_URI': storage.uri})
        finally:
            storage.stop()


sys.exit(main())
