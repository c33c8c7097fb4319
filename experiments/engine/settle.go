package engine

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Settler is an Engine of which it is known what a release makes of flags and
// environment without an error.
type Settler interface {
	// Settle says so for one server. Version is the release that will run, "" when
	// it is not known: then only what holds for all of them is said. What the
	// release refuses is an *ImpossibleError.
	Settle(flags []Flag, env map[string]string, version string) (Settled, error)
}

// Settled is a server as one release will run it.
type Settled struct {
	// Flags and Env are what to start it with: flags that were renamed have the
	// name that the release knows. Env is only what is added.
	Flags []Flag
	Env   map[string]string
	// Canonical is equal for servers that the release makes equal.
	Canonical []Flag
	// Unused are variables of the environment that this server never reads, so that
	// two that differ in them alone are one.
	Unused []string
	// Notes say what was translated, and what depends on the release.
	Notes []string
	// Changes say what the release does otherwise than asked.
	Changes []string
	// MaxRunning is how many requests run at once when nothing is asked for; 0 when
	// that is not known.
	MaxRunning int
}

// ImpossibleError says that a release refuses a server.
type ImpossibleError struct {
	Engine, Version string // Version is "" when all releases do
	Why             string
}

func (e *ImpossibleError) Error() string {
	return strings.TrimSpace(e.Engine+" "+e.Version) + ": " + e.Why
}

// Hint says what the user can do.
func (e *ImpossibleError) Hint() string {
	return "the server would end with this error; choose other values, or exclude them by a rule of where:"
}

// release is a version number, of which only the numbers count: 0.5.3.post2 lies
// between 0.5.3 and 0.5.4, 0.5.0rc0 before 0.5.0.
type release []int

// readRelease reads one; nil is unknown, and neither before nor after anything.
func readRelease(s string) release {
	s, _, _ = strings.Cut(strings.TrimPrefix(strings.TrimSpace(s), "v"), "+")
	base, pre, isPre := strings.Cut(s, "rc")
	if !isPre {
		base, _, _ = strings.Cut(s, ".dev")
	}
	base, post, _ := strings.Cut(base, ".post")
	var r release
	for part := range strings.SplitSeq(base, ".") {
		n, err := strconv.Atoi(part)
		if err != nil {
			return nil
		}
		r = append(r, n)
	}
	for len(r) < 3 {
		r = append(r, 0)
	}
	switch {
	case isPre:
		return append(r[:3], -1, number0(pre))
	case post != "":
		return append(r[:3], 1, number0(post))
	}
	return append(r[:3], 0, 0)
}

func number0(s string) int {
	n, _ := strconv.Atoi(s) // what is no number is the first of its kind
	return n
}

// from says whether a release is v or later; unknown ones are not.
func (r release) from(v string) bool { return r != nil && slices.Compare(r, readRelease(v)) >= 0 }

// before says whether a release is older than v; unknown ones are not.
func (r release) before(v string) bool { return r != nil && slices.Compare(r, readRelease(v)) < 0 }

// within says whether a release is from a on and before b.
func (r release) within(a, b string) bool { return r.from(a) && r.before(b) }

// rename is a flag with another name from some release on.
type rename struct {
	old, now string // now "" = gone
	from     string // first release with the new name; "" = all
	until    string // releases from here on know the old name as well; "" = none
	before   string // releases older than this lack the new name; "" = never
	why      string // more about it
}

// translate gives flags the names that a release knows, and says which.
func translate(engine string, flags []Flag, version string, table []rename) (out []Flag, notes []string) {
	r := readRelease(version)
	out = slices.Clone(flags)
	named := func(name string) int { return slices.IndexFunc(out, func(f Flag) bool { return f.Name == name }) }
	for _, t := range table {
		old, now := named(t.old), -1
		if t.now != "" {
			now = named(t.now)
		}
		release := strings.TrimSpace(engine + " " + version)
		switch {
		case old >= 0 && now < 0 && (t.from == "" || r.from(t.from)) && (t.until == "" || r.before(t.until)):
			if t.now == "" {
				out = slices.Delete(out, old, old+1)
				notes = append(notes, fmt.Sprintf("%s is left out: %s has it no more%s", t.old, release, t.why))
				continue
			}
			out[old].Name = t.now
			notes = append(notes, fmt.Sprintf("%s is written %s, as %s has it%s", t.old, t.now, release, t.why))
		case now >= 0 && old < 0 && t.before != "" && r.before(t.before):
			out[now].Name = t.old
			notes = append(notes, fmt.Sprintf("%s is written %s, as %s has it", t.now, t.old, release))
		}
	}
	return out, notes
}
