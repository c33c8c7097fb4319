package engine

import (
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"
)

func settle(t *testing.T, flags []Flag, env map[string]string, version string) Settled {
	t.Helper()
	s, err := sg(t).(Settler).Settle(flags, env, version)
	if err != nil {
		t.Fatalf("%s: %v", version, err)
	}
	return s
}

func more(flags []Flag, extra ...Flag) []Flag { return slices.Concat(flags, extra) }

func TestRelease_Order(t *testing.T) {
	ordered := []string{"0.4.6.post5", "0.5.0rc0", "0.5.0", "0.5.3", "0.5.3.post2", "0.5.4", "0.5.10", "0.5.14"}
	for i, a := range ordered {
		for j, b := range ordered {
			if got := readRelease(a).from(b); got != (i >= j) {
				t.Errorf("%s from %s: %v", a, b, got)
			}
			if got := readRelease(a).before(b); got != (i < j) {
				t.Errorf("%s before %s: %v", a, b, got)
			}
		}
	}
	for _, same := range []string{"0.5.6", "v0.5.6", "0.5.6+cu129", "0.5.6.dev7+gabc"} {
		if r := readRelease(same); !slices.Equal(r, release{0, 5, 6, 0, 0}) {
			t.Errorf("%s: %v", same, r)
		}
	}
	for _, unknown := range []string{"", "main", "1.x"} {
		if r := readRelease(unknown); r.from("0.1") || r.before("9.9") {
			t.Errorf("%q is somewhere", unknown)
		}
	}
}

// Pairs of servers that a release makes one, and those that look like it.
func TestSettle_EqualServers(t *testing.T) {
	chain := spec("3", "1", "4")
	ngram := func(draft string) []Flag {
		flags := spec("3", "1", draft)
		flags[0] = flag("speculative-algorithm", Value, "ngram")
		return flags
	}
	v2 := func(v string) map[string]string { return map[string]string{sglangSpecV2: v} }
	for name, c := range map[string]struct {
		version    string
		a, b       []Flag
		envA, envB map[string]string
		equal      bool
	}{
		"topk 1 fixes the draft":          {"0.5.12", spec("3", "1", "24"), chain, nil, nil, true},
		"of any release":                  {"", spec("3", "1", "24"), chain, nil, nil, true},
		"ngram drafts what it is asked":   {"0.5.10", ngram("24"), ngram("8"), nil, nil, false},
		"a tree has its draft":            {"0.5.12", spec("3", "2", "6"), spec("3", "2", "7"), nil, nil, false},
		"48 running":                      {"0.5.10", more(chain, flag("max-running-requests", Value, "48")), chain, nil, nil, true},
		"64 running":                      {"0.5.10", more(chain, flag("max-running-requests", Value, "64")), chain, nil, nil, false},
		"48 without speculation":          {"0.5.10", []Flag{flag("max-running-requests", Value, "48")}, nil, nil, nil, false},
		"mixed chunk":                     {"0.5.6", more(chain, flag("enable-mixed-chunk", Bare)), chain, nil, nil, true},
		"mixed chunk without speculation": {"0.5.6", []Flag{flag("enable-mixed-chunk", Bare)}, nil, nil, nil, false},
		"overlap off before v2":           {"0.5.6", more(chain, flag("disable-overlap-schedule", Bare)), chain, nil, nil, true},
		"overlap by env, 0.5.10":          {"0.5.10", more(chain, flag("disable-overlap-schedule", Bare)), chain, v2("1"), v2("1"), true},
		"overlap by env, EAGLE3 in 0.5.6": {"0.5.6", more(chain, flag("disable-overlap-schedule", Bare)), chain, v2("1"), v2("1"), false},
		"overlap in 0.5.12":               {"0.5.12", more(chain, flag("disable-overlap-schedule", Bare)), chain, nil, nil, false},
		"a tree in 0.5.12":                {"0.5.12", more(spec("3", "2", "6"), flag("disable-overlap-schedule", Bare)), spec("3", "2", "6"), nil, nil, true},
		"overlap in 0.5.13":               {"0.5.13", more(chain, flag("disable-overlap-schedule", Bare)), chain, nil, nil, false},
		"unknown release":                 {"", more(chain, flag("disable-overlap-schedule", Bare)), chain, nil, nil, false},
	} {
		a, b := settle(t, c.a, c.envA, c.version), settle(t, c.b, c.envB, c.version)
		if got := reflect.DeepEqual(a.Canonical, b.Canonical); got != c.equal {
			t.Errorf("%s: %v\n%v\n%v", name, got, a.Canonical, b.Canonical)
		}
		if c.equal && len(a.Changes) == 0 {
			t.Errorf("%s: no reason is given", name)
		}
	}
}

// A variable that a release does not read tells no servers apart.
func TestSettle_UselessVariable(t *testing.T) {
	env := map[string]string{sglangSpecV2: "0"}
	for version, unused := range map[string]bool{"0.5.4": true, "0.5.6": false, "0.5.12": false, "0.5.14": true, "0.5.23": true, "": false} {
		s := settle(t, spec("3", "1", "4"), env, version)
		if got := slices.Contains(s.Unused, sglangSpecV2); got != unused || unused && !strings.Contains(strings.Join(s.Notes, "\n"), "has no effect") {
			t.Errorf("%s: unused %v, notes %q", version, got, s.Notes)
		}
	}
}

