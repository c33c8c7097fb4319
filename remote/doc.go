// Package remote runs scripts and moves files on one host.
//
// A [Host] is either the far end of one SSH connection ([Dial]) or this machine
// ([Local]); the same POSIX scripts run on both through the same two constant
// exec lines, so nothing above this package knows which one it has.
//
// A script is text, never a command line: it travels on the standard input of
// /bin/sh, so the user's login shell sees nothing it could interpret. Its
// output is framed by a random marker, so what rc files print is never taken
// for a result. A script ends in one of three ways, and callers must tell them
// apart: [Done] (it said so, with its exit status), [Unknown] (it was started
// and its end was not seen: ask the host before repeating it), [NotStarted].
//
// Cancelling a context ends the script's processes on the host and checks that
// they are gone; closing a channel proves nothing. Host keys are always
// verified. Nothing here retries a script: only the dial is tried again, and
// only when the server hung up before its banner.
//
//	h, err := remote.Dial(ctx, remote.Config{Name: "gpu-01", Address: "10.0.0.7", User: "me"})
//	res, err := h.Run(ctx, remote.Script{Name: "uname", Text: "main() { uname -sr; }"})
//
// What this package leaves to others: what the scripts do, where names of hosts
// come from (package configs), and what to do about an unknown outcome.
package remote
