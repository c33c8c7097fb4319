package experiments

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"specrun/experiments/record"
)

// Plan is every decision of a sweep, with nothing changed yet. It is a plain
// value: it survives JSON unchanged, and resume needs nothing else.
type Plan struct {
	Schema    int             `json:"schema"` // 1
	Name      string          `json:"name"`   // of the experiment
	Kind      string          `json:"kind"`   // KindSweep, ...
	Host      HostConfig      `json:"host"`
	Objective string          `json:"objective"`
	Rounds    int             `json:"rounds"`
	Repeats   int             `json:"repeats"`
	Order     Order           `json:"order"`
	After     After           `json:"after"`
	RunLimit  Duration        `json:"run_limit"` // of one run
	Ready     PlanReady       `json:"ready"`
	StopGrace Duration        `json:"stop_grace,omitempty"` // see ServerSpec
	Cells     []Cell          `json:"cells"`
	Quotes    []Quote         `json:"quotes,omitempty"` // one of them follows the launches, see Quote
	Dropped   []Dropped       `json:"dropped,omitempty"`
	Merged    []Merged        `json:"merged,omitempty"`
	Notes     []string        `json:"notes,omitempty"`
	Launches  []PlannedLaunch `json:"launches"`
	Estimate  Estimate        `json:"estimate"`
	Spec      json.RawMessage `json:"-"` // the resolved spec, stored beside the plan
}

// Kinds of plans: which command made them.
const (
	KindSweep = "sweep"
	KindRun   = "run"
	KindProbe = "probe" // one cell without and with a patch
	KindAA    = "aa"    // each cell against itself
)

// PlanReady bounds a start, see Ready.
type PlanReady struct {
	Timeout Duration `json:"timeout"`
	Stall   Duration `json:"stall"`
}

// PlannedLaunch is one start of the server and what is measured in it. All its
// cells have the same server.
type PlannedLaunch struct {
	N       int          `json:"n"` // position in the plan, from 0
	Round   int          `json:"round"`
	Runs    []PlannedRun `json:"runs"`    // in order
	Command string       `json:"command"` // to paste into a shell on the host; secrets left out
	// Placeholder is the port in Command that stands for one which is free when
	// the launch is made (port: auto); 0 when Command has the port itself.
	Placeholder int `json:"placeholder_port,omitempty"`
}

// PlannedRun is one run of a launch.
type PlannedRun struct {
	Cell   int `json:"cell"` // ord
	Repeat int `json:"repeat"`
}

// Estimate says how long a plan takes.
type Estimate struct {
	Seconds int64  `json:"seconds"`
	Basis   string `json:"basis"` // guess, earlier sweeps, or what Timing says
}

// Guesses for a plan of which nothing was measured before: a start, and the
// time of one token.
const (
	guessStart = 2 * time.Minute // or a tenth of ready.timeout, when that is less
	guessToken = 12 * time.Millisecond
)

// NewPlan puts the cells of an experiment into launches: cells with the same
// server share one, all repeats of a round are in one, and rounds are
// interleaved or not as the spec says. The same experiment gives the same plan.
func NewPlan(e *Experiment) (*Plan, error) {
	s := e.Spec
	spec, err := s.MarshalJSON()
	if err != nil {
		return nil, fmt.Errorf("plan %s: spec as JSON: %w", s.Name, err)
	}
	hide := planHider(e.Host, e.Cells)
	spec = hide.json(spec) // nothing starts a server from it
	p := &Plan{Schema: 1, Name: s.Name, Kind: e.Kind, Host: e.Host, Objective: s.Objective, Rounds: e.Rounds, Repeats: e.Repeats,
		Order: s.Order, After: s.After, RunLimit: Duration(s.Limits.Run),
		Ready: PlanReady{Duration(s.Server.Ready.Timeout), Duration(s.Server.Ready.Stall)}, StopGrace: Duration(s.Server.StopGrace),
		Cells: e.Cells, Quotes: e.Quotes, Dropped: e.Dropped, Merged: e.Merged, Spec: spec}
	if e.Kind == KindAA || e.Kind == KindProbe {
		p.Order = OrderInterleave // what they compare must alternate
	}
	if e.Kind == KindProbe && (p.After == AfterKeep || p.After == AfterBest) {
		p.After = AfterRestore // neither cell of a probe is anybody's wish
	}
	if err := e.oneBest(p.After); err != nil {
		return nil, err
	}
	groups, err := groupByServer(e.Cells)
	if err != nil {
		return nil, err
	}
	for _, at := range p.order(len(groups)) {
		group := groups[at.group]
		l := PlannedLaunch{N: len(p.Launches), Round: at.round}
		for repeat := range e.Repeats {
			for _, cell := range group {
				l.Runs = append(l.Runs, PlannedRun{Cell: cell, Repeat: repeat})
			}
		}
		if l.Command, l.Placeholder, err = command(e.renderer, e.Cells[group[0]].Server, hide); err != nil {
			return nil, err
		}
		p.Launches = append(p.Launches, l)
	}
	for i := range p.Quotes {
		q := &p.Quotes[i]
		if q.Command, q.Placeholder, err = command(e.renderer, q.Cell.Server, hide); err != nil {
			return nil, err
		}
	}
	p.Notes = notes(e)
	p.Estimate = estimate(p, e.timing)
	return p, nil
}

