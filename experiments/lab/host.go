package lab

import (
	"fmt"
	"path/filepath"
)

// Host is how to reach a practice host and what is where on it: the values of a
// hosts entry. All paths are absolute.
type Host struct {
	Address      string            `json:"address"`
	Port         int               `json:"port"`
	User         string            `json:"user"`
	IdentityFile string            `json:"identity_file"`
	KnownHosts   string            `json:"known_hosts"`
	Python       string            `json:"python"` // the interpreter that runs servers
	Cwd          string            `json:"cwd"`
	StateDir     string            `json:"state_dir"`
	Env          map[string]string `json:"env"` // of servers, beside the session's own
}

// layout is where things are in a practice host's folder.
type layout string

func (l layout) path(name ...string) string {
	return filepath.Join(append([]string{string(l)}, name...)...)
}

func (l layout) lock() string     { return l.path("lock") }
func (l layout) running() string  { return l.path("running.json") }
func (l layout) settings() string { return l.path("settings.json") }
func (l layout) log() string      { return l.path("lab.log") }
func (l layout) ssh() string      { return l.path("ssh") }
func (l layout) home() string     { return l.path("home") }
func (l layout) state() string    { return l.path("state") }
func (l layout) venv() string     { return l.path("venv") }
func (l layout) bin() string      { return l.path("bin") }

// mark is the environment entry that all processes of this practice host have,
// and no others.
func (l layout) mark() string { return settingsEnv + "=" + l.settings() }

const settingsEnv = "SPECRUN_LAB_SETTINGS"

// NotRunningError says that no practice host runs in this folder.
type NotRunningError struct{ Dir string }

func (e *NotRunningError) Error() string {
	return fmt.Sprintf("practice host in %s: not running", e.Dir)
}
func (e *NotRunningError) Hint() string { return `start it with "specrun lab start"` }

// BusyError says that another process runs the practice host of this folder.
type BusyError struct{ Dir string }

func (e *BusyError) Error() string {
	return fmt.Sprintf("practice host in %s: already run by another process", e.Dir)
}
func (e *BusyError) Hint() string {
	return `see "specrun lab status"; "specrun lab stop" ends it`
}
