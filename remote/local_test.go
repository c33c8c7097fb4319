package remote

import (
	"bytes"
	"testing"
)

func TestLocal_Smoke(t *testing.T) {
	h := Local(LocalConfig{Dir: t.TempDir()})
	defer h.Close()
	res, err := h.Run(t.Context(), Script{Name: "a", Text: "main() { cat; echo hi $A; echo e >&2; return 3; }", Vars: []Var{{"A", "it's"}}})
	t.Logf("%+v %v", res, err)
	if string(res.Stdout) != "hi it's\n" || res.Exit != 3 || string(res.Stderr) != "e\n" {
		t.Error("bad")
	}
	res, err = h.Run(t.Context(), Script{Name: "a", Text: "main() { cat; }", Payload: []byte("x\ny")})
	t.Logf("%+v %v", res, err)
	sum, err := h.PutVerified(t.Context(), File{Path: "f", Data: []byte("hello"), Sync: true})
	t.Log(sum, err)
	var b bytes.Buffer
	n, sum, err := h.Get(t.Context(), "f", &b)
	t.Log(n, sum, err, b.String())
	err = h.Put(t.Context(), File{Path: "f", Data: []byte("hello"), Sync: true})
	t.Log(err)
	var p [3]byte
	k, size, err := h.ReadAt(t.Context(), "f", p[:], 4)
	t.Log(k, size, err)
}
