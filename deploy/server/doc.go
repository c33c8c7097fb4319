// Package server runs one server process on a target: start detached, wait
// until it serves, stop with proof.
//
// A launch is one start of the server, named by an id that is never used twice.
// Its folder on the host, <state>/runs/<id>, holds server.log, the identity of
// the process, its port and, once it has ended, its exit status. The host is
// the only truth: every function takes the launch id and asks, so a controller
// that was killed, or another one, goes on where the last one ended.
//
//   - [Start] starts at most one process per launch id, however often it is
//     called; a second call adopts the first one's process. A launch id that was
//     stopped never starts again.
//   - [Look] says absent, running or exited. A process is judged by its identity
//     (boot, pid, start ticks), a zombie is dead.
//   - [List] finds the launches whose server process lives.
//   - [WaitReady] follows the log and the process until the server has really
//     generated, and ends at once when it cannot get there any more.
//   - [Stop] ends everything that belongs to the launch, wherever it hid, and
//     returns the proof, or a [*SurvivorError].
//
// A process belongs to a launch when it is in the session that the launch made,
// has the launch's SPECRUN_RUN_ID in its environment, or descends from such a
// one. Nothing else is ever signalled. A process that left the session, dropped
// its environment and was orphaned escapes this; it shows as the holder of the
// port.
//
// Leases ([Acquire]) keep two controllers from using one port or GPU at the same
// time, or from wanting different patches in the same files; those who want the
// very same patch set share it, and the last one knows that it is ([LastHolder]).
// Leases expire by the host's clock, but not while their launch lives. Whoever has
// to wait has a place in a queue, which goes in order of arrival.
//
// A stop that cannot be proved marks the host ([Mark]): nothing starts there until
// it is.
//
// What to start, and what its log says, is package engine's; what a launch is
// for is package experiments'. The scripts run under dash, bash and busybox, one
// exec for each operation.
package server
