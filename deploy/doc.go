// Package deploy puts patches on targets and takes them off again: facts ->
// plan -> apply -> verify -> rollback.
//
// ReadFacts reads what a target looks like through the target's own
// interpreter and writes nothing. NewPlan turns facts and a wish into a plan;
// it is pure, and a dry run ends there. Apply executes a plan as one
// transaction: either every file of it is changed or none, also when the
// connection, the script or this process dies at any point. Do is the three
// together, with an unfinished transaction of an earlier command finished
// first. Rollback is the same path with pristine content.
//
// What is on the host: a state folder with the ledger of each real file (what
// specrun changed), blobs (every content it replaced, every patch whole, by
// SHA-256), locks and transactions; and, beside each patched file, a claim that
// names the state folder, so that two users of one venv see one ledger. Only
// scripts of scripts/ change anything there; they take the lock of a folder and
// give it back themselves.
//
// Pristine are the bytes before specrun's first change. A verdict says what a
// file is now, compared with the ledger and with the release it came in.
//
// What a file should contain is the business of package patches; how to reach
// a host that of package remote. Durability: before the commit point all staged
// content and all blobs are fsynced; the renames themselves are ordered by the
// file system, and after a loss of power the hashes say which of them it kept.
package deploy
