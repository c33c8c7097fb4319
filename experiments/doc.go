// Package experiments turns an experiment file into measured runs:
// spec -> cells -> plan -> executor.
//
// LoadSpec reads the file strictly and ParseArgs reads the sweep grammar of the
// command line. Resolve joins the two into an Experiment: every combination of
// values that no rule drops, each with the server flags, environment, patches
// and benchmark it means. NewPlan puts the cells into launches. All of that is
// pure: no host is asked, nothing is changed, and the same input gives the same
// plan, byte for byte.
//
// Execute runs a plan. It knows one thing only, a PlannedLaunch: one start of
// the server and the runs measured within it. A launch is an ordered list of
// steps (lease, patch, start, ready, check, then warm, bench and collect for
// each run, then stop), and every step is looked at before it is done. What is
// about to happen is recorded before it happens, what happened right after, so
// Resume is the same loop over what is found open: Look decides, the journal
// only hints. A sweep that is killed at any moment and resumed has exactly one
// finished run for each slot and leaves nothing of its own behind.
//
// What is particular to an engine, how a benchmark loads a server, how a log is
// read and when a number can be trusted is left to the packages below this one;
// storing and printing to packages that this one has never heard of.
package experiments
