package experiments

import (
	"errors"
	"fmt"
	"strings"

	"github.com/expr-lang/expr"
	"github.com/expr-lang/expr/ast"
	"github.com/expr-lang/expr/file"
	"github.com/expr-lang/expr/parser"
	"github.com/expr-lang/expr/types"
	"github.com/expr-lang/expr/vm"
)

// template is a text with ${expression} parts; $${ stands for a plain ${.
type template struct {
	parts []part
}

type part struct {
	text string // verbatim, when expr is ""
	expr string
	at   int // byte offset of the expression in the text
}

// hasTemplate says that the text needs expansion (or an escape removed).
func hasTemplate(text string) bool { return strings.Contains(text, "${") }

// parseTemplate splits a text. The offset of an error is that of its ${.
func parseTemplate(text string) (template, int, error) {
	var t template
	var plain strings.Builder
	for i := 0; i < len(text); {
		switch {
		case strings.HasPrefix(text[i:], "$${"):
			plain.WriteString("${")
			i += 3
		case strings.HasPrefix(text[i:], "${"):
			end := closingBrace(text, i+2)
			if end < 0 {
				return t, i, errors.New("${ is not closed by }")
			}
			if plain.Len() > 0 {
				t.parts = append(t.parts, part{text: plain.String()})
				plain.Reset()
			}
			src := text[i+2 : end]
			if strings.TrimSpace(src) == "" {
				return t, i, errors.New("${} is empty")
			}
			t.parts = append(t.parts, part{expr: src, at: i + 2})
			i = end + 1
		default:
			plain.WriteByte(text[i])
			i++
		}
	}
	if plain.Len() > 0 || len(t.parts) == 0 {
		t.parts = append(t.parts, part{text: plain.String()})
	}
	return t, 0, nil
}

// closingBrace finds the } of an expression, past braces and quotes inside it.
func closingBrace(s string, from int) int {
	depth := 0
	var quote byte
	for i := from; i < len(s); i++ {
		c := s[i]
		switch {
		case quote != 0:
			if c == '\\' {
				i++
			} else if c == quote {
				quote = 0
			}
		case c == '"' || c == '\'' || c == '`':
			quote = c
		case c == '{':
			depth++
		case c == '}' && depth == 0:
			return i
		case c == '}':
			depth--
		}
	}
	return -1
}

// exprError is a bad expression; At counts runes from its start.
type exprError struct {
	Expr   string
	At     int
	Msg    string
	Advice string
}

func (e *exprError) Error() string { return fmt.Sprintf("expression %q: %s", e.Expr, e.Msg) }

// expressions compiles and evaluates over a fixed set of names. Not safe for
// concurrent use.
type expressions struct {
	names    map[string]bool
	env      types.Map
	programs map[string]*vm.Program
}

func newExpressions(names []string) *expressions {
	x := &expressions{names: map[string]bool{}, env: types.Map{}, programs: map[string]*vm.Program{}}
	for _, n := range names {
		x.names[n] = true
		x.env[n] = types.Any
	}
	return x
}

func (x *expressions) compile(src string) (*vm.Program, error) {
	if p, ok := x.programs[src]; ok {
		return p, nil
	}
	p, err := expr.Compile(src, expr.Env(x.env))
	if err != nil {
		return nil, x.explain(src, err)
	}
	x.programs[src] = p
	return p, nil
}

func (x *expressions) explain(src string, err error) error {
	out := &exprError{Expr: src, Msg: err.Error()}
	var fe *file.Error
	if errors.As(err, &fe) {
		out.Msg, out.At = fe.Message, fe.From
	}
	known := make([]string, 0, len(x.names))
	for n := range x.names {
		known = append(known, n)
	}
	for _, n := range identifiers(src) {
		if !x.names[n] && strings.Contains(out.Msg, "unknown name") {
			out.Msg = fmt.Sprintf("unknown param %s", n)
			out.Advice = unknownHint(n, known)
			break
		}
	}
	return out
}

// eval computes an expression; what it says at run time (a text minus a number)
// is an error as well.
func (x *expressions) eval(src string, env map[string]any) (any, error) {
	p, err := x.compile(src)
	if err != nil {
		return nil, err
	}
	v, err := expr.Run(p, env)
	if err != nil {
		return nil, x.explain(src, err)
	}
	return v, nil
}

// rule computes an expression that must be a boolean.
func (x *expressions) rule(src string, env map[string]any) (bool, error) {
	v, err := x.eval(src, env)
	if err != nil {
		return false, err
	}
	b, ok := v.(bool)
	if !ok {
		return false, &exprError{Expr: src, Msg: fmt.Sprintf("gives %v, not true or false", v)}
	}
	return b, nil
}

// expand computes a scalar. A text that is one ${x} and nothing else keeps the
// type of x, and the text x was written as.
func (x *expressions) expand(s Scalar, env cellEnv) (Scalar, error) {
	text, isText := s.Value.(string)
	if !isText || !hasTemplate(text) {
		return s, nil
	}
	t, _, err := parseTemplate(text)
	if err != nil {
		return Scalar{}, err
	}
	if len(t.parts) == 1 && t.parts[0].expr != "" {
		return x.value(t.parts[0].expr, env)
	}
	var b strings.Builder
	for _, p := range t.parts {
		if p.expr == "" {
			b.WriteString(p.text)
			continue
		}
		v, err := x.value(p.expr, env)
		if err != nil {
			return Scalar{}, err
		}
		if v.IsNull() {
			return Scalar{}, &exprError{Expr: p.expr, Msg: "gives nothing, which cannot stand within a text"}
		}
		b.WriteString(v.Text)
	}
	return StringScalar(b.String()), nil
}

func (x *expressions) value(src string, env cellEnv) (Scalar, error) {
	if s, ok := env.scalars[strings.TrimSpace(src)]; ok {
		return s, nil
	}
	v, err := x.eval(src, env.values)
	if err != nil {
		return Scalar{}, err
	}
	s, err := scalarOf(v)
	if err != nil {
		return Scalar{}, &exprError{Expr: src, Msg: err.Error()}
	}
	return s, nil
}

// cellEnv is what expressions of one cell see.
type cellEnv struct {
	scalars map[string]Scalar
	values  map[string]any
}

func newCellEnv() cellEnv {
	return cellEnv{scalars: map[string]Scalar{}, values: map[string]any{}}
}

func (e cellEnv) set(name string, s Scalar) {
	e.scalars[name] = s
	if n, ok := s.Value.(int64); ok {
		e.values[name] = int(n)
		return
	}
	e.values[name] = s.Value
}

// identifiers lists the names an expression uses, in order.
func identifiers(src string) []string {
	tree, err := parser.Parse(src)
	if err != nil {
		return nil
	}
	v := &identifierVisitor{}
	ast.Walk(&tree.Node, v)
	return v.names
}

type identifierVisitor struct{ names []string }

func (v *identifierVisitor) Visit(node *ast.Node) {
	if id, ok := (*node).(*ast.IdentifierNode); ok {
		v.names = append(v.names, id.Value)
	}
}

// templateNames lists the names that a text's expressions use.
func templateNames(text string) []string {
	t, _, err := parseTemplate(text)
	if err != nil {
		return nil
	}
	var names []string
	for _, p := range t.parts {
		if p.expr != "" {
			names = append(names, identifiers(p.expr)...)
		}
	}
	return names
}
