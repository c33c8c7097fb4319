package experiments

import (
	"fmt"
	"strings"

	"specrun/remote"
)

// How a server process comes to be.
const (
	LaunchProcess = "process" // started detached by specrun itself
	LaunchDocker  = "docker"  // in a container, by docker
	LaunchPodman  = "podman"  // in a container, by podman
	LaunchSystemd = "systemd" // a unit that there is, with a drop-in of ours
	LaunchCommand = "command" // by the user's own commands
)

// ContainerSpec is where a server of launch docker or podman lives: in a
// container that runs already, or in one that is started for each launch.
type ContainerSpec struct {
	Name  string  // one that runs; else
	Image string  // one is made of this for each launch,
	Args  []Entry // with these words between "run" and the image
}

// UnitSpec names a systemd unit.
type UnitSpec struct {
	Name string // sglang.service
	User bool   // of the user's own manager
}

// CommandsSpec are the user's own start, stop and status: programs with their
// arguments, no shell. They see the launch in their environment, see package
// server.
type CommandsSpec struct {
	Start  []Entry
	Stop   []Entry
	Status []Entry
}

// AttachSpec is a server that somebody else runs, measured without a start, a
// stop or a patch.
type AttachSpec struct {
	URL string // as seen from the host
	PID int    // of the server process; 0 is found by the port
	Log string // path on the host; "" is found through the process
}

// LaunchConfig is how a cell's server comes to be, with values computed; the
// zero value is a process of our own.
type LaunchConfig struct {
	Via       string   `json:"via,omitempty"` // "" = process
	Container string   `json:"container,omitempty"`
	Image     string   `json:"image,omitempty"`
	RunArgs   []string `json:"run_args,omitempty"`
	Unit      string   `json:"unit,omitempty"`
	UserUnit  bool     `json:"user_unit,omitempty"`
	Start     []string `json:"start,omitempty"`
	Stop      []string `json:"stop,omitempty"`
	Status    []string `json:"status,omitempty"`
}

// AttachConfig is a server of somebody else.
type AttachConfig struct {
	URL string `json:"url"`
	PID int    `json:"pid,omitempty"`
	Log string `json:"log,omitempty"`
}

// ReadyConfig tells an engine command how its server says that it serves.
type ReadyConfig struct {
	Marker string `json:"marker,omitempty"` // regular expression over log lines
	URL    string `json:"url,omitempty"`    // path, such as /health, that answers 200
}

// check refuses what a launcher cannot do with the rest of a server.
func (c LaunchConfig) check(file string, cfg *ServerConfig) error {
	fail := func(field, advice, format string, args ...any) error {
		return &SpecError{File: file, Field: "server." + field, Msg: fmt.Sprintf(format, args...), Advice: advice}
	}
	inContainer := c.Via == LaunchDocker || c.Via == LaunchPodman
	switch {
	case c.Via == LaunchSystemd && cfg.LoginEnv:
		return fail("login_env", "take it out: Environment= of the unit, env and env_file are what it begins with", "does not go with launch: systemd")
	case c.Via == LaunchSystemd && !strings.HasSuffix(c.Unit, ".service"):
		return fail("unit", "unit: sglang.service", "%q is no service unit", c.Unit)
	case c.Via == LaunchCommand && len(c.Start) == 0:
		return fail("commands.start", "for example start: [srun, --exclusive, \"${argv}\"]", "is missing")
	case inContainer && c.Container != "":
		if _, err := remote.ParseContainer(c.Via + ":" + c.Container); err != nil {
			return fail("container", "container: NAME, as docker ps shows it", "%v", err)
		}
	}
	return nil
}
