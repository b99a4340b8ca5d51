/* SPDX-License-Identifier: MIT
 *
 * libseccomp makes the program: which architecture, which ABI, a tree over call numbers. What its rules can't say it marks, with an
 * answer that we never give, SECCOMP_RET_TRACE: each mark becomes a jump to a block that we put behind its program. A block is
 * one call's conditions on arguments, or block 0, what holds for calls without a rule. Blocks are written from their end to their start,
 * so that every jump, which only goes forward, knows its target, and one return serves all who come to it: how long a filter takes to
 * install is how long it is. */
#include "daemon/spawner/filter.h"

#include <assert.h>
#include <errno.h>
#include <linux/filter.h>
#include <seccomp.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "daemon/spawner/calls.h"
#include "proto/fd.h"
#include "proto/protection.h"

#define NUMBERS    1024 /* call numbers that the table may have; larger ones are unlisted */
#define SPAN_MIN   4    /* so many numbers in a row with one answer are a span: 2 instructions, a rule has 1 to 2. With 3 it gets deep */
#define SPANS_MAX  (2 * NUMBERS / SPAN_MIN + 2)
#define BLOCKS_MAX 64   /* calls of which arguments decide, and block 0 */
#define JUMP_MAX   255  /* of a conditional jump */
#define JUMP_NEAR  (JUMP_MAX - 4) /* still, after what near() adds in between */
#define ANSWERS    32   /* different returns: a dozen, each errno once */
#define MARK(block) (SECCOMP_RET_TRACE | (uint32_t)(block))

#define OFFSET(member)   ((uint32_t)offsetof(struct seccomp_data, member))
#define OFFSET_LOW(n)    (OFFSET(args) + 8u * (uint32_t)(n) + (__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__ ? 0 : 4))
#define OFFSET_HIGH(n)   (OFFSET(args) + 8u * (uint32_t)(n) + (__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__ ? 4 : 0))

/* ---- verdicts ---- */

static uint64_t operations_of(const struct policy *p, uint64_t weaken)
{
	uint64_t operations = p->operations;

	if (weaken & PROTECTION_BIT(PROTECTION_NETWORK))
		operations |= OPERATION(NETWORK_CLIENT) | OPERATION(NETWORK_SERVER) | OPERATION(NETWORK_OTHER) | OPERATION(CRYPTO);
	if (weaken & PROTECTION_BIT(PROTECTION_NEW_CODE))
		operations |= OPERATION(DYNAMIC_CODE) | OPERATION(MEMORY_FILES);
	return operations;
}

static uint32_t ret_errno(int error)
{
	return SECCOMP_RET_ERRNO | ((uint32_t)error & SECCOMP_RET_DATA);
}

static void row_decide(
	const struct policy *p, uint64_t weaken, bool listener, const struct call_row *row, struct filter_verdict *ret)
{
	bool forbidden;

	*ret = (struct filter_verdict){ .ret = SECCOMP_RET_ALLOW, .operation = OPERATION__N, .call = row->name };
	if (row->operations & operations_of(p, weaken))
		return;
	ret->operation = (enum operation)__builtin_ctzll(row->operations);
	ret->error = operation_refusal(ret->operation);
	forbidden = ret->error == 0;
	if (forbidden) {
		ret->error = EPERM;
		ret->kill = p->forbidden == POLICY_KILL;
	}
	/* Programs ask for what isn't implemented and go on without: that is no news. */
	if (listener && p->audit >= (forbidden ? POLICY_AUDIT_BASIC : POLICY_AUDIT_FULL) && ret->error != ENOSYS)
		ret->ret = SECCOMP_RET_USER_NOTIF;
	else
		ret->ret = ret->kill ? SECCOMP_RET_KILL_PROCESS : ret_errno(ret->error);
}

static uint32_t ret_unlisted(const struct policy *p)
{
	return p->unlisted == POLICY_ALLOW ? SECCOMP_RET_ALLOW : ret_errno(ENOSYS);
}

/* Of an architecture or ABI whose calls have other numbers. Number -1 is the call that a tracer took away: libseccomp lets it come to
 * the answer for unlisted calls, and the kernel runs nothing and returns ENOSYS whatever that is. */
static bool is_foreign(const struct seccomp_data *call)
{
	uint32_t number = (uint32_t)call->nr;

	return call->arch != CALL_ARCH || (number >= CALL_NUMBER_X32 && number != UINT32_MAX);
}

void filter_decide(const struct policy *p, uint64_t weaken, bool listener, const struct seccomp_data *call, struct filter_verdict *ret)
{
	const struct call_row *row;

	*ret = (struct filter_verdict){ .ret = SECCOMP_RET_KILL_PROCESS, .operation = OPERATION__N, .call = "" };
	if (is_foreign(call))
		return;
	row = call_find(call);
	if (row)
		row_decide(p, weaken, listener, row, ret);
	else
		ret->ret = ret_unlisted(p);
	if (!row && p->unlisted == POLICY_ENOSYS)
		ret->error = ENOSYS;
}

