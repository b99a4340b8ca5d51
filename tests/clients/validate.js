// SPDX-License-Identifier: MIT
// node validate.js DISCOVER.json RECORD [brief]: every conversation below RECORD (folders with `sent` and `got`) against the daemon's own description.
// A request that was answered with a result must match its method's parameters, the result its schema, every error the shape of errors; messages
// without an id are notifications of the daemon. Prints counts; exit 1 when something doesn't match, or a method or notification was never seen.
"use strict";
const fs = require("fs");
const path = require("path");
const Ajv = require("ajv");

const document = JSON.parse(fs.readFileSync(process.argv[2], "utf8"));
const ajv = new Ajv({ strict: false, allErrors: false });
const problems = new Map();
const counts = { conversations: 0, requests: 0, results: 0, errors: 0, notifications: 0, unanswered: 0, unreadable: 0, refused_by_daemon_only: 0 };
const seen = new Map(); // method: replies with a valid result, errors
const notified = new Map();

function problem(what, detail, example) {
	const key = what + ": " + detail;
	const p = problems.get(key) || { n: 0, example: JSON.stringify(example).slice(0, 300) };
	p.n++;
	problems.set(key, p);
}

// ---- the document itself ----

function shape(good, what) {
	if (!good)
		problem("the document", what, null);
}

function checkDocument() {
	shape(/^1\.3\.\d+$/.test(document.openrpc), "openrpc is not 1.3.x");
	shape(document.info && document.info.title && document.info.version, "info needs title and version");
	shape(new Set(document.methods.map(m => m.name)).size === document.methods.length, "method names differ");
	for (const m of document.methods) {
		shape(typeof m.name === "string" && Array.isArray(m.params) && m.result && m.result.schema, m.name + ": name, params, result");
		shape(m.paramStructure === "by-name", m.name + ": by name");
		shape(new Set(m.params.map(p => p.name)).size === m.params.length, m.name + ": parameter names differ");
		for (const p of m.params)
			shape(typeof p.name === "string" && p.schema && typeof p.required === "boolean", m.name + "." + p.name);
		const codes = (m.errors || []).map(e => {
			const found = e.$ref && document.components.errors[e.$ref.split("/").pop()];
			shape(found && Number.isInteger(found.code) && typeof found.message === "string", m.name + ": " + e.$ref);
			return found && found.code;
		});
		shape(new Set(codes).size === codes.length, m.name + ": error codes differ");
	}
}

const inDocument = schema => JSON.parse(JSON.stringify(schema).replaceAll("#/components/schemas/", "components#/$defs/"));
ajv.addSchema({ $id: "components", $defs: inDocument(document.components.schemas) });
const methods = new Map(document.methods.map(m => [m.name, {
	params: ajv.compile({
		type: "object", additionalProperties: false, required: m.params.filter(p => p.required).map(p => p.name),
		properties: Object.fromEntries(m.params.map(p => [p.name, inDocument(p.schema)])),
	}),
	result: ajv.compile(inDocument(m.result.schema)),
	schema: m.result.schema,
}]));
const notifications = new Map(document["x-notifications"].map(n => [n.name, ajv.compile(inDocument(n.params))]));
const errorShape = ajv.compile({ $ref: "components#/$defs/error" });
const errorCodes = new Map(Object.entries(document.components.errors).map(([name, e]) => [name, e.code]));

function checkCompiles() {
	// The check must be able to fail.
	const ping = methods.get("daemon.ping"), call = methods.get("sandbox.call");
	shape(ping.result({ pong: true, version: "1" }) && !ping.result({ pong: 1, version: "1" }) && !ping.result({ pong: true }), "the schema of ping");
	shape(call.params({ id: "a", function: "f" }) && !call.params({ id: "a" }) && !call.params({ id: "a", function: "f", x: 1 }) &&
		!call.params({ id: "../a", function: "f" }), "the schema of call");
	shape(!errorShape({ code: -1 }), "the schema of errors");
}

// ---- one conversation ----

function parsed(file) {
	let text;
	try {
		text = fs.readFileSync(file, "utf8");
	} catch (e) {
		return [];
	}
	return text.split("\n").slice(0, -1).flatMap(line => {
		try {
			const v = JSON.parse(line);
			return Array.isArray(v) ? v : [v];
		} catch (e) {
			counts.unreadable += line.trim() ? 1 : 0;
			return [];
		}
	});
}

