package main

import (
	"regexp"
	"slices"
	"testing"

	"specrun/experiments/trust"
	"specrun/patches"
)

// An advice that nobody can follow is worse than none: what labels name must be
// there.
func TestLabels_AdviseWhatThereIs(t *testing.T) {
	library, err := patches.Library()
	if err != nil {
		t.Fatal(err)
	}
	var names, probes, commands []string
	for _, p := range library {
		names, probes = append(names, p.Name), append(probes, string(p.Probe))
	}
	for _, c := range newRoot(&app{}).Commands() {
		commands = append(commands, c.Name())
	}
	for _, l := range trust.Labels() {
		for what, c := range map[string]struct {
			re    *regexp.Regexp
			known []string
		}{
			"patch":   {regexp.MustCompile(`profiling-\w+`), names},
			"probe":   {regexp.MustCompile(`probe: (\w+)`), probes},
			"command": {regexp.MustCompile(`(?:^|[^g] )specrun (\w+)`), commands}, // but not: trying specrun
		} {
			for _, m := range c.re.FindAllStringSubmatch(l.Advice, -1) {
				if name := m[len(m)-1]; !slices.Contains(c.known, name) {
					t.Errorf("%s advises the %s %s, which there is not", l.Name, what, name)
				}
			}
		}
	}
}
