# sandboxd: one hand-written Makefile. `make help` lists the targets.
#   make demo     everything sandboxd does, end to end, on real C source (installs what it needs first)
#   make check    all tests (the same)
#   make install  programs, header, man pages, unit, completion, examples; PREFIX (/usr/local), DESTDIR; make uninstall
# A packager's CC, CFLAGS, CPPFLAGS, LDFLAGS are kept; ours stand in separate variables. V=1 shows the commands.

VERSION := 0.1.0
BUILD ?= build
PREFIX ?= /usr/local
LIBEXECDIR ?= $(PREFIX)/libexec/sandboxd
INCLUDEDIR ?= $(PREFIX)/include
SBINDIR ?= $(PREFIX)/sbin
BINDIR ?= $(PREFIX)/bin
LIBDIR ?= $(PREFIX)/lib
DATADIR ?= $(PREFIX)/share
MANDIR ?= $(DATADIR)/man
UNITDIR ?= $(LIBDIR)/systemd/system
DOCDIR ?= $(DATADIR)/doc/sandboxd
CFLAGS ?= -O2 -g
# modules are what sandboxd's own compile jobs make, so gcc's
MODULE_CC ?= $(if $(findstring clang,$(CC)),gcc,$(CC))
RUSTC ?= rustc
JOBS ?= $(shell nproc)

comma := ,
warnings := -Wall -Wextra -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Wpointer-arith -Wcast-qual \
	-Wwrite-strings -Wformat=2 -Wvla -Wundef
hardening := -fstack-protector-strong -fPIE -fvisibility=hidden $(if $(SANITIZE),,-D_FORTIFY_SOURCE=2)
# SANITIZE=1: with sanitizers; SANITIZE=fuzz (clang): and what libFuzzer and the count of lines need
sanitizers := $(if $(SANITIZE),-fsanitize=address$(comma)undefined -fno-sanitize-recover=undefined -fno-omit-frame-pointer) \
	$(if $(filter fuzz,$(SANITIZE)),-fsanitize=fuzzer-no-link -fprofile-instr-generate -fcoverage-mapping) \
	$(if $(PROFILES),-DSANDBOXD_PROFILED -fprofile-instr-generate=$(PROFILES)/%c%p.profraw -fcoverage-mapping -mllvm -runtime-counter-relocation)
our_cppflags := -D_GNU_SOURCE -I. -DSANDBOXD_VERSION='"$(VERSION)"' -DSANDBOXD_LIBEXECDIR='"$(LIBEXECDIR)"' \
	-DSANDBOXD_INCLUDEDIR='"$(INCLUDEDIR)"'
our_cflags := -std=c11 $(warnings) $(hardening) $(sanitizers) $(if $(WERROR),-Werror)
# sorted by name: proto/seldom.h
our_ldflags := -pie -Wl,-z,relro,-z,now,-z,noexecstack -Wl,--sort-section=name $(sanitizers)
module_cflags := -std=gnu11 -O1 -g -fPIC -shared -fno-gnu-unique -fvisibility=hidden -Wall -Wextra -Iproto \
	-Wl,-z,relro,-z,now,-z,noexecstack

