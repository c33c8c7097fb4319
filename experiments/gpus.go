package experiments

import (
	"fmt"
	"strings"
)

// visibleDevices is the variable by which CUDA is told which GPUs there are.
const visibleDevices = "CUDA_VISIBLE_DEVICES"

// ownsGPUs makes sure that nothing but server.gpus says which GPUs a server has:
// leases and the look at who uses them go by that. An empty value, no GPU at all, is
// for servers that run on the CPU, and parts of GPUs (MIG) have no number: such a
// server has all GPUs leased.
func (c ServerConfig) ownsGPUs(file string) error {
	fault := func(field, where string) error {
		return &SpecError{File: file, Field: field, Msg: fmt.Sprintf("%s is set %s, but server.gpus decides it: GPUs are leased and looked at by that", visibleDevices, where),
			Advice: "remove it, and write gpus: [0-3] under server:"}
	}
	if _, ok := c.Secrets[visibleDevices]; ok {
		return fault("server.env."+visibleDevices, "from the environment of specrun")
	}
	for _, e := range []struct {
		env          map[string]string
		field, where string
	}{{c.Env, "server.env." + visibleDevices, "in the spec or by a patch"}, {c.HostEnv, "server.gpus", "by env: of the host in hosts.yaml"}} {
		v, ok := e.env[visibleDevices]
		if ok && (v != "" && !strings.HasPrefix(v, "MIG-") || len(c.GPUs) > 0) {
			return fault(e.field, e.where)
		}
	}
	return nil
}