// groupByServer lists the ords of cells that share a server, in the order of
// each group's first cell.
func groupByServer(cells []Cell) ([][]int, error) {
	at := map[string]int{}
	var groups [][]int
	for _, c := range cells {
		key, err := serverKey(c)
		if err != nil {
			return nil, err
		}
		key += c.Arm // arms are equal, and yet two servers
		i, ok := at[key]
		if !ok {
			i = len(groups)
			at[key] = i
			groups = append(groups, nil)
		}
		groups[i] = append(groups[i], c.Ord)
	}
	return groups, nil
}

// argv is the whole command of a server, prefix included.
func argv(r Renderer, c ServerConfig, port int) ([]string, error) {
	tail, err := r.Argv(c, port)
	if err != nil {
		return nil, fmt.Errorf("command line of %s: %w", c.Engine, err)
	}
	return append(append([]string(nil), c.Prefix...), tail...), nil
}

// command is a server's command to paste, its secrets hidden; placeholder is the
// port in it that stands for another one, 0 when it is the server's own.
func command(r Renderer, c ServerConfig, hide *redactor) (text string, placeholder int, err error) {
	if c.Attach != nil {
		return "", 0, nil // nothing is started
	}
	port := c.Port
	if port == 0 {
		port, placeholder = shownPort, shownPort
	}
	words, err := argv(r, c, port)
	if err != nil {
		return "", 0, err
	}
	env := map[string]string{}
	for k, v := range c.HostEnv {
		env[k] = v
	}
	for k, v := range c.Env {
		env[k] = v
	}
	return r.Shell(hide.argv(words), hide.values(env), c.Cwd), placeholder, nil
}

// planHider hides the secrets that a plan holds as text.
func planHider(h HostConfig, cells []Cell) *redactor {
	hide := newRedactor(h.Name, nil)
	for _, s := range literalSecrets(cells) {
		hide.hide(s.value)
	}
	return hide
}

// Shown is the plan as it may be printed: its secrets hidden. It cannot be
// executed.
func (p *Plan) Shown() *Plan {
	hide := planHider(p.Host, p.All())
	config := func(c ServerConfig) ServerConfig {
		c.Env, c.HostEnv, c.Args = hide.values(c.Env), hide.values(c.HostEnv), hide.argv(c.Args)
		c.Prefix = hide.argv(c.Prefix)
		c.Flags = slices.Clone(c.Flags)
		for i, f := range c.Flags {
			c.Flags[i].Values = nil
			for _, v := range f.Values {
				c.Flags[i].Values = append(c.Flags[i].Values, hide.value(f.Name, v))
			}
		}
		return c
	}
	shown := *p
	shown.Host.Env = hide.values(p.Host.Env)
	shown.Cells, shown.Quotes = slices.Clone(p.Cells), slices.Clone(p.Quotes)
	for i := range shown.Cells {
		shown.Cells[i].Server = config(shown.Cells[i].Server)
	}
	for i := range shown.Quotes {
		shown.Quotes[i].Cell.Server = config(shown.Quotes[i].Cell.Server)
	}
	return &shown
}

func notes(e *Experiment) []string {
	var out []string
	baseline := e.baselines() > 0
	if e.Spec.Baseline == nil && e.Kind == KindSweep && e.Spec.Server.Attach == nil {
		out = append(out, "no baseline: the spec has no baseline block")
	}
	if what := e.renderer.WithoutSpeculation(); baseline && what != "" {
		out = append(out, "baseline: "+what)
	}
	out = append(out, e.Notes...)
	switch {
	case e.Spec.Server.Attach != nil:
		out = append(out, e.attachNote())
	case e.Rounds > 1 || e.Kind == KindRun:
	case e.Kind == KindProbe:
		out = append(out, "one pair of launches: what differs from launch to launch stays unknown, and so does the verdict (--rounds 3)")
	default:
		out = append(out, "one launch per cell: what differs from launch to launch stays unknown (--rounds 3 measures it)")
	}
	out = append(out, idleNotes(e.Cells)...)
	out = append(out, likeNotes(e)...)
	for _, name := range sortedKeys(e.Cells[len(e.Cells)-1].Server.Secrets) {
		out = append(out, name+" comes from this machine's environment; printed commands leave it out")
	}
	for _, name := range secretNames(literalSecrets(e.Cells)) {
		out = append(out, name+" is a secret written in the spec: it is shown nowhere, printed commands included, but the store keeps it with the plan, so that resume can start the server; an env entry with {from: env} is kept nowhere")
	}
	return out
}

