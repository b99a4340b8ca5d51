/* SPDX-License-Identifier: MIT
 *
 * The daemon's own log: one line per event on stderr, with sd-daemon's <N> prefixes when stderr is the journal
 * ($JOURNAL_STREAM), else with time and program. Only the edges log; library code returns errors. */
#ifndef SANDBOXD_LOG_H
#define SANDBOXD_LOG_H

enum log_level { LOG_LEVEL_ERROR = 3, LOG_LEVEL_WARNING = 4, LOG_LEVEL_INFO = 6, LOG_LEVEL_DEBUG = 7 };

void log_init(const char *program, enum log_level most);
void log_line(enum log_level level, const char *format, ...) __attribute__((format(printf, 2, 3)));

#define log_error(...)   log_line(LOG_LEVEL_ERROR, __VA_ARGS__)
#define log_warning(...) log_line(LOG_LEVEL_WARNING, __VA_ARGS__)
#define log_info(...)    log_line(LOG_LEVEL_INFO, __VA_ARGS__)
#define log_debug(...)   log_line(LOG_LEVEL_DEBUG, __VA_ARGS__)

#endif
