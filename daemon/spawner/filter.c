/* SPDX-License-Identifier: MIT
 *
 * Table -> ranges of call numbers with one answer -> stretches: a range with the few calls that differ from it -> a binary tree over
 * stretches. The program is written from its end to its start, so that every jump, which only goes forward, knows its target, and
 * one return serves all who come to it: how long a filter takes to install is how long it is, and how deep. */
#include "daemon/spawner/filter.h"

#include <assert.h>
#include <errno.h>
#include <linux/filter.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/spawner/calls.h"
#include "proto/fd.h"
#include "proto/protection.h"

#define NUMBERS        1024 /* call numbers that the table may have; larger ones are unlisted */
#define RANGES_MAX     (NUMBERS + 2)
#define EXCEPTIONS_MAX 5    /* of one stretch: they are tried one by one */
#define JUMP_MAX       255  /* of a conditional jump */
#define JUMP_NEAR      (JUMP_MAX - 4) /* still, after what near() adds in between */
#define ANSWERS        32   /* different returns: a dozen, each errno once */

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

void filter_decide(const struct policy *p, uint64_t weaken, bool listener, const struct seccomp_data *call, struct filter_verdict *ret)
{
	const struct call_row *row;

	*ret = (struct filter_verdict){ .ret = SECCOMP_RET_KILL_PROCESS, .operation = OPERATION__N, .call = "" };
	if (call->arch != CALL_ARCH || (uint32_t)call->nr >= CALL_NUMBER_X32)
		return;
	row = call_find(call);
	if (row)
		row_decide(p, weaken, listener, row, ret);
	else
		ret->ret = ret_unlisted(p);
	if (!row && p->unlisted == POLICY_ENOSYS)
		ret->error = ENOSYS;
}

/* ---- the program, from its end to its start ---- */

struct range {
	uint32_t first;              /* number; it ends before the next one's */
	uint32_t ret;                /* the answer, if no row's condition holds */
	const struct call_row *rows; /* one call's rows with conditions */
	size_t n_rows;               /* 0: none, and the range may be of many calls */
};

/* Ranges of which the first and every other that isn't a single call have the same answer. */
struct stretch {
	size_t first, n;
};

/* How many instructions stand from an instruction to the end of the program, itself included: its name, whatever comes before it. */
typedef size_t label;

struct maker {
	const struct policy *policy;
	uint64_t weaken;
	bool listener;
	struct range ranges[RANGES_MAX];
	size_t n_ranges;
	struct stretch stretches[RANGES_MAX];
	size_t n_stretches;
	struct {
		uint32_t ret;
		label at;
	} answers[ANSWERS]; /* the newest return of each */
	size_t n_answers;
	struct sock_filter code[BPF_MAXINSNS]; /* filled from its end */
	label n;                               /* beyond BPF_MAXINSNS: it doesn't fit */
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

static label emit_range(struct maker *m, const struct range *r)
{
	label next = answer(m, r->ret);

	for (size_t left = r->n_rows; left > 0;) {
		const struct call_row *row = &r->rows[left - 1];
		size_t n = emit_values(m, r->rows, left - 1, &next);

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

/* ---- ranges and stretches ---- */

static void range_add(struct maker *m, uint32_t first, uint32_t ret, const struct call_row *rows, size_t n_rows)
{
	struct range *last = m->n_ranges ? &m->ranges[m->n_ranges - 1] : NULL;

	/* Rows just before the last that give the same answer as it decide nothing. */
	while (n_rows > 0 && row_ret(m, &rows[n_rows - 1]) == ret)
		n_rows--;
	if (last && last->n_rows == 0 && n_rows == 0 && last->ret == ret)
		return;
	assert(m->n_ranges < RANGES_MAX);
	m->ranges[m->n_ranges++] = (struct range){ first, ret, rows, n_rows };
}

static void ranges_make(struct maker *m)
{
	for (uint32_t number = 0; number < NUMBERS; number++) {
		size_t first = 0, n = 0;

		while (first < call_rows_n && call_rows[first].number != (int)number)
			first++;
		while (first + n < call_rows_n && call_rows[first + n].number == (int)number)
			n++;
		assert(n == 0 || call_rows[first + n - 1].n_conditions == 0);
		if (n > 0)
			range_add(m, number, row_ret(m, &call_rows[first + n - 1]), call_rows + first, n - 1);
		else
			range_add(m, number, ret_unlisted(m->policy), NULL, 0);
	}
	range_add(m, NUMBERS, ret_unlisted(m->policy), NULL, 0);
	range_add(m, CALL_NUMBER_X32, SECCOMP_RET_KILL_PROCESS, NULL, 0);
}

static bool is_single(const struct maker *m, size_t range)
{
	return range + 1 < m->n_ranges && m->ranges[range + 1].first == m->ranges[range].first + 1;
}

static bool is_more_of(const struct maker *m, size_t range, size_t base)
{
	return range < m->n_ranges && m->ranges[range].n_rows == 0 && m->ranges[range].ret == m->ranges[base].ret;
}

static void stretches_make(struct maker *m)
{
	for (size_t first = 0; first < m->n_ranges;) {
		size_t end = first + 1, exceptions = 0, at = end;

		while (m->ranges[first].n_rows == 0 && at < m->n_ranges) {
			if (is_more_of(m, at, first))
				end = ++at;
			else if (is_single(m, at) && ++exceptions <= EXCEPTIONS_MAX)
				at++;
			else
				break;
		}
		m->stretches[m->n_stretches++] = (struct stretch){ first, end - first };
		first = end;
	}
}

static label emit_stretch(struct maker *m, const struct stretch *s)
{
	label at = emit_range(m, &m->ranges[s->first]);

	for (size_t i = s->first + s->n; i-- > s->first + 1;)
		if (!is_more_of(m, i, s->first))
			at = emit_branch(m, BPF_JEQ, m->ranges[i].first, emit_range(m, &m->ranges[i]), at);
	return at;
}

static label emit_tree(struct maker *m, size_t first, size_t last)
{
	size_t middle = first + (last - first + 1) / 2;
	label right, left;

	if (first == last)
		return emit_stretch(m, &m->stretches[first]);
	right = emit_tree(m, middle, last);
	left = emit_tree(m, first, middle - 1);
	return emit_branch(m, BPF_JGE, m->ranges[m->stretches[middle].first].first, right, left);
}

static void emit_all(struct maker *m)
{
	label at = emit_load(m, emit_tree(m, 0, m->n_stretches - 1), OFFSET(nr));

	at = emit_branch(m, BPF_JEQ, CALL_ARCH, at, answer(m, SECCOMP_RET_KILL_PROCESS));
	(void)emit_load(m, at, OFFSET(arch));
}

/* The maker is larger than the stack that some give a daemon (64 KiB). */
static int build(struct maker *m, struct filter *ret, struct err *e)
{
	ranges_make(m);
	stretches_make(m);
	emit_all(m);
	if (m->n > BPF_MAXINSNS)
		return err_set(e, ERR_INTERNAL, "the filter of profile %s has %zu instructions, more than the kernel takes (%d)",
			m->policy->name, m->n, BPF_MAXINSNS);
	ret->fd = fd_memfd("filter", m->code + BPF_MAXINSNS - m->n, m->n * sizeof *m->code, true);
	if (ret->fd < 0)
		return err_sys(e, ERR_UNAVAILABLE, "cannot make a memfd for the filter of profile %s", m->policy->name);
	ret->n_instructions = (uint32_t)m->n;
	return 0;
}

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
	free(m);
	return result;
}
