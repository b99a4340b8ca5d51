# sandboxd: one hand-written Makefile. `make help` lists the targets.
#   make demo     everything sandboxd does, end to end, on real C source (installs what it needs first)
#   make check    all tests (the same)
# A packager's CC, CFLAGS, CPPFLAGS, LDFLAGS are kept; ours stand in separate variables. V=1 shows the commands.

VERSION := 0.1.0
BUILD ?= build
PREFIX ?= /usr/local
LIBEXECDIR ?= $(PREFIX)/libexec/sandboxd
INCLUDEDIR ?= $(PREFIX)/include
CFLAGS ?= -O2 -g
JOBS ?= $(shell nproc)

comma := ,
warnings := -Wall -Wextra -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Wpointer-arith -Wcast-qual \
	-Wwrite-strings -Wformat=2 -Wvla -Wundef
hardening := -fstack-protector-strong -fPIE -fvisibility=hidden $(if $(SANITIZE),,-D_FORTIFY_SOURCE=2)
sanitizers := $(if $(SANITIZE),-fsanitize=address$(comma)undefined -fno-sanitize-recover=undefined -fno-omit-frame-pointer)
our_cppflags := -D_GNU_SOURCE -I. -DSANDBOXD_VERSION='"$(VERSION)"' -DSANDBOXD_LIBEXECDIR='"$(LIBEXECDIR)"' \
	-DSANDBOXD_INCLUDEDIR='"$(INCLUDEDIR)"'
our_cflags := -std=c11 $(warnings) $(hardening) $(sanitizers) $(if $(WERROR),-Werror)
our_ldflags := -pie -Wl,-z,relro,-z,now,-z,noexecstack $(sanitizers)
module_cflags := -std=gnu11 -O1 -g -fPIC -shared -fno-gnu-unique -fvisibility=hidden -Wall -Wextra -Iproto \
	-Wl,-z,relro,-z,now,-z,noexecstack

