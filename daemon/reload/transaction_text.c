/* SPDX-License-Identifier: MIT
 *
 * What the steps, events, failures and outcomes of a reload are called, in answers, events and logs. Control process; pure. */
#include "daemon/reload/transaction.h"

static const char *const event_texts[] = { [TXN_EV_SPAWNED] = "spawned",
	[TXN_EV_SPAWN_FAILED] = "spawn_failed",
	[TXN_EV_STAGED] = "staged",
	[TXN_EV_STAGE_FAILED] = "stage_failed",
	[TXN_EV_PROMOTED] = "promoted",
	[TXN_EV_PROMOTE_FAILED] = "promote_failed",
	[TXN_EV_CANDIDATE_DIED] = "candidate_died",
	[TXN_EV_PLACED] = "placed",
	[TXN_EV_PLACE_FAILED] = "place_failed",
	[TXN_EV_REHEARSED] = "rehearsed",
	[TXN_EV_REHEARSE_FAILED] = "rehearse_failed",
	[TXN_EV_PREPARED] = "prepared",
	[TXN_EV_QUIESCED] = "quiesced",
	[TXN_EV_MADE] = "made",
	[TXN_EV_MAKE_FAILED] = "make_failed",
	[TXN_EV_SAVED] = "saved",
	[TXN_EV_SAVE_TOO_SMALL] = "save_too_small",
	[TXN_EV_SAVE_FAILED] = "save_failed",
	[TXN_EV_SEALED] = "sealed",
	[TXN_EV_SEAL_FAILED] = "seal_failed",
	[TXN_EV_KEPT] = "kept",
	[TXN_EV_KEEP_FAILED] = "keep_failed",
	[TXN_EV_LOADED] = "loaded",
	[TXN_EV_LOAD_FAILED] = "load_failed",
	[TXN_EV_RECORDED] = "recorded",
	[TXN_EV_RECORD_FAILED] = "record_failed",
	[TXN_EV_COMMITTED] = "committed",
	[TXN_EV_UNLOADED] = "unloaded",
	[TXN_EV_ABORTED] = "aborted",
	[TXN_EV_HOST_DIED] = "host_died",
	[TXN_EV_TIMER] = "timer",
	[TXN_EV_CANCEL] = "cancel" };
static const char *const failure_texts[] = { [TXN_FAILURE_NONE] = "none",
	[TXN_FAILURE_SAID] = "failed",
	[TXN_FAILURE_TIMEOUT] = "timeout",
	[TXN_FAILURE_CANCELLED] = "cancelled",
	[TXN_FAILURE_HOST_DIED] = "host_died",
	[TXN_FAILURE_STATE_SIZE] = "state_size",
	[TXN_FAILURE_STATE_GROWS] = "state_grows",
	[TXN_FAILURE_CANDIDATE_DIED] = "candidate_died" };
static const char *const outcome_texts[] = { [TXN_NOTHING_CHANGED] = "nothing_changed",
	[TXN_RECOVERED] = "recovered",
	[TXN_STATE_LOST] = "state_lost",
	[TXN_CHANGED] = "changed" };

#define NAMED(texts, n) _Static_assert(sizeof(texts) / sizeof((texts)[0]) == (n), "name every one")
NAMED(event_texts, TXN_EVENT__N);
NAMED(failure_texts, TXN_FAILURE__N);
NAMED(outcome_texts, TXN_OUTCOME__N);

const char *txn_step_text(enum txn_step s)
{
	return (unsigned)s < TXN_STEP__N ? txn_steps[s].name : "unknown";
}

const char *txn_event_text(enum txn_event_type e)
{
	return (unsigned)e < TXN_EVENT__N ? event_texts[e] : "unknown";
}

const char *txn_failure_text(enum txn_failure f)
{
	return (unsigned)f < TXN_FAILURE__N ? failure_texts[f] : "unknown";
}

const char *txn_outcome_text(enum txn_outcome o)
{
	return (unsigned)o < TXN_OUTCOME__N ? outcome_texts[o] : "unknown";
}
