package patches

import (
	"fmt"
	"slices"
	"strings"
)

// Outline is what a Python file defines, made from its syntax tree by the
// interpreter of the host and sent as JSON.
type Outline struct {
	Classes   map[string]Class `json:"classes"`
	Functions []string         `json:"functions"` // at module level
	SyntaxOK  bool             `json:"syntax_ok"`
}

// Class is one class at module level.
type Class struct {
	Bases   []string `json:"bases"` // as written: Base, module.Base
	Methods []string `json:"methods"`
}

// Check says whether the file has what the target requires; what it lacks is
// an *UnmetError.
func (t Target) Check(o Outline) error {
	if !o.SyntaxOK {
		return &Conflict{Target: t.Name(), Patch: "requires", Reason: "the file does not parse with the interpreter of the host"}
	}
	var missing []string
	for _, r := range t.Requires {
		missing = append(missing, r.missing(o)...)
	}
	if len(missing) == 0 {
		return nil
	}
	var have []string
	for name := range o.Classes {
		have = append(have, name)
	}
	slices.Sort(have)
	return &UnmetError{Target: t.Name(), Missing: missing, Have: have}
}

func (r Requirement) missing(o Outline) []string {
	if r.Function != "" {
		if !anyOf(r.Function, func(name string) bool { return slices.Contains(o.Functions, name) }) {
			return []string{"function " + r.Function}
		}
		return nil
	}
	var lacks []string
	found := false
	for name := range strings.SplitSeq(r.Class, "|") {
		if _, ok := o.Classes[name]; !ok {
			continue
		}
		found = true
		lacks = nil
		for _, m := range r.Methods {
			if !anyOf(m, func(alt string) bool { return o.hasMethod(name, alt, nil) }) {
				lacks = append(lacks, fmt.Sprintf("method %s.%s", name, m))
			}
		}
		if len(lacks) == 0 {
			return nil
		}
	}
	if !found && !r.Optional {
		return []string{"class " + r.Class}
	}
	return lacks
}

// hasMethod looks in the class and in its bases in the same file.
func (o Outline) hasMethod(class, method string, seen []string) bool {
	c, ok := o.Classes[class]
	if !ok || slices.Contains(seen, class) {
		return false
	}
	if slices.Contains(c.Methods, method) {
		return true
	}
	return slices.ContainsFunc(c.Bases, func(b string) bool { return o.hasMethod(b, method, append(seen, class)) })
}

func anyOf(names string, ok func(string) bool) bool {
	for name := range strings.SplitSeq(names, "|") {
		if ok(name) {
			return true
		}
	}
	return false
}
