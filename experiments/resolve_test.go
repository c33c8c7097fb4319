package experiments

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// cellLines shows what tells the cells apart.
func cellLines(cells []Cell) []string {
	var out []string
	for _, c := range cells {
		var flags []string
		for _, f := range c.Server.Flags {
			if strings.HasPrefix(f.Name, "speculative-num") || strings.HasSuffix(f.Name, "mode") {
				flags = append(flags, strings.Join(f.Values, ","))
			}
		}
		out = append(out, fmt.Sprintf("%v base=%v spec=%s patches=%d c=%d", c.Params, c.Baseline, strings.Join(flags, "/"), len(c.Server.Patches), c.Bench.Concurrency))
	}
	return out
}

func TestResolve_StepsWithBaselineAndDerivedDraft(t *testing.T) {
	t.Parallel()
	e := resolve(t, loadExample(t), "steps=1..3")
	want := []string{
		"map[] base=true spec= patches=0 c=1",
		"map[steps:1] base=false spec=1/2/prefill patches=1 c=1",
		"map[steps:2] base=false spec=2/3/prefill patches=1 c=1",
		"map[steps:3] base=false spec=3/4/prefill patches=1 c=1",
	}
	if diff := cmp.Diff(want, cellLines(e.Cells)); diff != "" {
		t.Error(diff)
	}
	if env := e.Cells[1].Server.Env; env["EAGLE3_PROFILE"] != "1" || env["NCCL_PROTO"] != "LL" {
		t.Errorf("env of a profiled cell: %v", env)
	}
	if env := e.Cells[0].Server.Env; env["EAGLE3_PROFILE"] != "" {
		t.Errorf("env of the baseline: %v", env)
	}
	if e.Cells[0].Server.Secrets["HF_TOKEN"] != "HF_TOKEN" {
		t.Error("the secret is not referred to")
	}
}

func TestResolve_SpecAxesOnlyWhenNoKeyIsNamed(t *testing.T) {
	t.Parallel()
	if n := len(resolve(t, loadExample(t)).Cells); n != 1+4*2 {
		t.Errorf("%d cells, want the baseline and steps x mode", n)
	}
	if n := len(resolve(t, loadExample(t), "mode=decode").Cells); n != 2 {
		t.Errorf("%d cells, want the baseline and one", n)
	}
}

