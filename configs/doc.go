// Package configs reads the user's own files about machines: hosts.yaml. It
// turns a name given with --host into everything that is known about reaching
// that machine and where things are on it, and changes nothing.
//
// A name is looked for in this order: a host of the file, a group of it (its
// members), "local" and "lab", user@address[:port], an alias of ssh_config. What
// is none of these is an error that says what was meant and where was looked.
//
//	hosts:
//	  kimi-8gpu:
//	    address: ubuntu@10.0.0.7
//	    python: ~/ml-env/bin/python3
//	groups:
//	  all: [kimi-8gpu]
//
// The file is decoded strictly: an unknown key is an error with its line and the
// nearest key. Paths of identity_file, known_hosts and spec are on this machine;
// the others are on the host.
package configs