/* ---- blocks, from their end to their start ---- */

/* From this number on, up to the next span's. */
struct span {
	uint32_t first, ret;
};

/* How many instructions stand from an instruction to the end of the program, itself included: its name, whatever comes before it. */
typedef size_t label;

struct maker {
	const struct policy *policy;
	uint64_t weaken;
	bool listener;
	scmp_filter_ctx library;
	uint32_t numbers[NUMBERS]; /* the answer to each, or its mark */
	struct span spans[SPANS_MAX];
	size_t n_spans;
	label blocks[BLOCKS_MAX];
	size_t n_blocks;
	struct {
		uint32_t ret;
		label at;
	} answers[ANSWERS]; /* the newest return of each */
	size_t n_answers;
	struct sock_filter code[BPF_MAXINSNS]; /* blocks are filled in from its end, libseccomp's program then from its start */
	label n;                               /* of the blocks; beyond BPF_MAXINSNS: they don't fit */
};

static label emit(struct maker *m, uint16_t code, uint32_t k, size_t jt, size_t jf)
{
	assert(jt <= JUMP_MAX && jf <= JUMP_MAX);
	if (m->n < BPF_MAXINSNS)
		m->code[BPF_MAXINSNS - 1 - m->n] = (struct sock_filter){ code, (uint8_t)jt, (uint8_t)jf, k };
	return ++m->n;
}

/* An instruction without a jump: what follows it must be the one that was emitted before. */
static label emit_before(struct maker *m, label next, uint16_t code, uint32_t k)
{
	if (next != m->n)
		(void)emit(m, BPF_JMP | BPF_JA, (uint32_t)(m->n - next), 0, 0);
	return emit(m, code, k, 0, 0);
}

static label answer(struct maker *m, uint32_t ret)
{
	size_t i = 0;

	while (i < m->n_answers && m->answers[i].ret != ret)
		i++;
	if (i < m->n_answers && m->n - m->answers[i].at <= JUMP_NEAR)
		return m->answers[i].at;
	assert(i < ANSWERS);
	if (i == m->n_answers)
		m->answers[m->n_answers++].ret = ret;
	return m->answers[i].at = emit(m, BPF_RET | BPF_K, ret, 0, 0);
}

/* A place from which a conditional jump, emitted soon, reaches the target. */
static label near(struct maker *m, label target)
{
	if (m->n - target <= JUMP_NEAR)
		return target;
	for (size_t i = 0; i < m->n_answers; i++)
		if (m->answers[i].at == target)
			return answer(m, m->answers[i].ret);
	return emit(m, BPF_JMP | BPF_JA, (uint32_t)(m->n - target), 0, 0);
}

static label emit_branch(struct maker *m, uint16_t test, uint32_t k, label yes, label no)
{
	yes = near(m, yes);
	no = near(m, no);
	return emit(m, (uint16_t)(BPF_JMP | BPF_K | test), k, m->n - yes, m->n - no);
}

static label emit_load(struct maker *m, label next, uint32_t offset)
{
	return emit_before(m, next, BPF_LD | BPF_W | BPF_ABS, offset);
}

/* ---- one call's rows ---- */

static uint32_t row_ret(const struct maker *m, const struct call_row *row)
{
	struct filter_verdict v;

	row_decide(m->policy, m->weaken, m->listener, row, &v);
	return v.ret;
}

static label emit_word(struct maker *m, uint32_t offset, uint32_t mask, uint32_t value, label yes, label no)
{
	label at;

	if (value == 0 && mask != UINT32_MAX) {
		at = emit_branch(m, BPF_JSET, mask, no, yes);
	} else {
		at = emit_branch(m, BPF_JEQ, value, yes, no);
		if (mask != UINT32_MAX)
			at = emit_before(m, at, BPF_ALU | BPF_AND | BPF_K, mask);
	}
	return emit_load(m, at, offset);
}

static label emit_condition(struct maker *m, const struct call_condition *c, label yes, label no)
{
	uint32_t high = (uint32_t)(c->mask >> 32);

	if (c->differs) {
		label other = yes;

		yes = no;
		no = other;
	}
	if (high)
		yes = emit_word(m, OFFSET_HIGH(c->argument), high, (uint32_t)(c->value >> 32), yes, no);
	return emit_word(m, OFFSET_LOW(c->argument), (uint32_t)c->mask, (uint32_t)c->value, yes, no);
}

static bool is_equal32(const struct call_row *row, unsigned argument)
{
	const struct call_condition *c = row->conditions;

	return row->n_conditions == 1 && c->argument == argument && c->mask == UINT32_MAX && !c->differs;
}

