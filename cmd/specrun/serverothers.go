package main

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"specrun/deploy/server"
	"specrun/experiments"
	"specrun/experiments/origin"
)

// foreignLine is a server that specrun did not start, or what else holds GPU
// memory of a host, in a JSON line.
type foreignLine struct {
	Host      string     `json:"host"`
	PID       int        `json:"pid"`    // 0: no process that can be seen from here
	User      string     `json:"user"`   // "": not known
	Engine    string     `json:"engine"` // "": it is no server that is known
	Port      int        `json:"port"`   // 0: not known
	AgeS      int64      `json:"age_s"`
	Command   []string   `json:"command"` // secrets hidden
	GPUs      []cardLine `json:"gpus"`    // that it and its descendants hold
	Launch    string     `json:"launch,omitempty"`
	Container string     `json:"container,omitempty"`
	Next      []string   `json:"next"` // commands that go on from here

	age time.Duration
}

// cardLine is memory that is held on one GPU.
type cardLine struct {
	Index *int   `json:"index"` // null: not known
	GPU   string `json:"gpu"`
	MiB   *int64 `json:"mib"` // null: nvidia-smi does not tell
}

// driversOwn is memory of a GPU, in MiB, that no process needs to hold: as much
// is the driver's own.
const driversOwn = 1024

// occupancy is who has a host.
type occupancy struct {
	ours    map[string][]cardLine // by launch
	foreign []foreignLine         // servers first, in the order of their pids
}

// occupantsOf looks who else serves on a host and who holds its GPUs. It is one
// round trip.
func occupantsOf(ctx context.Context, c *connection, servers []experiments.RunningServer) (occupancy, error) {
	found, err := server.FindOccupants(ctx, c, origin.ServerPattern())
	if err != nil {
		return occupancy{}, err
	}
	return occupy(c.Name(), found, servers), nil
}

// occupy sorts processes and memory by whose they are.
func occupy(host string, found server.Occupants, servers []experiments.RunningServer) occupancy {
	byPID := map[int]server.Occupant{}
	for _, p := range found.Processes {
		byPID[p.PID] = p
	}
	o := occupancy{ours: map[string][]cardLine{}}
	lines := map[int]*foreignLine{} // by pid of the server, or of the holder itself
	own := func(p server.Occupant) string { return launchAmong(servers, p) }
	line := func(pid int) *foreignLine {
		if lines[pid] == nil {
			lines[pid] = newForeign(host, byPID[pid], found.UID)
			lines[pid].PID = pid
		}
		return lines[pid]
	}
	for _, p := range found.Processes {
		if root := serverAbove(byPID, p); root != 0 && own(p) == "" && own(byPID[root]) == "" {
			l := line(root)
			if p.PID == root {
				l.Port = servedPort(p)
			}
		}
	}
	for _, h := range found.Holders {
		p, seen := byPID[h.PID]
		launch, root := own(p), serverAbove(byPID, p)
		switch {
		case seen && launch != "":
			o.ours[launch] = withCard(o.ours[launch], found.Cards, h)
			continue
		case seen && root != 0 && own(byPID[root]) != "":
			launch = own(byPID[root])
			o.ours[launch] = withCard(o.ours[launch], found.Cards, h)
			continue
		case root == 0:
			root = h.PID
		}
		l := line(root)
		l.GPUs = withCard(l.GPUs, found.Cards, h)
		if len(l.Command) == 0 {
			l.Command = []string{h.Command}
		}
	}
	for _, l := range lines {
		o.foreign = append(o.foreign, *l)
	}
	slices.SortFunc(o.foreign, func(a, b foreignLine) int {
		if (a.Engine == "") != (b.Engine == "") {
			return cmp.Compare(b.Engine, a.Engine)
		}
		return cmp.Compare(a.PID, b.PID)
	})
	if rest := unseen(found); len(rest) > 0 {
		o.foreign = append(o.foreign, foreignLine{Host: host, Command: []string{}, GPUs: rest, Next: []string{}})
	}
	return o
}

// launchAmong is the launch of ours that a process belongs to, "" for none.
func launchAmong(servers []experiments.RunningServer, p server.Occupant) string {
	for _, s := range servers {
		switch {
		case p.Launch != "" && p.Launch == s.Launch,
			p.Container != "" && s.InID != "" && strings.HasPrefix(p.Container, s.InID),
			s.InID == "" && (s.Identity.PID == p.PID || slices.Contains(p.Ancestors, s.Identity.PID)):
			return s.Launch
		}
	}
	return ""
}

// serverAbove is the pid of the server that a process is, or is a worker of: the
// uppermost, since workers that were forked have its command line. 0 for none.
func serverAbove(byPID map[int]server.Occupant, p server.Occupant) int {
	root := 0
	for _, pid := range append([]int{p.PID}, p.Ancestors...) {
		if origin.Serves(byPID[pid].Argv) != "" {
			root = pid
		}
	}
	return root
}

// servedPort is the port that a server was told to listen on, else the first on which
// it does; 0 when neither is seen.
func servedPort(p server.Occupant) int {
	for i, word := range p.Argv {
		value, joined := strings.CutPrefix(word, "--port=")
		if word == "--port" && i+1 < len(p.Argv) {
			value, joined = p.Argv[i+1], true
		}
		port, err := strconv.Atoi(value)
		if joined && err == nil && (len(p.Listens) == 0 || slices.Contains(p.Listens, port)) {
			return port
		}
	}
	if len(p.Listens) > 0 {
		return p.Listens[0]
	}
	return 0
}