func TestSettle_RenamedFlags(t *testing.T) {
	for name, c := range map[string]struct {
		version string
		given   Flag
		want    string // "" = left out
		env     string
	}{
		"abbreviation":            {"", flag("speculative-draft", Value, "d"), "speculative-draft-model-path", ""},
		"alias that is known":     {"0.5.12", flag("speculative-draft-model", Value, "d"), "speculative-draft-model", ""},
		"alias of old releases":   {"0.4.9.post2", flag("speculative-draft-model", Value, "d"), "speculative-draft-model-path", ""},
		"ngram, new":              {"0.5.12", flag("speculative-ngram-branch-length", Value, "8"), "speculative-ngram-max-trie-depth", ""},
		"ngram, old":              {"0.5.6", flag("speculative-ngram-max-trie-depth", Value, "8"), "speculative-ngram-branch-length", ""},
		"ngram, in between":       {"0.5.8", flag("speculative-ngram-max-trie-depth", Value, "8"), "speculative-ngram-max-trie-depth", ""},
		"ngram window":            {"0.5.10", flag("speculative-ngram-max-match-window-size", Value, "8"), "", ""},
		"dflash window":           {"0.5.14", flag("speculative-dflash-draft-window-size", Value, "8"), "speculative-draft-window-size", ""},
		"graph, new":              {"0.5.23", flag("cuda-graph-max-bs", Value, "8"), "cuda-graph-max-bs-decode", ""},
		"graph, old":              {"0.5.12", flag("cuda-graph-max-bs-decode", Value, "8"), "cuda-graph-max-bs", ""},
		"beta spec in its own":    {"0.5.4", flag("enable-beta-spec", Bare), "enable-beta-spec", ""},
		"beta spec by a variable": {"0.5.6", flag("enable-beta-spec", Bare), "", "true"},
		"beta spec by default":    {"0.5.14", flag("enable-beta-spec", Bare), "", ""},
		"unknown release":         {"", flag("cuda-graph-max-bs", Value, "8"), "cuda-graph-max-bs", ""},
	} {
		before := c.given.Name
		flags := []Flag{flag("tp-size", Value, "8"), c.given}
		s := settle(t, flags, nil, c.version)
		var names []string
		for _, f := range s.Flags {
			names = append(names, f.Name)
		}
		want := []string{"tp-size"}
		if c.want != "" {
			want = append(want, c.want)
		}
		if !slices.Equal(names, want) || s.Env[sglangSpecV2] != c.env {
			t.Errorf("%s: %q and %v", name, names, s.Env)
		}
		if changed := c.want != before; changed != (len(s.Notes) > 0) {
			t.Errorf("%s: notes %q", name, s.Notes)
		}
		if flags[1].Name != before {
			t.Errorf("%s: the flags given were changed", name)
		}
	}
}

func TestSettle_Impossible(t *testing.T) {
	tree := spec("3", "4", "8")
	for name, c := range map[string]struct {
		version string
		flags   []Flag
		env     map[string]string
		refused bool
	}{
		"draft without steps":   {"", spec("3", "1", "4")[2:], nil, false}, // no algorithm
		"topk without steps":    {"", more(spec("3", "1", "4")[:1], flag("speculative-eagle-topk", Value, "2")), nil, true},
		"v2 with a tree":        {"0.5.10", tree, map[string]string{sglangSpecV2: "true"}, true},
		"v1 with a tree":        {"0.5.10", tree, nil, false},
		"a tree later":          {"0.5.12", tree, nil, false},
		"trtllm_mha":            {"0.5.12", more(tree, flag("decode-attention-backend", Value, "trtllm_mha")), nil, true},
		"paged triton":          {"0.5.12", more(tree, flag("attention-backend", Value, "triton"), flag("page-size", Value, "16")), nil, true},
		"paged triton later":    {"0.5.23", more(tree, flag("attention-backend", Value, "triton"), flag("page-size", Value, "16")), nil, false},
		"paged fa3":             {"0.5.12", more(tree, flag("attention-backend", Value, "fa3"), flag("page-size", Value, "16")), nil, false},
		"ngram and DP":          {"0.5.10", []Flag{flag("speculative-algorithm", Value, "ngram"), flag("enable-dp-attention", Bare)}, nil, true},
		"paged without a tree":  {"0.5.12", more(spec("3", "1", "4"), flag("attention-backend", Value, "triton"), flag("page-size", Value, "16")), nil, false},
		"server of its choice":  {"0.5.12", spec("3", "1", "4")[:1], nil, false},
		"without the algorithm": {"0.5.12", []Flag{flag("speculative-eagle-topk", Value, "8")}, nil, false},
	} {
		_, err := sg(t).(Settler).Settle(c.flags, c.env, c.version)
		var refused *ImpossibleError
		if errors.As(err, &refused) != c.refused {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// What the server would choose by itself is said before it is measured.
func TestSettle_ChosenByTheServer(t *testing.T) {
	s := settle(t, spec("3", "1", "4")[:1], nil, "0.5.12")
	if !strings.Contains(strings.Join(s.Notes, "\n"), "speculative-num-steps is not set") || s.MaxRunning != 48 {
		t.Errorf("%+v", s)
	}
	if s = settle(t, spec("3", "1", "4"), nil, "0.5.12"); len(s.Notes) != 0 || len(s.Changes) != 0 {
		t.Errorf("nothing is to be said of %+v", s)
	}
}
