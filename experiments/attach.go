package experiments

import (
	"fmt"
	"net/url"
	"strconv"
)

// checkAttach refuses what cannot be done to a server that somebody else runs.
func checkAttach(s *Spec, o Options, axes []boundAxis) error {
	if s.Server.Attach == nil {
		return nil
	}
	for _, a := range axes {
		for _, k := range a.keys {
			why := ""
			switch k.kind {
			case axisFlag:
				why = "it has the flags that it was started with"
			case axisEnv:
				why = "it has the environment that it was started with"
			case axisPatches:
				why = "it has loaded its files already, and is not patched"
			case axisPython:
				why = "it runs already"
			}
			if why != "" {
				return &ArgError{Arg: a.Arg, Msg: k.key + " cannot vary: server.attach measures a server that somebody else runs, and " + why,
					Advice: "vary bench.NAME keys, or let specrun start the server"}
			}
		}
	}
	fault := func(field, msg, advice string) error {
		return &SpecError{File: s.File, Field: field, Msg: msg, Advice: advice}
	}
	switch {
	case len(s.Patches) > 0:
		return fault("patches", "a server that somebody else runs is not patched", "leave patches out; a profiler that it has loaded is read from its log all the same")
	case s.Baseline != nil:
		return fault("baseline", "a server that somebody else runs has one set of flags, so no baseline", "leave baseline out, and compare with runs of a server without speculation")
	case s.After == AfterStop || s.After == AfterBest:
		return fault("after", "a server that somebody else runs is neither stopped nor started", "leave after out")
	}
	return nil
}

// attached makes rounds of a server that somebody else runs what they are:
// repeats on the very same process. What differs between launches cannot be seen
// without any.
func (e *Experiment) attached() {
	if e.Spec.Server.Attach == nil {
		return
	}
	e.Repeats, e.Rounds = e.Repeats*e.Rounds, 1
}

// attachNote is what a plan says of such a server.
func (e *Experiment) attachNote() string {
	at := e.Spec.Server.Attach
	what := at.URL
	if at.PID != 0 {
		what += ", process " + strconv.Itoa(at.PID)
	}
	return "server.attach: " + what + " is measured as it runs: no start, no stop, no patch; all " + count(e.Repeats, "repeat") +
		" are of the same process, so what differs between launches stays unknown"
}

// port is the one on which a server of somebody else listens on its host.
func (c AttachConfig) port() (int, error) {
	u, err := url.Parse(c.URL)
	if err != nil {
		return 0, fmt.Errorf("server.attach.url: %w", err)
	}
	if u.Port() != "" {
		return strconv.Atoi(u.Port())
	}
	if u.Scheme == "https" {
		return 443, nil
	}
	return 80, nil
}