/* Rows up to `last` that compare one argument with one value each: one load. Returns how many they are, 0: not worth it. */
static size_t emit_values(struct maker *m, const struct call_row *rows, size_t last, label *next)
{
	unsigned argument = rows[last].conditions[0].argument;
	size_t n = 0;
	label at = *next;

	while (n <= last && is_equal32(&rows[last - n], argument))
		n++;
	if (n < 2)
		return 0;
	for (size_t i = 0; i < n; i++) {
		const struct call_row *row = &rows[last - i];

		at = emit_branch(m, BPF_JEQ, (uint32_t)row->conditions[0].value, answer(m, row_ret(m, row)), at);
	}
	*next = emit_load(m, at, OFFSET_LOW(argument));
	return n;
}

/* Rows with conditions, and the answer where none of them holds. */
static label emit_rows(struct maker *m, const struct call_row *rows, size_t n_rows, uint32_t ret)
{
	label next = answer(m, ret);

	for (size_t left = n_rows; left > 0;) {
		const struct call_row *row = &rows[left - 1];
		size_t n = emit_values(m, rows, left - 1, &next);

		if (n == 0) {
			label yes = answer(m, row_ret(m, row));

			for (size_t i = row->n_conditions; i-- > 0;)
				yes = emit_condition(m, &row->conditions[i], yes, next);
			next = yes;
		}
		left -= n ? n : 1;
	}
	return next;
}

/* ---- call numbers ---- */

/* The answer to a number; where arguments decide, the mark of a block that has just been written. */
static uint32_t number_answer(struct maker *m, uint32_t number)
{
	size_t first = 0, n = 0;
	uint32_t ret;

	while (first < call_rows_n && call_rows[first].number != (int)number)
		first++;
	while (first + n < call_rows_n && call_rows[first + n].number == (int)number)
		n++;
	if (n == 0)
		return ret_unlisted(m->policy);
	assert(call_rows[first + n - 1].n_conditions == 0);
	ret = row_ret(m, &call_rows[first + --n]);
	/* Rows just before the last that give the same answer as it decide nothing. */
	while (n > 0 && row_ret(m, &call_rows[first + n - 1]) == ret)
		n--;
	if (n == 0)
		return ret;
	assert(m->n_blocks < BLOCKS_MAX);
	m->blocks[m->n_blocks] = emit_rows(m, call_rows + first, n, ret);
	return MARK(m->n_blocks++);
}

static void span_add(struct maker *m, uint32_t first, uint32_t ret)
{
	if (m->n_spans > 0 && m->spans[m->n_spans - 1].first == first)
		m->n_spans--;
	if (m->n_spans > 0 && m->spans[m->n_spans - 1].ret == ret)
		return;
	assert(m->n_spans < SPANS_MAX);
	m->spans[m->n_spans++] = (struct span){ first, ret };
}

static int rules_add(struct maker *m, uint32_t first, uint32_t end, struct err *e)
{
	for (uint32_t number = first; number < end; number++) {
		errno = -seccomp_rule_add(m->library, m->numbers[number], (int)number, 0);
		if (errno != 0)
			return err_sys(e, ERR_UNAVAILABLE, "seccomp_rule_add of call %u with answer %#x", number, m->numbers[number]);
	}
	return 0;
}

/* Rules for what isn't allowed, but for spans, which libseccomp doesn't know: they are block 0, where all that has no rule comes to. */
static int numbers_divide(struct maker *m, struct err *e)
{
	for (uint32_t number = 0; number < NUMBERS; number++)
		m->numbers[number] = number_answer(m, number);
	span_add(m, 0, SECCOMP_RET_ALLOW);
	for (uint32_t first = 0, end; first < NUMBERS; first = end) {
		const uint32_t ret = m->numbers[first];

		for (end = first + 1; end < NUMBERS && m->numbers[end] == ret; end++)
			;
		if (ret == SECCOMP_RET_ALLOW)
			continue;
		if (end - first >= SPAN_MIN) {
			span_add(m, first, ret);
			span_add(m, end, SECCOMP_RET_ALLOW);
		} else if (rules_add(m, first, end, e) == -1) {
			return -1;
		}
	}
	span_add(m, NUMBERS, ret_unlisted(m->policy));
	return 0;
}

static label emit_spans(struct maker *m)
{
	label at = answer(m, m->spans[m->n_spans - 1].ret);

	for (size_t i = m->n_spans - 1; i > 0; i--)
		at = emit_branch(m, BPF_JGE, m->spans[i].first, at, answer(m, m->spans[i - 1].ret));
	return emit_load(m, at, OFFSET(nr));
}

/* ---- libseccomp's program, and the blocks behind it ---- */

