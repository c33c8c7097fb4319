package main

import (
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"

	"specrun/deploy/server"
	"specrun/experiments/origin"
	"specrun/remote"
)

// fromProcess reads what a process of the host was started with; pid may be any
// process of the server. name is what the host is called.
func (a *app) fromProcess(ctx context.Context, h server.Host, name string, pid int) (origin.Command, int, error) {
	p, note, err := launcherOf(ctx, h, pid)
	if err != nil {
		return origin.Command{}, 0, err
	}
	if p.Container != "" {
		return origin.Command{}, 0, usagef(fmt.Sprintf("specrun init --from-container %.12s --host %s reads it there", p.Container, name),
			"%s: process %d is in the container %.12s, so its paths are not the host's", name, p.Identity.PID, p.Container)
	}
	session, err := server.SessionEnv(ctx, h)
	if err != nil {
		return origin.Command{}, 0, err
	}
	c := commandOf(p, session)
	c.From = fmt.Sprintf("process %d of user %s on %s", p.Identity.PID, p.User, name)
	if note != "" {
		c.Notes = append([]string{note}, c.Notes...)
	}
	return c, p.Identity.PID, nil
}

// commandOf is a process as what starts a server.
func commandOf(p server.Process, session map[string]string) origin.Command {
	c := origin.Command{Argv: p.Argv, Cwd: p.Cwd, Program: p.Program, Log: p.Log, Devices: p.Devices,
		Env: origin.Keep(p.Environ, session, firstText(p.Program, p.Exe))}
	c.Port = portOf(p)
	note := func(format string, args ...any) { c.Notes = append(c.Notes, fmt.Sprintf(format, args...)) }
	switch {
	case p.EnvironHidden:
		note("its environment cannot be read, since it is user %s's: server.env is empty; run init as that user or as root", p.User)
	case p.Environ["SPECRUN_RUN_ID"] != "":
		note("specrun started it itself, as launch %s", p.Environ["SPECRUN_RUN_ID"])
	}
	if p.Cwd == "" {
		note("its folder cannot be read: set server.cwd if a path is relative")
	}
	switch {
	case p.Log == "" && p.EnvironHidden:
		note("where its output goes cannot be read: specrun import takes its log by path")
	case p.Log == "":
		note("its output goes into no file, so there is no log of it to import")
	case p.LogGone:
		note("its log %s was deleted or replaced while it runs", p.Log)
	default:
		note("its log is %s: specrun import reads what is in it", p.Log)
	}
	if p.Unit != "" {
		note("it is in the systemd service %s: if that starts it, write launch: systemd and unit: %s", p.Unit, p.Unit)
	}
	if p.CPUs != "" {
		note("it may run on CPUs %s only: if numactl or taskset did that, write it as server.prefix", p.CPUs)
	}
	return c
}

func firstText(texts ...string) string {
	for _, t := range texts {
		if t != "" {
			return t
		}
	}
	return ""
}

// portOf is the port on which a server process answers, as far as its sockets
// tell: the lowest of its own.
func portOf(p server.Process) int {
	for _, usual := range []int{30000, 8000} {
		if slices.Contains(p.Listens, usual) {
			return usual
		}
	}
	if len(p.Listens) == 0 {
		return 0
	}
	return p.Listens[0]
}

// shells start a server and add nothing to it.
var shells = []string{"sh", "bash", "dash", "zsh", "ash", "busybox", "tini", "docker-init", "catatonit", "sshd", "tmux", "screen"}

// mostDescendants bounds how many processes below one are looked at.
const mostDescendants = 40