# ---- what is built from what: a folder belongs to one process ----
rooms_proto := proto
rooms_spawner := daemon/spawner
rooms_host := daemon/host daemon/host/codec daemon/host/state daemon/host/module
rooms_control := daemon/control daemon/front daemon/sandbox daemon/supervise daemon/reload daemon/store daemon/observe
rooms_client := client
sources = $(filter-out %/main.c,$(foreach room,$(rooms_$1),$(wildcard $(room)/*.c)))
objects = $(patsubst %.c,$(BUILD)/o/%.o,$(call sources,$1))
lib = $(BUILD)/lib$1.a
libs_control := -luv -lcjson -lcrypto -lpthread -lm
libs_host := -ldl -lm

programs := $(addprefix $(BUILD)/,sandboxd sandboxd-control sandbox-host sandboxctl)
unit_tests := $(patsubst %.c,$(BUILD)/%,$(wildcard tests/unit/test_*.c))
proc_tests := $(patsubst %.c,$(BUILD)/%,$(wildcard tests/proc/test_*.c))
test_helpers := $(patsubst %.c,$(BUILD)/%,$(wildcard tests/support/*.c))
test_modules := $(patsubst %.c,$(BUILD)/%.so,$(wildcard tests/modules/*.c))
example_modules := $(patsubst %.c,$(BUILD)/%.so,$(wildcard examples/counter/*.c examples/inventory/*.c))
bench_programs := $(patsubst %.c,$(BUILD)/%,$(wildcard bench/*.c))
run_tests := SANDBOXD_BUILD=$(abspath $(BUILD)) python3 tests/run.py

Q := $(if $(V),,@)
say = $(if $(V),,@echo '  $1 $2';)

.PHONY: all help deps deps-check demo check check-unit check-proc check-e2e check-source check-clang lint asan bench clean
.DELETE_ON_ERROR:

all: $(programs) $(BUILD)/include/sandbox_module.h

help:
	@sed -n 's/^#   //p' Makefile; echo 'targets: all deps demo check check-unit check-proc check-e2e check-source check-clang lint asan bench clean'

$(BUILD)/o/%.o: %.c
	$(call say,CC,$<)mkdir -p $(@D) && $(CC) $(our_cppflags) $(CPPFLAGS) $(our_cflags) $(CFLAGS) -MMD -MP -c $< -o $@

define archive
$(BUILD)/lib$1.a: $(call objects,$1)
	$$(call say,AR,$$@)rm -f $$@ && $(AR) rcs $$@ $$^
endef
$(foreach part,proto spawner host control client,$(eval $(call archive,$(part))))

link = $(call say,LD,$@)mkdir -p $(@D) && $(CC) $(our_ldflags) $(CFLAGS) $(LDFLAGS) $1 -o $@ $2
$(BUILD)/sandboxd: $(BUILD)/o/daemon/spawner/main.o $(call lib,spawner) $(call lib,proto)
	$(call link,$^)
$(BUILD)/sandboxd-control: $(BUILD)/o/daemon/control/main.o $(call lib,control) $(call lib,proto)
	$(call link,$^,$(libs_control))
$(BUILD)/sandbox-host: $(BUILD)/o/daemon/host/main.o $(call lib,host) $(call lib,proto)
	$(call link,$^,$(libs_host))
$(BUILD)/sandboxctl: $(BUILD)/o/client/main.o $(call lib,client) $(call lib,proto)
	$(call link,$^)
$(BUILD)/include/sandbox_module.h: proto/sandbox_module.h
	$(Q)mkdir -p $(@D) && cp $< $@

# ---- tests ----
all_libs := $(foreach part,control host spawner client proto,$(call lib,$(part)))
$(BUILD)/tests/%: $(BUILD)/o/tests/%.o $(all_libs)
	$(call link,$< -Wl$(comma)--start-group $(all_libs) -Wl$(comma)--end-group,$(libs_control) $(libs_host) $(shell pkg-config --libs check))
$(BUILD)/tests/support/%: $(BUILD)/o/tests/support/%.o $(call lib,proto)
	$(call link,$^)
$(BUILD)/tests/modules/%.so: tests/modules/%.c proto/sandbox_module.h
	$(call say,MODULE,$<)mkdir -p $(@D) && $(CC) $(module_cflags) $< -o $@
$(BUILD)/examples/%.so: examples/%.c proto/sandbox_module.h
	$(call say,MODULE,$<)mkdir -p $(@D) && $(CC) $(module_cflags) $< -o $@
$(BUILD)/bench/%: bench/%.c bench/drive.h $(call lib,proto)
	$(call say,LD,$@)mkdir -p $(@D) && $(CC) $(our_cppflags) $(our_cflags) $(CFLAGS) $< $(call lib,proto) -o $@ -ldl -lseccomp

check-unit: $(unit_tests) $(test_modules)
	$(Q)$(run_tests) unit
check-proc: $(programs) $(proc_tests) $(test_helpers) $(test_modules) $(example_modules)
	$(Q)$(run_tests) proc
check-e2e: all $(test_modules) $(example_modules)
	$(Q)$(run_tests) e2e
check-source:
	$(Q)tests/check-source.sh
# the whole tree compiles without a warning with clang too
check-clang:
	$(Q)$(MAKE) --no-print-directory CC=clang WERROR=1 BUILD=$(BUILD)/clang all
# the unit ring again, with AddressSanitizer and UndefinedBehaviorSanitizer
asan:
	$(Q)$(MAKE) --no-print-directory SANITIZE=1 BUILD=$(BUILD)/asan SANDBOXD_TEST_MULTIPLIER=4 check-unit

check: deps-check
	$(Q)$(MAKE) --no-print-directory -j$(JOBS) all $(unit_tests) $(proc_tests) $(test_helpers) $(test_modules) $(example_modules)
	$(Q)$(MAKE) --no-print-directory -j$(JOBS) SANITIZE=1 BUILD=$(BUILD)/asan build-tests
	$(Q)$(MAKE) --no-print-directory -j$(JOBS) check-clang
	$(Q)$(run_tests) all
.PHONY: build-tests
build-tests: $(unit_tests) $(test_modules)

lint: deps-check
	$(Q)tests/lint.sh

# ---- what the machine needs: names the missing packages and installs them; does nothing when all are there ----
packages := gcc libc6-dev pkg-config libuv1-dev libcjson-dev libseccomp-dev libssl-dev uthash-dev python3
packages_check := check libsubunit-dev clang clang-tidy
install_packages = missing=$$(for p in $1; do dpkg-query -W -f='$${Status}' $$p 2>/dev/null | grep -q 'ok installed' || echo $$p; done); \
	[ -z "$$missing" ] || { echo "missing packages: "$$missing; sudo=; [ "$$(id -u)" = 0 ] || sudo=sudo; \
	$$sudo apt-get update -qq && $$sudo env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $$missing; }
deps:
	$(Q)$(call install_packages,$(packages))
deps-check:
	$(Q)$(call install_packages,$(packages) $(packages_check))

demo: deps
	$(Q)$(MAKE) --no-print-directory -j$(JOBS) all $(example_modules)
	$(Q)SANDBOXD_BUILD=$(abspath $(BUILD)) python3 examples/demo/demo.py

bench: deps
	$(Q)$(MAKE) --no-print-directory -j$(JOBS) all $(bench_programs) $(example_modules)
	$(Q)SANDBOXD_BUILD=$(abspath $(BUILD)) python3 bench/bench.py

clean:
	rm -rf $(BUILD)

-include $(shell find $(BUILD)/o -name '*.d' 2>/dev/null)
.SECONDARY:
