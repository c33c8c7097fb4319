// Package loopback is a small SSH server on 127.0.0.1, in this process, in
// front of real ones: each command runs through /bin/sh in a session of its
// own, with a given environment and working directory. Tests and the practice
// host use it; it is no server for a network, and it listens on nothing but
// loopback.
//
// It is as strict as OpenSSH where that matters to callers: a rename onto an
// existing file is refused (posix-rename replaces it), fsync is offered, a
// command goes on when its connection is lost, and forwards reach loopback
// addresses only. Package remotetest holds it to the same contract as a real
// sshd.
package loopback
