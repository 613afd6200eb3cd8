# core.mk: builds the pure part (src/core) as $(BUILD)/libcore.a for programs
# that test it.  The including makefile sets TOP and may set SAN=1 (address and
# undefined behaviour sanitizers) and CC.  Object files stay out of src.

PG_CONFIG ?= pg_config
PKG_CONFIG ?= pkg-config
BUILD := build$(if $(SAN),-san)

CORE_PACKAGES = yaml-0.1 libcrypto icu-uc icu-i18n gmp
PG_LIBS := $(foreach lib,pgcommon pgport,$(firstword $(wildcard \
	$(shell $(PG_CONFIG) --pkglibdir)/lib$(lib).a $(shell $(PG_CONFIG) --libdir)/lib$(lib).a)))

CFLAGS ?= -O2 -g
SAN_FLAGS = -fsanitize=address,undefined -fno-sanitize-recover=undefined -fno-omit-frame-pointer
ALL_CFLAGS = -std=c11 -D_DEFAULT_SOURCE -Wall -Wextra -Werror $(CFLAGS) $(if $(SAN),$(SAN_FLAGS) -O1) \
	-MMD -MP -I$(TOP)/src/core -isystem $(shell $(PG_CONFIG) --includedir-server) \
	$(shell $(PKG_CONFIG) --cflags $(CORE_PACKAGES))
CORE_LIBS = $(BUILD)/libcore.a $(PG_LIBS) $(shell $(PKG_CONFIG) --libs $(CORE_PACKAGES)) -lm -lpthread

CORE_SOURCES ?= $(sort $(wildcard $(TOP)/src/core/*.c))
CORE_OBJECTS = $(patsubst $(TOP)/src/core/%.c,$(BUILD)/core/%.o,$(CORE_SOURCES))

$(BUILD)/core/%.o: $(TOP)/src/core/%.c | $(BUILD)/core
	$(CC) $(ALL_CFLAGS) -c -o $@ $<

$(BUILD)/libcore.a: $(CORE_OBJECTS)
	rm -f $@
	ar rcs $@ $^

$(BUILD)/core:
	mkdir -p $@

-include $(wildcard $(BUILD)/*.d $(BUILD)/core/*.d)
