// Package lab is the practice host behind "specrun demo" and "specrun lab": a real SSH server on the
// loopback interface in front of real processes, and a Python environment with a package laid out like
// SGLang's, whose server runs the cycle of speculative decoding on an emulated asynchronous device.
//
// Patches really apply to its files, a profiler really measures there, and a synchronize really costs.
// An nvidia-smi on its PATH shows the emulated cards, in the words of the real one.
//
// The numbers come from a model (Settings), so every result is simulated; what they are for is practice
// and the tests of everything that has a host in it. Settings also make a server mislead (Failure, drift,
// throttling, a prefix cache, neighbours): each is one way in which numbers of real hosts have lied.
//
// Start runs the practice host inside this process. Serve is the same as a process of its own, which
// StartDaemon launches detached, and Stop and Status find again by identity (pid and start time).
package lab
