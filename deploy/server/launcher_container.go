package server

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"specrun/remote"
)

// Place is the container that a launch lives in, as the launch's folder on the
// container's host names it. That folder holds no log of its own: everything else
// is in the folder of the same launch inside.
type Place struct {
	remote.Container
	ID string // of the container
	// Own tells that the container was made for the launch, and goes with it.
	Own      bool
	StateDir string // inside; "" is the default there
}

// line is how it is kept.
func (p Place) line() string {
	own := "shared"
	if p.Own {
		own = "own"
	}
	return strings.TrimSuffix(fmt.Sprintf("%s %s %s %s %s", p.Engine, p.ID, own, p.Name, p.StateDir), " ")
}

func parsePlace(s string) (Place, error) {
	f := strings.SplitN(s, " ", 5)
	if len(f) < 4 {
		return Place{}, fmt.Errorf("container %q: want engine, id, own or shared, and name", s)
	}
	p := Place{Container: remote.Container{Engine: f[0], Name: f[3]}, ID: f[1], Own: f[2] == "own"}
	if len(f) == 5 {
		p.StateDir = f[4]
	}
	return p, nil
}

// placed finds in a stop's answer that the launch lives in a container.
func placed(out []byte) (*Place, error) {
	for _, f := range remote.Lines(out) {
		if f.Key == "container" {
			p, err := parsePlace(f.Value)
			return &p, err
		}
	}
	return nil, nil
}

// containers is a Host that can go into the containers on it; *remote.Host is one.
type containers interface {
	Container(ctx context.Context, c remote.Container) (*remote.Host, error)
}

// Enter goes to where a launch of h lives, and says with which state folder. The
// result is h itself when st.In is nil; otherwise close it. A *remote.ContainerError
// that is Gone says that the container, and all that ran in it, is no more.
func Enter(ctx context.Context, h Host, p Place) (*remote.Host, error) {
	c, ok := h.(containers)
	if !ok {
		return nil, fmt.Errorf("%s: enter container %s: not from here", h.Name(), p.Name)
	}
	// By id: another container of the name is not the one that it lives in.
	in, err := c.Container(ctx, remote.Container{Engine: p.Engine, Name: p.ID})
	var gone *remote.ContainerError
	if errors.As(err, &gone) {
		gone.Name = p.Name
	}
	return in, err
}

// NotePlace keeps on h that l lives in a container of it, before it is started (id
// zero) and afterwards: what lists, stops and judges launches by the folder on the
// host goes on from there. port is 0 when the container has a network of its own.
// *MarkedError before the start, with nothing kept: an earlier stop on h is not proved.
func NotePlace(ctx context.Context, h Host, stateDir string, l Launch, p Place, port int, id Identity) error {
	if err := checkID(l.ID); err != nil {
		return err
	}
	res, err := h.Run(ctx, script("place", placeText,
		remote.Var{Name: "STATE", Value: stateDir},
		remote.Var{Name: "ID", Value: l.ID},
		remote.Var{Name: "PORT", Value: strconv.Itoa(port)},
		remote.Var{Name: "ABOUT", Value: l.About},
		remote.Var{Name: "PLACE", Value: p.line()},
		remote.Var{Name: "PID", Value: strconv.Itoa(id.PID)},
		remote.Var{Name: "TICKS", Value: strconv.FormatUint(id.StartTicks, 10)}))
	if err != nil {
		return fmt.Errorf("keep where launch %s lives: %w", l.ID, err)
	}
	marks, err := parseMarks(h.Name(), remote.Lines(res.Stdout))
	if err == nil && len(marks) > 0 {
		return &MarkedError{Host: h.Name(), Marks: marks}
	}
	return err
}

// within looks at a launch in its container. When that is gone, so are its
// processes.
func (st State) within(ctx context.Context, h Host, port int, closely bool) (State, error) {
	in, err := Enter(ctx, h, *st.In)
	var gone *remote.ContainerError
	if errors.As(err, &gone) && gone.Gone() {
		if st.Phase == Running { // its process here is about to go, or was never seen
			st.Phase = Exited
		}
		return st, nil
	}
	if err != nil {
		return State{}, err
	}
	defer in.Close()
	inner, err := look(ctx, in, st.In.StateDir, st.Launch, port, closely)
	inner.In = st.In
	return inner, err
}

// stopWithin ends a launch in its container, and removes the container when it was
// made for the launch: with it goes what no stop in there ended. gone tells that the
// container was no more. What is left after all marks h too.
func stopWithin(ctx context.Context, h Host, stateDir, launch string, p Place, o StopOptions) (proof Proof, gone bool, err error) {
	in, err := Enter(ctx, h, p)
	var none *remote.ContainerError
	var left *SurvivorError
	switch {
	case errors.As(err, &none) && none.Gone():
		proof, gone = Proof{Launch: launch, ExitCode: -1}, true
	case err != nil:
		return Proof{}, false, err
	default:
		defer in.Close()
		if proof, err = Stop(ctx, in, p.StateDir, launch, o); err != nil && !errors.As(err, &left) {
			return proof, false, err
		}
	}
	if p.Own {
		_, removed := RemoveInstance(ctx, h, stateDir, p.Engine, launch)
		switch {
		case removed != nil:
			err = errors.Join(err, removed)
		case left != nil && len(left.GPU) == 0:
			// The engine removes no container in which a process lives.
			proof.Notes = append(proof.Notes, "went with the container: "+left.left())
			left, err = nil, nil
		}
	}
	if left != nil {
		err = errors.Join(err, markOf(ctx, h, stateDir, left))
	}
	return proof, gone, err
}

