// Package configs reads hosts.yaml: the names of hosts and what is particular
// to each. It decides what a name on the command line means - an entry, the
// practice host, this machine, user@address, an ssh_config alias - and nothing
// about how to reach it.
package configs