// launcherOf finds the process that starts the server which pid belongs to: pid
// itself, one above it, or, below a shell or a profiler, one under it. note says
// so when it is another one.
func launcherOf(ctx context.Context, h server.Host, pid int) (p server.Process, note string, err error) {
	given, err := server.Describe(ctx, h, pid)
	if err != nil {
		return given, "", err
	}
	if len(given.Argv) == 0 {
		return given, "", usagef("specrun server status --host "+h.Name()+" lists what serves there", "%s: process %d has no command line: it belongs to the kernel", h.Name(), pid)
	}
	p = given
	for _, above := range given.Ancestors {
		// A child that was forked has its parent's command line.
		if origin.Engine(p.Argv) != "" && above != p.Ancestors[0] {
			break
		}
		q, err := server.Describe(ctx, h, above)
		var gone *server.GoneError
		if errors.As(err, &gone) {
			break
		}
		if err != nil {
			return p, "", err
		}
		engine := origin.Engine(q.Argv)
		if origin.Engine(p.Argv) != "" && !slices.Equal(q.Argv, p.Argv) {
			break
		}
		if engine != "" {
			p = q
		}
	}
	if origin.Engine(p.Argv) != "" {
		if p.Identity.PID != pid {
			note = fmt.Sprintf("process %d (%s) is a child of the server: process %d started it", pid, title(given), p.Identity.PID)
		}
		return p, note, nil
	}
	below := slices.Clone(given.Children)
	var servers []server.Process
	for n := 0; n < len(below) && n < mostDescendants; n++ {
		q, err := server.Describe(ctx, h, below[n])
		var gone *server.GoneError
		if errors.As(err, &gone) {
			continue
		}
		if err != nil {
			return p, "", err
		}
		if origin.Engine(q.Argv) == "" {
			below = append(below, q.Children...)
			continue
		}
		servers = append(servers, q)
	}
	switch len(servers) {
	case 0:
		return given, "", nil
	case 1:
		q := servers[0]
		note = fmt.Sprintf("process %d (%s) only started the server, which is process %d", pid, title(given), q.Identity.PID)
		if !slices.Contains(shells, title(given)) {
			note += ": if it adds something, as a profiler does, write it as server.prefix"
		}
		return q, note, nil
	}
	var pids []string
	for _, q := range servers {
		pids = append(pids, strconv.Itoa(q.Identity.PID))
	}
	return given, "", usagef("give one of them to --from-pid", "%s: below process %d (%s) %d servers run: processes %s", h.Name(), pid, title(given), len(servers), strings.Join(pids, ", "))
}

// title is what a process calls itself, short.
func title(p server.Process) string {
	if strings.Contains(p.Argv[0], "::") {
		return p.Argv[0]
	}
	return path.Base(p.Argv[0])
}

// fromContainer reads the server in a container, or what its first process runs.
func (a *app) fromContainer(ctx context.Context, h *connection, name string) (origin.Command, error) {
	inside, c, err := enter(ctx, h.Host, name)
	if err != nil {
		return origin.Command{}, err
	}
	seen, err := server.Find(ctx, inside, "sglang", "vllm")
	if err != nil {
		return origin.Command{}, errors.Join(err, inside.Close())
	}
	pid := 1
	var servers []server.Seen
	for _, s := range seen {
		child := slices.ContainsFunc(seen, func(o server.Seen) bool { return o.PID == s.Parent && origin.Engine(o.Argv) != "" })
		if origin.Engine(s.Argv) != "" && !child {
			servers = append(servers, s)
		}
	}
	if len(servers) > 1 {
		var pids []string
		for _, s := range servers {
			pids = append(pids, fmt.Sprint(s.PID))
		}
		return origin.Command{}, errors.Join(usagef("make the container a host of its own (container: in hosts.yaml) and give --from-pid",
			"%s: %d servers run in the container %s: processes %s", h.Name(), len(servers), name, strings.Join(pids, ", ")), inside.Close())
	}
	if len(servers) == 1 {
		pid = servers[0].PID
	}
	command, _, err := a.fromProcess(ctx, inside, h.Name(), pid)
	if err = errors.Join(err, inside.Close()); err != nil {
		return command, unwrapOne(err)
	}
	command.Container, command.Runtime = c.Name, c.Engine
	command.From = fmt.Sprintf("process %d in the container %s on %s", pid, c.Name, h.Name())
	return command, nil
}

// enter goes into a container; without an engine named podman is tried where
// there is no docker.
func enter(ctx context.Context, h *remote.Host, name string) (*remote.Host, remote.Container, error) {
	c, err := remote.ParseContainer(name)
	if err != nil {
		return nil, c, usagef("--from-container NAME, docker:NAME or podman:NAME", "%v", err)
	}
	inside, err := h.Container(ctx, c)
	var missing *remote.ContainerError
	if errors.As(err, &missing) && !strings.Contains(name, ":") && missing.Reason != remote.ContainerStopped {
		podman := remote.Container{Engine: "podman", Name: c.Name}
		if other, second := h.Container(ctx, podman); second == nil {
			return other, podman, nil
		}
	}
	return inside, c, err
}