// newForeign is a process as whoever runs as uid may go on with it; p is zero for
// one that cannot be seen.
func newForeign(host string, p server.Occupant, uid int) *foreignLine {
	l := &foreignLine{Host: host, PID: p.PID, User: p.User, Engine: origin.Serves(p.Argv), AgeS: int64(p.Age / time.Second), age: p.Age,
		Command: append([]string{}, experiments.HideArgv(host, p.Argv)...), GPUs: []cardLine{}, Launch: p.Launch, Container: p.Container, Next: []string{}}
	may := p.PID > 1 && (uid == 0 || uid == p.UID)
	next := func(format string, args ...any) {
		l.Next = append(l.Next, fmt.Sprintf("specrun "+format, args...)+" --host "+host)
	}
	switch {
	case l.Engine == "" || p.PID == 0:
	case p.Container != "":
		next("init --from-container %.12s", p.Container)
	default:
		if may {
			next("watch --pid %d", p.PID)
		}
		next("init --from-pid %d", p.PID)
	}
	switch {
	case may && p.Container != "":
		next("server stop --pid %d --no-save", p.PID)
	case may:
		next("server stop --pid %d", p.PID)
	}
	return l
}

// withCard adds what a process holds to the memory of its GPU.
func withCard(all []cardLine, cards []server.Card, h server.GPUHolder) []cardLine {
	mib, err := strconv.ParseInt(h.MiB, 10, 64)
	for i := range all {
		if all[i].GPU == h.GPU {
			if all[i].MiB != nil && err == nil {
				*all[i].MiB += mib
			}
			return all
		}
	}
	c := cardLine{GPU: h.GPU}
	if err == nil {
		c.MiB = &mib
	}
	for _, card := range cards {
		if card.UUID == h.GPU {
			c.Index = &card.Index
		}
	}
	all = append(all, c)
	slices.SortStableFunc(all, func(a, b cardLine) int { return cmp.Compare(a.number(), b.number()) })
	return all
}

// unseen is memory that is in use and that none of the holders has: one in
// another container may, or the driver has not got it back.
func unseen(found server.Occupants) []cardLine {
	var out []cardLine
	for _, card := range found.Cards {
		left := card.MiB
		for _, h := range found.Holders {
			if h.GPU != card.UUID {
				continue
			}
			mib, err := strconv.ParseInt(h.MiB, 10, 64)
			if err != nil {
				left = 0 // how much is held is not known
			}
			left -= mib
		}
		if left >= driversOwn {
			out = append(out, cardLine{&card.Index, card.UUID, &left})
		}
	}
	return out
}

func (c cardLine) number() int {
	if c.Index == nil {
		return 1 << 30
	}
	return *c.Index
}

// cardsText are GPUs in a few words: 0-3,7.
func cardsText(cards []cardLine) string {
	var parts []string
	for i := 0; i < len(cards); i++ {
		first := cards[i]
		if first.Index == nil {
			parts = append(parts, first.GPU)
			continue
		}
		last := i
		for last+1 < len(cards) && cards[last+1].Index != nil && *cards[last+1].Index == *cards[last].Index+1 {
			last++
		}
		switch {
		case last == i:
			parts = append(parts, strconv.Itoa(*first.Index))
		default:
			parts = append(parts, fmt.Sprintf("%d-%d", *first.Index, *cards[last].Index))
		}
		i = last
	}
	return strings.Join(parts, ",")
}

// memoryText is what is held on GPUs: together, since who wants a GPU wants all of it.
func memoryText(cards []cardLine) string {
	var total int64
	for _, c := range cards {
		if c.MiB == nil {
			return "GPU " + cardsText(cards)
		}
		total += *c.MiB
	}
	return fmt.Sprintf("%d MiB of GPU %s", total, cardsText(cards))
}

// text says who it is, what it runs and how to go on.
func (l foreignLine) text() string {
	var b strings.Builder
	who := fmt.Sprintf("process %d of user %s", l.PID, l.User)
	switch {
	case l.PID == 0:
		return fmt.Sprintf("%s: %s is held by no process that can be seen from here: by one in another container, or the driver has not got it back\n",
			l.Host, memoryText(l.GPUs))
	case l.User == "":
		return fmt.Sprintf("%s: process %d, which cannot be seen from here, holds %s (%s)\n", l.Host, l.PID, memoryText(l.GPUs), strings.Join(l.Command, " "))
	case l.Engine == "":
		fmt.Fprintf(&b, "%s: no server: %s, running for %s, holds %s", l.Host, who, l.age, memoryText(l.GPUs))
	default:
		fmt.Fprintf(&b, "%s: not ours: %s server, %s, running for %s", l.Host, l.Engine, who, l.age)
		if l.Port != 0 {
			fmt.Fprintf(&b, ", port %d", l.Port)
		}
		if len(l.GPUs) > 0 {
			fmt.Fprintf(&b, ", %s", memoryText(l.GPUs))
		}
	}
	b.WriteByte('\n')
	if l.Launch != "" {
		fmt.Fprintf(&b, "  of launch %s, which a specrun with another state folder started, or whose server has ended\n", l.Launch)
	}
	if l.Container != "" {
		fmt.Fprintf(&b, "  in container %.12s\n", l.Container)
	}
	fmt.Fprintf(&b, "  command  %s\n", brief(strings.Join(l.Command, " "), briefRow))
	label := "next"
	for _, n := range l.Next {
		fmt.Fprintf(&b, "  %-8s %s\n", label, n)
		label = ""
	}
	if !strings.Contains(strings.Join(l.Next, " "), "server stop") {
		fmt.Fprintf(&b, "  %-8s only %s or root can stop it\n", label, l.User)
	}
	return b.String()
}

func (a *app) printForeign(all []foreignLine) {
	var b strings.Builder
	for _, l := range all {
		if a.flags.json {
			a.line("foreign", l)
		}
		b.WriteString(l.text())
	}
	if !a.flags.json {
		a.printf("%s", b.String())
	}
}
