package deploy

import (
	"context"
	"strings"
	"testing"

	"specrun/remote"
)

// Claims and locks name the host; the interpreter and the scripts write them.
func TestReadFacts_HostIDIsThatOfTheScripts(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	f, err := ReadFacts(context.Background(), s.host, s.where, nil)
	if err != nil {
		t.Fatal(err)
	}
	res, err := s.host.Run(context.Background(), remote.Script{Name: "id", Text: remote.HostLib() + "main() {\n\thost_identity\n\techo \"$host_id\"\n}\n"})
	if err != nil {
		t.Fatal(err)
	}
	if got := strings.TrimSpace(string(res.Stdout)); got != f.HostID || got == "" {
		t.Errorf("scripts say %q, the interpreter %q", got, f.HostID)
	}
}
