package experiments

import (
	"fmt"
	"slices"
	"strings"
)

// SpecError says where an experiment file is wrong and how to right it.
type SpecError struct {
	File         string
	Line, Column int    // from 1; 0 when the place is not in the file
	Field        string // server.flags.tp-size
	Msg          string
	Advice       string
}

func (e *SpecError) Error() string {
	var b strings.Builder
	b.WriteString(e.File)
	if e.Line > 0 {
		fmt.Fprintf(&b, ":%d:%d", e.Line, e.Column)
	}
	b.WriteString(": ")
	if e.Field != "" {
		b.WriteString(e.Field + ": ")
	}
	b.WriteString(e.Msg)
	return b.String()
}

// Hint says what to do next; "" when the message says it all.
func (e *SpecError) Hint() string { return e.Advice }

// ArgError says which part of a sweep's arguments is wrong.
type ArgError struct {
	Arg    string // as given, key=value
	Msg    string
	Advice string
}

// Error leaves out values of keys that are named like secrets.
func (e *ArgError) Error() string {
	key, value, _ := strings.Cut(e.Arg, "=")
	if !slices.ContainsFunc(strings.Split(key, "+"), isSecret) || value == "" {
		return fmt.Sprintf("%s: %s", e.Arg, e.Msg)
	}
	msg := e.Msg
	for _, v := range append([]string{value}, strings.FieldsFunc(value, func(c rune) bool { return strings.ContainsRune(",+", c) })...) {
		msg = strings.ReplaceAll(msg, v, "...")
	}
	return fmt.Sprintf("%s=...: %s", key, msg)
}

// Hint says what to do next; "" when the message says it all.
func (e *ArgError) Hint() string { return e.Advice }

// CellError says that a combination of values has no meaning, such as a
// template that cannot be computed for it.
type CellError struct {
	File  string
	Cell  string // steps=2 mode=decode
	Field string
	Err   error
}

func (e *CellError) Error() string {
	return fmt.Sprintf("%s: %s: cell %s: %v", e.File, e.Field, e.Cell, e.Err)
}

func (e *CellError) Unwrap() error { return e.Err }

// Hint says what to do next.
func (e *CellError) Hint() string {
	return "change the expression, or drop the cell with a rule under where:"
}
