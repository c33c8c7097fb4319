// Package detach lets a sweep go on on its host without the machine that began
// it: a process of its own there has the job, and everybody else only looks.
//
// A sweep that went on by itself has a folder STATE/detached/ID on the host:
//
//	job.json      what the process does, with the patches it may need
//	results.db    its results, which it is the only writer of; artifacts/ beside
//	events.jsonl  what happened, one Event a line, only ever appended to
//	now.json      what is going on now
//	identity      boot id, pid and start ticks of the process
//	end.json      how it ended; absent while it runs, and after a kill
//	end.reserve   room for it, while it runs
//	specrun.log   what the process said
//
// Two sides use the package. Here: Start, Look, Follow, Stop, Fetch and Remove
// work through a connection, change nothing but what they say, and may be
// repeated and used by several people at once. On the host: Serve is the frame
// around the process's work, Pack makes what Fetch brings. Executing, and what
// the results mean, is left to the caller: package experiments executes, and
// store merges what was fetched.
//
// Secrets are no part of a job. Their values travel once, on the standard input
// of the process, and stay in its memory.
package detach
