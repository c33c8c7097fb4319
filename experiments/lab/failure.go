package lab

import (
	"fmt"
	"slices"
	"strings"
)

// Failure makes servers go wrong, to practise and to test what happens then.
// Fields that a kind has no use for must be absent.
type Failure struct {
	Kind  FailureKind `json:"kind"`
	Steps *int        `json:"steps,omitempty"` // launches with so many draft steps, 0 without speculation; nil: all
	// AfterTokens is how many tokens the server puts out before it goes wrong
	// (Stall, Die, JIT and others), over all requests since its start but those it sends itself.
	AfterTokens int     `json:"after_tokens,omitempty"`
	Message     string  `json:"message,omitempty"` // of the exception (Crash, Die, Exit); empty: one about memory or access
	Flag        string  `json:"flag,omitempty"`    // FlagIgnored: which, without dashes in front
	From        int     `json:"from,omitempty"`    // OtherOutput: the first position that differs, from 0
	Lies        bool    `json:"lies,omitempty"`    // StillSpeculates: the server's configuration says that it does not
	Millis      float64 `json:"ms,omitempty"`      // how long: JIT, the compiler (0 is 300); Exit, SlowLoad, SlowDrain, LateCrash as their examples
}

// FailureKind is one way to go wrong.
type FailureKind string

const (
	Crash           FailureKind = "crash"            // an exception while loading
	NeverReady      FailureKind = "never-ready"      // hangs while loading, does not listen
	Stall           FailureKind = "stall"            // no more tokens, still answers HTTP
	Die             FailureKind = "die"              // an exception in the middle of decoding
	StillSpeculates FailureKind = "still-speculates" // drafts although no flag says so
	FlagIgnored     FailureKind = "flag-ignored"     // one flag has no effect, and its default is in force
	StaleCode       FailureKind = "stale-code"       // runs a second copy of the engine, which no patch reaches
	OtherOutput     FailureKind = "other-output"     // says other things than other launches
	IgnoreTerm      FailureKind = "ignore-term"      // SIGTERM changes nothing
	Orphan          FailureKind = "orphan"           // leaves a double-forked worker that holds the port and a card
	DeadHealth      FailureKind = "dead-health"      // the scheduler is gone, /health goes on with 200
	MarkerFirst     FailureKind = "marker-first"     // says that it is ready, then binds its port
	Exit            FailureKind = "exit"             // ends with status 1 soon after its start
	SlowLoad        FailureKind = "slow-load"        // loads for long without a word
	OOM             FailureKind = "oom"              // says that it has no memory, and hangs
	SlowDrain       FailureKind = "slow-drain"       // takes its time behind SIGTERM
	LateCrash       FailureKind = "late-crash"       // a fault behind the last response
	CutLog          FailureKind = "cut-log"          // its log is truncated under it
	Buffered        FailureKind = "buffered"         // its log comes in blocks
	Restarts        FailureKind = "restarts"         // is started anew in its place
	JIT             FailureKind = "jit"              // compiles a kernel while serving, unless it is compiled already
)

// FailureHelp is what a person wants to know of one kind.
type FailureHelp struct {
	Kind    FailureKind
	Help    string
	Example string
	fields  []string // those that it may have beside kind and steps
}

// FailureList describes the kinds of failures, in the order of documentation.
func FailureList() []FailureHelp {
	return []FailureHelp{
		{Crash, "an exception while loading", `{"kind":"crash","steps":2,"message":"no memory"}`, []string{"message"}},
		{NeverReady, "hangs while loading", `{"kind":"never-ready"}`, nil},
		{Stall, "no more tokens", `{"kind":"stall","after_tokens":40}`, []string{"after_tokens"}},
		{Die, "an exception while decoding", `{"kind":"die","after_tokens":40}`, []string{"after_tokens", "message"}},
		{StillSpeculates, "drafts without a flag for it (lies: its configuration denies it)", `{"kind":"still-speculates","lies":true}`, []string{"lies"}},
		{FlagIgnored, "a flag without effect", `{"kind":"flag-ignored","flag":"mem-fraction-static"}`, []string{"flag"}},
		{StaleCode, "runs another copy of the engine, without patches", `{"kind":"stale-code"}`, nil},
		{OtherOutput, "other text from a position on", `{"kind":"other-output","steps":3,"from":20}`, []string{"from"}},
		{IgnoreTerm, "does not end on SIGTERM", `{"kind":"ignore-term"}`, nil},
		{Orphan, "leaves a worker behind that holds the port and a card", `{"kind":"orphan"}`, nil},
		{DeadHealth, "the scheduler ends without a word, /health still says 200", `{"kind":"dead-health","after_tokens":40}`, []string{"after_tokens"}},
		{MarkerFirst, "says that it is ready before it binds its port", `{"kind":"marker-first"}`, nil},
		{Exit, "ends with status 1 after so long", `{"kind":"exit","ms":2000}`, []string{"ms", "message"}},
		{SlowLoad, "loads without a word for so long", `{"kind":"slow-load","ms":5000}`, []string{"ms"}},
		{OOM, "says out of memory and hangs, while loading or behind so many tokens", `{"kind":"oom","after_tokens":40}`, []string{"after_tokens"}},
		{SlowDrain, "takes so long to end on SIGTERM", `{"kind":"slow-drain","ms":300000}`, []string{"ms"}},
		{LateCrash, "a fault so long after the last response, behind so many tokens", `{"kind":"late-crash","after_tokens":40,"ms":50}`, []string{"after_tokens", "ms"}},
		{CutLog, "its log is truncated behind so many tokens", `{"kind":"cut-log","after_tokens":40}`, []string{"after_tokens"}},
		{Buffered, "its log comes in blocks of 8 KiB", `{"kind":"buffered"}`, nil},
		{Restarts, "ends behind so many tokens and is started anew in its place", `{"kind":"restarts","after_tokens":40}`, []string{"after_tokens"}},
		{JIT, "compiles a kernel while serving, once for each number of steps", `{"kind":"jit","after_tokens":60,"ms":300}`, []string{"after_tokens", "ms"}},
	}
}

func (f Failure) validate() error {
	list := FailureList()
	i := slices.IndexFunc(list, func(h FailureHelp) bool { return h.Kind == f.Kind })
	if i < 0 {
		var kinds []string
		for _, h := range list {
			kinds = append(kinds, string(h.Kind))
		}
		return fmt.Errorf("unknown kind %q (%s)", f.Kind, strings.Join(kinds, ", "))
	}
	for _, given := range []struct {
		name string
		has  bool
	}{
		{"after_tokens", f.AfterTokens != 0}, {"message", f.Message != ""}, {"flag", f.Flag != ""}, {"from", f.From != 0},
		{"lies", f.Lies}, {"ms", f.Millis != 0},
	} {
		if given.has && !slices.Contains(list[i].fields, given.name) {
			return fmt.Errorf("%s has no %s", f.Kind, given.name)
		}
	}
	switch {
	case f.AfterTokens < 0 || f.From < 0 || !(f.Millis >= 0) || f.Steps != nil && *f.Steps < 0:
		return fmt.Errorf("%s: a number is negative", f.Kind)
	case f.Kind == FlagIgnored && (f.Flag == "" || strings.HasPrefix(f.Flag, "-") || strings.Contains(f.Flag, "_")):
		return fmt.Errorf(`%s: flag is %q, not a name such as "mem-fraction-static"`, f.Kind, f.Flag)
	case f.Kind == StillSpeculates && f.Steps != nil && *f.Steps != 0:
		return fmt.Errorf("%s concerns launches without speculation: leave steps out", f.Kind)
	}
	return nil
}