# ---- what is built from what: a folder belongs to one process ----
rooms_proto := proto
rooms_spawner := daemon/spawner
rooms_host := daemon/host daemon/host/zygote daemon/host/codec daemon/host/state daemon/host/module
rooms_control := daemon/control daemon/doctor daemon/front daemon/group daemon/sandbox daemon/simulate daemon/supervise daemon/reload daemon/store daemon/observe
rooms_client := client
sources = $(filter-out %/main.c,$(foreach room,$(rooms_$1),$(wildcard $(room)/*.c)))
objects = $(patsubst %.c,$(BUILD)/o/%.o,$(call sources,$1))
lib = $(BUILD)/lib$1.a
libs_control := -luv -lcjson -lsqlite3 -lcrypto -lpthread -lm
libs_host := -ldl -lm
libs_spawner := -lseccomp

# with SANITIZE=1, in the programs that run in a surrounding of their own
sanitizer_options := $(if $(SANITIZE),$(BUILD)/o/tests/sanitize/options.o)
programs := $(addprefix $(BUILD)/,sandboxd sandboxd-control sandbox-host sandboxctl)
unit_tests := $(patsubst %.c,$(BUILD)/%,$(wildcard tests/unit/test_*.c))
proc_tests := $(patsubst %.c,$(BUILD)/%,$(wildcard tests/proc/test_*.c))
test_helpers := $(patsubst %.c,$(BUILD)/%,$(wildcard tests/support/*.c))
test_helpers += $(BUILD)/tests/odd/sandboxd-control $(BUILD)/tests/odd/sandbox-host
test_modules := $(patsubst %.c,$(BUILD)/%.so,$(wildcard tests/modules/*.c tests/modules/abi-1.0/*.c))
attack_modules := $(patsubst %.c,$(BUILD)/%.so,$(wildcard tests/attacks/modules/*.c)) $(BUILD)/tests/attacks/victim
example_modules := $(patsubst %.c,$(BUILD)/%.so,$(wildcard $(addsuffix /*.c,$(addprefix examples/,counter inventory kv lru light))))
# in other languages, where there is a compiler for them; the tests that need them say when they are skipped
example_modules += $(if $(shell command -v $(CXX)),$(patsubst %.cc,$(BUILD)/%.so,$(wildcard examples/words/*.cc)))
example_modules += $(if $(shell command -v $(RUSTC)),$(addprefix $(BUILD)/examples/tally-rs/,tally.so tally_v2.so))
fuzz_programs := $(patsubst %.c,$(BUILD)/%,$(wildcard tests/fuzz/fuzz_$(or $(TARGET),*).c))
bench_programs := $(patsubst %.c,$(BUILD)/%,$(wildcard bench/*.c))
bench_modules := $(patsubst %.c,$(BUILD)/%.so,$(wildcard bench/modules/*.c))
run_tests := SANDBOXD_BUILD=$(abspath $(BUILD)) python3 tests/run.py

Q := $(if $(V),,@)
say = $(if $(V),,@echo '  $1 $2';)

.PHONY: all help deps deps-check demo check check-unit check-proc check-e2e check-attacks check-source check-clang check-full lint asan fuzz coverage bench clean
.DELETE_ON_ERROR:

all: $(programs) $(BUILD)/include/sandbox_module.h

help:
	@sed -n 's/^#   //p' Makefile; echo 'targets: all deps man install uninstall demo check check-unit check-proc check-e2e check-attacks check-source check-clang check-clients check-otp check-full check-vm soak-reload lint asan fuzz coverage bench clean'

$(BUILD)/o/%.o: %.c
	$(call say,CC,$<)mkdir -p $(@D) && $(CC) $(our_cppflags) $(CPPFLAGS) $(our_cflags) $(CFLAGS) -MMD -MP -c $< -o $@

# $(call if_changed,text): a file that is written only when its content changes, for what no timestamp tells
if_changed = mkdir -p $(@D) && { echo '$1' | cmp -s - $@ || echo '$1' >$@; }
define archive
$(BUILD)/lib$1.a: $(call objects,$1) $(BUILD)/lib$1.list
	$$(call say,AR,$$@)rm -f $$@ && $(AR) rcs $$@ $$(filter %.o,$$^)
$(BUILD)/lib$1.list: always
	$$(Q)$$(call if_changed,$(sort $(call sources,$1)))
endef
.PHONY: always
$(foreach part,proto spawner host control client,$(eval $(call archive,$(part))))

link = $(call say,LD,$@)mkdir -p $(@D) && $(CC) $(our_ldflags) $(CFLAGS) $(LDFLAGS) $1 -o $@ $2
$(BUILD)/sandboxd: $(BUILD)/o/daemon/spawner/main.o $(sanitizer_options) $(call lib,spawner) $(call lib,proto)
	$(call link,$^,$(libs_spawner))
$(BUILD)/sandboxd-control: $(BUILD)/o/daemon/control/main.o $(sanitizer_options) $(call lib,control) $(call lib,proto)
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
	$(call link,$< -Wl$(comma)--start-group $(all_libs) -Wl$(comma)--end-group,$(libs_control) $(libs_host) $(libs_spawner) $(libs_test) $(shell pkg-config --libs check))
$(BUILD)/tests/fuzz/%: $(BUILD)/o/tests/fuzz/%.o $(all_libs)
	$(call link,-fsanitize=fuzzer $< -Wl$(comma)--start-group $(all_libs) -Wl$(comma)--end-group,$(libs_control) $(libs_host) $(libs_spawner))
# control has a listener of its own
$(BUILD)/tests/proc/test_listener: $(BUILD)/o/tests/proc/test_listener.o $(call lib,spawner) $(call lib,proto)
	$(call link,$^,$(libs_spawner) $(shell pkg-config --libs check))
$(BUILD)/tests/unit/test_cbor_oracle: libs_test := -lcbor
$(BUILD)/tests/support/%: $(BUILD)/o/tests/support/%.o $(sanitizer_options) $(call lib,host) $(call lib,proto)
	$(call link,$^,$(libs_host))
# the daemon's programs with something that a test changes at will inside
$(BUILD)/tests/odd/sandboxd-control: $(BUILD)/o/daemon/control/main.o $(BUILD)/o/tests/odd/clock.o $(sanitizer_options) $(call lib,control) $(call lib,proto)
	$(call link,$^,$(libs_control))
$(BUILD)/tests/odd/sandbox-host: $(BUILD)/o/daemon/host/main.o $(BUILD)/o/tests/odd/steps.o $(call lib,host) $(call lib,proto)
	$(call link,-Wl$(comma)--wrap=zygote_steps $^,$(libs_host))
$(BUILD)/tests/modules/%.so: tests/modules/%.c proto/sandbox_module.h
	$(call say,MODULE,$<)mkdir -p $(@D) && $(MODULE_CC) $(module_cflags) $< -o $@
$(BUILD)/tests/attacks/victim: $(BUILD)/o/tests/attacks/victim.o
	$(call link,$^)
$(BUILD)/tests/attacks/modules/%.so: tests/attacks/modules/%.c tests/attacks/modules/attack.h proto/sandbox_module.h
	$(call say,MODULE,$<)mkdir -p $(@D) && $(MODULE_CC) $(module_cflags) $< -o $@
$(patsubst %,$(BUILD)/tests/modules/trial_%.so,v2 v3 v4): tests/modules/trial.c
# built against the header as the first release had it, which stays as it is
$(BUILD)/tests/modules/abi-1.0/%.so: tests/modules/abi-1.0/%.c tests/modules/abi-1.0/sandbox_module.h
	$(call say,MODULE,$<)mkdir -p $(@D) && $(MODULE_CC) -Itests/modules/abi-1.0 $(filter-out -Iproto,$(module_cflags)) $< -o $@
$(BUILD)/examples/%.so: examples/%.c proto/sandbox_module.h
	$(call say,MODULE,$<)mkdir -p $(@D) && $(MODULE_CC) $(module_cflags) $< -o $@
$(BUILD)/examples/%.so: examples/%.cc examples/words/words.h proto/sandbox_module.h
	$(call say,MODULE,$<)mkdir -p $(@D) && $(CXX) -std=c++17 $(filter-out -std=%,$(module_cflags)) $< -o $@
$(BUILD)/examples/tally-rs/%.so: examples/tally-rs/tally.rs examples/tally-rs/sbx.rs
	$(call say,RUSTC,$<)mkdir -p $(@D) && MAKEFLAGS= $(RUSTC) --edition 2021 --crate-type cdylib --crate-name $* -C opt-level=1 -C strip=symbols \
		$(if $(filter %_v2,$*),--cfg v2) $< -o $@
$(BUILD)/bench/modules/%.so: bench/modules/%.c proto/sandbox_module.h bench/modules/bag.c examples/kv/kv.c
	$(call say,MODULE,$<)mkdir -p $(@D) && $(MODULE_CC) $(module_cflags) $< -o $@
$(BUILD)/bench/state $(BUILD)/bench/mirror: $(BUILD)/bench/%: bench/%.c $(call lib,host) $(call lib,proto)
	$(call say,LD,$@)mkdir -p $(@D) && $(CC) $(our_cppflags) $(our_cflags) $(CFLAGS) $^ -o $@ $(libs_host)
$(BUILD)/bench/%: bench/%.c bench/drive.h $(call lib,proto)
	$(call say,LD,$@)mkdir -p $(@D) && $(CC) $(our_cppflags) $(our_cflags) $(CFLAGS) $< $(call lib,proto) -o $@ -ldl -lseccomp

check-unit: $(unit_tests) $(test_modules)
	$(Q)$(run_tests) unit
check-proc: $(programs) $(proc_tests) $(test_helpers) $(test_modules) $(example_modules)
	$(Q)$(run_tests) proc
check-e2e: all $(test_modules) $(attack_modules) $(example_modules)
	$(Q)$(run_tests) e2e
# every attack that can be made from inside a sandbox: it succeeds without the walls that stop it, and fails with them
check-attacks: deps-check
	$(Q)$(MAKE) --no-print-directory -j$(JOBS) all $(attack_modules)
	$(Q)SANDBOXD_BUILD=$(abspath $(BUILD)) python3 tests/attacks/run.py $(ATTACKS)
check-source:
	$(Q)tests/check-source.sh
# the whole tree compiles without a warning with clang too
check-clang:
	$(Q)$(MAKE) --no-print-directory CC=clang WERROR=1 BUILD=$(BUILD)/clang all
# the unit ring again, with AddressSanitizer and UndefinedBehaviorSanitizer
asan:
	$(Q)$(MAKE) --no-print-directory SANITIZE=1 BUILD=$(BUILD)/asan SANDBOXD_TEST_MULTIPLIER=4 check-unit

check: deps-check
	$(Q)$(MAKE) --no-print-directory -j$(JOBS) all $(unit_tests) $(proc_tests) $(test_helpers) $(test_modules) $(attack_modules) $(example_modules)
	$(Q)$(MAKE) --no-print-directory -j$(JOBS) SANITIZE=1 BUILD=$(BUILD)/asan build-tests
	$(Q)$(MAKE) --no-print-directory -j$(JOBS) check-clang
	$(Q)$(run_tests) all
.PHONY: build-all build-tests build-fuzz
build-all: all $(unit_tests) $(proc_tests) $(test_helpers) $(test_modules) $(attack_modules) $(example_modules)
build-tests: $(unit_tests) $(test_modules)
build-fuzz: $(fuzz_programs)

# every parser with any bytes: each target for FUZZ_SECONDS, or one (TARGET=json); findings are kept in $(BUILD)/fuzz/findings
FUZZ_SECONDS ?= 60
fuzz: deps-fuzz
	$(Q)$(MAKE) --no-print-directory -j$(JOBS) CC=clang CFLAGS='-O1 -g' SANITIZE=fuzz BUILD=$(BUILD)/fuzz build-fuzz
	$(Q)SANDBOXD_BUILD=$(abspath $(BUILD)) python3 tests/fuzz/fuzz.py --seconds $(FUZZ_SECONDS) $(TARGET)

# lines that the rings reach, by room. A process of any user must be able to leave its counters in the folder.
coverage: deps-fuzz deps-check
	$(Q)rm -rf $(BUILD)/coverage/profiles && mkdir -p -m 1777 $(BUILD)/coverage/profiles && chmod 1777 $(BUILD)/coverage/profiles
	$(Q)$(MAKE) --no-print-directory -j$(JOBS) CC=clang CFLAGS='-O1 -g' PROFILES=$(abspath $(BUILD))/coverage/profiles \
		BUILD=$(abspath $(BUILD))/coverage build-all
	$(Q)SANDBOXD_TEST_MULTIPLIER=2 SANDBOXD_BUILD=$(abspath $(BUILD))/coverage python3 tests/coverage.py \
		$(abspath $(BUILD))/coverage/profiles unit proc e2e

# everything, for hours when nobody waits: at most 75 minutes on two cores
check-full:
	$(Q)SANDBOXD_BUILD=$(abspath $(BUILD)) tests/check-full.sh

# ---- man pages, and what goes where ----
scdoc := $(shell command -v scdoc 2>/dev/null)
man_pages := $(patsubst docs/man/%.scd,$(BUILD)/man/%,$(wildcard docs/man/*.scd))
.PHONY: man install uninstall
man: $(if $(scdoc),$(man_pages))
	$(if $(scdoc),,@echo 'scdoc is not installed (make deps): there are no man pages')
$(BUILD)/man/%: docs/man/%.scd
	$(call say,MAN,$<)mkdir -p $(@D) && scdoc <$< >$@

# changes when the paths do: what has some compiled in is then built again
paths := $(PREFIX) $(LIBEXECDIR) $(INCLUDEDIR) $(SBINDIR) $(BINDIR)
$(BUILD)/paths: always
	$(Q)$(call if_changed,$(paths))
$(BUILD)/o/daemon/spawner/programs.o: $(BUILD)/paths
$(BUILD)/sandbox-module.pc: sandbox-module.pc.in $(BUILD)/paths
	$(Q)sed -e 's,@PREFIX@,$(PREFIX),;s,@INCLUDEDIR@,$(INCLUDEDIR),;s,@VERSION@,$(VERSION),' $< >$@
$(BUILD)/sandboxd.service: sandboxd.service $(BUILD)/paths
	$(Q)sed -e 's,^ExecStart=/usr/sbin/,ExecStart=$(SBINDIR)/,;s,^ExecReload=/usr/bin/,ExecReload=$(BINDIR)/,' $< >$@

# mode:file:where, the one list that install and uninstall share
installed_pages := $(foreach page,$(man_pages),644:$(page):$(MANDIR)/man$(subst .,,$(suffix $(page)))/$(notdir $(page)))
installed_examples := $(foreach example,$(wildcard examples/*/*.[ch] examples/*/*.cc examples/*/*.rs examples/*/*.jsonl),644:$(example):$(DOCDIR)/$(example))
installed := \
	755:$(BUILD)/sandboxd:$(SBINDIR)/sandboxd 755:$(BUILD)/sandboxctl:$(BINDIR)/sandboxctl \
	755:$(BUILD)/sandboxd-control:$(LIBEXECDIR)/sandboxd-control 755:$(BUILD)/sandbox-host:$(LIBEXECDIR)/sandbox-host \
	644:proto/sandbox_module.h:$(INCLUDEDIR)/sandbox_module.h 644:$(BUILD)/sandbox-module.pc:$(LIBDIR)/pkgconfig/sandbox-module.pc \
	644:$(BUILD)/sandboxd.service:$(UNITDIR)/sandboxd.service \
	644:client/completion/sandboxctl.bash:$(DATADIR)/bash-completion/completions/sandboxctl \
	$(foreach page,README.md CHANGELOG.md LICENSE $(wildcard docs/*.md),644:$(page):$(DOCDIR)/$(notdir $(page))) \
	$(installed_pages) $(installed_examples)
# folders that are ours alone: they go when they are empty
installed_folders := $(LIBEXECDIR) $(sort $(dir $(foreach i,$(installed_examples),$(lastword $(subst :, ,$i))))) $(DOCDIR)/examples $(DOCDIR)
install: all man $(BUILD)/sandbox-module.pc $(BUILD)/sandboxd.service
	$(Q)set -e; for i in $(filter-out $(if $(scdoc),,$(installed_pages)),$(installed)); do \
		m=$${i%%:*}; i=$${i#*:}; install -D -m $$m "$${i%%:*}" "$(DESTDIR)$${i#*:}"; done
uninstall:
	$(Q)for i in $(installed); do rm -f "$(DESTDIR)$${i##*:}"; done; \
	for d in $(installed_folders); do rmdir "$(DESTDIR)$$d" 2>/dev/null || :; done

# clients that aren't ours (socat, jq, a JSON-RPC library for node), and the wire of the e2e ring against rpc.discover;
# CLIENTS=clients: the first alone, CLIENTS='wire FOLDER': what was recorded there
npm_packages := jayson@4.3.0 ajv@8.20.0
check-clients: deps-check
	$(Q)$(call install_packages,$(packages_clients))
	$(Q)$(MAKE) --no-print-directory -j$(JOBS) all $(test_modules) $(example_modules)
	$(Q)mkdir -p $(BUILD)/npm && npm install --no-save --no-audit --no-fund --silent --prefix $(BUILD)/npm $(npm_packages)
	$(Q)SANDBOXD_BUILD=$(abspath $(BUILD)) python3 tests/clients/run.py $(BUILD)/npm/node_modules $(CLIENTS)
.PHONY: check-clients

# the core of supervision trees against Erlang/OTP's own supervisor (tests/otp); needs nothing of Erlang but erlang-base
check-otp: deps-otp
	$(Q)$(MAKE) --no-print-directory -j$(JOBS) all $(BUILD)/tests/otp/mutants
	$(Q)SANDBOXD_BUILD=$(abspath $(BUILD)) python3 tests/otp/check.py $(if $(SCENARIOS),--scenarios $(SCENARIOS)) $(if $(SEED),--seed $(SEED))
.PHONY: check-otp deps-otp

# increments through RELOADS reloads and rollbacks of one sandbox, each counted once and in order, and nothing grows; at most ten minutes
soak-reload: deps
	$(Q)$(MAKE) --no-print-directory -j$(JOBS) all $(BUILD)/tests/modules/soak.so $(BUILD)/tests/modules/soak_v2.so
	$(Q)SANDBOXD_BUILD=$(abspath $(BUILD)) python3 tests/e2e/soak.py $(if $(RELOADS),--reloads $(RELOADS))
.PHONY: soak-reload

# the daemon as a service of systemd, with cgroup v2, in small emulated machines: SUITES of Debian, as root (to make their images)
SUITES ?= bookworm trixie
packages_vm := qemu-system-x86 mmdebstrap cpio
check-vm: deps-check
	$(Q)$(call install_packages,$(packages_vm))
	$(Q)$(MAKE) --no-print-directory -j$(JOBS) all $(test_modules) $(example_modules)
	$(Q)SANDBOXD_BUILD=$(abspath $(BUILD)) sh tests/vm/check-vm.sh $(SUITES)
.PHONY: check-vm

lint: deps-check
	$(Q)tests/lint.sh

# ---- what the machine needs: names the missing packages and installs them; does nothing when all are there ----
packages := gcc libc6-dev pkg-config libuv1-dev libcjson-dev libseccomp-dev libssl-dev libsqlite3-dev uthash-dev python3 scdoc
packages_check := check libsubunit-dev libcbor-dev g++ clang clang-tidy cppcheck
# a node that didn't come as a package serves as well, and its npm can't stand beside the package's
packages_clients := socat jq $(if $(shell command -v node),,nodejs) $(if $(shell command -v npm),,npm)
packages_otp := erlang-base
packages_fuzz := clang libclang-rt-14-dev llvm
install_packages = missing=$$(for p in $1; do dpkg-query -W -f='$${Status}' $$p 2>/dev/null | grep -q 'ok installed' || echo $$p; done); \
	[ -z "$$missing" ] || { echo "missing packages: "$$missing; sudo=; [ "$$(id -u)" = 0 ] || sudo=sudo; \
	$$sudo apt-get update -qq && $$sudo env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $$missing; }
deps-otp:
	$(Q)$(call install_packages,$(packages) $(packages_otp))
deps-fuzz:
	$(Q)$(call install_packages,$(packages) $(packages_fuzz))
deps:
	$(Q)$(call install_packages,$(packages))
deps-check:
	$(Q)$(call install_packages,$(packages) $(packages_check))

demo: deps
	$(Q)$(MAKE) --no-print-directory -j$(JOBS) all $(example_modules)
	$(Q)SANDBOXD_BUILD=$(abspath $(BUILD)) python3 examples/demo/demo.py

# figures beside a bare-kernel floor; PAIRS=N of each row (200), JSON=FILE keeps them (bench/bench.py says in which form)
bench: deps
	$(Q)$(MAKE) --no-print-directory -j$(JOBS) all $(bench_programs) $(bench_modules) $(example_modules)
	$(Q)SANDBOXD_BUILD=$(abspath $(BUILD)) python3 bench/bench.py $(if $(PAIRS),--pairs $(PAIRS)) $(if $(JSON),--json $(JSON))

clean:
	rm -rf $(BUILD)

-include $(shell find $(BUILD)/o -name '*.d' 2>/dev/null)
.SECONDARY:
