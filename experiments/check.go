package experiments

import (
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"
)

// checkExpressions compiles every expression of a spec, so that a wrong one is
// found before anything is started, and orders derived params.
func (d *decoder) checkExpressions(s *Spec) error {
	if err := s.portParam(); err != nil {
		return err
	}
	x := newExpressions(s.exprNames())
	check := func(name string) func(Scalar, Pos) error {
		return func(v Scalar, p Pos) error { return d.checkTemplate(x, name, v, p) }
	}
	for _, f := range s.Server.Flags {
		if err := f.Value.scalars(check("server.flags." + f.Name)); err != nil {
			return err
		}
	}
	if s.Baseline != nil {
		for _, f := range s.Baseline.Flags {
			if err := f.Value.scalars(check("baseline.flags." + f.Name)); err != nil {
				return err
			}
		}
	}
	for _, e := range s.Server.Env {
		if err := check("server.env."+e.Name)(e.Value, e.Pos); err != nil {
			return err
		}
	}
	lists := map[string][]Entry{"server.args": s.Server.Args, "server.prefix": s.Server.Prefix, "server.command": s.Server.Command, "bench": s.Bench}
	for _, name := range sortedKeys(lists) {
		for _, e := range lists[name] {
			full := name
			if e.Name != "" {
				full = join(name, e.Name)
			}
			if err := check(full)(e.Value, e.Pos); err != nil {
				return err
			}
		}
	}
	for _, p := range s.Params {
		if err := check("params."+p.Name+".default")(p.Default, p.Pos); err != nil {
			return err
		}
	}
	for i, r := range s.Where {
		if _, err := x.compile(r.Expr); err != nil {
			return d.exprFault(fmt.Sprintf("where[%d]", i), r.Pos, 0, err)
		}
	}
	_, err := s.paramOrder()
	return err
}

func (d *decoder) checkTemplate(x *expressions, name string, v Scalar, p Pos) error {
	text, isText := v.Value.(string)
	if !isText || !hasTemplate(text) {
		return nil
	}
	t, at, err := parseTemplate(text)
	if err != nil {
		return &SpecError{File: d.file, Line: p.Line, Column: p.Column + at, Field: name, Msg: err.Error(),
			Advice: "a plain ${ is written $${"}
	}
	for _, part := range t.parts {
		if part.expr == "" {
			continue
		}
		if _, err := x.compile(part.expr); err != nil {
			return d.exprFault(name, p, utf8.RuneCountInString(text[:part.at]), err)
		}
	}
	return nil
}

func (d *decoder) exprFault(name string, p Pos, offset int, err error) error {
	out := &SpecError{File: d.file, Line: p.Line, Column: p.Column + offset, Field: name, Msg: err.Error()}
	var xe *exprError
	if errors.As(err, &xe) {
		out.Column += xe.At
		out.Advice = xe.Advice
	}
	return out
}

// paramOrder sorts params so that each comes after those its default uses.
func (s *Spec) paramOrder() ([]Param, error) {
	const (
		visiting = 1
		placed   = 2
	)
	state := map[string]int{}
	var order []Param
	var path []string
	var visit func(Param) error
	visit = func(p Param) error {
		switch state[p.Name] {
		case placed:
			return nil
		case visiting:
			return &SpecError{File: s.File, Line: p.Pos.Line, Column: p.Pos.Column, Field: "params." + p.Name + ".default",
				Msg:    "depends on itself: " + strings.Join(append(path, p.Name), " -> "),
				Advice: "give one of them a plain default"}
		}
		state[p.Name] = visiting
		path = append(path, p.Name)
		if text, ok := p.Default.Value.(string); ok && hasTemplate(text) {
			for _, n := range templateNames(text) {
				if q, ok := s.param(n); ok {
					if err := visit(q); err != nil {
						return err
					}
				}
			}
		}
		path = path[:len(path)-1]
		state[p.Name] = placed
		order = append(order, p)
		return nil
	}
	for _, p := range s.Params {
		if err := visit(p); err != nil {
			return nil, err
		}
	}
	return order, nil
}