static int library_begin(struct maker *m, struct err *e)
{
	static const struct {
		enum scmp_filter_attr attribute;
		uint32_t value;
		const char *name;
	} attributes[] = {
		{ SCMP_FLTATR_API_SYSRAWRC, 1, "errors as they are" },
		{ SCMP_FLTATR_CTL_OPTIMIZE, 2, "a tree" },
		{ SCMP_FLTATR_ACT_BADARCH, SCMP_ACT_KILL_PROCESS, "other architectures are killed" },
		{ SCMP_FLTATR_CTL_NNP, 0, "no_new_privs is left to us" },
	};

	m->library = seccomp_init(MARK(0));
	if (!m->library)
		return err_set(e, ERR_UNAVAILABLE, "seccomp_init: no memory, or the system isn't known to it");
	for (size_t i = 0; i < sizeof attributes / sizeof *attributes; i++) {
		errno = -seccomp_attr_set(m->library, attributes[i].attribute, attributes[i].value);
		if (errno != 0)
			return err_sys(e, ERR_UNAVAILABLE, "seccomp_attr_set (%s)", attributes[i].name);
	}
	return 0;
}

/* Its program at the start of the code; *ret_n instructions. It writes to descriptors only. */
static int library_program(struct maker *m, size_t *ret_n, struct err *e)
{
	const size_t room = m->n < BPF_MAXINSNS ? BPF_MAXINSNS - m->n : 0;
	autoclose int fd = fd_memfd("filter of libseccomp", NULL, 0, false);
	ssize_t size;

	if (fd == -1)
		return err_sys(e, ERR_UNAVAILABLE, "a memfd for libseccomp");
	errno = -seccomp_export_bpf(m->library, fd);
	if (errno != 0)
		return err_sys(e, ERR_UNAVAILABLE, "seccomp_export_bpf");
	size = pread(fd, m->code, room * sizeof *m->code, 0);
	if (size == -1)
		return err_sys(e, ERR_UNAVAILABLE, "cannot read what seccomp_export_bpf wrote");
	*ret_n = (size_t)size / sizeof *m->code;
	if (*ret_n == room) /* and perhaps more */
		return err_set(e, ERR_INTERNAL, "%zu instructions and more, the kernel takes %d", *ret_n + m->n, BPF_MAXINSNS);
	return 0;
}

/* Marks become jumps; the blocks move up to the program. A mark that isn't there would be calls with another's answer. */
static int blocks_join(struct maker *m, size_t n, struct err *e)
{
	bool joined[BLOCKS_MAX] = { false };

	for (size_t i = 0; i < n; i++) {
		struct sock_filter *at = &m->code[i];
		const uint32_t block = at->k & SECCOMP_RET_DATA;

		if (at->code != (BPF_RET | BPF_K) || (at->k & SECCOMP_RET_ACTION_FULL) != SECCOMP_RET_TRACE)
			continue;
		if (block >= m->n_blocks)
			return err_set(e, ERR_INTERNAL, "libseccomp returned mark %u of %zu", block, m->n_blocks);
		*at = (struct sock_filter){ BPF_JMP | BPF_JA, 0, 0, (uint32_t)(n - i - 1 + m->n - m->blocks[block]) };
		joined[block] = true;
	}
	for (size_t i = 0; i < m->n_blocks; i++)
		if (!joined[i])
			return err_set(e, ERR_INTERNAL, "libseccomp never returns mark %zu of %zu", i, m->n_blocks);
	memmove(m->code + n, m->code + BPF_MAXINSNS - m->n, m->n * sizeof *m->code);
	return 0;
}

static int build(struct maker *m, struct filter *ret, struct err *e)
{
	size_t n;

	m->n_blocks = 1;
	if (library_begin(m, e) == -1 || numbers_divide(m, e) == -1)
		return -1;
	m->blocks[0] = emit_spans(m);
	if (library_program(m, &n, e) == -1 || blocks_join(m, n, e) == -1)
		return -1;
	n += m->n;
	ret->fd = fd_memfd("filter", m->code, n * sizeof *m->code, true);
	if (ret->fd == -1)
		return err_sys(e, ERR_UNAVAILABLE, "a memfd for it");
	ret->n_instructions = (uint32_t)n;
	return 0;
}

/* The maker is larger than the stack that some give a daemon (64 KiB). */
int filter_build(const struct policy *p, uint64_t weaken, bool listener, struct filter *ret, struct err *e)
{
	struct maker *m = calloc(1, sizeof *m);
	int result;

	*ret = (struct filter){ .fd = -1 };
	if (!m)
		return err_set(e, ERR_LIMIT_EXCEEDED, "no memory to make the filter of profile %s", p->name);
	m->policy = p;
	m->weaken = weaken;
	m->listener = listener;
	result = build(m, ret, e);
	if (m->library)
		seccomp_release(m->library);
	free(m);
	return result == -1 ? err_prefix(e, "cannot make the filter of profile %s", p->name) : 0;
}