// Instance is a container that is made for one launch: it waits, and the server is
// started in it like in any other.
type Instance struct {
	Engine string // docker or podman
	Launch string
	Image  string
	Args   []string // between "run" and the image
}

// InstanceState is the state folder inside of the containers that are made for a
// launch: every user of an image may write there, and it goes with the container.
const InstanceState = "/tmp/specrun"

// pullLimit bounds a run whose image has to be fetched.
const pullLimit = time.Hour

// StartInstance makes the container of a launch, or finds the one that runs. It is
// named specrun-LAUNCH and labelled with the launch, so that it is found whatever
// happens to whoever began it. It blocks until the container runs, an hour at most.
func StartInstance(ctx context.Context, h Host, i Instance) (Place, error) {
	if err := checkID(i.Launch); err != nil {
		return Place{}, err
	}
	create, err := i.create()
	if err != nil {
		return Place{}, err
	}
	s := script("instance", instanceText+create, instanceVars("run", "", i.Engine, i.Launch)...)
	s.Timeout = pullLimit
	out, err := h.Run(ctx, s)
	if err != nil {
		return Place{}, fmt.Errorf("start a container of %s: %w", i.Image, err)
	}
	p, err := parseInstance(h.Name(), i.Engine, i.Launch, out.Stdout)
	switch {
	case err != nil:
		return Place{}, err
	case p == nil:
		return Place{}, fmt.Errorf("%s: the container of launch %s ended at once: %s needs /bin/sh", h.Name(), i.Launch, i.Image)
	}
	return *p, nil
}

// waiting is what the first process of an instance does. As a shell that waits it
// also takes leave of the processes that are left to it.
const waiting = "trap 'exit 0' TERM; while :; do sleep 3600 & wait $!; done"

func (i Instance) create() (string, error) {
	words := []string{"run", "-d", "--name", instanceName(i.Launch), "--label", "specrun.launch=" + i.Launch, "--entrypoint", "/bin/sh"}
	words = append(append(words, i.Args...), i.Image, "-c", waiting)
	var b strings.Builder
	b.WriteString(`create() { "$ENGINE"`)
	for _, w := range words {
		quoted, err := remote.Quote(w)
		if err != nil {
			return "", fmt.Errorf("container of launch %s: %w", i.Launch, err)
		}
		b.WriteString(" " + quoted)
	}
	b.WriteString("; }\n")
	return b.String(), nil
}

func instanceName(launch string) string { return "specrun-" + launch }

func instanceVars(mode, stateDir, engine, launch string) []remote.Var {
	return []remote.Var{{Name: "MODE", Value: mode}, {Name: "STATE", Value: stateDir}, {Name: "ENGINE", Value: engine}, {Name: "ID", Value: launch},
		{Name: "LOG", Value: InstanceState + "/runs/" + launch + "/server.log"}}
}

// FindInstance finds the running container of a launch by its label; nil when there
// is none that runs.
func FindInstance(ctx context.Context, h Host, engine, launch string) (*Place, error) {
	if err := checkID(launch); err != nil {
		return nil, err
	}
	out, err := h.Run(ctx, script("instance", instanceText, instanceVars("find", "", engine, launch)...))
	if err != nil {
		return nil, fmt.Errorf("look for the container of launch %s: %w", launch, err)
	}
	return parseInstance(h.Name(), engine, launch, out.Stdout)
}

func parseInstance(host, engine, launch string, out []byte) (*Place, error) {
	id, state := "", ""
	for _, f := range remote.Lines(out) {
		switch f.Key {
		case "id":
			id = f.Value
		case "state":
			state = f.Value
		}
	}
	if state != "running" {
		return nil, nil
	}
	if id == "" {
		return nil, fmt.Errorf("%s: look for the container of launch %s: unexpected answer %q", host, launch, out)
	}
	return &Place{Container: remote.Container{Engine: engine, Name: instanceName(launch)}, ID: id, Own: true, StateDir: InstanceState}, nil
}

// RemoveInstance removes the container of a launch, running or not, with all that
// is in it, and sees that there is none any more; its server's log is kept in the
// launch's folder on the host, whose path it returns. It may be repeated.
func RemoveInstance(ctx context.Context, h Host, stateDir, engine, launch string) (log string, err error) {
	if err := checkID(launch); err != nil {
		return "", err
	}
	out, err := h.Run(ctx, script("instance", instanceText, instanceVars("remove", stateDir, engine, launch)...))
	if err != nil {
		return "", fmt.Errorf("remove the container of launch %s: %w", launch, err)
	}
	for _, f := range remote.Lines(out.Stdout) {
		switch f.Key {
		case "left":
			return "", fmt.Errorf("%s: container %s of launch %s could not be removed: %s", h.Name(), f.Value, launch, strings.TrimSpace(string(out.Stderr)))
		case "log":
			log = f.Value
		}
	}
	return log, nil
}
