# pgsync: two libraries.  pgsync.so is preloaded; pgsync_worker.so is loaded in
# workers and by the SQL functions that read rules or the storage.
# Files are listed in the order in which a row passes them.

EXTENSION = pgsync
EXTVERSION := $(shell sed -n "s/^default_version *= *'\(.*\)'/\1/p" pgsync.control)
DATA = pgsync--1.0.sql

MODULE_big = pgsync
OBJS = $(addprefix src/pg/, preload.o guc.o shmem.o label.o hooks.o launcher.o control.o status.o \
	target.o entries.o preloaded.o) src/mongo/turn.o

WORKER_OBJS = pgsync_bgw.o $(PG_OBJS) $(CORE_OBJS) $(MONGO_OBJS)
PG_OBJS = $(addprefix src/pg/, streams.o slot.o copy.o recopy.o reread.o read_table.o stream.o decode.o \
	relation.o source_table.o ddl.o publication.o rules_name.o \
	rowvalue.o value_type.o value_direct.o value_output.o type_shape.o \
	storage_link.o backend_call.o deploy.o stored.o validate.o dry_run.o target.o entries.o preloaded.o)
CORE_OBJS = $(addprefix src/core/, \
	rules.o yaml.o yaml_text.o config.o report.o \
	sql_parser.o sql_source.o sql_expr.o sql_primary.o sql_type.o sql_token.o sql_lexer.o \
	compile.o compile_legacy.o compile_clause.o compile_alpha.o compile_alpha_where.o plan.o rule_mapping.o \
	compile_stream.o stream_scope.o stream_expr.o stream_where.o stream_terms.o stream_resolve.o \
	stored_plan.o stored_equal.o stored_hash.o \
	plan_check.o check_expr.o check_condition.o \
	bind.o evaluate.o expr.o functions.o json_path.o datetime.o geometry.o \
	value.o integer.o number.o text.o json.o json_read.o printed.o \
	bucket_ops.o identity.o row_copy.o bson_bytes.o bson_json.o lsn.o \
	arena.o buffer.o hash_index.o keyed_hash.o error.o)
MONGO_PLACED = $(addprefix src/mongo/, thread.o socket.o calls.o errors.o bson_util.o \
	collections.o streams.o stream_doc.o plan_bson.o deploy.o terminate.o \
	batch.o writer.o group.o row_lookup.o row_apply.o rejected.o removal.o row_map.o row_state.o flush.o documents.o docs_v2.o checkpoint.o turn.o)
MONGO_OBJS = $(MONGO_PLACED) $(UNLISTED)
# what is still being written and has no place above yet
UNLISTED = $(filter-out $(PLACED), $(patsubst %.c, %.o, $(sort $(wildcard src/*/*.c))))
PLACED = $(OBJS) $(PG_OBJS) $(CORE_OBJS) $(MONGO_PLACED)

PKG_CONFIG ?= pkg-config
MONGOC := $(shell $(PKG_CONFIG) --exists libmongoc-1.0 && echo libmongoc-1.0 || echo mongoc2)
PACKAGES = $(MONGOC) yaml-0.1 icu-i18n icu-uc libcrypto gmp
WORKER_LIBS = $(shell $(PKG_CONFIG) --libs $(PACKAGES)) -lpthread -lm

# WERROR=1: our own builds; a new compiler's warning must not break a user's
# (callbacks leave parameters unused; the headers of the server and of libraries are not ours to warn about)
WARNINGS_1 = -Wall -Wextra -Werror -Wno-unused-parameter
PG_CPPFLAGS = -Isrc -Isrc/pg -isystem $(includedir_server) -DPGSYNC_VERSION='"$(EXTVERSION)"' \
	$(patsubst -I%, -isystem %, $(shell $(PKG_CONFIG) --cflags $(PACKAGES)))
PG_CFLAGS = -std=gnu11 -fvisibility=hidden -MMD -MP $(WARNINGS_$(WERROR))

REGRESS = $(sort $(patsubst sql/%.sql, %, $(wildcard sql/*.sql)))
REGRESS_OPTS = --encoding=UTF8 --temp-config=$(CURDIR)/test/pg_regress.conf --temp-instance=$(CURDIR)/tmp_check

DEPENDS = $(patsubst %.o, %.d, $(sort $(OBJS) $(WORKER_OBJS)))
EXTRA_CLEAN = $(WORKER_OBJS) $(DEPENDS) pgsync_worker$(DLSUFFIX) tmp_check

# no bitcode: nothing here is worth inlining, and clang need not be there
override with_llvm = no

PG_CONFIG ?= pg_config
PGXS := $(shell $(PG_CONFIG) --pgxs)
include $(PGXS)

-include $(DEPENDS)

all: pgsync_worker$(DLSUFFIX)

pgsync_worker$(DLSUFFIX): $(WORKER_OBJS)
	$(LINK.shared) -o $@ $(WORKER_OBJS) $(LDFLAGS) $(LDFLAGS_SL) $(WORKER_LIBS)

install: install-worker
uninstall: uninstall-worker

.PHONY: install-worker uninstall-worker check-layers
install-worker: pgsync_worker$(DLSUFFIX) installdirs
	$(INSTALL_SHLIB) $< '$(DESTDIR)$(pkglibdir)/'

uninstall-worker:
	rm -f '$(DESTDIR)$(pkglibdir)/pgsync_worker$(DLSUFFIX)'

# Who may include what: see src/core/core.h and src/mongo/mongo.h (unistd: getentropy).
C11 = assert ctype errno inttypes limits locale math setjmp stdalign stdarg stdatomic stdbool \
	stddef stdint stdio stdlib string time
SYSTEM = fcntl netdb poll pthread signal strings unistd netinet/[a-z]* sys/[a-z]*
CORE_MAY = $(C11:%=%\.h) unistd\.h core/[a-z_]*\.h yaml\.h gmp\.h openssl/[a-z0-9]*\.h \
	unicode/[a-z]*\.h common/shortest_dec\.h sanitizer/asan_interface\.h
MONGO_MAY = $(C11:%=%\.h) $(SYSTEM:%=%\.h) core/[a-z_]*\.h mongo/[a-z0-9_]*\.h \
	mongoc/[a-z-]*\.h bson/[a-z-]*\.h mongoc\.h bson\.h openssl/[a-z0-9]*\.h
space := $(subst ,, )
# a header beside the file, or one of the list
foreign = grep -n '^ *\# *include' src/$(1)/*.[ch] | \
	grep -v '<\($(subst $(space),\|,$(strip $(2)))\)>\|"\($(subst $(space),\|,$(strip $(2)))\|[a-z_]*\.h\)"'

check-layers:
	! $(call foreign,core,$(CORE_MAY))
	! $(call foreign,mongo,$(MONGO_MAY))
	! grep -n '^ *\# *include *["<]postgres' src/core/*.[ch] src/mongo/*.[ch]
