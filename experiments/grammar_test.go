package experiments

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestParseArgs_Values(t *testing.T) {
	t.Parallel()
	for arg, want := range map[string]string{
		"steps=1..4":               "1|2|3|4",
		"steps=1..9..2":            "1|3|5|7|9",
		"steps=1..8..3":            "1|4|7",
		"conc=1..256x2":            "1|2|4|8|16|32|64|128|256",
		"x=0.1..0.5..0.1":          "0.1|0.2|0.3|0.4|0.5",
		"x=0.80..0.90..0.05":       "0.80|0.85|0.90",
		"x=1..2x1.25":              "1|1.25|1.5625|1.953125",
		"x=-2..1":                  "-2|-1|0|1",
		"x=1..3,8,10..12":          "1|2|3|8|10|11|12",
		"x=2":                      "2",
		"mode=prefill,decode":      "prefill|decode",
		`attn="a,b",c`:             "a,b|c",
		`x='{"a": 1, "b": 2}'`:     `{"a": 1, "b": 2}`,
		`x=""`:                     "",
		"flag.mem=0.90,08,1e-3,on": "0.90|08|1e-3|on",
		"env.PATH=../lib":          "../lib",
		"url=http://a:1/b?c=d":     "http://a:1/b?c=d",
		`x="1..4"`:                 "1..4",
		"patches=none,a+b":         "none|a+b",
	} {
		axes, err := ParseArgs([]string{arg})
		if err != nil {
			t.Errorf("%s: %v", arg, err)
			continue
		}
		var got []string
		for _, r := range axes[0].Rows {
			got = append(got, r[0].Text)
		}
		if diff := cmp.Diff(want, strings.Join(got, "|")); diff != "" {
			t.Errorf("%s: %s", arg, diff)
		}
	}
}

func TestParseArgs_TypesPlainTextsOnly(t *testing.T) {
	t.Parallel()
	axes, err := ParseArgs([]string{`x=1,"1",0.5,true,"true",null,08`})
	if err != nil {
		t.Fatal(err)
	}
	var got []any
	for _, r := range axes[0].Rows {
		got = append(got, r[0].Value)
	}
	if diff := cmp.Diff([]any{int64(1), "1", 0.5, true, "true", nil, "08"}, got); diff != "" {
		t.Error(diff)
	}
}

func TestParseArgs_Linked(t *testing.T) {
	t.Parallel()
	axes, err := ParseArgs([]string{`steps+draft+mode=1+2+prefill,2+3+"a+b"`})
	if err != nil {
		t.Fatal(err)
	}
	want := [][]Scalar{
		{ParseScalar("1"), ParseScalar("2"), ParseScalar("prefill")},
		{ParseScalar("2"), ParseScalar("3"), StringScalar("a+b")},
	}
	if diff := cmp.Diff(want, axes[0].Rows); diff != "" {
		t.Error(diff)
	}
}

func TestParseArgs_Errors(t *testing.T) {
	t.Parallel()
	for arg, want := range map[string]string{
		"steps":             "key=values",
		"steps=":            "no value",
		"=1":                "key is empty",
		"a+=1+2":            "key is empty",
		"x=1,,2":            "empty",
		"x=4..1":            "empty",
		"x=1..":             "no range",
		"x=1..4..":          "no range",
		"x=1..4x":           "no range",
		"x=0.1..0.5":        "has no step",
		"x=1..4..0":         "above zero",
		"x=1..4x1":          "above one",
		"x=0..4x2":          "above zero",
		"x=1..99999":        "more than",
		`x="a`:              "not closed",
		"steps+draft=1+2+3": "3 values for the 2 keys",
		"steps+draft=1,2":   "1 values for the 2 keys",
		"a+b=1..2+3":        "no ranges",
	} {
		_, err := ParseArgs([]string{arg})
		var ae *ArgError
		if !errors.As(err, &ae) || !strings.Contains(ae.Error(), want) {
			t.Errorf("%s: got %v, want %q", arg, err, want)
		}
	}
	if _, err := ParseArgs([]string{"a=1", "b+a=1+2"}); err == nil {
		t.Error("a key given twice was accepted")
	}
}

func FuzzParseArgs(f *testing.F) {
	for _, s := range []string{"a=1..4", "a+b=1+2,3+4", `a="x,y",z`, "a=1..256x2"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, arg string) {
		axes, err := ParseArgs([]string{arg})
		if err != nil {
			return
		}
		for _, r := range axes[0].Rows {
			if len(r) != len(axes[0].Keys) {
				t.Fatalf("%d values for %d keys", len(r), len(axes[0].Keys))
			}
		}
	})
}