func estimate(p *Plan, t Timing) Estimate {
	if t.Launch > 0 && t.Run > 0 {
		launches, runs := len(p.Launches), p.Runs()
		if len(p.Quotes) > 0 {
			launches, runs = launches+p.Rounds, runs+p.Rounds*p.Repeats
		}
		total := time.Duration(launches)*t.Launch + time.Duration(runs)*t.Run
		return estimated(total, firstOf(t.Basis, "earlier sweeps"))
	}
	var total time.Duration
	launches := p.Launches
	if len(p.Quotes) > 0 { // which one does not matter: their load is that of their cells
		launches = append(launches[:len(launches):len(launches)], p.Quotes[0].launches(p)...)
	}
	cells := p.All()
	for _, l := range launches {
		total += min(guessStart, time.Duration(p.Ready.Timeout)/10)
		for _, r := range l.Runs {
			b := cells[r.Cell].Bench
			waves := (b.Requests+b.Concurrency-1)/b.Concurrency + (b.Warmup.Requests(b.Concurrency)+b.Concurrency-1)/b.Concurrency
			total += time.Duration(waves*b.MaxTokens) * guessToken
		}
	}
	return estimated(total, "guess")
}

func estimated(total time.Duration, basis string) Estimate {
	return Estimate{Seconds: int64(total.Round(time.Second).Seconds()), Basis: basis}
}

// Runs counts the runs of all launches; those of a quote, which may not come,
// are not among them.
func (p *Plan) Runs() int {
	n := 0
	for _, l := range p.Launches {
		n += len(l.Runs)
	}
	return n
}

// Summary is the line every plan is announced with.
func (p *Plan) Summary() string {
	var b strings.Builder
	switch p.Kind {
	case KindProbe:
		fmt.Fprintf(&b, "probe of %s: %s of launches without and with it, in turn, %s", p.Cells[1].Server.Patches[0].Name,
			count(p.Rounds, "pair"), count(p.Runs(), "run"))
	case KindAA:
		fmt.Fprintf(&b, "A/A: %s twice (%s), %s, %s", count(len(p.Cells)/2, "cell"), baselineWord(p.Cells),
			count(len(p.Launches), "launch"), count(p.Runs(), "run"))
	default:
		fmt.Fprintf(&b, "%s (%s), %s, %s", count(len(p.Cells), "cell"), baselineWord(p.Cells),
			count(len(p.Launches), "launch"), count(p.Runs(), "run"))
	}
	if len(p.Quotes) > 0 {
		fmt.Fprintf(&b, ", then the best cell %s without its profiling patches (quotable)", times(p.Rounds))
	}
	fmt.Fprintf(&b, ", about %s", time.Duration(p.Estimate.Seconds)*time.Second)
	if p.Estimate.Basis == "guess" {
		b.WriteString(" (a guess: nothing like it was measured here)")
	}
	if n := len(p.Dropped); n > 0 {
		fmt.Fprintf(&b, "; %d dropped by rules", n)
	}
	if n := len(p.Merged); n > 0 {
		fmt.Fprintf(&b, "; %d merged with equal ones", n)
	}
	return b.String()
}

func times(n int) string {
	if n == 1 {
		return "once"
	}
	return fmt.Sprintf("%d times", n)
}

func baselineWord(cells []Cell) string {
	for _, c := range cells {
		if c.Baseline {
			return "baseline included"
		}
	}
	return "no baseline"
}

func count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	if strings.HasSuffix(noun, "ch") {
		return fmt.Sprintf("%d %ses", n, noun)
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// Encode gives the plan as it is stored, and its SHA-256 in lower-case hex.
func (p *Plan) Encode() (text json.RawMessage, sha string, err error) {
	text, err = plainJSON(p)
	if err != nil {
		return nil, "", fmt.Errorf("plan %s as JSON: %w", p.Name, err)
	}
	return text, digest(text), nil
}

// DecodePlan reads a stored plan.
func DecodePlan(text json.RawMessage) (*Plan, error) {
	p := &Plan{}
	if err := json.Unmarshal(text, p); err != nil {
		return nil, fmt.Errorf("stored plan: %w", err)
	}
	if p.Schema != 1 {
		return nil, fmt.Errorf("stored plan has schema %d; this specrun reads 1", p.Schema)
	}
	for i := range p.Cells {
		p.Cells[i].Params = typedParams(p.Cells[i].Params)
	}
	for i := range p.Quotes {
		p.Quotes[i].Cell.Params = typedParams(p.Quotes[i].Cell.Params)
	}
	return p, nil
}

// typedParams gives numbers read from JSON their types back.
func typedParams(p record.Params) record.Params {
	for k, v := range p {
		if f, ok := v.(float64); ok && f == float64(int64(f)) {
			p[k] = int64(f)
		}
	}
	return p
}
