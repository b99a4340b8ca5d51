/* SPDX-License-Identifier: MIT
 *
 * The contract between control and a host. One SOCK_SEQPACKET pair per host process, made by the spawner, which holds control's
 * end too: EOF on it means that spawner and control are both gone, and the host ends. A message is a struct host_message
 * and its body: inline, or, above what fits LIMIT_MESSAGE_BYTES, in one sealed memfd or in a pipe that holds just it
 * (HOST_F_BODY_FD, then body_bytes is its size).
 * Control trusts no byte of a host: type, generation, sizes are checked, every JSON body passes json_check.
 *
 * "path" is the name of an object in the host's own objects folder, which it finds by its birth; a whole path is taken too.
 *
 * JSON bodies: objects with just the keys named here; text is UTF-8. An error body is
 * {"code": stable code, "message": text, "step": what was being done, "name": parameter, path or module's own code,
 * "nearest": the known name nearest to an unknown one}; the last three only where there is something to say. */
#ifndef SANDBOXD_HOST_WIRE_H
#define SANDBOXD_HOST_WIRE_H

#include <signal.h>
#include <stdint.h>

#include "proto/limits.h"

#define HOST_WIRE_VERSION     1u
#define HOST_MESSAGE_MAGIC    0x48584253u /* "SBXH" */
#define HOST_ATTENTION_SIGNAL SIGURG      /* ignored by default: harmless before the handler stands */
#define HOST_ATTENTION_TIME   1           /* its value: the time of the call that runs is over; without it, who sent it wants all calls to end */
#define HOST_BEAT_SIGNAL      (SIGRTMAX - 1) /* of the host's own timer */

enum host_message_type {
	/* ---- control -> host ---- */
	HOST_BEGIN = 1, /* {"profile","limits":{...}}, value[0] = heartbeat_ms, 0: none: confine yourself -> REPORT. HOST_F_STATE: fd = planted faults (proto/fault.h) */
	HOST_START,     /* number = serial; {"path","config":any,"backwards":bool,"patch":object}; HOST_F_STATE: fd = sealed state to restore
	                   instead of `init` -> READY | FAILED, then exit 1. The last two as in LOAD */
	HOST_CALL,      /* number = call; body: one byte n, n bytes of function name, then the arguments (a JSON object) -> REPLY, in the order sent */
	HOST_ACK,       /* sequence = replies up to it are acknowledged; every message to the host carries it too */
	HOST_QUERY,     /* a new control asks -> STATUS, then every unacknowledged REPLY again */
	HOST_REHEARSE,  /* number = serial of the candidate; {"path","timeout_ms","backwards":bool,"patch":object}: a forked copy loads it,
	                   restores a save of the present state (HOST_F_STATE: the sealed one in fd), migrates, checks, saves again -> REHEARSED. Calls go on meanwhile */
	HOST_QUIESCE,   /* number = serial; after the calls sent before it -> QUIESCED; from here no CALL until COMMIT or ABORT */
	HOST_SAVE,      /* number = serial; fd = writable memfd, value[0] = its size: the state is saved into it -> SAVED. May follow QUIESCE at once.
	                   Declared state is read by the host itself, behind a guard; what module code writes, or reading that faults, by a forked copy */
	HOST_LOAD,      /* number = serial; {"path","backwards":bool,"patch":object}; fd = sealed state: load beside the old, restore, migrate, check -> LOADED.
	                   patch, if it is there: fields that are restored instead of the state's own */
	HOST_COMMIT,    /* number = serial: the candidate is current -> COMMITTED; then old unmake, dlclose -> UNLOADED */
	HOST_ABORT,     /* forget the candidate, kill a rehearsal, serve on with the old -> ABORTED */
	HOST_STOP,      /* `stop` hook, `unmake` -> STOPPED, exit 0. value[0] = 1: another process goes on with its state, so `stop` isn't called */
	HOST_PING,      /* number of the ping -> ALIVE, from the loop: it doesn't wait behind calls that wait */
	HOST_PREPARE,   /* number = serial; fd = the memfd that SAVE will bring, value[0] = bytes expected: its memory and the candidate's are
	                   made ready, piece by piece between calls -> PREPARED. A wish: what can't be had is left */
	HOST_SHOW,      /* number of the question, value[0] = enum show_what; HOST_F_STATE: fd = a sealed state, else the present one: a forked copy
	                   shows it -> SHOWN. Calls go on meanwhile */
	HOST_STAGE,     /* number = serial; {"path"}: before START, which finds it loaded -> STAGED | FAILED, then exit 1 */
	HOST_MIRROR,    /* once, before START: fd = a mirror (proto/mirror.h): from START on the state is saved into it before each REPLY, READY and COMMITTED */
	HOST_TO_HOST__N,

