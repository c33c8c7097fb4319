package experiments

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
)

// cellKey is the identity of a cell over sweeps: SHA-256 of its canonical argv,
// environment (of secrets the names only), patch contents, benchmark and engine
// version. The host and the port are not part of it.
func cellKey(c Cell, engineVersion string) (string, error) {
	c.Bench.Quotable = false // what comes after a sweep is not part of its load
	hashes := make([]string, len(c.Server.Patches))
	for i, p := range c.Server.Patches {
		hashes[i] = p.SHA256
	}
	text, err := plainJSON(struct {
		Argv     []string          `json:"argv"`
		Prefix   []string          `json:"prefix"`
		Python   string            `json:"python"`
		HostEnv  map[string]string `json:"host_env"`
		Env      map[string]string `json:"env"`
		Secrets  []string          `json:"secrets"`
		EnvFile  string            `json:"env_file"`
		LoginEnv bool              `json:"login_env"`
		GPUs     []int             `json:"gpus"`
		Patches  []string          `json:"patches"`
		Bench    BenchPlan         `json:"bench"`
		Engine   string            `json:"engine_version"`
		Launch   LaunchConfig      `json:"launch,omitzero"`
		Attach   *AttachConfig     `json:"attach,omitempty"`
		Command  []string          `json:"command,omitempty"`
	}{c.argv, c.Server.Prefix, c.Server.Python, withoutVars(c.Server.HostEnv, c.unused), withoutVars(c.Server.Env, c.unused), sortedKeys(c.Server.Secrets), c.Server.EnvFile,
		c.Server.LoginEnv, c.Server.GPUs, hashes, c.Bench, engineVersion, c.Server.Launch, c.Server.Attach, c.Server.Command})
	if err != nil {
		return "", fmt.Errorf("cell key: %w", err)
	}
	return digest(text), nil
}

// serverKey is equal for cells that one launch can measure.
func serverKey(c Cell) (string, error) {
	c.Bench = BenchPlan{}
	return cellKey(c, "")
}

func digest(b []byte) string {
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}
