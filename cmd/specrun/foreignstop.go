package main

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"specrun/deploy/server"
	"specrun/experiments"
)

// processLine is a process that specrun did not start, in a JSON line.
type processLine struct {
	Host        string          `json:"host"`
	PID         int             `json:"pid"`
	User        string          `json:"user"`
	Command     []string        `json:"command"` // secrets hidden
	Cwd         string          `json:"cwd,omitempty"`
	Started     time.Time       `json:"started"`
	AgeS        int64           `json:"age_s"`
	Port        int             `json:"port"` // 0: it listens on none
	Log         string          `json:"log,omitempty"`
	GPUs        []gpuLine       `json:"gpus"`
	Members     []server.Member `json:"members"` // processes that end with it
	Peers       []server.Peer   `json:"peers"`
	Running     *int            `json:"running_requests"` // null: it does not tell
	Container   string          `json:"container,omitempty"`
	Unit        string          `json:"unit,omitempty"`
	Environment bool            `json:"environment"` // it could be read
}

type gpuLine struct {
	GPU string `json:"gpu"`
	PID int    `json:"pid"`
	MiB string `json:"mib"`
}

// stopProcess stops a process that specrun did not start, once it was shown and
// allowed. What it takes to start it again is kept before, unless told not to.
func (a *app) stopProcess(ctx context.Context, c *connection, f stopFlags) error {
	pid := f.pid
	p, err := server.Describe(ctx, c, pid)
	if err != nil {
		return err
	}
	ours, err := launchOf(ctx, c, p)
	if err != nil {
		return err
	}
	if ours != "" {
		a.note("%s: process %d is of launch %s, which specrun started: stopping that", c.Name(), pid, ours)
		_, err := a.stopOn(ctx, c, ours, f)
		return err
	}
	shown, err := a.showProcess(ctx, c, p)
	if err != nil {
		return err
	}
	with := ""
	if n := len(shown.Members); n > 0 {
		with = ", with " + counted(n, "process") + " of its own,"
	}
	if err := a.confirmAnywhere(fmt.Sprintf("%s: process %d of user %s, which specrun did not start%s would be stopped", c.Name(), pid, p.User, with)); err != nil {
		return err
	}
	how := server.ProcessStop{StateDir: c.entry.StateDir, About: strings.Join(shown.Command, " ")}
	if !f.noSave {
		how.Save = a.newID()
	}
	a.progress("%s: stopping process %d", c.Name(), pid)
	proof, err := server.StopProcess(ctx, c, p, how)
	if proof.Saved != "" && err != nil {
		a.note("%s: how it was started is saved as %s", c.Name(), proof.Saved)
	}
	if err != nil {
		return err
	}
	return a.stoppedProcess(c, proof)
}

// saveServer saves how a server of ours was started, before it is stopped.
func (a *app) saveServer(ctx context.Context, c *connection, s experiments.RunningServer) (string, error) {
	p, err := server.Describe(ctx, c, s.Identity.PID)
	if err != nil {
		return "", err
	}
	p.Unit = "" // that of a launch of ours has another command line when it runs by itself
	id := a.newID()
	about := strings.Join(experiments.HideArgv(c.Name(), p.Argv), " ")
	return id, server.SaveProcess(ctx, c, c.entry.StateDir, id, p, about)
}

// stoppedProcess says how the stop ended.
func (a *app) stoppedProcess(c *connection, proof server.ProcessProof) error {
	if a.flags.json {
		a.line("stopped", struct {
			Host string `json:"host"`
			server.ProcessProof
		}{c.Name(), proof})
	}
	port := ""
	if proof.Port != 0 && proof.Other == nil {
		port = fmt.Sprintf(", port %d is free", proof.Port)
	}
	a.printf("%s: stopped process %d: nothing of it is left%s\n", c.Name(), proof.Identity.PID, port)
	switch {
	case proof.Service != "":
		a.printf("%s: saved as %s; it was the service's, which starts it again: %s\n", c.Name(), proof.Saved, server.StartService(proof.Service))
	case proof.Saved != "":
		a.printf("%s: saved as %s; a sweep with after: restore starts it again, and so does\n  specrun server start --saved %s --host %s\n", c.Name(), proof.Saved, proof.Saved, c.Name())
	}
	switch {
	case proof.Again != 0:
		return &codedError{code: exitFailed, hint: fmt.Sprintf("end what starts it first: specrun server stop --pid %d --host %s, or its own stop command", proof.Parent, c.Name()),
			msg: fmt.Sprintf("%s: process %d is gone, but process %d, its parent, has started it again as process %d", c.Name(), proof.Identity.PID, proof.Parent, proof.Again)}
	case proof.Other == nil:
		return nil
	}
	hint := "something started it again, or a worker had left it before: end that, or stop this process as well"
	if proof.Other.PID != 0 {
		hint += fmt.Sprintf(": specrun server stop --pid %d --host %s", proof.Other.PID, c.Name())
	}
	return &codedError{code: exitFailed, hint: hint,
		msg: fmt.Sprintf("%s: process %d is gone, but port %d is held by %s", c.Name(), proof.Identity.PID, proof.Port, proof.Other)}
}

