// Package record holds the plain values that flow from plan to run to store to
// report: sweeps, cells, launches, slots, runs, events and what was measured.
//
// It has no behaviour beyond naming and trivial accessors and imports only the
// standard library, so every other package may depend on it.
//
// A sweep is one execution of an experiment. A cell is one combination of
// parameter values in it. A launch is one start of the server; within a launch
// one or more runs are measured. A slot is the place that a run has to fill:
// (cell, round, repeat). A slot may need several attempts, each one a run; at
// most one run of a slot is done or failed at any time.
package record
