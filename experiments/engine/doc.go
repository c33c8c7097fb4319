// Package engine holds what is particular to an inference engine: how its
// command line is built, how its start looks in the log, how to make it
// generate, and how to read back what it really runs with.
//
// What differs between engines and their releases is data: tables of markers,
// names and rules. What to do with it is package server's (starting, waiting,
// stopping) and package experiments' (which flags a cell has).
//
//	e, err := engine.Lookup("sglang")
//	argv, err := e.Argv(engine.Server{Python: "~/env/bin/python3", Port: 30000, Flags: flags})
//
// A flag's text is never interpreted: "0.90" and "08" reach the server as they
// stand in the spec.
package engine
