"""storage_server.py - a throwaway MongoDB-protocol server: SecantusDB's Rust server as a replica set of one.

usage: storage_server.py PORT FOLDER [--standalone] [--auth] [--tls CERT KEY]

Prints 'up' when it serves; SIGTERM stops it.  For tests and the demo only: it
is fast, but look-ups by embedded-document _id scan, and find().sort({_id: 1})
on such _ids is in the wrong order.
"""
import signal
import sys

from _secantus_server import RustServer

arguments = sys.argv[3:]
options = {}
if '--standalone' not in arguments:
    options['replica_set_name'] = 'rs0'
if '--auth' in arguments:
    options['require_auth'] = True
if '--tls' in arguments:
    at = arguments.index('--tls')
    options['tls_cert_file'], options['tls_key_file'] = arguments[at + 1:at + 3]

signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM, signal.SIGINT})
server = RustServer(sys.argv[2], host='127.0.0.1', port=int(sys.argv[1]), **options)
print('up', flush=True)
signal.sigwait({signal.SIGTERM, signal.SIGINT})
server.stop()