// The daemon's objects are open for members to come, but what it sends today is described. Not here: what an error and an event carry, by kind.
function undescribed(schema, value, at) {
	if (schema.$ref)
		return schema.$ref.endsWith("/event") || schema.$ref.endsWith("/error") ? [] :
			undescribed(document.components.schemas[schema.$ref.split("/").pop()], value, at);
	if (schema.anyOf)
		return value === null ? [] : undescribed(schema.anyOf[1], value, at);
	if (Array.isArray(value) && schema.items)
		return value.flatMap(v => undescribed(schema.items, v, at + "[]"));
	if (value === null || typeof value !== "object" || !schema.properties)
		return [];
	return Object.entries(value).flatMap(([k, v]) => k in schema.properties ? undescribed(schema.properties[k], v, at + "." + k) : [at + "." + k]);
}

function checkReply(reply, request) {
	if (reply.jsonrpc !== "2.0" || ("result" in reply) === ("error" in reply))
		problem("a reply", "jsonrpc, and either result or error", reply);
	if (reply.error) {
		counts.errors++;
		if (!errorShape(reply.error))
			problem("an error", ajv.errorsText(errorShape.errors), reply);
		if (errorCodes.get(reply.error.data && reply.error.data.code) !== reply.error.code)
			problem("an error", "not one of the document", reply);
	}
	const m = request && methods.get(request.method);
	if (!m)
		return;
	const params = request.params === undefined ? {} : request.params;
	const fits = m.params(params);
	const row = seen.get(request.method) || { results: 0, errors: 0 };
	seen.set(request.method, row);
	if (reply.error) {
		counts.refused_by_daemon_only += fits && reply.error.code === -32602;
		row.errors++;
		return;
	}
	counts.results++;
	if (!fits)
		problem(request.method, "accepted, but its parameters don't match: " + ajv.errorsText(m.params.errors), request);
	if (!m.result(reply.result))
		problem(request.method, "its result doesn't match: " + ajv.errorsText(m.result.errors), reply);
	else
		row.results++;
	for (const member of new Set(undescribed(m.schema, reply.result, "")))
		problem(request.method, "a member of its result is not described: " + member, reply);
}

function checkNotification(n) {
	const check = notifications.get(n.method);
	if (n.jsonrpc !== "2.0" || "result" in n || "error" in n)
		problem("a notification", "jsonrpc, method, params", n);
	if (!check)
		problem("a notification", "not one of the document", n);
	else if (!check(n.params))
		problem(n.method, "this notification doesn't match: " + ajv.errorsText(check.errors), n);
	else
		notified.set(n.method, (notified.get(n.method) || 0) + 1);
}

function conversation(folder) {
	const requests = new Map();
	counts.conversations++;
	for (const r of parsed(path.join(folder, "sent"))) {
		if (!r || typeof r !== "object" || (typeof r.id === "object" && r.id !== null))
			continue; // no request: an id is a string, a number or null
		counts.requests++;
		const id = JSON.stringify(r.id);
		if (r.id !== undefined)
			requests.set(id, requests.has(id) ? null : r); // an id used twice: its replies can't be told apart
	}
	for (const reply of parsed(path.join(folder, "got"))) {
		if (reply && reply.method !== undefined && !("id" in reply)) {
			counts.notifications++;
			checkNotification(reply);
			continue;
		}
		const id = JSON.stringify(reply.id);
		checkReply(reply, requests.get(id));
		requests.delete(id);
	}
	counts.unanswered += requests.size;
}

checkDocument();
checkCompiles();
for (const name of fs.readdirSync(process.argv[3]))
	if (fs.statSync(path.join(process.argv[3], name)).isDirectory())
		conversation(path.join(process.argv[3], name));
console.log("     " + Object.entries(counts).map(([k, v]) => v + " " + k.replaceAll("_", " ")).join(", "));
const show = process.argv[4] === "brief" ? () => {} : console.log;
show("     " + "method".padEnd(22) + "valid results".padStart(14) + "errors".padStart(8));
for (const name of [...methods.keys()].sort()) {
	const row = seen.get(name) || { results: 0, errors: 0 };
	show("     " + name.padEnd(22) + String(row.results).padStart(14) + String(row.errors).padStart(8));
	if (row.results === 0)
		problem(name, "never seen with a valid result", null);
}
for (const name of notifications.keys()) {
	show("     " + name.padEnd(22) + String(notified.get(name) || 0).padStart(14) + "  (notification)");
	if (!notified.get(name))
		problem(name, "this notification was never seen", null);
}
for (const [what, p] of problems)
	console.log("FAIL " + what + " (" + p.n + " times), for example " + p.example);
process.exit(problems.size > 0 || counts.results < 1000 ? 1 : 0);
