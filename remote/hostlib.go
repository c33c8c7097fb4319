package remote

import _ "embed"

//go:embed scripts/host.sh
var hostText string

// HostLib is shell that goes in front of a script's functions where it has to
// know the host, processes, or the home folder: host_identity, boot_identity,
// proc, alive, expand, nap; their comments say what they set. A host must have
// one identity in everything that is written on it, so nobody makes another.
func HostLib() string { return hostText }