func TestResolve_RulesDropAndSayWhich(t *testing.T) {
	t.Parallel()
	e := resolve(t, loadExample(t), "steps=1..2", "topk=1,4", "draft=3,8")
	var got []string
	for _, d := range e.Dropped {
		got = append(got, d.Cell+": "+d.Rule)
	}
	want := []string{
		"steps=1 topk=1 draft=3: draft <= steps * topk + 1",
		"steps=1 topk=1 draft=8: draft <= steps * topk + 1",
		"steps=1 topk=4 draft=8: draft <= steps * topk + 1",
		"steps=2 topk=1 draft=8: draft <= steps * topk + 1",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if len(e.Cells) != 1+4 {
		t.Errorf("%d cells", len(e.Cells))
	}
	_, err := Resolve(loadExample(t), fakeOptions(Axis{Arg: "draft=99", Keys: []string{"draft"}, Rows: [][]Scalar{{ParseScalar("99")}}}))
	var se *SpecError
	if !errors.As(err, &se) || !strings.Contains(se.Error(), "no cell is left") {
		t.Errorf("got %v", err)
	}
}

func TestResolve_EqualServersMerge(t *testing.T) {
	t.Parallel()
	s := loadExample(t)
	s.Where = nil // so that topk=1 keeps draft tokens that the engine ignores
	e := resolve(t, s, "steps=0..1", "draft=2,7")
	if diff := cmp.Diff([]string{
		"map[] base=true spec= patches=0 c=1",
		"map[draft:2 steps:1] base=false spec=1/2/prefill patches=1 c=1",
	}, cellLines(e.Cells)); diff != "" {
		t.Error(diff)
	}
	want := []Merged{
		{Cell: "steps=0 draft=2", Into: 0, Why: "no speculation: the baseline"},
		{Cell: "steps=0 draft=7", Into: 0, Why: "no speculation: the baseline"},
		{Cell: "steps=1 draft=7", Into: 1, Why: "the same server and benchmark"},
	}
	if diff := cmp.Diff(want, e.Merged, cmpopts.IgnoreFields(Merged{}, "Params")); diff != "" {
		t.Error(diff)
	}
}

func TestResolve_OtherAxes(t *testing.T) {
	t.Parallel()
	e := resolve(t, loadExample(t), "patches=none,profiling-v4+profiling-v3", "env.NCCL_PROTO=LL,null", "flag.page-size=64",
		"mem-fraction-static=0.80", "python=/opt/py")
	if len(e.Cells) != 5 {
		t.Fatalf("%v", cellLines(e.Cells))
	}
	last := e.Cells[4]
	if len(last.Server.Patches) != 2 || last.Server.Python != "/opt/py" {
		t.Errorf("%+v", last.Server)
	}
	if _, set := last.Server.Env["NCCL_PROTO"]; set {
		t.Error("null did not remove the variable")
	}
	flags := map[string]string{}
	for _, f := range e.Cells[0].Server.Flags {
		flags[f.Name] = strings.Join(f.Values, " ")
	}
	if flags["page-size"] != "64" || flags["mem-fraction-static"] != "0.80" {
		t.Errorf("pinned flags do not reach the baseline: %v", flags)
	}
	if e.Cells[0].Server.Env["NCCL_PROTO"] != "LL" {
		t.Error("a varied variable must be at its default in the baseline")
	}
}

func TestResolve_UnknownKeyNamesTheNearest(t *testing.T) {
	t.Parallel()
	for key, want := range map[string]string{
		"stpes": "steps", "mem-fraction-sttic": "mem-fraction-static", "bench.concurency": "concurrency", "patch": "patches", "num-steps": "speculative-num-steps",
		"zzzzzz": "flag.zzzzzz",
	} {
		_, err := Resolve(loadExample(t), fakeOptions(Axis{Arg: key + "=1", Keys: []string{key}, Rows: [][]Scalar{{ParseScalar("1")}}}))
		var ae *ArgError
		if !errors.As(err, &ae) || !strings.Contains(ae.Error(), "unknown key") || !strings.Contains(ae.Hint(), want) {
			t.Errorf("%s: got %v, hint %q", key, err, ae.Hint())
		}
	}
}

// Of a server that somebody else runs neither flags nor variables can be set.
func TestResolve_UnknownKeyOfAnAttachedServer(t *testing.T) {
	t.Parallel()
	for key, want := range map[string]string{"concurrency": "did you mean bench.concurrency?", "zzzzzz": "bench.concurrency=1,8"} {
		s := loadExample(t)
		s.Server.Attach = &AttachSpec{URL: "http://127.0.0.1:1"}
		_, err := Resolve(s, fakeOptions(Axis{Arg: key + "=1", Keys: []string{key}, Rows: [][]Scalar{{ParseScalar("1")}}}))
		var ae *ArgError
		if !errors.As(err, &ae) || !strings.Contains(ae.Hint(), "only bench. keys vary") || !strings.Contains(ae.Hint(), want) || strings.Contains(ae.Hint(), "flag."+key) {
			t.Errorf("%s: got %v", key, err)
		}
	}
}

func TestResolve_CellErrorNamesTheCell(t *testing.T) {
	t.Parallel()
	_, err := Resolve(loadExample(t), fakeOptions(Axis{Arg: "steps=x", Keys: []string{"steps"}, Rows: [][]Scalar{{ParseScalar("x")}}}))
	var ce *CellError
	if !errors.As(err, &ce) || ce.Cell != "steps=x" {
		t.Errorf("got %v", err)
	}
}

func TestResolve_WhatIsNoNumberIsAnError(t *testing.T) {
	t.Parallel()
	s, err := LoadSpec("s.yaml", []byte("version: 1\nname: n\nserver: {engine: sglang, python: /p, flags: {a: \"${1 / steps}\"}}\nparams: {steps: {default: 1}}\n"))
	if err != nil {
		t.Fatal(err)
	}
	_, err = Resolve(s, fakeOptions(Axis{Arg: "steps=0", Keys: []string{"steps"}, Rows: [][]Scalar{{ParseScalar("0")}}}))
	if err == nil || !strings.Contains(err.Error(), "divides by zero") {
		t.Errorf("got %v", err)
	}
}

func TestResolve_SingleTakesOneCell(t *testing.T) {
	t.Parallel()
	o := fakeOptions()
	o.Single = true
	e, err := Resolve(loadExample(t), o)
	if err != nil {
		t.Fatal(err)
	}
	if len(e.Cells) != 1 || e.Cells[0].Baseline {
		t.Errorf("%v", cellLines(e.Cells))
	}
	o.Axes, err = ParseArgs([]string{"steps=1..2"})
	if err != nil {
		t.Fatal(err)
	}
	var ae *ArgError
	if _, err := Resolve(loadExample(t), o); !errors.As(err, &ae) {
		t.Errorf("got %v", err)
	}
}