// launchOf is the launch that a process belongs to, "" when specrun did not start
// it.
func launchOf(ctx context.Context, c *connection, p server.Process) (string, error) {
	running, err := experiments.Servers(ctx, c, c.entry.StateDir)
	if err != nil {
		return "", err
	}
	for _, s := range running {
		if s.Identity.PID == p.Identity.PID || slices.Contains(p.Ancestors, s.Identity.PID) || p.Environ["SPECRUN_RUN_ID"] == s.Launch {
			return s.Launch, nil
		}
	}
	return "", nil
}

// showProcess shows whom a stop would hit.
func (a *app) showProcess(ctx context.Context, c *connection, p server.Process) (processLine, error) {
	whom, err := server.WhomOf(ctx, c, p)
	if err != nil {
		return processLine{}, err
	}
	line := processLine{Host: c.Name(), PID: p.Identity.PID, User: p.User, Command: experiments.HideArgv(c.Name(), p.Argv), Cwd: p.Cwd, Started: p.Started,
		AgeS: int64(p.Age / time.Second), Port: p.Port(), Log: p.Log, GPUs: []gpuLine{}, Members: whom.Members, Peers: whom.Peers,
		Container: p.Container, Unit: p.Unit, Environment: !p.EnvironHidden}
	for _, g := range p.GPUs {
		line.GPUs = append(line.GPUs, gpuLine{g.GPU, g.PID, g.MiB})
	}
	if line.Members == nil {
		line.Members = []server.Member{}
	}
	if line.Peers == nil {
		line.Peers = []server.Peer{}
	}
	for i, m := range line.Members {
		line.Members[i].Command = strings.Join(experiments.HideArgv(c.Name(), strings.Fields(m.Command)), " ")
	}
	if line.Port != 0 && !p.OtherNetwork { // there, its port is another server's
		if n, ok := experiments.RunningRequests(ctx, c, line.Port); ok {
			line.Running = &n
		}
	}
	if a.flags.json {
		a.line("process", line)
		return line, nil
	}
	a.printf("%s", line.text(p))
	return line, nil
}

func (l processLine) text(p server.Process) string {
	var b strings.Builder
	row := func(name, format string, args ...any) {
		fmt.Fprintf(&b, "  %-9s "+format+"\n", append([]any{name}, args...)...)
	}
	fmt.Fprintf(&b, "%s: process %d of user %s, running for %s\n", l.Host, l.PID, l.User, p.Age)
	row("command", "%s", brief(strings.Join(l.Command, " "), briefMain))
	if l.Cwd != "" {
		row("folder", "%s", l.Cwd)
	}
	switch {
	case l.Port == 0:
		row("port", "none that can be seen")
	case l.Running != nil:
		row("port", "%d, %s, %s in work", l.Port, l.peers(), counted(*l.Running, "request"))
	default:
		row("port", "%d, %s, requests in work unknown", l.Port, l.peers())
	}
	for _, g := range l.GPUs {
		row("gpu", "%s: %s MiB by process %d", g.GPU, g.MiB, g.PID)
	}
	if len(l.Members) > 0 {
		row("with it", "%s", counted(len(l.Members), "process"))
		for _, line := range membersText(l.Members) {
			fmt.Fprintf(&b, "            %s\n", line)
		}
	}
	if l.Log != "" {
		row("log", "%s", l.Log)
	}
	if l.Container != "" {
		row("inside", "container %.12s, which may start it again", l.Container)
	}
	if l.Unit != "" {
		row("inside", "service %s, which may start it again", l.Unit)
	}
	if len(p.Ancestors) > 0 && p.Ancestors[0] > 1 {
		row("parent", "process %d, which is not stopped", p.Ancestors[0])
	}
	return b.String()
}

// Characters of a command line in text; JSON lines have all of it.
const (
	briefMain = 400 // of the process that is asked about
	briefRow  = 120
)

// brief is a command line on one line, cut after n characters.
func brief(command string, n int) string {
	command = strings.Join(strings.Fields(command), " ")
	if r := []rune(command); len(r) > n {
		return strings.TrimRight(string(r[:n]), " ") + " ..."
	}
	return command
}

// pidsShown of processes with one command line are named.
const pidsShown = 3

// membersText has one line for each command line among processes, in their order.
func membersText(all []server.Member) []string {
	var order []string
	pids := map[string][]string{}
	for _, m := range all {
		command := brief(m.Command, briefRow)
		if pids[command] == nil {
			order = append(order, command)
		}
		pids[command] = append(pids[command], strconv.Itoa(m.PID))
	}
	var lines []string
	for _, command := range order {
		who := pids[command]
		if len(who) == 1 {
			lines = append(lines, who[0]+" "+command)
			continue
		}
		named := strings.Join(who[:min(len(who), pidsShown)], ", ")
		if len(who) > pidsShown {
			named += ", ..."
		}
		lines = append(lines, fmt.Sprintf("%d times %s (pids %s)", len(who), command, named))
	}
	return lines
}

func (l processLine) peers() string {
	if len(l.Peers) == 0 {
		return "nobody connected"
	}
	var from []string
	n := 0
	for _, p := range l.Peers {
		n += p.Connections
		from = append(from, p.Address)
	}
	return counted(n, "connection") + " from " + strings.Join(from, ", ")
}