	/* ---- host -> control ---- */
	HOST_REPORT = 64, /* [{"protection","asked","got","by","why"}]; sent before the first dlopen, once; later ones are ignored */
	HOST_READY,       /* {"module":{...module_desc_json}, "load_us", and "init_us", or from a state "restore_us","check_us","report"} */
	HOST_FAILED,      /* error body; the host exits with 1 after it */
	HOST_REPLY,       /* number = call, sequence = its place; status 0: body = the result (JSON), 1: error body */
	HOST_STATUS,      /* value[0] = serial running, value[1] = enum host_phase, number = serial of the candidate or 0,
	                     sequence = number of the last CALL that came or 0 */
	HOST_REHEARSED,   /* number = serial; status 0: {"state_bytes","report","load_us","restore_us","check_us","save_us","module"}; 1: error body */
	HOST_QUIESCED,    /* number = serial */
	HOST_SAVED,       /* number = serial; value[0] = bytes used, or needed when status says it was too small; value[1] = 1: timers are armed; status 0 | 1: error body */
	HOST_LOADED,      /* number = serial; as REHEARSED without state_bytes and save_us; 1: error body, the old code is untouched */
	HOST_COMMITTED,   /* number = serial running now */
	HOST_UNLOADED,    /* number = serial unloaded; {"pinned": cause or null} */
	HOST_ABORTED,
	HOST_STOPPED,
	HOST_DEATH,       /* body: struct host_death; written by the fault handler, then the host dies */
	HOST_CAST_ENDED,  /* number = a cast that was answered; status 0, or 1: error body, its step is the function. Not kept, not repeated */
	HOST_ALIVE,       /* number = the ping that it answers; 0: by itself, since the function that runs counts its beat up */
	HOST_PREPARED,    /* number = serial */
	HOST_SHOWN,       /* number of the question; status 0: {"state_version","state_bytes","state","timers","own"}, {"state_version","state","structs"},
	                     or {"state_bytes","same","report"}; 1: error body */
	HOST_STAGED,      /* number = serial; {"module","load_us"} */
	HOST_TO_CONTROL__N
};

enum show_what { SHOW_STATE, SHOW_SCHEMA, SHOW_CHECK, SHOW__N };

enum host_phase { HOST_PHASE_EMPTY, HOST_PHASE_SERVING, HOST_PHASE_QUIESCED, HOST_PHASE_LOADED };

#define HOST_F_BODY_FD 0x1u /* the last descriptor is the body */
#define HOST_F_STATE   0x2u /* the first descriptor is a state */
#define HOST_F_CAST    0x4u /* CALL: REPLY is an empty object, when the function begins; then CAST_ENDED. What is refused before is only a REPLY */

struct host_message {
	uint32_t magic;
	uint16_t type, flags;
	uint64_t generation;
	uint64_t number;
	uint64_t sequence;
	int64_t value[2];
	uint32_t status;
	uint32_t body_bytes;
};

#define HOST_INLINE_BYTES (LIMIT_MESSAGE_BYTES - (uint32_t)sizeof(struct host_message))

/* The death note: untrusted text beside the kernel's wait status. No malloc is needed to fill it. */
struct host_death {
	int32_t signal;
	int32_t code;             /* si_code */
	uint64_t address;         /* si_addr of a fault */
	uint64_t pc_offset;       /* of the faulting instruction inside `object` */
	char function[LIMIT_FUNCTION_BYTES + 1]; /* the module function or hook that ran; "" */
	char object[LIMIT_ID_BYTES + 1];         /* base name of the object that the instruction is in; "" unknown */
	char symbol[LIMIT_FUNCTION_BYTES + 1];   /* nearest dynamic symbol; "" unknown */
	uint64_t symbol_offset;
	char text[96];            /* "memory limit of 128 MiB reached" and the like; "" */
};

#endif
