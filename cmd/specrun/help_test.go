package main

import (
	"bytes"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/spf13/cobra"
)

// Help is read at 80 columns and says how each command can end.
func TestHelp_IsNarrowAndSaysHowACommandEnds(t *testing.T) {
	never := []string{"version", "schema labels"} // they only print
	var walk func(*cobra.Command)
	walk = func(c *cobra.Command) {
		for _, sub := range c.Commands() {
			if sub.IsAvailableCommand() && sub.Name() != "completion" {
				walk(sub)
			}
		}
		var out bytes.Buffer
		c.SetOut(&out)
		if err := c.Help(); err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(out.String()) {
			if n := utf8.RuneCountInString(strings.TrimRight(line, "\n")); n > 88 {
				t.Errorf("%s: %d columns: %s", c.CommandPath(), n, line)
			}
		}
		if c.HasSubCommands() || slices.Contains(never, commandName(c)) {
			return
		}
		if !strings.Contains(out.String(), "EXIT STATUS\n  0   done\n") {
			t.Errorf("%s has no EXIT STATUS", c.CommandPath())
		}
	}
	walk(newRoot(&app{}))
}

// Below a command stand only the global flags that mean something there.
func TestHelp_LeavesOutGlobalFlagsThatMeanNothing(t *testing.T) {
	for name, want := range map[string]struct{ has, not string }{
		"version":      {"--json --quiet", "--worker-binary --host --store --yes --python --accept-new"},
		"show":         {"--json --store --host", "--worker-binary --python --yes"},
		"sweep":        {"--host --store --worker-binary --python --accept-new", "--yes"},
		"apply":        {"--host --python --yes", "--store --worker-binary"},
		"lock release": {"--host --yes", "--store --python"},
		"probe":        {"--host --store --worker-binary --python", "--yes"},
		"import":       {"--host --store --python", "--worker-binary"},
		"compare":      {"--store", "--host"},
		"tag":          {"--store", "--host"},
		"logs":         {"--store --hosts-file", "--host "},
		"watch":        {"--host --store", "--python"},
	} {
		root := newRoot(&app{})
		c, _, err := root.Find(strings.Fields(name))
		if err != nil {
			t.Fatal(err)
		}
		var out bytes.Buffer
		c.SetOut(&out)
		if err := c.Help(); err != nil {
			t.Fatal(err)
		}
		for _, flag := range strings.Fields(want.has) {
			if !strings.Contains(out.String(), " "+flag+" ") {
				t.Errorf("%s: no %s:\n%s", name, flag, out.String())
			}
		}
		for _, flag := range strings.Fields(want.not) {
			if strings.Contains(out.String(), " "+flag+" ") {
				t.Errorf("%s: %s", name, flag)
			}
		}
	}
}

func TestGlobalsOf_NamesWhatThereIs(t *testing.T) {
	root := newRoot(&app{})
	for _, name := range globalFlags {
		if root.PersistentFlags().Lookup(name) == nil {
			t.Errorf("there is no --%s", name)
		}
	}
	for _, path := range []string{"apply", "status", "sweep", "probe", "resume", "logs", "watch", "tag", "compare", "server start", "server restart", "server stop", "server logs",
		"lock release", "lock status", "list", "import", "demo", "lab start"} {
		c, _, err := root.Find(strings.Fields(path))
		if err != nil || commandName(c) != path {
			t.Errorf("%s: %v", path, err)
			continue
		}
		for _, name := range globalsOf(c) {
			if !slices.Contains(globalFlags[:], name) {
				t.Errorf("%s names %s", path, name)
			}
		}
	}
}
