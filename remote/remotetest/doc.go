// Package remotetest tests what calls itself a remote host.
//
// [Run] is the contract: one suite for this machine, for the in-process server
// of package loopback and for a real OpenSSH sshd ([StartSSHD]), so that the
// fakes cannot drift from the real thing. [StartProxy] puts a bad network in
// between: delay, cut at a byte, silence.
package remotetest
